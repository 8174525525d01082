# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Notes in files context.WHEN.SOURCE what each source says of others. No source may fail, slow
# or hang the job: each is a program of its own with ANSWER_S seconds, and all run side by side. Who
# hangs inside the kernel cannot even be killed: nobody waits for it, and its file keeps the ending
# that says so. The pipe ends with the last of them. Of a function that is exported, MPI launchers
# make nonsense.
note() {
    local when=$1 source
    shift
    IFS= read -r -t "$((ANSWER_S + 2))" -d '' _ < <(
        for source; do
            (
                file=context.$when.$source
                script="$(declare -f "ask_$source"); ask_$source \"\$@\""
                timeout -k 1 "$ANSWER_S" bash -c "$script" bash "$PLACE" "$STEP" 2>/dev/null |
                    head -c 1000000 >"$file$UNFINISHED"
                [ "${PIPESTATUS[0]}" != 0 ] || mv "$file$UNFINISHED" "$file"
            ) </dev/null 2>/dev/null &
        done
    )
    return 0
}
