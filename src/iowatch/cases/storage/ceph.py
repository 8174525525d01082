"""CephFS, which is asked through `ceph` and extended attributes; an OSD is called OST here.

Functions of the text alone read the output of both, so that output of other machines can test them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.commands import Answer, run
from iowatch.cases.parameters import MIB
from iowatch.cases.storage.plain import Plain
from iowatch.cases.storage.striped import Component, Striped, inactive, pools_in_use

_OBJECT = 4 * MIB  # bytes that CephFS keeps in one object, unless told otherwise
_LISTED = re.compile(r'^ceph\.file\.layout="(.*)"$', re.MULTILINE)


class Ceph(Plain):
    """CephFS: an OST is addressed by a pool that has it alone."""

    name = "ceph"
    mounts = ("ceph", "fuse.ceph-fuse")
    single_targets = "pools of one OST each"
    ask_quotas = """\
    of_ceph() { getfattr --absolute-names --only-values -n "ceph.$1" "$folder"; }
    local folder=$1 most used
    while folder=${folder%/*} && [ -n "$folder" ]; do
        most=$(of_ceph quota.max_bytes) && used=$(of_ceph dir.rbytes) && [ "$most" -gt 0 ] &&
            echo "kib $(((most - used) / 1024)) $folder"
        most=$(of_ceph quota.max_files) && [ "$most" -gt 0 ] &&
            used=$(of_ceph dir.rentries || of_ceph dir.rfiles) &&
            echo "names $((most - used)) $folder"
    done"""

    def targets(self, osts: Sequence[int], pools: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the OSTs of the pools that have one each, by the names of these pools."""
        return {pool: numbers[0] for pool, numbers in pools.items() if len(numbers) == 1}

    def stripe_count(self, asked: int | None, osts: Sequence[int]) -> int | None:
        """Return the number of OSTs for all of them: CephFS has no word for that."""
        return len(osts) if asked == -1 else asked

    def set_layout(self, named: str, count: int | None, size: int, pool: str) -> str:
        """Return a command of `setfattr`; an object has a whole number of stripes."""
        layout = f"stripe_unit={size} stripe_count={count}"
        layout += f" object_size={size * max(1, _OBJECT // size)}"
        layout += f" pool={pool}" if pool else ""
        return f'setfattr -n ceph.dir.layout -v "{layout}"'

    def listing(self, files: str) -> str:
        """Return a command of `getfattr`."""
        return f"getfattr --absolute-names -n ceph.file.layout {files}"

    def layouts(self, listing: str) -> list[tuple[Component, ...]]:
        """Read what `getfattr` lists of files."""
        return [parse_layout(text) for text in _LISTED.findall(listing)]

    def quota_left(self, directory: Path, mount: str) -> int | None:
        """Return what the quotas of a directory and of those above it leave."""
        left = [_quota_left(parent) for parent in (directory, *directory.parents)]
        return min((number for number in left if number is not None), default=None)

    def look(self, directory: str) -> Striped:
        """Ask `ceph`, which many users may not ask, and an empty file's attribute."""
        troubles, notes = [], []
        default: tuple[Component, ...] = ()
        try:
            with tempfile.NamedTemporaryFile(dir=directory, prefix=".iowatch-") as file:
                default = parse_layout(os.getxattr(file.name, "ceph.file.layout").decode())
        except OSError as err:
            why = err.strerror
            troubles.append(f"the layout of a new file in {directory} cannot be read: {why}")
        tree, listed = _ask("osd", "tree"), _ask("fs", "ls")
        states = parse_osd_tree(tree.text)
        active = tuple(sorted(n for n, (_, is_up) in states.items() if is_up))
        pools: dict[str, tuple[int, ...]] = {}
        if not states:
            why = tree.why("names no OSDs")
            troubles.append(f"{why}; no stripe counts are measured without them")
        else:
            placed = _ask("pg", "dump", "pgs_brief")
            pools = parse_pools(listed.text, placed.text, default[0].pool if default else "")
            if not pools:
                lack = "`ceph fs ls` names none for this filesystem"
                why = listed.trouble or placed.trouble or lack
                troubles.append(f"the pools are not known: {why}")
                notes.append("Confirm: these are all OSDs of the cluster, whosoever they are.")
            notes = [*inactive(states, "(down or out)"), *notes]
            notes.append("Confirm: to set layouts, a client needs the capability `allow rwp`.")
        in_use, more = pools_in_use(pools, active)
        in_pools = tuple(sorted({ost for osts in in_use.values() for ost in osts}))
        return Striped(
            osts=in_pools or active,
            pools=in_use,
            default=default,
            is_numbered=False,
            notes=(*notes, *more),
            troubles=tuple(dict.fromkeys(troubles)),
        )


def _ask(*words: str) -> Answer:
    return run("ceph", "--connect-timeout", "10", *words, "--format", "json")


def _quota_left(directory: Path) -> int | None:
    try:
        limit = int(os.getxattr(directory, "ceph.quota.max_bytes"))
        return max(limit - int(os.getxattr(directory, "ceph.dir.rbytes")), 0) if limit else None
    except (OSError, ValueError):
        return None


def parse_layout(text: str) -> tuple[Component, ...]:
    """Read the attribute ceph.file.layout."""
    fields = dict(re.findall(r"(\w+)=(\S+)", text))
    return (
        Component(
            count=int(fields["stripe_count"]),
            size=int(fields["stripe_unit"]),
            pool=fields["pool"],
        ),
    )


def parse_osd_tree(text: str) -> dict[int, tuple[str, bool]]:
    """Read the name of each OSD, and whether it is up and in, of `ceph osd tree`."""
    return {
        node["id"]: (node["name"], node["status"] == "up" and node["reweight"] > 0)
        for node in _json(text, {"nodes": []})["nodes"]
        if node["type"] == "osd"
    }


def parse_pools(filesystems: str, placed: str, pool: str) -> dict[str, tuple[int, ...]]:
    """Read the OSDs of each data pool of the filesystem with this pool, from `ceph fs ls` and `ceph
    pg dump pgs_brief`; empty: either says nothing."""
    known = _json(filesystems, [])
    with_pool = [fs for fs in known if pool in fs["data_pools"] or len(known) == 1]
    osds: dict[int, set[int]] = {}
    for group in _json(placed, {"pg_stats": []})["pg_stats"]:
        osds.setdefault(int(group["pgid"].partition(".")[0]), set()).update(group["acting"])
    return {
        name: tuple(sorted(osds[number]))
        for fs in with_pool[:1]
        for name, number in zip(fs["data_pools"], fs["data_pool_ids"], strict=True)
        if number in osds
    }


def _json(text: str, nothing: Any) -> Any:
    try:
        return decoded(text)
    except ValueError:
        return nothing
