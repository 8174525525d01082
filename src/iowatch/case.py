"""The identity of a case: the key of every metric, reference value and plot."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

from iowatch.check import Check
from iowatch.files import UserError
from iowatch.kinds import CHECKS
from iowatch.parameters import (
    COMPRESSED,
    DEFAULT,
    PATTERN,
    SUBFILED,
    WAYS,
    Size,
    Way,
    pattern_words,
)

_RANK = {name: number for number, name in enumerate(CHECKS)}
_NAME = r"[A-Za-z0-9_.-]+"
_VALUE = r"[A-Za-z0-9_.:=-]+"  # not `,` and `+`: raw_results has them in the names of folders
_CASE = re.compile(
    rf"(?P<system>{_NAME}):(?P<partition>{_NAME})/(?P<environ>{_NAME})/(?P<check>\w+)"
    rf"(?P<parameters>(?:/\w+={_VALUE})*)",
    re.ASCII,
)
_NAMED = 5  # cases that an error names at most
_SHOWN = 12  # cases that a sentence names at most


T = TypeVar("T")


class _Value(Generic[T]):
    """The value of the parameter of this name; `absent` where the case has none."""

    def __init__(self, absent: T) -> None:
        self._absent = absent

    def __set_name__(self, owner: type[Case], name: str) -> None:
        self._name = name

    def __get__(self, case: Case, owner: type[Case]) -> T:
        return case.get(self._name) or self._absent


@dataclass(frozen=True)
class Case:
    """A check with its parameters on one place.

    The string form has no `|` (ReFrame's perflog delimiter, and an operator in the regular
    expressions that reference files use as keys). The parameters are in the order in which the
    check declares them. A layout, a pool or a way of writing is
    left out where the filesystem or the case has none.
    """

    system: str
    partition: str  # a node type seen with one filesystem
    environ: str
    check: Check
    parameters: tuple[tuple[str, Any], ...]

    @cached_property
    def _text(self) -> str:
        words = (self.place, self.check.name, self.check.text_of(self.parameters))
        return "/".join(filter(None, words))

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        usual = {way.name: way.default for way in WAYS}  # benchio's, of every check
        return {**usual, **self.check.fixed, **dict(self.parameters)}

    @cached_property
    def _hash(self) -> int:
        return hash((self.place, self.check.name, self.parameters))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case with this string form; ValueError if it is not one."""
        match = _CASE.fullmatch(text)
        if not match:
            raise ValueError(f"not a case: {text!r}")
        check = CHECKS.get(match["check"])
        if check is None:
            raise ValueError(f"not a case: {text!r}: there is no check {match['check']}")
        given = dict(pair.split("=", 1) for pair in match["parameters"].split("/")[1:])
        parameters = check.parameters_with(given)
        if missing := [p.name for p in parameters if p.name not in given]:
            raise ValueError(f"not a case: {text!r}: it has no {missing[0]}")
        parameters += [way for way in check.ways if way.name in given]
        values = []
        for p in parameters:
            try:
                values.append((p.name, p.parse(given[p.name])))
            except ValueError as err:
                raise ValueError(f"not a case: {text!r}: {p.name} {err}") from None
        usual = {way.name: way.default for way in check.ways}
        chosen = tuple(pair for pair in values if pair not in usual.items())
        case = cls(match["system"], match["partition"], match["environ"], check, chosen)
        if str(case) != text:
            raise ValueError(f"not a case: {text!r}: its form is {case}")
        return case

    @property
    def place(self) -> str:
        """The place where the case is measured."""
        return f"{self.system}:{self.partition}/{self.environ}"

    def get(self, name: str) -> Any:
        """The value of a parameter, or what its check fixes it to; None: there is none."""
        return self._values.get(name)

    @property
    def operation(self) -> str:
        return self.check.operation

    #: mpiio, hdf5, netcdf, pnetcdf, posix; empty: the check writes nothing.
    backend = _Value("")
    files = _Value("")  # shared, process, node, gather, or a number of files
    #: `default`, or the name of a layout of the site's; None: stripes, or not striped.
    layout = _Value[str | None](None)
    #: OSTs; -1: all of them; None, as the next: a layout by its name, or not striped.
    stripe_count = _Value[int | None](None)
    stripe_size = _Value[int | None](None)  # MiB
    pool = _Value[str | None](None)  # of OSTs; None: any
    local_size = _Value[Size]((0, 0, 0))  # elements of 8 bytes of one rank
    ranks = _Value(0)  # of all instances together
    #: Small files, and as many directories, of one rank; 0: the check has no metadata operations.
    items = _Value(0)
    #: Independent concurrent benchmarks; None: this is not what the check is about.
    instances = _Value[int | None](None)

    @property
    def bytes(self) -> int:
        """The bytes that all ranks together write, or read, in a round."""
        return self.check.bytes_of(self)

    @property
    def transfer(self) -> int:
        """Bytes that a process hands to the library in one call, at most."""
        return self.check.transfer(self)

    @property
    def ways(self) -> list[tuple[Way, Any]]:
        """The ways in which the case differs from benchio's own, with their values."""
        values = dict(self.parameters)
        return [(way, values[way.name]) for way in self.check.ways if way.name in values]

    @property
    def way(self) -> str:
        """The ways in words: `independent transfers, chunks of 64x64x64`; empty: as benchio."""
        return ", ".join(way.in_words(value) for way, value in self.ways)

    @property
    def backends(self) -> list[str]:
        """The backends that a job for this case runs, the control first."""
        return self.check.backends_of(self)

    @property
    def is_compressed(self) -> bool:
        """Return whether its library stores fewer bytes than are written."""
        return COMPRESSED in pattern_words(self.get(PATTERN.name))

    @property
    def subfiles(self) -> int:
        """The number of subfiles that HDF5 is to make of a file; 0: none."""
        return pattern_words(self.get(PATTERN.name)).get(SUBFILED, 0)

    @property
    def metrics(self) -> list[str]:
        """The metrics that a verified run of it must have.

        One of each OST has one of every OST besides, and one with a baseline the detector's
        `drift`.
        """
        return self.check.metrics_for(self)

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts a backend next to its control, and small before large."""
        layout = (self.layout or "", self.pool or "")
        stripes = (self.stripe_count or 0, self.stripe_size or 0)
        load = (self.files, self.instances or 0)
        size = (self.local_size, self.items, self.ranks)
        return (
            self.partition,
            self.environ,
            _RANK[self.check.name],
            *load,
            *size,
            *layout,
            *stripes,
            str(self),
        )

    @property
    def shape(self) -> str:
        """The operation and its files: `write shared`, and how many at once."""
        return self.check.short.format_map(self._values)

    @property
    def stripes(self) -> str:
        """`stripes 4 x 1 MiB, pool flash`, or `default layout`; empty where the filesystem is not
        striped."""
        if self.layout:
            return "default layout" if self.layout == DEFAULT else f"layout {self.layout}"
        if self.stripe_size is None:
            return ""
        pool = f", pool {self.pool}" if self.pool else ""
        return f"stripes {self.stripe_count} x {self.stripe_size} MiB{pool}"

    @property
    def striping(self) -> str:
        """The stripes for a column of a table, where `all x 1 MiB` is easier to read than -1."""
        if self.layout:
            return self.layout
        stripes = self.stripes.removeprefix("stripes ").replace(", pool ", ", ")
        return stripes.replace("-1 x", "all x") or "-"

    @property
    def size(self) -> str:
        """`local 128x128x128`, or `1000 items, MDT 1`; empty if nothing is written."""
        return self.check.size_of(self)


@cache  # the same few hundred every night
def known_case(text: str) -> Case | None:
    """The case with this string form; None if it is not one."""
    try:
        return Case.parse(text)
    except ValueError:
        return None


def shown(cases: Iterable[Case | str]) -> str:
    """The first of these cases, or of the patterns of some, by name."""
    names = sorted(map(str, cases))
    return ", ".join(names[:_SHOWN] + ["..."] * (len(names) > _SHOWN))


def short_names(cases: Collection[Case]) -> dict[Case, str]:
    """A name for each of these cases, such as `hdf5 on fs3, stripes -1`; no two are the same.

    Names leave out the words that all cases share.
    """
    words = {  # what writes nothing is told by its shape alone
        case: (case.shape, case.stripes, case.size, f"{case.ranks} rank{'s' * (case.ranks != 1)}")
        if case.backend
        else ("", "", "", "")
        for case in cases
    }
    columns = zip(*words.values(), strict=True)
    differs = [len({word for word in column if word}) > 1 for column in columns]
    has_ways = len({case.way for case in cases}) > 1  # one may have a way, and the other none
    environs = {case.environ for case in cases}
    names = {}
    for case, of_case in words.items():
        parts = [f"{case.backend or case.shape} on {case.partition}"]
        parts += [word for word, telling in zip(of_case, differs, strict=True) if word and telling]
        parts += [case.way] if case.way and has_ways else []
        names[case] = ", ".join([*parts, case.environ] if len(environs) > 1 else parts)
    return names


def one_case(text: str, cases: Collection[Case], names: Mapping[Case, str]) -> Case:
    """The one of these cases that has this id, or this name, or this in either. UserError."""
    exact = [case for case in cases if text in (str(case), names.get(case))]
    within = exact or [case for case in cases if text in str(case) or text in names.get(case, "")]
    if len(within) == 1:
        return within[0]
    matches = "no case has it in its id or name"
    if within:
        few = sorted(map(str, within))[:_NAMED] + ["..."] * (len(within) > _NAMED)
        matches = f"{len(within)} cases have it in their ids or names, {', '.join(few)}"
    raise UserError(f"{text}: {matches}: `iowatch history` lists what is on record")
