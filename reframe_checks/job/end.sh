# shellcheck shell=bash disable=SC2034,SC2154 # the variables before this file are the job's
# Ends a launcher that has not ended so many seconds after the result was written: it would cost the
# job's nodes until the time limit, and ReFrame then looks at no result. The job kills ENDING after
# the launcher. If the job itself is killed, so that it cannot, this ends by itself.
(
    pause() {
        sleep "$1" &
        wait $!
        pgrep -P $$ >/dev/null || exit 0 # the job has this child
    }
    trap 'kill $(jobs -p) 2>/dev/null; exit' TERM
    until grep -qs '"status": "ok"' "$RESULT"; do pause 2; done
    pause "$END_S"
    echo "benchio: note: its launcher had not ended $END_S s after the result was written" >&2
    for child in $(pgrep -P $$); do [ "$child" = $BASHPID ] || kill "$child"; done
    pause 10
    for child in $(pgrep -P $$); do [ "$child" = $BASHPID ] || kill -KILL "$child"; done
) &
ENDING=$!
