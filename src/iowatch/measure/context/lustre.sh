# shellcheck shell=bash
# Prints the counters of this one mount, whose number is another on each client. Where the counters
# are, and whether all may read them, changes with the version of Lustre: those in debugfs are root's
# alone. To whom lctl shows no connection, lfs does, by a request to each OST. In an allocation the
# script itself runs on the login node, which is another client: the second argument is a command
# that starts a step.
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
