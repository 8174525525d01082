# shellcheck shell=bash disable=SC2154 # the variables before this file are the job's
# Notes what the job hands over to its ranks: each variable, with the beginning of the SHA-256 of its
# value, which may be a secret; alone where it is not set.
for NAME in "${VARIABLES[@]}"; do
    if printenv "$NAME" >/dev/null; then
        echo "$NAME $(printenv "$NAME" | head -c -1 | sha256sum | cut -c -16)"
    else
        echo "$NAME"
    fi
done >"$ASKED"
