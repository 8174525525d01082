"""benchio's result file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from iowatch.base.bounded import decoded
from iowatch.cases.parameters import COLLECTIVE, COLLECTIVE_METADATA, HINTS, MIB, Way
from iowatch.cases.verdict import Reason
from iowatch.measure.job_folder import read_text


class InvalidResult(Exception):
    """A run that gives no metric; the message is one sentence that says why."""

    def __init__(self, why: str, reason: Reason = Reason.NOT_AS_ASKED) -> None:
        super().__init__(why)
        self.reason = reason

    @property
    def is_of_quota(self) -> bool:
        """Return whether the filesystem takes no more of this user, whose data it kept well."""
        return self.reason is not Reason.CORRUPT and "Disk quota exceeded" in str(self)


WRONG_DATA = "4"  # benchio's exit code if the witness has found others than were written

#: Why a run of benchio has failed, by its status, and by the exit code of one without result.
FAILURES = {
    "io_error": Reason.IO_ERROR,
    "verification_error": Reason.CORRUPT,
    "time_limit": Reason.TIME_LIMIT,
    "library_error": Reason.PROGRAM_FAILED,
    "internal_error": Reason.PROGRAM_FAILED,
    "2": Reason.CONFIGURATION,
    "3": Reason.IO_ERROR,
    WRONG_DATA: Reason.CORRUPT,
    "5": Reason.TIME_LIMIT,
    "6": Reason.CONFIGURATION,
    "7": Reason.PROGRAM_FAILED,
}


#: benchio writes nine digits of a number; rates are rounded more where a result is written.
DIGITS = 1e-6
#: Steps of the clock that a span takes at least: a rate is then wrong by 1 % at most, as it has it.
LEAST_STEPS = 100
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Slowest:
    """The rank that took longest in a phase."""

    rank: int
    host: str
    to_mean: float  # its time, as a multiple of the mean of all ranks


@dataclass(frozen=True, kw_only=True)
class Witness:
    """The ranks and hosts that confirmed the data of a repetition."""

    bytes: int  # that were confirmed
    is_raw: bool  # read from the dataset's place in the file; else through the library
    is_direct: bool  # read past the page cache
    page_cache_fraction: float | None  # that a page cache may have served; None: nobody knows
    names: int = 0  # that were there once, and gone in the end
    unsynced_fraction: float | None = None  # of the files, to be written after the sync

    @property
    def detours(self) -> list[str]:
        """Say what stood between the witness and the disk."""
        detours = [] if self.is_raw else ["through the library"]
        if self.page_cache_fraction != 0 and not self.is_direct:
            is_known = self.page_cache_fraction is not None
            detours.append("through a page cache" if is_known else "perhaps through a page cache")
        return detours


@dataclass(frozen=True, kw_only=True)
class Span:
    """The seconds of all files from the first open to the last close, or to the end of the sync."""

    window: float
    phases: float  # the windows of its phases together
    between: float  # in which no rank is in a phase
    overlap: float  # that windows of phases share
    by_ranks: float  # the window by the clock of each node
    by_rank_0: float  # the span by the clock of rank 0, with the agreement of all ranks

    def adds_up(self) -> bool:
        """Return whether the phases, and the time between them, are the whole."""
        whole = self.phases + self.between - self.overlap
        return math.isclose(whole, self.window, rel_tol=DIGITS)

    def is_longest(self, nodes: int) -> bool:
        """Return whether this is the longer of the two clocks, where nodes have none in common."""
        longest = self.by_ranks if nodes == 1 else max(self.by_ranks, self.by_rank_0)
        return math.isclose(self.window, longest, rel_tol=DIGITS)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One figure over the nodes that have it."""

    nodes: int
    median: float
    most: float
    host: str  # of the node with the most
    whole: float | None  # of all nodes; None: they are too many to be listed
    parts: Sequence[float | None] = ()  # in the order of the run's hosts; empty: likewise


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """One timed write, or read, of all files by one backend."""

    round: int
    started: datetime  # UTC, by the clock of rank 0
    #: MiB/s: data, total, stable (of writes). Operations a second of each phase that counts some,
    #: and of `items`, which are names that go through all phases.
    rates: dict[str, float]
    #: open, write, ..., close of the file that took longest; total, stable, sync, unlink of all.
    seconds: dict[str, float]
    spans: dict[str, Span]  # total, and of writes stable; of names none
    slowest: dict[str, Slowest]  # the rank that took longest in each
    instances: list[float]  # MiB/s of each, open to close; of one alone: empty
    file_bytes: int  # that all files take, by their sizes
    witness: Witness
    operations: dict[str, int] = field(default_factory=dict)  # of each phase; of arrays none
    parts: dict[str, float] = field(default_factory=dict)  # seconds of a rank in parts of a phase
    latency: dict[str, Any] = field(default_factory=dict)  # of single calls, as the schema has it
    clocks_agree: bool = True  # those of nodes, to 1 %
    clock_step: float = 0.0  # seconds that the coarsest clock goes at once
    nodes: dict[str, Spread] = field(default_factory=dict)  # mib; seconds of write, read, sync

    @property
    def is_timed(self) -> bool:
        """Return whether all rates and times are numbers."""
        numbers = [*self.rates.values(), *self.seconds.values()]
        return all(math.isfinite(number) for number in numbers) and self.seconds["total"] > 0

    @property
    def is_too_short(self) -> bool:
        """Return whether a rate is of less time than the clock can tell."""
        times = [self.seconds[name] for name in (*self.spans, *self.operations)]
        if data := self.rates.get("data"):
            times.append(self.rates["total"] * self.seconds["total"] / data)
        if self.latency:  # where the median of single calls may be 10 % wrong
            times = [10 * call["p50"][0] for call in self.latency["calls"].values()]
        return min(times) < LEAST_STEPS * self.clock_step

    def adds_up(self, size: int) -> bool:
        """Return whether rates and times come to these bytes or operations. `data` has no time."""
        amounts: Mapping[str, float] = dict.fromkeys(self.spans, size / MIB) | self.operations
        return all(
            math.isclose(self.rates[name] * self.seconds[name], amount, rel_tol=_ROUNDING)
            for name, amount in amounts.items()
        ) and self.rates.get("data", math.inf) >= self.rates.get("total", 0) * (1 - _ROUNDING)

    @property
    def has_too_long_a_phase(self) -> bool:
        """Return whether a phase between opening a file and closing it is longer than the whole."""
        most = self.seconds["total"] * (1 + _ROUNDING)
        return any(time > most for phase, time in self.seconds.items() if phase not in TOGETHER)

    def is_moved_by_nodes(self, size: int) -> bool:
        """Return whether the nodes' parts come to all bytes. Metadata operations have none."""
        moved = self.nodes["mib"].whole if self.nodes else None
        return moved is None or math.isclose(moved, size / MIB, rel_tol=DIGITS)

    @property
    def rate(self) -> float:
        """MiB/s that no cache can flatter: of a write, with the time to sync it; or items/s."""
        name = next((name for name in ("stable", "items") if name in self.rates), "total")
        return self.rates[name]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The repetitions of one backend, without the warm-up."""

    operation: str
    backend: str
    cache_suspect: bool  # what was read may have come from memory
    collective: str | None  # what the library says its transfers were; None: it does not say
    metadata: str | None  # what HDF5 repeats of its collective metadata: yes, no, or why not
    hints: dict[str, str]  # of MPI-IO: those whose effect was seen, else as the file repeats them
    requested: dict[Way, Any]  # collective, collective_metadata, hints: as the run was told
    layout: dict[str, Any]  # requested, observed; sizes in bytes
    subfiles: int  # that the library has made of a file; 0: it is one
    repetitions: list[Repetition]
    target: str = ""  # what benchio calls the OST that it wrote to by itself; empty: to no one
    error: str = ""  # why that could not be measured, or no more than these repetitions


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run with status `ok`."""

    started: datetime  # UTC, by the clock of rank 0
    run: dict[str, Any]  # as the schema has it
    versions: dict[str, str | None]  # of benchio, its compiler and each library
    environment: dict[str, Any]  # as the schema has it
    measurements: list[Measurement]

    @property
    def existing(self) -> str:
        """The id of the run that had written what this one has read; empty: it wrote it itself."""
        return str((self.run.get("existing") or {"id": ""})["id"])

    @property
    def void(self) -> dict[str, str]:
        """Why a target could not be measured, by its name."""
        return {m.target: m.error for m in reversed(self.measurements) if m.error}

    @property
    def sound(self) -> list[Measurement]:
        """The measurements that count: those of a target that failed do not."""
        return [m for m in self.measurements if m.target not in self.void]


