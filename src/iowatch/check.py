"""A check: what every kind of measurement says of its cases, and is asked for nowhere else.

A kind is a module of `kinds/`, whose checks override what is different for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from iowatch.law import Job, notes, require_one_result, verified
from iowatch.metrics import PHASES, Measured, node_ratios
from iowatch.parameters import (
    BACKENDS,
    LAYOUT,
    MDT,
    SHARED_FILE,
    STRIPE_COUNT,
    STRIPE_SIZE,
    STRIPING,
    TRANSFER,
    Parameter,
    Size,
    Way,
    format_size,
)

if TYPE_CHECKING:
    from iowatch.case import Case
    from iowatch.filesystem import Filesystem
    from iowatch.kinds.readback import KeptFiles
    from iowatch.result import Repetition, Result

KIB = 2**10
WARMUPS = 1  # each start of benchio, and of IOR, writes once more than it counts


# Metrics


@dataclass(frozen=True)
class Metric:
    """A number that is recorded of a verified run; none is below 0."""

    unit: str  # MiB/s, 1/s (operations), s, or 1: a part or a ratio
    lower_is_better: bool = False
    largest: float = math.inf
    words: str = ""  # the unit behind a number, if that is another
    title: str = ""  # on the page; empty: the page has the metric elsewhere, or not at all
    about: str = ""  # a sentence for the reference


Metrics = Mapping[str, Metric]

RATE, SECONDS, RATIO = Metric("MiB/s"), Metric("s", lower_is_better=True), Metric("1")
PART = Metric("1", lower_is_better=True, largest=1)
TO_CONTROL = replace(RATIO, about="The best rate over that of MPI-IO in the same rounds.")


def phase_seconds(*phases: str) -> Metrics:
    """Declare the times of these phases."""
    return {
        f"{phase}_s": replace(SECONDS, about=f"The median time of the phase `{phase}`.")
        for phase in phases
    }


DRIFT = "drift"  # how near the nights so far are to an alarm: 1. Judged already: has no reference.
_STATISTICS = {"max": "best", "median": "median", "mean": "mean", "min": "slowest"}
#: From opening to closing.
TOTALS: Metrics = MappingProxyType(
    {
        f"total_{key}": Metric(
            "MiB/s",
            title=f"total, {word}",
            about=f"The {word} rate of all rounds, from opening the file to closing it.",
        )
        for key, word in _STATISTICS.items()
    }
)
#: From opening to having synced what was written.
STABLE: Metrics = MappingProxyType(
    {
        f"stable_{key}": Metric(
            "MiB/s",
            title=f"stable, {word}",
            about=f"The {word} rate of all rounds, from opening the file to the end of the sync.",
        )
        for key, word in [*_STATISTICS.items()][:2]
    }
)
#: A bound of reference values on any machine: something moved.
RATE_BOUND: Mapping[str, Any] = MappingProxyType({"total_max": [1, 0, None, "MiB/s"]})


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

    def bytes_confirmed(self, case: Case, rep: Repetition) -> int:
        """The bytes that the witness of a round has to confirm."""
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

    def bytes_written(self, case: Case, place: Filesystem) -> int:
        """The bytes that a job writes from its start to its end."""
        return (self.repeats + WARMUPS) * len(case.backends) * self.bytes_of(case)

    def seconds_at_any_rate(self, case: Case) -> float:
        """The seconds that a job takes however fast the filesystem is."""
        return 0.0

    def read(self, job: Job, repeats: int) -> Measured:
        """Read what a job has left; InvalidResult if that breaks the law."""
        require_one_result(job.folder)
        result = verified(job, "result.json", repeats)
        return self.measured(result, job.case, notes(result, job.case, job.filesystem))

    def measured(self, result: Result, case: Case, notes: Sequence[str] = ()) -> Measured:
        """Return what one result that satisfies the law says of its case."""
        return Measured.from_results(
            [result],
            self.metrics_of(result, case),
            repetitions=result.measurements[-1].repetitions,
            notes=notes,
            by_node=node_ratios(result, self.operation) if self.is_free_of_others(case) else {},
        )

    def is_free_of_others(self, case: Case) -> bool:
        """Does no node of a job wait for another while it writes or reads? Then its own rate says
        something of the node."""
        return False

    def kept_files(self, job: Job) -> KeptFiles | None:
        """The kept files that a job has read or written; None: it does neither."""
        return None

    def metrics_of(self, result: Result, case: Case) -> dict[str, float]:
        """Return the metrics of a case whose one result satisfies the law."""
        raise NotImplementedError(f"{self.name} measures nothing")

    def faults(self, case: Case) -> Mapping[str, Callable[[Repetition], bool]]:
        """Name what no repetition may be, besides what no repetition of any check may be."""
        return {}

    # Its parts

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        """Return the number that each part is judged by, the higher the better; `among`: only these
        parts, where others are no peers of theirs."""
        return {}
