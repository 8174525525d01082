# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Gives the job `launch`, which starts a command as its tasks; `start_tasks` has the launcher. What a
# round has left is held to the law whatever `launch` makes of it: only the launcher's own mistake,
# which LOST_RANK shows, does not end the job, nor does any end of benchio after its result. What a
# command says that it took, it may have by a clock that can be set.
is_written() {
    grep -q '"status": "ok"' "$1" 2>/dev/null
}
launch() {
    local code
    look_at_clocks
    start_tasks "$@" 2>"$HERE/launched.err"
    code=$?
    look_at_clocks
    cat "$HERE/launched.err" >&2
    [ $code = 0 ] || { [ $code = 1 ] && grep -q "$LOST_RANK" "$HERE/launched.err"; } || return $code
}