@contextmanager
def reading(file: str, form: str) -> Iterator[None]:
    """Raise InvalidResult for what a file that is not of this form makes its reader raise."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as err:
        raise InvalidResult(f"{file} is not readable JSON: {err}", Reason.NO_OUTPUT) from None
    except (KeyError, IndexError, TypeError) as err:
        raise InvalidResult(f"{file} is no {form}: {err!r}", Reason.NO_OUTPUT) from None


@cache
def _validator() -> Any:
    import jsonschema  # most commands need not wait for it

    # jsonschema.validate would judge the schema itself anew with every file, which takes longer.
    text = resources.files("iowatch").joinpath("benchio.result-3.schema.json").read_text("utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def read_result(path: Path) -> Result:
    """Read a benchio.result/3 file; InvalidResult if it is not one or the run was not ok."""
    from jsonschema.exceptions import best_match

    with reading(path.name, "result of benchio"):
        data = decoded(
            read_text(path),
            parse_constant=_refuse_constant,
            parse_int=_int64,
            object_pairs_hook=_each_key_once,
        )
        wrong = best_match(_validator().iter_errors(data))
    if wrong is not None:
        place = "/".join(str(step) for step in wrong.absolute_path) or "top level"
        why = f"{path.name} is not a benchio.result/3: {place}: {wrong.message[:200]}"
        raise InvalidResult(why, Reason.NO_OUTPUT)

    if error := data["error"]:
        # By what benchio looked at before it measured.
        looked = {
            "mount": Reason.WRONG_FILESYSTEM,
            "layout": Reason.WRONG_LAYOUT,
            "clock": Reason.WRONG_CLOCK,
        }
        reason = looked.get(error["call"], FAILURES[data["status"]])
        raise InvalidResult(f"benchio: {data['status']}: {_in_words(error)}", reason)
    built = {"benchio": data["benchio"]["version"], "compiler": data["benchio"]["compiler"]}
    measurements = [_measurement(case) for case in data["cases"]]
    return Result(
        started=_time(data["started"]),
        run=data["run"],
        versions=built | data["libraries"],
        environment=data["environment"],
        measurements=measurements,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _int64(text: str) -> int:
    if abs(number := int(text)) >= 2**63:
        raise ValueError(f"{text[:20]}... is no integer of benchio's")
    return number


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(pairs)
    if len(once) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"it has {max(keys, key=keys.count)!r} twice in one place")
    return once


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # the schema knows its form alone
        why = f"benchio's clock says {text}, and there is no such time"
        raise InvalidResult(why, Reason.WRONG_CLOCK) from None


def _measurement(case: dict[str, Any]) -> Measurement:
    target = case["target"] or {"name": "", "error": None}
    reps = [_repetition(rep) for rep in case["repetitions"] if not rep["warmup"]]
    is_warm = any(rep.latency and not rep.latency["cold"] for rep in reps)
    return Measurement(
        operation=case["operation"],
        backend=case["backend"],
        cache_suspect=is_warm or bool(case["cache"] and case["cache"]["suspect"]),
        collective=case["collective"]["observed"],
        metadata=case["collective_metadata"]["echoed"],
        hints=case["hints"]["observed"] or case["hints"]["echoed"] or {},
        requested={
            COLLECTIVE: case["collective"]["requested"],
            COLLECTIVE_METADATA: case["collective_metadata"]["requested"],
            HINTS: sorted(case["hints"]["requested"].items()) or None,
        },
        layout=case["layout"],
        subfiles=case["subfiles"]["observed"]["count"] if case["subfiles"] else 0,
        repetitions=reps,
        target=target["name"],
        error=_in_words(target["error"]) if target["error"] else "",
    )


def _in_words(error: Mapping[str, Any]) -> str:
    place = f" on {error['host']}" if "host" in error else ""  # earlier versions do not say where
    parts = [f"rank {error['rank']}{place}", error["call"], error["path"], error["message"]]
    return ": ".join(filter(None, parts))


_SPANS = ("total", "stable")
#: Phases that begin on all ranks together. The others begin where a file is ready for them. The
#: first of many files may be closed long before the last is written, and none closes slowly.
TOGETHER = (*_SPANS, "sync", "unlink")


def _repetition(rep: dict[str, Any]) -> Repetition:
    phases, witness = rep["phases"].items(), rep["witness"]
    operations = {name: time["operations"] for name, time in phases if "operations" in time}
    together = {*TOGETHER, *operations}
    seconds = {
        phase: time["window" if phase in together else "file_window"] for phase, time in phases
    }
    rates = rep["rates"] | {name: time["rate"] for name, time in phases if "rate" in time}
    if "total" not in seconds:  # of names
        seconds["total"] = sum(seconds[name] for name in operations)
        rates["items"] = operations["create"] / seconds["total"] if seconds["total"] else math.inf
    return Repetition(
        round=rep["round"],
        started=_time(rep["started"]),
        rates=rates,
        seconds=seconds,
        spans={span: _span(rep["phases"], span) for span in _SPANS if span in rep["phases"]},
        slowest={phase: _slowest(time) for phase, time in phases},
        instances=rep["instances"] or [],
        file_bytes=rep["file_bytes"],
        witness=Witness(
            bytes=witness["bytes"],
            is_raw=witness["method"] == "pread",
            is_direct=witness["direct"],
            page_cache_fraction=witness["page_cache_fraction"],
            names=witness.get("names", 0),
            unsynced_fraction=witness.get("unsynced_fraction"),
        ),
        operations=operations,
        parts={name: part["mean"] for name, part in rep["parts"].items()},
        latency=rep.get("latency", {}),
        clocks_agree=rep["clocks_agree"],
        clock_step=rep["clock_step"],
        nodes={name: _spread(figure) for name, figure in (rep["nodes"] or {}).items()},
    )


def _spread(figure: Mapping[str, Any]) -> Spread:
    parts = figure["each"]
    _, _, middle, _, most = figure["quantiles"]
    return Spread(
        nodes=figure["nodes"],
        median=middle,
        most=most,
        host=figure["most"],
        whole=None if parts is None else sum(part for part in parts if part is not None),
        parts=tuple(parts or ()),
    )


#: Phases that a span may have, in the order of time: sync is the end of stable alone.
_IN_TOTAL = ("open", "define", "write", "read", "flush", "close")


def _span(phases: Mapping[str, Mapping[str, Any]], name: str) -> Span:
    within = (*_IN_TOTAL, "sync") if name == "stable" else _IN_TOTAL
    time = phases[name]
    return Span(
        window=time["window"],
        phases=sum(phases[phase]["window"] for phase in within if phase in phases),
        between=time["between"],
        overlap=time["overlap"],
        by_ranks=time["by_ranks"],
        by_rank_0=time["by_rank_0"],
    )


def _slowest(time: dict[str, Any]) -> Slowest:
    to_mean = time["max"] / time["mean"] if time["mean"] else 1.0
    return Slowest(time["slowest_rank"], time["slowest_host"], to_mean)


#: A version, in what a library says of itself.
VERSION_NUMBER = re.compile(r"\d+(?:\.\d+)+")
