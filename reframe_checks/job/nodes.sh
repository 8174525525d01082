# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # other parts of the job have the variables
# Has groups of the job's nodes write and read at once, in ROUNDS of other groups, and then one node
# after the other. A node that fails, or hangs until benchio's watchdog ends it, goes to LOST_FILE,
# and the others go on without it.
now_s() { cut -d . -f 1 /proc/uptime; } # nobody sets that, unlike bash's own clock
BEGAN=$(now_s)
declare -A LOST=()
mapfile -t THERE < <(sort -u nodes)
NODES=()
for node in "${FIRST[@]}" "${THERE[@]}"; do
    case " ${THERE[*]} " in *" $node "*) ;; *) continue ;; esac
    case " ${NODES[*]} " in *" $node "*) ;; *) NODES+=("$node") ;; esac
done
place() { # of nodes: where srun starts ranks
    local IFS=,
    WHERE=("--nodelist=$*" "--nodes=$#" "--ntasks=$(($# * PER_NODE))" "--ntasks-per-node=$PER_NODE")
}
lose() { # a node, if it is one of the job's that was not lost before
    [ -n "$1" ] && [ -z "${LOST[$1]:-}" ] || return 1
    case " ${NODES[*]} " in *" $1 "*) ;; *) return 1 ;; esac
    LOST[$1]=lost
    local why
    why=$(sed -n 's/^benchio: error: //p' said | head -n 1)
    echo "$1 ${why:-it came to no end}" >>"$LOST_FILE"
}
guilty() { # the host that benchio names
    sed -n 's/^benchio: error: rank [0-9]* on \([^ :.]*\).*/\1/p' said | head -n 1
}
start() { # the result, the nodes, and the command
    local result=$1 count=$2 code
    "$3" 2>said
    code=$?
    cat said >&2
    # Nothing after the result may cost it.
    [ $code = 0 ] || ! grep -qs '"status": "ok"' "$result" || code=0
    if [ $code = 0 ]; then
        echo "$result $count" >>"$STARTS"
    elif [ -e "$result" ]; then
        mv "$result" "failed.$result"
    fi
    return $code
}
together() { # the nodes of a round that are in a group
    local members i
    while :; do
        members=()
        for i in "${!NODES[@]}"; do
            if [ $(((i + round * (i / groups)) % groups)) = $((group - 1)) ] &&
                [ -z "${LOST[${NODES[i]}]:-}" ]; then
                members+=("${NODES[i]}")
            fi
        done
        [ ${#members[@]} -ge 2 ] || return 0
        place "${members[@]}"
        start "result.$round.$group.json" ${#members[@]} write_and_read && return
        lose "$(guilty)" || return 1
    done
}
rounds() {
    groups=$(((${#NODES[@]} + GROUP - 1) / GROUP))
    for round in $(seq "$ROUNDS"); do
        for group in $(seq "$groups"); do
            together || return
        done
    done
}
turns() {
    local i j
    turn=0
    for i in "${!NODES[@]}"; do
        node=${NODES[i]} reader=
        [ -z "${LOST[$node]:-}" ] || continue
        [ $(($(now_s) - BEGAN)) -lt "$BUDGET_S" ] || return 0
        turn=$((turn + 1))
        for ((j = i + ${#NODES[@]} - 1; j > i; j--)); do # the next one reads
            other=${NODES[j % ${#NODES[@]}]}
            [ -n "${LOST[$other]:-}" ] || reader=$other
        done
        place "$node"
        if ! start "result.alone.$turn.json" 1 write_alone; then
            lose "$node"
        elif [ -n "$reader" ]; then
            place "$reader"
            start "result.read.$turn.json" 1 read_alone || lose "$reader"
        fi
        forget
    done
}
if [ "$(cat exit_code)" = 0 ]; then
    rounds && turns
    echo $? >exit_code
fi
