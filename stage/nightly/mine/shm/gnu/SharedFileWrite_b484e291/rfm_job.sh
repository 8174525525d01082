#!/bin/bash
exec 9<"/work/h7" && flock 9
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_io=romio321
export DARSHAN_DISABLE=1
# iowatch: the environment ends here
export LC_ALL=C
cd "/work/h7/stage/nightly/mine/shm/gnu/SharedFileWrite_b484e291" || exit 1
rm -f result*.json exit_code busy no_quota context.*
keep() { find . -maxdepth 1 -type f -exec cp -p -t "runs/2026-11-26T030414/mine:shm,gnu,SharedFileWrite,backend=hdf5,local_size=64x64x64,ranks=2" {} +; }
trap keep EXIT
WHERE=/dev/shm/iowatch-tutorial.urwop1m4
KIB=8192
TAKES_TURNS=''
LOCK=.iowatch.lock
LOCK_S=300
BUSY=busy
NO_QUOTA=no_quota
KEEP_DAYS=400
# Makes RUNDIR, a directory of the job's own that nobody else can replace, below WHERE, with room for
# KIB. The job has a function `keep` for when it ends: it ends after the ranks, which still write.
MARK=.iowatch EVIDENCE=.iowatch.evidence # say that a directory is ours, or has wrong data
WRONG_DATA=wrong_data.txt                # the file that benchio leaves beside these
refuse() {
    echo "$PLACE: $1: $2, or name another 'path' in the site's configuration" >&2
    exit 1
}

# In a folder where everybody may write, such as /dev/shm, whoever comes first would own what all
# others use: there, each user has a place apart, unless root made one for all.
PLACE=$WHERE
PARENT=$(dirname "$PLACE")
case $(stat -Lc %a "$PARENT" 2>/dev/null) in
*[2367])
    [ -k "$PARENT" ] || refuse "everybody may replace it" "chmod +t $PARENT"
    case $(stat -c %u "$PLACE" 2>/dev/null) in 0 | "$(id -u)") MINE=1 ;; *) MINE= ;; esac
    if [ -z "$MINE" ] || [ -L "$PLACE" ] || [ ! -w "$PLACE" ]; then
        PLACE="$PLACE.$(id -u)"
        [ -e "$PLACE" ] || [ -L "$PLACE" ] || mkdir -m 700 "$PLACE"
        [ ! -L "$PLACE" ] || refuse "a link, which may lead anywhere" "remove it"
        [ ! -e "$PLACE" ] || [ -O "$PLACE" ] || refuse "another user's" "have it removed"
    fi
    ;;
*)
    # Not mkdir -p: a filesystem that is not mounted must not be replaced by a directory.
    [ -e "$PLACE" ] || mkdir -m 1777 "$PLACE" || [ -d "$PLACE" ]
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
# another mark, and stay as long as raw results do.
forget() {
    find "$PLACE" -mindepth 1 -maxdepth 2 ! -user "$(id -u)" -prune -o \
        -path "$PLACE/iowatch.??????/$1" -mtime "+$2" -printf '%h\0' | xargs -0 -r rm -rf
}
forget "$MARK" 1
forget "$EVIDENCE" "$KEEP_DAYS"

RUNDIR=$(mktemp -d "$PLACE/iowatch.XXXXXX" 2>&1) || {
    echo "on $(uname -n): $RUNDIR" >&2
    exit 1
}
case $(stat -c %u:%a "$RUNDIR") in
"$(id -u)":*700) [ ! -L "$RUNDIR" ] ;;
*) false ;;
esac || refuse "what is made in it is not its maker's alone" "mount it so that it is"
# benchio leaves files with wrong data, and a file beside them that says so: they are evidence.
leave() {
    if [ -n "$(find "$RUNDIR" -mindepth 2 -maxdepth 2 -name "$WRONG_DATA" -print -quit)" ]; then
        mv "$RUNDIR/$MARK" "$RUNDIR/$EVIDENCE"
    else
        rm -rf "$RUNDIR"
    fi
}
# What was found out first: where a server hangs, the removal has no end.
trap 'keep; leave' EXIT
trap 'exit 143' TERM
: >"$RUNDIR/$MARK"

# What each quota leaves, in KiB, and whose it is. Of Lustre and POSIX: filesystem, used, soft and
# hard limit, with a mark where one is exceeded or not certain; a long name breaks the line. CephFS
# has those of a directory and of all above it. Where there is no such command, or no quota, there
# is nothing to be said. A plain `print` of awk may write what has more than 32 bits as 5.4e+09.
left() {
    tr -d '*[]' | awk -v who="$1" '{ for (i = 1; i <= NF; i++) word[++n] = $i }
        END { limit = word[4] + 0 ? word[4] : word[3]
              if (limit + 0) printf "%.0f %s\n", limit - word[2], who }'
}
of_ceph() { getfattr --absolute-names --only-values -n "ceph.$1" "$2"; }
quotas() {
    local mount who asked folder most
    mount=$(df -P "$RUNDIR" | awk 'NR == 2 {print $6}')
    for who in "user $(id -u)" "group $(stat -c %g "$RUNDIR")"; do
        asked=("-${who:0:1}" "${who#* }")
        timeout 60 lfs quota -q "${asked[@]}" "$RUNDIR" | left "$who"
        timeout 60 quota -w -p "${asked[@]}" -f "$mount" | sed 1,2d | left "$who"
    done
    folder=$RUNDIR
    while folder=${folder%/*} && [ -n "$folder" ]; do
        most=$(of_ceph quota.max_bytes "$folder") && [ "$most" -gt 0 ] || continue
        echo "$(((most - $(of_ceph dir.rbytes "$folder")) / 1024)) $folder"
    done
}
read -r LEFT WHOSE <<<"$(quotas 2>/dev/null | sort -n | head -n 1)"
[ -z "$LEFT" ] || [ "$LEFT" -ge "$KIB" ] || {
    echo "no quota is left: $KIB KiB will be written, and that of $WHOSE has room for $LEFT KiB" |
        tee "$NO_QUOTA" >&2
    exit 1
}
FREE=$(df -Pk "$RUNDIR" | awk 'NR == 2 {print $4}')
[ "${FREE:=0}" -ge "$KIB" ] || {
    echo "$WHERE: $KIB KiB will be written, but only $FREE KiB are free" >&2
    exit 1
}
: > "runs/2026-11-26T030414/mine:shm,gnu,SharedFileWrite,backend=hdf5,local_size=64x64x64,ranks=2/benchio_started" || exit 1
mpirun -np 2 /work/h7/build/bin/benchio --backend mpiio,hdf5 --operation write --files shared --local-size 64x64x64 --repeats 10 --dir "$RUNDIR" --fs-type tmpfs --run-id f0de6e77f509aee4 --json result.json --phase-limit 180
echo $? > exit_code
