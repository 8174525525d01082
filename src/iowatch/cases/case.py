"""A check with its parameters on one place is a case: the key of every metric, reference and plot.

A check says here what its cases ask for; `measure/kinds` has the checks, and reads what came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from iowatch.cases.metric import PHASES, Metrics
from iowatch.cases.parameters import (
    BACKENDS,
    COMPRESSED,
    DEFAULT,
    LAYOUT,
    MDT,
    PATTERN,
    SHARED_FILE,
    STRIPE_COUNT,
    STRIPE_SIZE,
    STRIPING,
    SUBFILED,
    TRANSFER,
    WAYS,
    Parameter,
    Size,
    Way,
    format_size,
    pattern_words,
)

KIB = 2**10
WARMUPS = 1  # each start of benchio, and of IOR, writes once more than it counts


@dataclass(frozen=True)
class Part:
    """One of the many things that a case measures, each of which has a past: an OST, a phase."""

    name: str
    operation: str = ""  # empty: the case has one alone
    metric: str = ""  # that has its rate
    words: str = ""  # of what it is judged by; empty: its name

    def __str__(self) -> str:
        return self.words or self.name


@dataclass(frozen=True, eq=False, kw_only=True)
class Check:
    """One kind of measurement."""

    name: str  # of its class in reframe_checks
    short: str  # of its cases; a parameter in braces stands for its value
    operation: str = "write"  # that its cases are judged by: write, read, metadata, ...
    reads_too: bool = False  # besides what it writes
    parameters: Sequence[Parameter] = SHARED_FILE  # in the order that they have in a case id
    ways: Sequence[Way] = ()  # that it can vary besides; they end a case id
    #: Defaults of parameters that a suite may leave out.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: Values of parameters that only other checks vary.
    fixed: Mapping[str, Any] = field(default_factory=lambda: {"files": "shared"})
    backends: Sequence[str] = BACKENDS
    repeats: int = 10  # timed rounds of a job, as in the white paper
    metrics: Metrics = field(default_factory=dict)  # empty: nothing is judged by its past
    #: Bounds that hold on any machine; None: those of the backend.
    bounds: Mapping[str, Any] | None = None
    bounds_comment: str = ""  # why
    #: Its cases move data as programs of users do, so that their rates tell how long those wait.
    stands_for_users: bool = False
    is_everywhere: bool = False  # no suite names it: it runs wherever another check does

    #: The metrics that a case is judged by: the first that a run has.
    rates: ClassVar[Sequence[str]] = ("stable_max", "total_max")
    #: The operations of several cases in a headline; empty: the operation with an s.
    verbs: ClassVar[str] = ""
    #: The same in a sentence; empty: its bandwidth.
    rate_in_words: ClassVar[str] = ""
    #: The unit of its parts, if the case is judged by each of them as well; empty: parts are for
    #: the alarms of a night.
    unit_of_parts: ClassVar[str] = ""
    #: The phases of a round, in the order of time.
    phases: ClassVar[Sequence[str]] = PHASES
    #: The job starts benchio once, for an array: environments can take its turns.
    starts_once: ClassVar[bool] = False
    #: The evidence for an acceptance test that its runs are; empty: none.
    evidence_of: ClassVar[str] = ""
    #: The suite of every hour may have it: it disturbs nobody.
    by_hour: ClassVar[bool] = False
    #: benchio goes through the targets of a filesystem that is striped, one by one.
    by_target: ClassVar[bool] = False
    #: benchio measures each node by itself, and the verdict is on nodes.
    by_node: ClassVar[bool] = False

    # A case

    @property
    def operations(self) -> list[str]:
        """The operations that benchio times, by which a case is judged."""
        return [self.operation, "read"] if self.reads_too else [self.operation]

    def parameters_with(self, given: Collection[str]) -> list[Parameter]:
        """Return all parameters of a case that has these among others: it may have no stripes and
        no MDT."""
        striping = set(STRIPING) & set(given)
        if LAYOUT.name in striping:
            has = {LAYOUT.name}
        elif striping:
            has = {STRIPE_COUNT.name, STRIPE_SIZE.name} | striping
        else:
            has = set()
        has |= {MDT.name} & set(given)
        return [p for p in self.parameters if p.name not in (*STRIPING, MDT.name) or p.name in has]

    def objection(self, values: Mapping[str, Any]) -> str:
        """Why no case can have these values; empty if one can."""
        values = {**self.fixed, **values}
        for way in self.ways:
            value, backend = values[way.name], values["backend"]
            if value != way.default and backend not in way.backends:
                return (
                    f"{way.name} {way.format(value)} with {backend}: it has a meaning for "
                    f"{' and '.join(way.backends)} alone"
                )
        return self.impossible(values)

    def impossible(self, values: Mapping[str, Any]) -> str:
        """Why nothing can write or read with these values; empty if something can."""
        return ""

    def text_of(self, parameters: Iterable[tuple[str, Any]]) -> str:
        """The tail of a case id, such as `backend=hdf5/local_size=8x8x8/ranks=4`."""
        formats = {p.name: p.format for p in (*self.parameters, *self.ways)}
        return "/".join(f"{name}={formats[name](value)}" for name, value in parameters)

    def backends_of(self, case: Case) -> list[str]:
        """The backends that a job runs, the control first."""
        return [case.backend]

    def metrics_for(self, case: Case) -> list[str]:
        """The metrics that a verified run of a case must have."""
        return list(self.metrics)

    def bytes_of(self, case: Case) -> int:
        """The bytes that all ranks of a case write, or read, in a round."""
        return 8 * math.prod(case.local_size) * case.ranks

    def bytes_moved(self, case: Case) -> int:
        """The bytes that the clock of a round sees moved, where several ranks read the same."""
        return self.bytes_of(case)

    def asked_of(self, case: Case) -> Mapping[str, Any]:
        """The members of a result's `run` that are this check's alone, as a case asks for them."""
        return {}

    def bytes_confirmed(self, case: Case, file_bytes: int) -> int:
        """The bytes that the witness of a round has to confirm, whose files have so many."""
        return case.bytes

    def elements(self, case: Case) -> Size:
        """The local size that benchio is told, in elements of 8 bytes."""
        return case.local_size

    def transfer(self, case: Case) -> int:
        """The bytes that a process hands to the library in one call, at most."""
        most: int = case.get(TRANSFER.name)
        return most

    def size_of(self, case: Case) -> str:
        """`local 128x128x128`; empty if nothing is written."""
        return f"local {format_size(case.local_size)}" if any(case.local_size) else ""

    # Its job

    def command_line(self, case: Case) -> list[str]:
        """benchio's options for a case, but for its layout, which is the site's."""
        return []

    def room_kib(self, case: Case, repeats: int) -> int:
        """Return the KiB that a job of so many rounds has on the filesystem at one time."""
        return self.bytes_of(case) * len(case.backends) // KIB

    def names(self, case: Case, repeats: int) -> int:
        """Return the files and directories that such a job has there at one time."""
        files = 1 if case.files in ("shared", "gather") else case.ranks
        return len(case.backends) * files + 1  # the run's directory

    def bytes_written(self, case: Case, targets: int) -> int:
        """The bytes that a job writes from its start to its end; the filesystem has so many targets
        that can be written to one by one."""
        return (self.repeats + WARMUPS) * len(case.backends) * self.bytes_of(case)

    def seconds_at_any_rate(self, case: Case) -> float:
        """The seconds that a job takes however fast the filesystem is."""
        return 0.0

    def faults(self, case: Case) -> Mapping[str, Callable[[Any], bool]]:
        """Name what no repetition of a result may be, besides what none of any check may be."""
        return {}

    # Its parts

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        """Return the number that each part is judged by, the higher the better; `among`: only these
        parts, where others are no peers of theirs."""
        return {}


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

    #: mpiio, hdf5, netcdf, pnetcdf, adios2, posix; empty: the check writes nothing.
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
        """The number of subfiles that the library is to make of a file; 0: none."""
        return pattern_words(self.get(PATTERN.name)).get(SUBFILED, 0)

    @property
    def metrics(self) -> list[str]:
        """The metrics that a verified run of it must have.

        One of each OST has one of every OST besides, and one with a baseline the detector's
        `drift`.
        """
        return self.check.metrics_for(self)

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
