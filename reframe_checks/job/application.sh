# shellcheck shell=bash disable=SC2153,SC2154 # the variables and functions before this file are the job's
# Gives the job `measure`: one run of an application in a folder that is new in each round, and in a
# shell of its own: the job stays in its stage, which is kept. What is judged is one file of JSON;
# `plain` makes words that need no quotes there. A pattern that matches nothing stands for itself,
# and is missing.
plain() {
    tr -s '[:space:]' ' ' | tr -cd '[:alnum:] ._:/,;=+()%-' | sed 's/^ *//; s/ *$//' | cut -c1-300
}
number() { awk 'NR == 1 && $1 + 0 > 0 { printf "%.9g", $1; n = 1 } END { if (!n) print "null" }'; }
measure() (
    mkdir "$RUNDIR/round" && cd "$RUNDIR/round" || exit 1
    out=$HERE/application.$round.out files=() missing='' sync_s=null reader=null said='' why='' list=''
    read -r began _ </proc/uptime # which nobody sets, in steps of 0.01 s
    to_run >"$out" 2>&1
    code=$?
    run_s=$(awk -v began="$began" '{ printf "%.2f", $1 - began + 0.01 }' /proc/uptime)
    [ -z "$LOG" ] || cat "$LOG" >>"$out"
    for file in $WRITTEN; do
        if [ -s "$file" ]; then files+=("$PWD/$file"); else missing+="$file "; fi
    done
    if [ $code != 0 ]; then
        # What the launcher says of it may come first, and tells nothing.
        for word in 'no space|disk space|quota' 'error[: ]|error$' 'abort'; do
            why=${why:-$(grep -iE -m 1 -A 1 "$word" "$out" | grep '[[:alnum:]]' | plain)}
        done
    elif [ -z "$missing" ]; then
        sync_s=$(launch bash -c "$SYNC" sync "${files[@]}" 2>>"$out" | awk -v tasks="$TASKS" '
            $1 == "synced" { n++; if ($2 > most) most = $2 }
            END { if (n == tasks) printf "%.9f", most; else print "null" }')
        while read -r _ digest bytes how name; do
            list+="${list:+, }{\"name\": \"$(plain <<<"$name")\", \"bytes\": $bytes,"
            list+=" \"digest\": \"$digest\", \"how\": \"$how\"}"
        done < <(launch bash -c "$READ" read $((TASKS - 1)) "$CACHED" "${files[@]}" 2>>"$out" |
            grep '^read ' | sort -u)
        for file in "${files[@]}"; do dd if="$file" iflag=nocache count=0 status=none; done
        said=$(set -o pipefail && to_confirm 2>"$HERE/reader.$round.out" | tail -n 1 | plain)
        reader=$?
        to_list "${files[@]}"
    fi
    cat >"$HERE/application.$round.json" <<END
{"format": "$FORMAT",
 "id": "$ID-$round",
 "version": "$(to_tell_version <"$out" | head -n 1 | plain)",
 "exit_code": $code,
 "why": "$why",
 "run_s": $run_s,
 "output_s": $(to_time <"$out" | number),
 "sync_s": $sync_s,
 "files": [$list],
 "missing": "$(plain <<<"$missing")",
 "written": ${#files[@]},
 "reader": {"exit_code": $reader, "said": "$said"},
 "repeats_itself": $REPEATS_ITSELF}
END
    rm -rf "$RUNDIR/round"
    [ $code = 0 ] && [ -n "$list" ] && [ "$reader" = 0 ]
)
# Not before `||`, where -e would not hold.
(
    set -e
    mkdir "$INPUT"
    cd "$INPUT"
    to_prepare
) >prepared 2>&1
# shellcheck disable=SC2181
[ $? = 0 ] || {
    echo "the input of $NAME could not be made: $(tail -n 1 prepared)" >&2
    exit 1
}
