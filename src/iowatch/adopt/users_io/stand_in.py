"""The cases that stand for classes of accesses, and the fewest of them that stand for a given part
of all bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import attrs

from iowatch.adopt.probe import most_nodes
from iowatch.adopt.users_io.file_classes import OPERATIONS, AccessClass, Amount, Usage
from iowatch.base.documents import Count
from iowatch.base.files import UserError
from iowatch.base.text import brief_bytes, counted
from iowatch.cases.case import Check
from iowatch.cases.filesystem import ACCEPTANCE, NIGHTLY, Filesystem, Suite
from iowatch.cases.parameters import (
    DEFAULT,
    LAYOUT,
    STRIPE_COUNT,
    STRIPE_SIZE,
    format_bytes,
    format_size,
)
from iowatch.measure.darshan_counts import Operation, log2
from iowatch.measure.kinds.array import (
    FILE_PER_PROCESS,
    FILE_PER_PROCESS_READ,
    SHARED_FILE_READ,
    SHARED_FILE_WRITE,
)
from iowatch.measure.kinds.metadata import METADATA_KIND
from iowatch.site.suites import read_suites

#: The check that has a file of all ranks, and the check that has other files.
_CHECKS: Mapping[Operation, tuple[Check, Check]] = {
    "write": (SHARED_FILE_WRITE, FILE_PER_PROCESS),
    "read": (SHARED_FILE_READ, FILE_PER_PROCESS_READ),
    "metadata": (METADATA_KIND, METADATA_KIND),
}
#: Why no case can stand for a class.
_NO_CASE = {
    "stdio": "STDIO, whose small calls the C library collects",
    "daos": "DAOS's own interface",
}
_ONE_NAME = "ranks open one file together, as in the phase `open` of cases with a shared file"

_ALIKE = 1  # log2 of a factor in size or in ranks within which a case stands for a class
_ELEMENT = 3  # log2 of bytes
_BLOCK = 25  # log2 of the most bytes that a rank moves: 32 MiB; a larger call is no faster
_CALLS = 12  # log2 of the most calls of a rank: more would take long, and tell no more
_SECTOR = 12  # log2 of bytes: no smaller call is aligned
_OF_SEVERAL = ("shared", "groups")  # ranks
_ITEMS = (6, 10)  # log2 of the fewest and the most names of a rank


@attrs.frozen(kw_only=True)
class StandIn:
    """A case that stands for what users do."""

    case: Annotated[str, "Its id, without the place."]
    check: str
    values: Annotated[Mapping[str, Sequence[Any]], "Its parameters, as a site's file has them."]
    part: Annotated[float, "The part that no case before it stands for."]
    in_all: Annotated[float, "The part with the cases before it."]
    differences: Annotated[Sequence[str], "How users differ from the case."]


@attrs.frozen(kw_only=True)
class OperationEntry:
    """An operation of users, and what stands for it."""

    total: Annotated[Count, "Bytes, or metadata operations."]
    stood_for: Annotated[float, "The part that the cases stand for."]
    cases: Sequence[StandIn]
    without_case: Annotated[Mapping[str, float], "The parts that no case stands for, by reason."]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The fewest cases that were found to stand for a part of what users do."""

    place: Filesystem
    cover: float
    usage: Usage
    operations: Mapping[Operation, OperationEntry]

    @property
    def suite(self) -> dict[str, list[Mapping[str, Any]]]:
        """The cases by their checks, as a site's file has them."""
        checks: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for entry in self.operations.values():
            for case in entry.cases:
                checks[case.check].append(case.values)
        return dict(checks)

    @property
    def filesystem(self) -> Filesystem:
        """The filesystem with these cases as its nightly suite."""
        return _with_suite(self.place, _settings_of(self.place, self.suite))


def _with_suite(place: Filesystem, suite: Mapping[str, Any]) -> Filesystem:
    return attrs.evolve(place, suites={NIGHTLY: suite, ACCEPTANCE: {}})


def _settings_of(place: Filesystem, suite: Mapping[str, Any]) -> Suite:
    read = read_suites("the proposal", _with_suite(place, suite))[NIGHTLY]
    return {check: read[check] for check in suite}


_Scale = tuple[int, int]  # log2 of the size of a call, and of the ranks
_Members = dict[AccessClass, Amount]


