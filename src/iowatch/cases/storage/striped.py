"""A striped filesystem as it can be seen: targets, pools, the layout that users get."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iowatch.base.text import numbers_in_words
from iowatch.cases.parameters import DEFAULT, MIB, PLAIN, format_bytes

#: Patterns that options of `lfs setstripe` can ask for, and the option for the number of stripes.
RAID0, OVERSTRIPED, ON_MDT = "raid0", "raid0,overstriped", "mdt"
COUNT_OPTION = {RAID0: "-c", OVERSTRIPED: "-C"}

USERS: Mapping[str, Any] = {"layout": [DEFAULT]}  # of those who ask for none


@dataclass(frozen=True, kw_only=True)
class Component:
    """A part of a layout: the whole of a plain one."""

    count: int  # stripes; -1: one on each OST; 0: none, for the data are on the MDT
    size: int  # bytes of a stripe
    pattern: str = RAID0
    pool: str = ""
    start: int = 0  # the byte with which it begins
    end: int | None = None  # the byte before which it ends; None: that of the file
    #: Whether that is all there is to it: it has no first OST and no flags.
    is_whole: bool = True

    def bytes_of(self, size: int) -> int:
        """Return the bytes of a file of this size that the component holds."""
        return max(0, (size if self.end is None else min(size, self.end)) - self.start)

    def __str__(self) -> str:
        """Say it in words, such as `2 OSTs of pool fast in stripes of 1 MiB`."""
        of_pool = f" of pool {self.pool}" if self.pool else ""
        if self.pattern == ON_MDT:
            where = "the MDT"
        elif self.pattern == RAID0:
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
        """Options of `lfs setstripe` that ask for the default, an entry a component. Empty: no
        options would, or the default is plain."""
        if self.pattern == ON_MDT:
            return "-L mdt"
        pool = f" -p {self.pool}" if self.pool else ""
        return f"{COUNT_OPTION[self.pattern]} {self.count} -S {_short(self.size)}{pool}"


@dataclass(frozen=True, kw_only=True)
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
        """Return whether the default is a count and a size and nothing more."""
        return len(self.default) == 1 and self.default[0].pattern == RAID0

    @property
    def description(self) -> str:
        """Say the default layout in words."""
        parts, last = [], len(self.default) - 1
        for number, part in enumerate(self.default):
            if part.end is not None:
                parts.append(f"up to {_size(part.end)} {part}")
            else:
                parts.append(f"then {part}" if number == last > 0 else str(part))
        return "; ".join(parts)

    @property
    def options(self) -> list[str]:
        """Options of `lfs setstripe` that ask for the default, an entry a component. The list is
        empty if they would not ask for exactly that, or if the default is plain."""
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
        """Return whether OSTs can be measured one by one."""
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
        """Return what a suite is to measure: what users get, and these stripe counts in each pool.

        `sizes` in MiB; none: that of the default. Settings that equal the default are left out.
        """
        plain = self.default[0] if self.is_plain else Component(count=0, size=MIB)
        usual = max(plain.size // MIB, 1)
        asked, single_counts = list(sizes) or [usual], [count for count in counts if count == 1]
        wanted: list[tuple[dict[str, list[Any]], list[int]]]
        if self.apart:
            several = [name for name, osts in self.apart.items() if len(osts) > 1]
            single = [name for name, osts in self.apart.items() if len(osts) == 1]
            groups = ((several, list(counts)), (single, single_counts))
            wanted = [({"pool": pools}, number) for pools, number in groups if pools]
        else:
            are_all = plain.count < 0 or plain.count >= len(self.osts)
            is_same = plain.is_whole and [plain.size] == [size * MIB for size in asked]
            same = {plain.count, *([-1] if are_all else [])} if is_same else set()
            numbers = list(counts) if len(self.osts) > 1 else single_counts
            wanted = [({}, [count for count in numbers if count not in same])]
        return [
            USERS,
            *(
                {**pool, "stripe_count": numbers, "stripe_size": asked}
                for pool, numbers in wanted
                if numbers
            ),
        ]

    def layout(self, count: int) -> Mapping[str, list[Any]]:
        """Return the first setting with this stripe count, or else what users get."""
        return [*self.settings([count]), USERS][1]


def inactive(states: Mapping[int, tuple[str, bool]], where: str) -> list[str]:
    """Say which targets are left out because they are not active; empty: all are."""
    dead = [number for number, (_, is_active) in states.items() if not is_active]
    words = numbers_in_words("OST", dead)
    return [f"Left out, because not active {where}: {words}."] if dead else []


def pools_in_use(
    pools: Mapping[str, Iterable[int]], active: Collection[int]
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return the pools with those of their OSTs that are active, and notes on what is left out."""
    seen = {name: tuple(n for n in osts if n in active) for name, osts in pools.items()}
    kept = {name: osts for name, osts in seen.items() if osts and PLAIN.accepts(name)}
    notes = [
        f"Left out: pool {name}, "
        + ("whose name no case can have." if seen[name] else "of which no OST is in use.")
        for name in seen
        if name not in kept
    ]
    within = {ost for osts in kept.values() for ost in osts}
    if kept and (outside := [ost for ost in active if ost not in within]):
        notes.append(f"In no pool: {numbers_in_words('OST', outside)}.")
    return kept, notes


def _size(number: int) -> str:
    """Say bytes as `4 MiB`."""
    text = format_bytes(number)
    unit = text.lstrip("0123456789")
    return f"{text.removesuffix(unit)} {unit or 'bytes'}"


def _short(number: int) -> str:
    """Say bytes as `lfs` reads them: `4M`."""
    return format_bytes(number).removesuffix("iB")
