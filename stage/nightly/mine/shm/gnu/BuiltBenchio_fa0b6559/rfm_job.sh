#!/bin/bash
exec 9<"/work/h7" && flock 9
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_io=romio321
set -e
LOCK=/work/h7/build/benchio/.lock
HELD=/work/h7/stage/nightly/mine/shm/gnu/BuiltBenchio_fa0b6559/held
SILENT_S=5
WAIT_S=900
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
cmake --build /work/h7/build/benchio && touch -c /work/h7/build/bin/benchio
exec 8>&-
/work/h7/build/bin/benchio --version
