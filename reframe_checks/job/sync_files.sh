# shellcheck shell=bash
# Syncs files, as each task does: whichever has written, its node has no page left that is dirty.
# Prints the seconds that it took, by the clock of `dd`, which is the monotonic one. The files are
# open before that clock starts.
said=$(for file; do
    LC_ALL=C dd if=/dev/null of="$file" conv=nocreat,notrunc,fsync 2>&1 || exit 1
done) || {
    echo "$said" >&2
    exit 1
}
awk -v files=$# -F ' copied, ' 'NF == 2 { n++; seconds += $2 }
    END { if (n == files) printf "synced %.9f\n", seconds }' <<<"$said"
