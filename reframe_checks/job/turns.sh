# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Lets environments take turns, in each round in the order that TURNS has for it. What fails is not
# tried again, and without its two ends (0 and 1) nothing can be compared.
export RUNDIR
IOWATCH_ROUND=0
for turns in "${TURNS[@]}"; do
    export IOWATCH_ROUND=$((IOWATCH_ROUND + 1))
    for IOWATCH_VARIANT in ${turns//,/ }; do
        export IOWATCH_VARIANT
        [ ! -e "failed.$IOWATCH_VARIANT" ] || continue
        "./environment.$IOWATCH_VARIANT.sh" >"said.$IOWATCH_ROUND.$IOWATCH_VARIANT" 2>&1 && continue
        : >"failed.$IOWATCH_VARIANT"
        [ "$IOWATCH_VARIANT" -gt 1 ] || exit 1
    done
done
