# shellcheck shell=bash disable=SC2153,SC2154 # the variables before this file are the job's
# Makes RUNDIR, a directory of the job's own that nobody else can replace, below WHERE, with room for
# KIB in so many NAMES of files. The job has a function `keep` for when it ends: it ends after the
# ranks, which still write. `tell_filesystem` is benchio's; `ask_quotas` and `ask_notes` are those
# of all types of filesystems.
MARK=.iowatch EVIDENCE=.iowatch.evidence # say that a directory is ours, or has wrong data
WRONG_DATA=wrong_data.txt                # the file that benchio leaves beside these
refuse() {
    echo "$PLACE: $1: $2, or name another 'path' in the site's configuration" >&2
    exit 1
}
not_made() { # for these words of the program that tried
    echo "on $(uname -n): $1" >&2
    [[ $1 != *"Disk quota exceeded" ]] || echo "no quota is left: $1" >"$NO_QUOTA"
    exit 1
}
make_place() { # with this mode, unless it is there: another job may make it meanwhile
    local why
    [ -e "$PLACE" ] || [ -L "$PLACE" ] || why=$(mkdir -m "$1" "$PLACE" 2>&1) || [ -d "$PLACE" ] ||
        not_made "$why"
}

# Nothing is made, and nothing removed, before it is clear which filesystem this is: where it is not
# mounted there is an empty directory of another one. KNOWN are those that the place may be on, as
# benchio names them, mounted from SOURCES. One that each node has for itself ends in `on HOST`: on a
# host that is not among them its type and mount point must be known.
look_at() { # into FACTS: identity, source, mount point and options
    local there=$1
    while [[ $(stat -L "$there" 2>&1 >/dev/null) == *"No such file"* ]]; do there=$(dirname "$there"); done
    mapfile -t FACTS < <(tell_filesystem "$there")
    [ ${#FACTS[@]} = 4 ] || refuse "benchio does not say on which filesystem it is" "mend that"
}
elsewhere() {
    tr '\n' ' ' <<<"on $(uname -n), $1" | tee "$ELSEWHERE" >&2
    exit 1
}
kind_of() {
    local point=${1##* at }
    echo "${1%% *} at ${point% on *}"
}
require_known() {
    look_at "$1"
    local now=${FACTS[0]} i like='' expected=''
    for i in "${!KNOWN[@]}"; do
        case $now in "${KNOWN[i]}" | "${KNOWN[i]} on "*) return ;; esac
        case ${KNOWN[i]} in
        *" on ${now##* on }") expected=$i ;;
        *" on "*) [ "$(kind_of "${KNOWN[i]}")" != "$(kind_of "$now")" ] || like=1 ;;
        *) expected=$i ;;
        esac
    done
    [ -n "${KNOWN[*]}" ] || return 0
    [ -n "$expected" ] || [ -z "$like" ] || return 0
    i=${expected:-0}
    elsewhere "$1 is on $now, mounted from ${FACTS[1]:-nothing}, and was known to be on ${KNOWN[i]}${SOURCES[i]:+,
mounted from ${SOURCES[i]}}: mount that, or, if the place is another one from now on, set 'mounted' in the extras
of its partition to '$now'"
}
PLACE=$WHERE
require_known "$WHERE"

# In a folder where everybody may write, such as /dev/shm, whoever comes first would own what all
# others use: there, each user has a place apart, unless root made one for all.
PARENT=$(dirname "$PLACE")
case $(stat -Lc %a "$PARENT" 2>/dev/null) in
*[2367])
    [ -k "$PARENT" ] || refuse "everybody may replace it" "chmod +t $PARENT"
    case $(stat -c %u "$PLACE" 2>/dev/null) in 0 | "$(id -u)") MINE=1 ;; *) MINE= ;; esac
    if [ -z "$MINE" ] || [ -L "$PLACE" ] || [ ! -w "$PLACE" ]; then
        PLACE="$PLACE.$(id -u)"
        make_place 700
        [ ! -L "$PLACE" ] || refuse "a link, which may lead anywhere" "remove it"
        [ ! -e "$PLACE" ] || [ -O "$PLACE" ] || refuse "another user's" "have it removed"
    fi
    ;;
*)
    # Not mkdir -p: a filesystem that is not mounted must not be replaced by a directory.
    make_place 1777
    ;;
esac
case $(stat -Lc %a "$PLACE" 2>/dev/null) in
*[2367]) [ -k "$PLACE" ] || refuse "everybody may replace what is in it" "chmod +t it" ;;
esac

# One job at a time, whoever's it is: a scheduler's singleton is of one account. Where nobody can
# lock files, as on Lustre without `flock`, it is as if there were no other. The first to come makes
# the file; some kernels let nobody else open it to write, and read-only will do.
if [ -n "$TAKES_TURNS" ]; then
    [ -e "$PLACE/$LOCK" ] || (umask 0 && : >"$PLACE/$LOCK") 2>/dev/null
    if { exec 8<>"$PLACE/$LOCK"; } 2>/dev/null || { exec 8<"$PLACE/$LOCK"; } 2>/dev/null; then
        flock -w "$LOCK_S" -E 99 8 2>/dev/null
        [ $? != 99 ] || {
            echo "another job of iowatch is writing to $PLACE, and $LOCK_S s later it still was" |
                tee "$BUSY" >&2
            exit 1
        }
    fi
