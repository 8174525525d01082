# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Waits for the LOCK of what one job at a time may do, and has it until descriptor 8 is closed. Who
# holds the lock for ever, such as a build that hangs, is named after WAIT_S, in the file HELD.
owner() { grep . "$LOCK" || echo another process; }
exec 8>>"$LOCK"
if ! flock -w "$SILENT_S" 8; then
    echo "waiting for $LOCK, which $(owner) holds" >&2
    if ! flock -w "$((WAIT_S > SILENT_S ? WAIT_S - SILENT_S : 1))" 8; then
        echo "$LOCK is still held after $WAIT_S s by $(owner): wait for it, or end it" |
            tee "$HELD" >&2
        exit 1
    fi
fi
echo "process $$ on $HOSTNAME, since $(date '+%F %T')" >"$LOCK"
