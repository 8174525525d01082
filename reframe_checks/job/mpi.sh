# shellcheck shell=bash disable=SC2153 # the variables before this file are the job's
# Sets what the launcher and the MPI-IO that are there need, as they say of themselves; a variable
# that has a value keeps it. No other file has names of one MPI, or of one of its versions. The first
# line of the file MPI then says what there is and what is set, and the others what a night is to
# know. LAUNCHER starts the ranks of BENCHIO; where no scheduler gives it nodes, IS_HERE is set, and it
# may start more ranks than there are cores, and those of root.
SET='' NOTED=()
choose() { # a variable
    [ -n "$(printenv "$1")" ] || export "$1=$2"
    SET+=", $1=$(printenv "$1")"
}
ask() {
    timeout 30 "$@" 2>/dev/null </dev/null
}
ask_launcher() {
    local told
    told=$(ask "$LAUNCHER" --version | head -n 2 | tr -s '\n ' ' ' | sed 's/ Copyright.*//; s/ $//')
    SET+=", ${told:-$LAUNCHER}"
    case $told in
    *"(Open MPI)"* | *"(OpenRTE)"* | *"(PRRTE)"*)
        if [ "$(id -u)" = 0 ]; then
            choose OMPI_ALLOW_RUN_AS_ROOT 1
            choose OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
        fi
        ;;
    esac
    case $told in
    *"(OpenRTE)"* | *"(Open MPI) "[1-4].*) choose OMPI_MCA_rmaps_base_oversubscribe 1 ;;
    *"(Open MPI) 5."* | *"(PRRTE) "[1-3].*)
        choose PRTE_MCA_rmaps_default_mapping_policy :oversubscribe
        choose OMPI_MCA_btl_tcp_disable_family 6 # pairs no interface that has addresses of both kinds
        ;;
    *"(Open MPI)"* | *"(PRRTE)"*) choose PRTE_MCA_mapby :oversubscribe ;;
    HYDRA* | "Intel(R) MPI"* | slurm*) ;; # start what they are told to
    *) NOTED+=("$LAUNCHER is of an MPI that is not known (${told:-it says nothing}): nothing is set for it") ;;
    esac
}
ask_mpi_io() { # Open MPI has two; its own, OMPIO, reports success where a filesystem is full
    local library component='' directory info
    library=$(ask "$BENCHIO" --version | sed -n 's/^mpiio *Open MPI v\([^, ]*\).*/\1/p')
    [ -n "$library" ] || return 0 # another MPI has one
    directory=$(dirname "$(command -v "$LAUNCHER")")
    for info in "$directory/ompi_info" ompi_info; do
        info=$(ask "$info" --parsable)
        grep -qx "ompi:version:full:$library" <<<"$info" || continue
        info=$(sed -n 's/^mca:io:\([^:]*\):version:.*/\1/p' <<<"$info")
        component=$(grep -m 1 romio <<<"$info" || head -n 1 <<<"$info")
    done
    if [ -n "$component" ]; then
        choose OMPI_MCA_io "$component"
    else
        NOTED+=("no ompi_info of Open MPI $library is here: which MPI-IO is used was left to that")
    fi
}
[ -z "$IS_HERE" ] || ask_launcher
ask_mpi_io
for NAME in $(compgen -e PRTE_MCA_ | grep -v ^PRTE_MCA_prte_); do # no rank has them: prterun takes them
    case $SET in *" $NAME="*) ;; *) SET+=", $NAME=$(printenv "$NAME")" ;; esac
done
printf '%s\n' "${SET#, }" "${NOTED[@]}" >"$MPI"