def propose(usage: Usage, place: Filesystem, cover: float) -> Proposal:
    """Propose the fewest cases that stand for a part of the bytes written, of those read, and of
    the metadata operations: the case that stands for most of what is left comes next."""
    operations = {operation: _chosen(usage, place, cover, operation) for operation in OPERATIONS}
    return Proposal(place=place, cover=cover, usage=usage, operations=operations)


def _chosen(usage: Usage, place: Filesystem, cover: float, operation: Operation) -> OperationEntry:
    """Choose cases of one operation until they stand for the part that is asked for, of all that
    some case can stand for."""
    total, covered, cases = usage.total(operation), 0, list[StandIn]()
    aside: Counter[str] = Counter()  # what no case stands for, by reason
    shapes: defaultdict[AccessClass, defaultdict[_Scale, _Members]]
    shapes = defaultdict(lambda: defaultdict(dict))
    for access_class, amount in usage.classes.items():
        if access_class.operation == operation and amount.total:
            is_one_name = access_class.order == "one name"
            if why := _ONE_NAME if is_one_name else _NO_CASE.get(access_class.library, ""):
                aside[why] += amount.total
            else:
                shape, scale = _reduced(access_class, place)
                shapes[shape][scale][access_class] = amount
    while covered < cover * (total - aside.total()):
        weight, scale, shape = max(
            (sum(_count(m) for other, m in scales.items() if _is_like(scale, other)), scale, shape)
            for shape, scales in shapes.items()
            for scale in scales
        )
        like = [other for other in shapes[shape] if _is_like(scale, other)]
        members = {c: a for other in like for c, a in shapes[shape].pop(other).items()}
        part, in_all = weight / total, (covered + weight) / total
        try:
            cases.append(_stand_in(place, shape, scale, members, part, in_all))
            covered += weight
        except UserError as err:  # no case can have such values
            aside[str(err).rpartition(": ")[2]] += weight
    return OperationEntry(
        total=total,
        stood_for=covered / total if total else 0.0,
        cases=cases,
        without_case={why: count / total for why, count in aside.items()},
    )


def _reduced(access_class: AccessClass, place: Filesystem) -> tuple[AccessClass, _Scale]:
    """Reduce a class to what a case can have of it, and to the scale in which they may differ."""
    library, order = access_class.library, access_class.order
    if library == "posix" and access_class.files in _OF_SEVERAL:
        library = "mpiio"  # whose independent calls are POSIX's
    if access_class.files == "gather":
        order = "blocks"
    least, most = _ITEMS if access_class.operation == "metadata" else (_ELEMENT, _BLOCK)
    size = min(max(access_class.size, least), most)
    ranks = min(access_class.ranks, log2(most_nodes(place) * place.ranks_per_node))
    is_aligned = access_class.aligned is not False or size < _SECTOR or order == "blocks"
    per_file = min(access_class.per_file, max(ranks - 1, 0))  # for two files at least
    shape = access_class._replace(
        library=library, order=order, aligned=is_aligned, size=0, ranks=0, stripes=""
    )
    return shape._replace(per_file=per_file), (size, ranks)


def _is_like(scale: _Scale, other: _Scale) -> bool:
    return all(abs(a - b) <= _ALIKE for a, b in zip(scale, other, strict=True))


def _count(members: _Members) -> int:
    return sum(amount.total for amount in members.values())


# A case


