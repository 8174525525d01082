"""The cases that stand for classes of accesses, and the fewest of them that stand for a given part
of all bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import attrs

from iowatch.check import Check
from iowatch.files import UserError, brief_bytes, counted
from iowatch.filesystem import Filesystem
from iowatch.kinds.array import (
    FILE_PER_PROCESS,
    FILE_PER_PROCESS_READ,
    SHARED_FILE_READ,
    SHARED_FILE_WRITE,
)
from iowatch.kinds.metadata import METADATA_KIND
from iowatch.parameters import DEFAULT, LAYOUT, format_bytes, format_size
from iowatch.suites import ACCEPTANCE, NIGHTLY, Setting, read_suites
from iowatch.users_io.access_class import (
    BLOCKS,
    CONTIGUOUS,
    GATHER,
    GROUPS,
    METADATA,
    OPERATIONS,
    READ,
    SAME_NAME,
    SHARED,
    WRITE,
    AccessClass,
    Amount,
    Usage,
    log2,
)

#: The check that has a file of all ranks, and the check that has other files.
_CHECKS: Mapping[str, tuple[Check, Check]] = {
    WRITE: (SHARED_FILE_WRITE, FILE_PER_PROCESS),
    READ: (SHARED_FILE_READ, FILE_PER_PROCESS_READ),
    METADATA: (METADATA_KIND, METADATA_KIND),
}
#: Why no case can stand for a class.
_NO_CASE = {
    "stdio": "no case uses STDIO, whose small calls the C library collects",
    "daos": "no case uses DAOS's own interface",
}
_ONE_NAME = "ranks open one file together: the phase `open` of cases with a shared file has this"

_ALIKE = 1  # log2 of a factor in size or in ranks within which a case stands for a class
_ELEMENT = 3  # log2 of bytes
_BLOCK = 25  # log2 of the most bytes that a rank moves: 32 MiB; a larger call is no faster
_CALLS = 12  # log2 of the most calls of a rank: more would take long, and tell no more
_SECTOR = 12  # log2 of bytes: no smaller call is aligned
_ITEMS = (6, 10)  # log2 of the fewest and the most names of a rank


@dataclass(frozen=True, kw_only=True)
class CaseShape:
    """The properties in which a case and a class are to be the same."""

    operation: str
    backend: str
    files: str
    per_file: int
    collective: bool
    order: str
    aligned: bool


@dataclass(frozen=True, order=True)
class CaseScale:
    """The properties in which a case and a class may differ a little: log2 of each."""

    size: int
    ranks: int

    def is_like(self, other: CaseScale) -> bool:
        return abs(self.size - other.size) <= _ALIKE and abs(self.ranks - other.ranks) <= _ALIKE


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A case of a suite, and the part of an operation's bytes that it stands for."""

    operation: str
    setting: Setting
    values: Mapping[str, Sequence[Any]]  # as a suite has them
    part: float  # that no case before it stands for
    in_all: float  # with the cases before it
    differences: tuple[str, ...]  # from the classes that it stands for

    @property
    def text(self) -> str:
        """The case without its place."""
        return f"{self.setting.check.name}/{self.setting.text}"


@dataclass(kw_only=True)
class Proposal:
    """The fewest cases that were found to stand for a part of what users do."""

    place: Filesystem
    cover: float
    totals: Mapping[str, int]  # bytes, or operations, of each operation
    stand_ins: list[StandIn] = field(default_factory=list)
    without_case: dict[str, dict[str, float]] = field(default_factory=dict)  # parts, by reason
    usage: Usage = field(default_factory=Usage)

    def covered(self, operation: str) -> float:
        """Return the part of an operation's bytes for which the cases stand."""
        parts = [case.in_all for case in self.stand_ins if case.operation == operation]
        return parts[-1] if parts else 0.0

    @property
    def suite(self) -> dict[str, list[StandIn]]:
        """The cases by their checks, as a site's file has them."""
        checks: defaultdict[str, list[StandIn]] = defaultdict(list)
        for case in self.stand_ins:
            checks[case.setting.check.name].append(case)
        return dict(checks)

    @property
    def filesystem(self) -> Filesystem:
        """The filesystem with these cases as its nightly suite."""
        settings = {name: tuple(c.setting for c in cases) for name, cases in self.suite.items()}
        return _with_suite(self.place, settings)


