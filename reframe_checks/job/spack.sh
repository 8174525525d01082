# shellcheck shell=bash disable=SC1090,SC2153,SC2154 # the variables before this file are the job's
# Builds SPEC with Spack, once in a SESSION for all partitions, in the folder SHARED and in a copy of
# an ENVIRONMENT of REPO; GIT is the setting with which Spack takes benchio from a clone. The stage
# gets what jobs then load, without Spack, and with what else there is, such as Darshan.
command -v spack >/dev/null || {
    echo 'no spack on PATH: source its setup-env.sh' >&2
    exit 1
}
cd "$SHARED" || exit 1
if [ "$(cat session 2>/dev/null)" != "$SESSION" ]; then
    # A copy: adding a spec changes it. Its paths stay right: they begin at its own folder.
    rm -rf session environments
    mkdir environments
    ln -sfn "$REPO/spack_repo" .
    cp -r "$REPO/environments/common.yaml" "$REPO/$ENVIRONMENT" environments
    # Of another time, and perhaps of another Spack, whose lock files this one cannot read.
    rm -rf "$ENVIRONMENT/spack.lock" "$ENVIRONMENT/.spack-env"
    [ -z "$GIT" ] || spack -e "$ENVIRONMENT" config add "$GIT"
    spack -e "$ENVIRONMENT" add "$SPEC"
    spack -e "$ENVIRONMENT" install 8>&- 9>&- # what it leaves running is to hold no lock
    spack -e "$ENVIRONMENT" load --sh "$SPEC" "${OTHERS[@]}" >"$LOADED"
    program=$(spack -e "$ENVIRONMENT" location --install-dir "$SPEC")/bin/benchio
    echo "$program" >program
    echo "$SESSION" >session
fi
rm -rf "$STAGE/environments"
cp -r environments program "$LOADED" "$STAGE"
cd "$STAGE" || exit 1
exec 8>&-
program=$(cat program)
. "./$LOADED"
