"""Where a job writes: a directory of its own on the filesystem, which nobody else can replace."""

from pathlib import Path

MARK = ".iowatch"  # the file that says that a directory is one of ours

# In a folder where everybody may write, such as /dev/shm, whoever comes first would own what all
# others use: there, each user has a place apart, unless root made one for all.
_PLACE = """\
refuse() {{
    echo "$PLACE: $1: $2, or name another 'path' in the site's configuration" >&2
    exit 1
}}
PLACE="{path}"
case $(stat -Lc %a "{parent}" 2>/dev/null) in
*[2367])
    [ -k "{parent}" ] || refuse "everybody may replace it" "chmod +t {parent}"
    case $(stat -c %u "$PLACE" 2>/dev/null) in 0 | "$(id -u)") MINE=1 ;; *) MINE= ;; esac
    if [ -z "$MINE" ] || [ -L "$PLACE" ] || [ ! -w "$PLACE" ]; then
        PLACE="$PLACE.$(id -u)"
        [ -e "$PLACE" ] || [ -L "$PLACE" ] || mkdir -m 700 "$PLACE"
        [ ! -L "$PLACE" ] || refuse "a link, which may lead anywhere" "remove it"
        [ ! -e "$PLACE" ] || [ -O "$PLACE" ] || refuse "another user's" "have it removed"
    fi ;;
*)
    # Not mkdir -p: a filesystem that is not mounted must not be replaced by a directory.
    [ -e "$PLACE" ] || mkdir -m 1777 "$PLACE" || [ -d "$PLACE" ] ;;
esac
case $(stat -Lc %a "$PLACE" 2>/dev/null) in
*[2367]) [ -k "$PLACE" ] || refuse "everybody may replace what is in it" "chmod +t it" ;;
esac"""

_RUNDIR = """\
RUNDIR=$(mktemp -d "$PLACE/iowatch.XXXXXX") || exit 1
case $(stat -c %u:%a "$RUNDIR") in
"$(id -u)":*700) [ ! -L "$RUNDIR" ] ;;
*) false ;;
esac || refuse "what is made in it is not its maker's alone" "mount it so that it is"
# What was found out first: where a server hangs, the removal has no end.
trap 'keep; rm -rf "$RUNDIR"' EXIT
trap 'exit 143' TERM"""

# What a killed job left behind, by our mark; no job runs for two days.
_LEFT = (
    'find "$PLACE" -mindepth 1 -maxdepth 2 ! -user "$(id -u)" -prune -o '
    f"-path \"$PLACE/iowatch.??????/{MARK}\" -mtime +1 -printf '%h\\0' | xargs -0 -r rm -rf"
)


def commands(path, kib):
    """What a job does to have `RUNDIR`, with room for so many KiB, until it ends.

    The shell has a function `keep` for when it ends: it ends after the ranks, which still write.
    """
    place = Path(path)
    return [
        _PLACE.format(path=place, parent=place.parent),
        _LEFT,
        _RUNDIR,
        f': > "$RUNDIR/{MARK}"',
        "FREE=$(df -Pk \"$RUNDIR\" | awk 'NR == 2 {print $4}')",
        f'[ "${{FREE:=0}}" -ge {kib} ] || {{ echo "{path}: {kib} KiB will be written, but only'
        ' $FREE KiB are free" >&2; exit 1; }',
    ]
