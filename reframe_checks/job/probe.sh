# shellcheck shell=bash disable=SC2153,SC2154 # the variables and functions before this file are the job's
# Notes what the job of a site check meets, a file for each thing: before the job has a run directory,
# and with that. No rank may end with another code than 0: a launcher would end the others.
meet() {
    echo "${LOADEDMODULES-}" >modules
    run_program --version >program 2>&1
    start_tasks uname -n >ranks 2>ranks.err
}
look() {
    # shellcheck disable=SC2016 # expanded by the shell of each rank
    start_tasks sh -c '[ ! -w "$1" ] || uname -n' sh "$RUNDIR" >seen 2>seen.err
    printf '%s\n' "$FREE" "$FREE_NAMES" >room
    printf '%s\n' "${FACTS[@]}" >filesystem
    cat /etc/fstab >fstab 2>/dev/null
}
