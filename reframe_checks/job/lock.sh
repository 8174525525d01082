# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Waits for the LOCK of what one job at a time may do, and has it until descriptor 8 is closed. If
# somebody holds the lock for ever, such as a build that hangs, there is a file HELD after WAIT_S.
take() { # within so many seconds
    flock -w "$1" -E 99 8 && return
    [ $? = 99 ] && return 1
    echo "$LOCK: its filesystem cannot lock files: mount it with locks, or name a prebuilt benchio" >&2
    exit 1
}
exec 8>>"$LOCK"
if ! take "$SILENT_S"; then
    echo "waiting for $LOCK, which $(grep . "$LOCK" || echo another process) holds" >&2
    if ! take "$((WAIT_S > SILENT_S ? WAIT_S - SILENT_S : 1))"; then
        : >"$HELD"
        exit 1
    fi
fi
echo "process $$ on $HOSTNAME, since $(date '+%F %T')" >"$LOCK"
