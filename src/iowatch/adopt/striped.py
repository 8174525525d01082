"""What a striped filesystem says of its targets, its pools, and the layout that users get.

Lustre is asked through `lfs`, CephFS through `ceph` and extended attributes; an OSD of CephFS is
called OST here. What they say is read by functions of that text alone, so that they can be tested
with what others have said.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iowatch.adopt.machine import question
from iowatch.commands import Answer

MIB = 2**20
KIB = 2**10

#: Patterns that options of `lfs setstripe` can ask for, and the option for the number of stripes.
PLAIN, OVERSTRIPED, ON_MDT = "raid0", "raid0,overstriped", "mdt"
COUNT_OPTION = {PLAIN: "-c", OVERSTRIPED: "-C"}

#: Of a pool, where it can be part of a case id.
_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)

DEFAULT: Mapping[str, Any] = {"layout": ["default"]}


@dataclass(frozen=True)
class Component:
    """A part of a layout: the whole of a plain one."""

    count: int  # stripes; -1: one on each OST; 0: none, for the data are on the MDT
    size: int  # bytes of a stripe
    pattern: str = PLAIN
    pool: str = ""
    end: int | None = None  # the byte before which it ends; None: that of the file
    #: Whether that is all there is to it: it has no first OST and no flags.
    is_whole: bool = True

    def __str__(self) -> str:
        """In words, such as `2 OSTs of pool fast in stripes of 1 MiB`."""
        of_pool = f" of pool {self.pool}" if self.pool else ""
        if self.pattern == ON_MDT:
            where = "the MDT"
        elif self.pattern == PLAIN:
            osts = "all OSTs" if self.count < 0 else f"{self.count} OST" + "s" * (self.count != 1)
            where = f"{osts}{of_pool} in stripes of {_size(self.size)}"
        elif self.pattern == OVERSTRIPED and self.count < 0:
            where = f"all OSTs{of_pool}, {-self.count} stripes of {_size(self.size)} on each"
        elif self.pattern == OVERSTRIPED:
            where = f"{self.count} stripes of {_size(self.size)}{of_pool}, several on one OST"
        else:
            where = f"{self.count} stripes of {_size(self.size)}{of_pool} ({self.pattern})"
        return where if self.is_whole else f"{where} (`lfs getstripe -d` shows more)"

    @property
    def options(self) -> str:
        """Of `lfs setstripe`, without where it ends."""
        if self.pattern == ON_MDT:
            return "-L mdt"
        pool = f" -p {self.pool}" if self.pool else ""
        return f"{COUNT_OPTION[self.pattern]} {self.count} -S {_short(self.size)}{pool}"


@dataclass(frozen=True)
class Striped:
    """A striped filesystem, as far as it can be seen from here."""

    osts: tuple[int, ...] = ()  # the numbers of those in use; none: they are not known
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    default: tuple[Component, ...] = ()  # what a new file gets; nothing: it is not known
    #: Whether each OST can be addressed by its number; else a pool that has it alone does it.
    is_numbered: bool = True
    #: The numbers of several MDTs on which a user may put names one by one; none: there is one MDT,
    #: or the filesystem chooses.
    mdts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()  # sentences for the reader of the site's file
    troubles: tuple[str, ...] = ()  # sentences on what could not be learnt, and why

    @property
    def is_plain(self) -> bool:
        """Whether the default is a count and a size and nothing more."""
        return len(self.default) == 1 and self.default[0].pattern == PLAIN

    @property
    def description(self) -> str:
        """Of the default, whole, in words."""
        parts, last = [], len(self.default) - 1
        for number, part in enumerate(self.default):
            if part.end is not None:
                parts.append(f"up to {_size(part.end)} {part}")
            else:
                parts.append(f"then {part}" if number == last > 0 else str(part))
        return "; ".join(parts)

    @property
    def options(self) -> list[str]:
        """Of `lfs setstripe`, that ask for the default, an entry a component; none where they
        would not ask for exactly that, or where the default is plain."""
        parts = self.default
        pools = {part.pool for part in parts if part.pattern != ON_MDT}
        # A component without a pool takes that of the one before it.
        can_be_said = len(pools) == 1 and all(
            part.is_whole
            and (part.pattern == ON_MDT or (part.count and part.pattern in COUNT_OPTION))
            for part in parts
        )
        if self.is_plain or not can_be_said or not self.is_numbered:
            return []
        if len(parts) == 1 and parts[0].end is None:
            return [parts[0].options]
        return [f"-E {-1 if p.end is None else _short(p.end)} {p.options}" for p in parts]

    @property
    def has_single_targets(self) -> bool:
        """Whether OSTs can be measured one by one."""
        alone = {osts for osts in self.pools.values() if len(osts) == 1}
        return len(self.osts if self.is_numbered else alone) > 1

    @property
    def apart(self) -> dict[str, tuple[int, ...]]:
        """The pools to be measured each by itself, for a file without a pool would mix them: flash
        and disks. On CephFS one of a single OST stands for that."""
        pools = {n: osts for n, osts in self.pools.items() if self.is_numbered or len(osts) > 1}
        return pools if any(osts != self.osts for osts in pools.values()) else {}

    def settings(
        self, counts: Collection[int], sizes: Sequence[int] = ()
    ) -> list[Mapping[str, list[Any]]]:
        """What a sweep is to measure: what users get, and these stripe counts, in each pool.

        `sizes` in MiB; none: that of the default. What the default is already is left out.
        """
        plain = self.default[0] if self.is_plain else Component(0, MIB)
        usual = max(plain.size // MIB, 1)
        asked, one = list(sizes) or [usual], [count for count in counts if count == 1]
        wanted: list[tuple[dict[str, list[Any]], list[int]]]
        if self.apart:
            several = [name for name, osts in self.apart.items() if len(osts) > 1]
            single = [name for name, osts in self.apart.items() if len(osts) == 1]
            groups = ((several, list(counts)), (single, one))
            wanted = [({"pool": pools}, number) for pools, number in groups if pools]
        else:
            are_all = plain.count < 0 or plain.count >= len(self.osts)
            is_same = plain.is_whole and [plain.size] == [size * MIB for size in asked]
            same = {plain.count, *([-1] if are_all else [])} if is_same else set()
            numbers = list(counts) if len(self.osts) > 1 else one
            wanted = [({}, [count for count in numbers if count not in same])]
        return [
            DEFAULT,
            *(
                {**pool, "stripe_count": numbers, "stripe_size": asked}
                for pool, numbers in wanted
                if numbers
            ),
        ]

    def layout(self, count: int) -> Mapping[str, list[Any]]:
        """The first of these settings with this stripe count, or else what users get."""
        return [*self.settings([count]), DEFAULT][1]


# Lustre


def look_at_lustre(directory: str) -> Striped:
    """What `lfs` says of the Lustre that a directory is on."""
    said, df = question("lfs", "osts", directory), question("lfs", "df", directory)
    states, space = parse_targets(said.text), parse_df(df.text)
    troubles = []
    if not states:
        troubles.append(said.why("names no OSTs"))
    active = tuple(sorted(n for n, (_, is_active) in states.items() if is_active) or sorted(space))
    names = {name: number for number, (name, _) in states.items()}
    notes = _inactive(states, "on this client") + _full(active, space)
    if active:
        notes.append(
            "Confirm: an OST on which the MDTs make no new files is still in the list, for that "
            "shows to nobody but root, and there: 0 of lctl get_param osp.*.max_create_count "
            "osp.*.active."
        )
    pools = {}
    if fsname := next((name.rpartition("-OST")[0] for name in names if "-OST" in name), ""):
        listed = question("lfs", "pool_list", fsname)
        if listed.trouble:
            troubles.append(listed.why("names no pools"))
        for pool in parse_pools(listed.text, fsname):
            within = question("lfs", "pool_list", f"{fsname}.{pool}").text
            pools[pool] = tuple(sorted(names[ost] for ost in within.split() if ost in names))
    layout = question("lfs", "getstripe", "-d", directory)
    if not (default := parse_layout(layout.text)):
        troubles.append(layout.why("gives no default layout"))
    seen = parse_targets(question("lfs", "mdts", directory).text)
    mdts = tuple(n for n, (name, is_active) in seen.items() if is_active and "-MDT" in name)
    if mdts:
        notes.append(f"The names of the files are on {_counted('MDT', mdts)}.")
    if len(mdts) > 1 and (why := _why_no_mdt(directory, mdts)):
        notes.append(
            "Confirm: Metadata measures MDTs one by one only where users may choose one, and here "
            f"{why}. Lustre chooses one for each run, and it is on record."
        )
        mdts = ()
    in_use, more = _pools_in_use(pools, active)
    mdts = mdts if len(mdts) > 1 else ()
    return Striped(active, in_use, default, True, mdts, (*notes, *more), _once(troubles))


def _why_no_mdt(directory: str, mdts: Iterable[int]) -> str:
    """Why this user cannot make a directory on each of these MDTs; empty if they can."""
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".iowatch-") as folder:
            tried = [question("lfs", "mkdir", "-i", f"{n}", f"{folder}/{n}") for n in mdts]
    except OSError as err:
        return f"no directory can be made in {directory}: {err.strerror}"
    return next((made.trouble for made in tried if made.trouble), "")


def parse_targets(text: str) -> dict[int, tuple[str, bool]]:
    """The name of each target in what `lfs osts PATH` says, or `lfs mdts PATH`, and whether it is
    active on this client."""
    rows = re.findall(r"^\s*(\d+): (\S+) ([A-Z]+)\b", text, re.M)
    return {int(number): (name, state == "ACTIVE") for number, name, state in rows}


def parse_df(text: str) -> dict[int, tuple[int, bool]]:
    """KiB free on each OST that `lfs df PATH` lists, and whether it is full."""
    rows = re.findall(r"\s(\d+)\s+(\d+)%\s+\S.*\[OST:(\d+)\]", text)
    return {int(number): (int(free), used == "100") for free, used, number in rows}


def parse_pools(text: str, fsname: str) -> list[str]:
    """The pools that `lfs pool_list FSNAME` lists."""
    return re.findall(rf"^{re.escape(fsname)}\.([\w-]+)\s*$", text, re.M)


#: A field of a layout without what some forms put before its name, and its value, if it has one.
_FIELD = re.compile(r"(?:lmm_|lcme_)?(?:extent\.e_)?(\w+):[^\S\n]*((?!\w+:)\S*)")


def parse_layout(text: str) -> tuple[Component, ...]:
    """What `lfs getstripe -d PATH` says; nothing if that is no layout."""
    head, *composite = text.split("lcme_id:")
    mirrors = re.search(r"lcm_mirror_count:\s*(\d+)", head)
    is_mirrored = mirrors is not None and int(mirrors[1]) > 1
    components = []
    for part in composite or [head]:
        found = dict(_FIELD.findall(part))
        if "stripe_count" not in found or found.get("stripe_size", "0") == "0":
            continue
        count, pattern = int(found["stripe_count"]), found.get("pattern", "")
        pattern = PLAIN if pattern in ("", "0", "1") else pattern  # as it was before Lustre 2.10
        end = found.get("end", "EOF")
        components.append(
            Component(
                count=count if count < 0xFFFF else -1,
                size=int(found["stripe_size"]),
                pattern=pattern,
                pool=found.get("pool", ""),
                end=None if end == "EOF" else int(end),
                is_whole=not is_mirrored
                and (pattern == ON_MDT or found.get("stripe_offset", "-1") == "-1")
                and found.get("flags", "0") in ("0", "init"),
            )
        )
    return tuple(components)


def _inactive(states: Mapping[int, tuple[str, bool]], where: str) -> list[str]:
    dead = [number for number, (_, is_active) in states.items() if not is_active]
    return [f"Left out, because not active {where}: {_counted('OST', dead)}."] if dead else []


def _full(active: Collection[int], space: Mapping[int, tuple[int, bool]]) -> list[str]:
    notes = []
    if full := [n for n in active if n in space and space[n][1]]:
        notes.append(f"Full, but in the list, so that each night says so: {_counted('OST', full)}.")
    if silent := [n for n in active if space and n not in space]:
        notes.append(f"Active, but `lfs df` shows no space: {_counted('OST', silent)}; confirm.")
    return notes


# CephFS


def look_at_ceph(directory: str) -> Striped:
    """What `ceph`, which many users may not ask, and an empty file's attribute say of the CephFS
    that a directory is on."""
    troubles, notes = [], []
    default: tuple[Component, ...] = ()
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".iowatch-") as file:
            default = parse_ceph_layout(os.getxattr(file.name, "ceph.file.layout").decode())
    except OSError as err:
        troubles.append(f"the layout of a new file in {directory} cannot be read: {err.strerror}")
    tree, listed = _ceph("osd", "tree"), _ceph("fs", "ls")
    states = parse_osd_tree(tree.text)
    active = tuple(sorted(n for n, (_, is_active) in states.items() if is_active))
    pools: dict[str, tuple[int, ...]] = {}
    if not states:
        troubles.append(f"{tree.why('names no OSDs')}; no stripe counts are measured without them")
    else:
        placed = _ceph("pg", "dump", "pgs_brief")
        pools = parse_ceph_pools(listed.text, placed.text, default[0].pool if default else "")
        if not pools:
            why = listed.trouble or placed.trouble or "`ceph fs ls` names none for this filesystem"
            troubles.append(f"the pools are not known: {why}")
            notes.append("Confirm: these are all OSDs of the cluster, whosoever they are.")
        notes = [*_inactive(states, "(down or out)"), *notes]
        notes.append("Confirm: to set layouts, a client needs the capability `allow rwp`.")
    in_use, more = _pools_in_use(pools, active)
    own = tuple(sorted({ost for osts in in_use.values() for ost in osts})) or active
    return Striped(own, in_use, default, False, (), (*notes, *more), _once(troubles))


def _ceph(*words: str) -> Answer:
    return question("ceph", "--connect-timeout", "10", *words, "--format", "json")


def parse_ceph_layout(text: str) -> tuple[Component, ...]:
    """The attribute ceph.file.layout."""
    found = dict(re.findall(r"(\w+)=(\S+)", text))
    return (Component(int(found["stripe_count"]), int(found["stripe_unit"]), PLAIN, found["pool"]),)


def parse_osd_tree(text: str) -> dict[int, tuple[str, bool]]:
    """The name of each OSD, and whether it is up and in, of `ceph osd tree`."""
    return {
        node["id"]: (node["name"], node["status"] == "up" and node["reweight"] > 0)
        for node in _json(text, {"nodes": []})["nodes"]
        if node["type"] == "osd"
    }


def parse_ceph_pools(filesystems: str, placed: str, pool: str) -> dict[str, tuple[int, ...]]:
    """The OSDs of each data pool of the filesystem that has this one, of `ceph fs ls` and
    `ceph pg dump pgs_brief`; nothing if either says nothing."""
    known = _json(filesystems, [])
    own = [one for one in known if pool in one["data_pools"] or len(known) == 1]
    osds: dict[int, set[int]] = {}
    for group in _json(placed, {"pg_stats": []})["pg_stats"]:
        osds.setdefault(int(group["pgid"].partition(".")[0]), set()).update(group["acting"])
    return {
        name: tuple(sorted(osds[number]))
        for one in own[:1]
        for name, number in zip(one["data_pools"], one["data_pool_ids"], strict=True)
        if number in osds
    }


def _json(text: str, nothing: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return nothing


# Both


def _pools_in_use(
    pools: Mapping[str, Iterable[int]], active: Collection[int]
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The pools with those of their OSTs that are active, and what is to be said of it."""
    found = {name: tuple(n for n in osts if n in active) for name, osts in pools.items()}
    kept = {name: osts for name, osts in found.items() if osts and _NAME.fullmatch(name)}
    notes = [
        f"Left out: pool {name}, "
        + ("whose name no case can have." if found[name] else "of which no OST is in use.")
        for name in found
        if name not in kept
    ]
    within = {ost for osts in kept.values() for ost in osts}
    if kept and (outside := [ost for ost in active if ost not in within]):
        notes.append(f"In no pool: {_counted('OST', outside)}.")
    return kept, notes


def _counted(what: str, numbers: Collection[int]) -> str:
    """Such as `OSTs 0 to 23, 25`."""
    texts = [
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs(numbers)
    ]
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(texts)}"


def runs(numbers: Iterable[int]) -> list[range]:
    """The same numbers, in order, as runs without a gap."""
    found: list[range] = []
    for number in sorted(numbers):
        if found and number == found[-1].stop:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def _once(troubles: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(troubles))


def _size(number: int) -> str:
    """Bytes, as `4 MiB`."""
    unit, factor = _unit(number)
    return f"{number // factor} {unit}iB" if unit else f"{number} bytes"


def _short(number: int) -> str:
    """Bytes, as `lfs` reads them: `4M`."""
    unit, factor = _unit(number)
    return f"{number // factor}{unit}"


def _unit(number: int) -> tuple[str, int]:
    units = (("G", 2**30), ("M", MIB), ("K", KIB), ("", 1))
    return next((unit, factor) for unit, factor in units if number and number % factor == 0)
