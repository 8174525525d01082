# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Notes in files circumstances.WHEN.SOURCE what each source says of others. No source may fail, slow
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
                file=circumstances.$when.$source
                script="$(declare -f "ask_$source"); ask_$source \"\$@\""
                timeout -k 1 "$ANSWER_S" bash -c "$script" bash "$PLACE" "$STEP" 2>/dev/null |
                    head -c 1000000 >"$file$UNFINISHED"
                [ "${PIPESTATUS[0]}" != 0 ] || mv "$file$UNFINISHED" "$file"
            ) </dev/null 2>/dev/null &
        done
    )
    return 0
}

# Numbers of jobs, never their names or users. Who may see only jobs of their own learns nothing.
ask_slurm() {
    command -v squeue >/dev/null || exit 0
    squeue -h -a -t R -o 'job %A %D' || exit 1
    scontrol show config | awk '$1 == "PrivateData" { print "hidden", $3 }'
    if [ -n "$SLURM_JOB_ID" ]; then
        echo "own $SLURM_JOB_ID"
        squeue -h -a -t R -w "$(squeue -h -j "$SLURM_JOB_ID" -o %N)" -o 'here %A'
    fi
    sinfo -h -a -o 'nodes %F'
}

# Of this one mount, whose number is another on each client. Where the counters are, and whether all
# may read them, changes with the version of Lustre: those in debugfs are root's alone. To whom lctl
# shows no connection, lfs does, by a request to each OST. In an allocation the script itself runs
# on the login node, which is another client: the second argument is a command that starts a step.
ask_lustre() {
    # shellcheck disable=SC2086,SC2016 # words of a command; the inner shell expands
    $2 bash -c '
        PATH=$PATH:/usr/sbin:/sbin
        command -v lctl >/dev/null || exit 0
        mount=$(lfs getname "$1") || exit 1
        mount=${mount%% *}
        client=${mount##*-}
        shown=$(lctl get_param "*.*-$client.import" "*.*-$client.active" "*.*-$client.stats" |
            grep -a -E "^(osc|mdc)\.|^ *(state|import_flags|timeouts|services):|^req_waittime ")
        echo "$shown"
        grep -q "state:" <<<"$shown" || timeout 2 lfs check osts 2>&1 | grep -e "-osc-$client"
        exit 0
    ' bash "$1"
}

ask_ceph() {
    command -v ceph >/dev/null || exit 0
    ceph --connect-timeout 3 status --format json
}

ask_osds() {
    command -v ceph >/dev/null || exit 0
    ceph --connect-timeout 3 osd perf --format json
}
