# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Waits for the end of the job JOB, and ends that job if it is ended itself. While the scheduler does
# not answer, the file WAITS says so.
cancel() {
    rm -f "$WAITS"
    "$CANCEL" "$JOB"
    exit 143
}
trap cancel TERM
while true; do
    if queue=$("${QUEUE[@]}"); then
        rm -f "$WAITS"
        awk -v job="$JOB" '$1 == job { there = 1 } END { exit !there }' <<<"$queue" || break
    else
        echo "${QUEUE[0]} does not answer, and the jobs that were left wait for it" >"$WAITS"
    fi
    sleep 5 &
    wait $!
done