def _with_suite(place: Filesystem, suite: Mapping[str, Any]) -> Filesystem:
    return attrs.evolve(place, suites={NIGHTLY: suite, ACCEPTANCE: {}})


_Members = Mapping[AccessClass, Amount]


def propose(usage: Usage, place: Filesystem, cover: float) -> Proposal:
    """Propose the fewest cases that stand for a part of the bytes written, of those read, and of
    the metadata operations: the case that stands for most of what is left comes next."""
    totals = {operation: usage.total(operation) for operation in OPERATIONS}
    proposal = Proposal(place=place, cover=cover, totals=totals, usage=usage)
    most_ranks = log2(_most_nodes(place) * place.ranks_per_node)
    shapes: defaultdict[CaseShape, dict[CaseScale, dict[AccessClass, Amount]]] = defaultdict(dict)
    for access_class, amount in usage.classes.items():
        if not amount.count:
            continue
        if why := _no_case(access_class):
            _put_aside(proposal, access_class.operation, why, amount.count)
            continue
        shape, measure = _reduced(access_class, most_ranks)
        shapes[shape].setdefault(measure, {})[access_class] = amount
    for operation in OPERATIONS:
        of_operation = {s: dict(m) for s, m in shapes.items() if s.operation == operation}
        _choose(proposal, operation, of_operation)
    return proposal


def _most_nodes(place: Filesystem) -> int:
    """Return the nodes of the largest case that the site has: its ceiling is for no more."""
    nodes = (
        setting.nodes
        for suite in place.suites.values()
        for settings in suite.values()
        for setting in settings
    )
    return max(nodes, default=1)


def _no_case(access_class: AccessClass) -> str:
    """Say why no case can stand for a class; empty if one can."""
    if access_class.order == SAME_NAME:
        return _ONE_NAME
    return _NO_CASE.get(access_class.library, "")


def _put_aside(proposal: Proposal, operation: str, why: str, count: int) -> None:
    of_operation = proposal.without_case.setdefault(operation, {})
    of_operation[why] = of_operation.get(why, 0.0) + count / proposal.totals[operation]


def _reduced(access_class: AccessClass, most_ranks: int) -> tuple[CaseShape, CaseScale]:
    """Reduce a class to what a case can have of it."""
    is_shared = access_class.files in (SHARED, GROUPS)
    backend, order, files = access_class.library, access_class.order, access_class.files
    if backend == "posix" and is_shared:
        backend = "mpiio"  # whose independent calls are POSIX's
    if files == GATHER:
        order = BLOCKS
    ranks = min(access_class.ranks, most_ranks)
    size = min(max(access_class.size, _ELEMENT), _BLOCK)
    if access_class.operation == METADATA:
        size = min(max(access_class.size, _ITEMS[0]), _ITEMS[1])
    shape = CaseShape(
        operation=access_class.operation,
        backend=backend,
        files=files,
        per_file=access_class.per_file if files == GROUPS else 0,
        collective=access_class.collective,
        order=order,
        aligned=access_class.aligned is not False or size < _SECTOR or order == BLOCKS,
    )
    return shape, CaseScale(size, ranks)


def _choose(
    proposal: Proposal,
    operation: str,
    shapes: dict[CaseShape, dict[CaseScale, dict[AccessClass, Amount]]],
) -> None:
    """Choose cases of one operation until they stand for the part that is asked for, of all that
    some case can stand for."""
    total, covered = proposal.totals[operation], 0
    possible = sum(_count(m) for measures in shapes.values() for m in measures.values())
    while covered < proposal.cover * possible:
        best = max(
            (
                (sum(_count(m) for other, m in measures.items() if other.is_like(measure)),
                 str(shape), measure, shape)
                for shape, measures in shapes.items()
                for measure in measures
            ),
            key=lambda choice: choice[:3],
            default=None,
        )  # fmt: skip
        if best is None:
            return
        weight, _, measure, shape = best
        like = [other for other in shapes[shape] if other.is_like(measure)]
        members = {c: a for other in like for c, a in shapes[shape].pop(other).items()}
        try:
            case = _case(proposal.place, shape, measure, members)
        except UserError as err:  # no case can have such values
            _put_aside(proposal, operation, str(err).rpartition(": ")[2], weight)
            possible -= weight
            continue
        covered += weight
        case = replace(case, part=weight / total, in_all=covered / total)
        proposal.stand_ins.append(case)


