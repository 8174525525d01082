# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Gives the job `look_at_clocks`, which adds a line to the file CLOCKS: the host, the seconds since it
# was started, which nobody sets, its date and time in seconds, and the former once more. STEP
# starts a command on a node of the job, where that is not this host.
HERE=$PWD
look_at_clocks() {
    # shellcheck disable=SC2016 # expanded there
    ${STEP-} bash -c 'read -r before _ </proc/uptime && now=$(date +%s.%N) &&
        read -r after _ </proc/uptime && echo "$HOSTNAME $before $now $after"' >>"$HERE/$CLOCKS"
}
