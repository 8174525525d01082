# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Waits for the end of the job that works in the stage STAGE, and ends that job if it is ended
# itself. While squeue does not answer, the file WAITS says so.
queued() { squeue -h -u "$(id -un)" -o "$1"; }
cancel() {
    rm -f "$WAITS"
    # shellcheck disable=SC2046 # numbers of jobs
    scancel $(queued '%i %Z' | awk -v here="$STAGE" '$2 == here {print $1}')
    exit 143
}
trap cancel TERM
while true; do
    if queue=$(queued %Z); then
        rm -f "$WAITS"
        grep -qxF "$STAGE" <<<"$queue" || break
    else
        echo "squeue does not answer, and the jobs that were left wait for it" >"$WAITS"
    fi
    sleep 5 &
    wait $!
done