def _stand_in(
    place: Filesystem,
    shape: AccessClass,
    scale: _Scale,
    members: _Members,
    part: float,
    in_all: float,
) -> StandIn:
    """Make the case of a shape. UserError: none can have it."""
    check = _CHECKS[shape.operation][shape.files != "shared"]
    values: dict[str, list[Any]] = {}
    if shape.operation == "metadata":
        values["items"] = [2 ** scale[0]]
    else:
        values |= _sizes(shape, scale, members)
    nodes, ranks_per_node = _spread(place, shape, 2 ** scale[1])
    if shape.files == "groups":
        values["files"] = [max(2, nodes * ranks_per_node // 2**shape.per_file)]
    elif shape.files != "shared" or shape.operation == "metadata":
        values["files"] = [shape.files]
    if place.osts is not None and LAYOUT in check.parameters:
        values |= _layout(members, len(place.osts))
    values["nodes"] = [nodes]
    if ranks_per_node != place.ranks_per_node:
        values["ranks_per_node"] = [ranks_per_node]
    (setting,) = _settings_of(place, {check.name: values})[check.name]
    return StandIn(
        case=f"{check.name}/{setting.text}",
        check=check.name,
        values=values,
        part=part,
        in_all=in_all,
        differences=[*_differences(members, scale[0], nodes * ranks_per_node, values)],
    )


def _sizes(shape: AccessClass, scale: _Scale, members: _Members) -> dict[str, list[Any]]:
    """Return the parameters of an array whose calls have a size, and reach a file in an order."""
    size, ranks = scale
    blocks = sum(amount.blocks for amount in members.values())  # of a rank in a file
    calls = (log2(_count(members) / blocks) if blocks else 0) - size
    calls = min(max(calls, 0), max(_BLOCK - size, 0), _CALLS)
    row = 2 ** (size - _ELEMENT) + (0 if shape.aligned else 1)
    values: dict[str, list[Any]] = {"backend": [shape.library]}
    if shape.order == "blocks":
        parts = ranks if shape.files == "gather" else 0  # of what the one rank writes
        edges = _split(max(size - _ELEMENT + calls - parts, 0), 3)
    elif shape.order == "contiguous":
        edges = (row * 2**calls, 1, 1)
    else:
        edges = (row, *_split(calls, 2))
        values["pattern"] = [shape.order]
    values["local_size"] = [format_size(edges)]  # type: ignore[arg-type]
    if calls and "pattern" not in values:
        values["transfer"] = [format_bytes(8 * row)]
    if shape.files in _OF_SEVERAL and not shape.collective and shape.library != "posix":
        values["collective"] = [False]
    return values


def _layout(members: _Members, osts: int) -> dict[str, list[Any]]:
    """Return the stripes of most bytes, and the default layout where these are not known."""
    stripes: Counter[str] = Counter()
    for access_class, amount in members.items():
        stripes[access_class.stripes] += amount.total
    ((usual, _),) = stripes.most_common(1)
    if not usual:
        return {LAYOUT.name: [DEFAULT]}
    count, size = map(int, usual.split("x"))
    return {STRIPE_COUNT.name: [min(count, osts)], STRIPE_SIZE.name: [size]}


def _split(exponent: int, many: int) -> tuple[int, ...]:
    """Split a power of two into factors, the larger first."""
    return tuple(2 ** ((exponent + many - 1 - number) // many) for number in range(many))


def _spread(place: Filesystem, shape: AccessClass, ranks: int) -> tuple[int, int]:
    """Spread ranks over nodes as the site does: nodes, and ranks on each."""
    most = most_nodes(place)
    nodes = min(max(1, round(ranks / place.ranks_per_node)), most)
    if shape.operation == "read" and not place.cached_reads and min(ranks, most) > 1:
        nodes = max(nodes, 2)  # a node's cache would return what the node has written
    return nodes, min(max(1, round(ranks / nodes)), place.ranks_per_node)


def _differences(
    members: _Members, size: int, ranks: int, values: Mapping[str, Sequence[Any]]
) -> Iterable[str]:
    """Say in what the classes that a case stands for differ from it."""
    sizes, many = {c.size for c in members}, {c.ranks for c in members}
    is_data = all(c.operation != "metadata" for c in members)
    if is_data and sizes != {size}:
        yield f"calls of {_range(sizes, brief_bytes)}"
    if many != {log2(ranks)}:
        yield counted(2 ** max(many), "rank") if len(many) == 1 else f"{_range(many, str)} ranks"
    if STRIPE_COUNT.name in values:
        (count,), (width,) = values[STRIPE_COUNT.name], values[STRIPE_SIZE.name]
        others = {c.stripes for c in members} - {"", f"{count}x{width}"}
        yield from ("{} stripes of {} MiB".format(*other.split("x")) for other in sorted(others))
    if is_data and any(c.library == "posix" and c.files in _OF_SEVERAL for c in members):
        yield "POSIX calls, where the case has MPI-IO's independent ones"


def _range(exponents: set[int], words: Any) -> str:
    low, high = min(exponents), max(exponents)
    return words(2**low) if low == high else f"{words(2**low)} to {words(2**high)}"