fi

# What a killed job left behind, by our mark; no job runs for two days. Files with wrong data have
# another mark, and stay as long as raw results do. The mark goes last: what cannot be removed is
# tried again by the next job, and each says so.
clear_out() { # a directory but for the mark in it, and then that
    find "$1" -mindepth 1 -depth ! -path "$1/$2" -delete && rm -rf "$1"
}
forget() {
    local old why
    while IFS= read -r -d '' old; do
        why=$(clear_out "$old" "$1" 2>&1) ||
            echo "what a job has left in $old cannot be removed: ${why%%$'\n'*}" | tee -a "$NOTES" >&2
    done < <(find "$PLACE" -mindepth 1 -maxdepth 2 ! -user "$(id -u)" -prune -o \
        -path "$PLACE/iowatch.??????/$1" -mtime "+$2" -printf '%h\0')
}
ask_notes "${FACTS[1]}" >"$NOTES"
forget "$MARK" 1
forget "$EVIDENCE" "$KEEP_DAYS"

# benchio leaves files with wrong data, and a file beside them that says so: they are evidence.
leave() {
    if [ -z "$RUNDIR" ]; then
        return
    elif [ -n "$(find "$RUNDIR" -mindepth 2 -maxdepth 2 -name "$WRONG_DATA" -print -quit)" ]; then
        mv "$RUNDIR/$MARK" "$RUNDIR/$EVIDENCE"
    else
        clear_out "$RUNDIR" "$MARK"
    fi
}
# What was found out first: where a server hangs, the removal has no end.
RUNDIR=
trap 'keep; leave' EXIT
trap 'exit 143' TERM
RUNDIR=$(mktemp -d "$PLACE/iowatch.XXXXXX" 2>&1) || { why=$RUNDIR RUNDIR='' && not_made "$why"; }
RUNDIR=${RUNDIR##*$'\n'} # after what a loader may have to say
case $(stat -c %u:%a "$RUNDIR") in
"$(id -u)":*700) [ ! -L "$RUNDIR" ] ;;
*) false ;;
esac || { RUNDIR='' && refuse "what is made in it is not its maker's alone" "mount it so that it is"; }
: >"$RUNDIR/$MARK"

# What each quota leaves: `kib` or `names`, how many, and whose it is. Lustre and POSIX print used, soft
# and hard limit and grace, of KiB and then of files, with a mark where one is exceeded or not
# certain; a long name breaks the line, and one may have blanks. Where there is no such command, or
# no quota, there is nothing to be said. A plain `print` of awk may write what has more than 32 bits
# as 5.4e+09.
left() {
    tr -d '*[]' | awk -v who="$1" '
        function is_quota(i, j) {
            for (j = i; j < i + 3; j++) if (word[j] !~ /^[0-9]+$/) return 0
            return 1
        }
        function say(kind, i, limit) {
            limit = word[i + 2] + 0 ? word[i + 2] : word[i + 1]
            if (limit + 0) printf "%s %.0f %s\n", kind, limit - word[i], who
        }
        { for (i = 1; i <= NF; i++) word[++n] = $i }
        END {
            for (i = 2; i + 6 <= n; i++) if (is_quota(i) && is_quota(i + 4)) {
                say("kib", i)
                say("names", i + 4)
                exit
            }
        }'
}
free() { # KiB and names, the most that there may ever be of them last
    local block free names all_names all
    read -r block free names all all_names < <(stat -f -c '%S %a %d %b %c' "$1")
    [ "${all_names:-0}" -gt 0 ] || names=-1
    echo "$((free * block / 1024)) $names $((all * block / 1024)) ${all_names:-0}"
}
read -r FREE FREE_NAMES ALL ALL_NAMES <<<"$(free "$RUNDIR")"
read -r _ _ OF_ALL OF_ALL_NAMES <<<"$(free "${FACTS[2]}")"
{
    ask_quotas "$RUNDIR" "${FACTS[2]}"
    # The limit of a project shows as the size of its directories.
    [ "$ALL" -ge "$OF_ALL" ] || echo "kib $FREE the project of $PLACE"
    [ "$ALL_NAMES" -ge "$OF_ALL_NAMES" ] || echo "names $FREE_NAMES the project of $PLACE"
} 2>/dev/null | sort -k 2n >"$QUOTAS"
require_quota() { # KIND, how many are needed, of what, and what is done with them
    local left whose
    read -r _ left whose < <(grep "^$1 " "$QUOTAS")
    [ -n "$left" ] && [ "$left" -lt "$2" ] || return 0
    echo "no quota is left: $2 $3 will be $4, and that of $whose has room for $left $3" |
        tee "$NO_QUOTA" >&2
    exit 1
}
require_quota kib "$KIB" KiB written
require_quota names "$NAMES" files made
[ "${FREE:=0}" -ge "$KIB" ] || {
    echo "$WHERE: $KIB KiB will be written, but only $FREE KiB are free" >&2
    exit 1
}
[ "$FREE_NAMES" -lt 0 ] || [ "$FREE_NAMES" -ge "$NAMES" ] || {
    echo "$WHERE: $NAMES files will be made, but only $FREE_NAMES more can be there" >&2
    exit 1
}
