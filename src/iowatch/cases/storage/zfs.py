"""ZFS, whose datasets may be told to sync nothing."""

from __future__ import annotations

from iowatch.cases.storage.plain import Plain


class Zfs(Plain):
    """ZFS: what a dataset does for a sync is one of its properties, and no option of its mount."""

    name = "zfs"
    mounts = ("zfs",)
    ask_notes = """\
    [ "$(timeout 10 zfs get -H -o value sync "$1" 2>/dev/null)" != disabled ] ||
        echo "$1 has sync=disabled: a sync there waits for nothing, and power that fails costs data"
"""