def _count(members: _Members) -> int:
    return sum(amount.count for amount in members.values())


# A case


def _case(place: Filesystem, shape: CaseShape, measure: CaseScale, members: _Members) -> StandIn:
    """Make the case of a shape. UserError: none can have it."""
    check = _CHECKS[shape.operation][shape.files != SHARED]
    values: dict[str, list[Any]] = {}
    if shape.operation == METADATA:
        values["items"] = [2**measure.size]
    else:
        values |= _sizes(shape, measure, sum(members.values(), Amount()).block)
    nodes, ranks_per_node = _spread(place, shape, 2**measure.ranks)
    if shape.files == GROUPS:
        values["files"] = [max(2, nodes * ranks_per_node // 2**shape.per_file)]
    elif shape.files != SHARED or shape.operation == METADATA:
        values["files"] = [shape.files]
    if place.osts is not None and LAYOUT in check.parameters:
        values[LAYOUT.name] = [DEFAULT]
    values["nodes"] = [nodes]
    if ranks_per_node != place.ranks_per_node:
        values["ranks_per_node"] = [ranks_per_node]
    alone = _with_suite(place, {check.name: values})
    (setting,) = read_suites("the proposal", alone)[NIGHTLY][check.name]
    return StandIn(
        operation=shape.operation,
        setting=setting,
        values=values,
        part=0.0,
        in_all=0.0,
        differences=tuple(_differences(members, measure, nodes * ranks_per_node)),
    )


def _sizes(shape: CaseShape, measure: CaseScale, mean_block: float) -> dict[str, list[Any]]:
    """Return the parameters of an array whose calls have a size, and reach a file in an order."""
    calls = log2(mean_block) - measure.size
    calls = min(max(calls, 0), max(_BLOCK - measure.size, 0), _CALLS)
    row = 2 ** (measure.size - _ELEMENT) + (0 if shape.aligned else 1)
    values: dict[str, list[Any]] = {"backend": [shape.backend]}
    if shape.order == BLOCKS:
        parts = measure.ranks if shape.files == GATHER else 0  # of what the one rank writes
        edges = _split(max(measure.size - _ELEMENT + calls - parts, 0), 3)
    elif shape.order == CONTIGUOUS:
        edges = (row * 2**calls, 1, 1)
    else:
        edges = (row, *_split(calls, 2))
        values["pattern"] = [shape.order]
    values["local_size"] = [format_size(edges)]  # type: ignore[arg-type]
    if calls and "pattern" not in values:
        values["transfer"] = [format_bytes(8 * row)]
    if shape.files in (SHARED, GROUPS) and not shape.collective and shape.backend != "posix":
        values["collective"] = [False]
    return values


def _split(exponent: int, many: int) -> tuple[int, ...]:
    """Split a power of two into factors, the larger first."""
    return tuple(2 ** ((exponent + many - 1 - number) // many) for number in range(many))


def _spread(place: Filesystem, shape: CaseShape, ranks: int) -> tuple[int, int]:
    """Spread ranks over nodes as the site does: nodes, and ranks on each."""
    most = _most_nodes(place)
    nodes = min(max(1, round(ranks / place.ranks_per_node)), most)
    if shape.operation == READ and not place.cached_reads and min(ranks, most) > 1:
        nodes = max(nodes, 2)  # a node's cache would return what the node has written
    return nodes, min(max(1, round(ranks / nodes)), place.ranks_per_node)


def _differences(members: _Members, measure: CaseScale, ranks: int) -> Iterable[str]:
    """Say in what the classes that a case stands for differ from it."""
    first = next(iter(members))
    sizes, many = {c.size for c in members}, {c.ranks for c in members}
    if first.operation != METADATA and sizes != {measure.size}:
        yield f"calls of {_range(sizes, brief_bytes)}"
    if many != {log2(ranks)}:
        yield counted(2 ** max(many), "rank") if len(many) == 1 else f"{_range(many, str)} ranks"
    if any(c.library == "posix" and c.files in (SHARED, GROUPS) for c in members) and (
        first.operation != METADATA
    ):
        yield "POSIX calls, where the case has MPI-IO's independent ones"


def _range(exponents: set[int], words: Any) -> str:
    low, high = min(exponents), max(exponents)
    return words(2**low) if low == high else f"{words(2**low)} to {words(2**high)}"
