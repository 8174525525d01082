"""A filesystem without stripes, and what every type of filesystem is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from iowatch.base.commands import run
from iowatch.cases.storage.striped import Component, Striped


class Plain:
    """A type of filesystem without stripes. A type with stripes extends it."""

    name: ClassVar[str] = ""  # among the types in a site's file
    mounts: ClassVar[Sequence[str]] = ()  # types as findmnt names them
    keys: ClassVar[Sequence[str]] = ()  # of a partition's extras, that only this type has
    single_targets: ClassVar[str] = ""  # what can be measured one by one, in words
    #: Whether one target is an OST by its number; else it is a pool that has one OST.
    is_numbered: ClassVar[bool] = False
    #: The shell that prints what is to be known of the filesystem that is mounted from $1.
    ask_notes: ClassVar[str] = ""
    #: The shell that prints of each quota of the directory $1, mounted at $2, what it leaves: `kib`
    #: or `names`, how many, and whose. `left` reads what commands such as `quota` print.
    ask_quotas: ClassVar[str] = """\
    local who
    for who in "user $(id -u)" "group $(stat -c %g "$1")"; do
        timeout 60 quota -w -p "-${who:0:1}" "${who#* }" -f "$2" | sed 1,2d | left "$who"
    done"""

    def targets(self, osts: Sequence[int], pools: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the OSTs that can be written to one by one, by what benchio calls them."""
        return {}

    def stripe_count(self, asked: int | None, osts: Sequence[int]) -> int | None:
        """Return the stripe count to ask for; -1 is all of these OSTs, None what users get."""
        return asked

    def set_layout(self, named: str, count: int | None, size: int, pool: str) -> str:
        """Return the command, without its directory, that gives new files there a layout: one by
        its name, else a stripe count and size in bytes, in a pool if any."""
        raise NotImplementedError

    def listing(self, files: str) -> str:
        """Return the command that lists the layouts of these files."""
        raise NotImplementedError

    def layouts(self, listing: str) -> list[tuple[Component, ...]]:
        """Read what that command has listed: the components of each file."""
        raise NotImplementedError

    def look(self, directory: str) -> Striped | None:
        """Ask what can be known of the targets from here; None: the type has none."""
        return None

    def quota_left(self, directory: Path, mount: str) -> int | None:
        """Return the bytes that the user's quotas leave in a directory; None: no quota is known."""
        return parse_quota(run("quota", "-w", "-f", mount).text)  # fails if it is exceeded


def parse_quota(text: str) -> int | None:
    """Read the bytes left of the strictest limit in what `lfs quota PATH` says, or `quota -w`: KiB
    used, soft limit, hard limit, grace. None: there is no limit."""
    left = [
        max(int(limit) - int(used), 0) * 1024
        for used, *limits in re.findall(r"\s\[?(\d+)\]?\*?\s+(\d+)\s+(\d+)\s+\S+\s+\d", text)
        for limit in limits
        if int(limit) > 0
    ]
    return min(left, default=None)


class Zfs(Plain):
    """ZFS: what a dataset does for a sync is one of its properties, and no option of its mount."""

    name = "zfs"
    mounts = ("zfs",)
    ask_notes = """\
    [ "$(timeout 10 zfs get -H -o value sync "$1" 2>/dev/null)" != disabled ] ||
        echo "$1 has sync=disabled: a sync there waits for nothing, and power that fails costs data"
"""
