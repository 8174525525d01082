"""benchio's result file, the law that it must satisfy, and the figures that follow from it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import fmean, median
from typing import Any, NoReturn

import jsonschema

from iowatch.case import Case, format_size

MIB = 2**20
CONTROL = "mpiio"  # every other backend is compared with it, in the same rounds of the same job

#: Every figure of a case, with its unit. `ratio` does not exist for the control itself.
FIGURES = {
    "total_max": "MiB/s",
    "total_median": "MiB/s",
    "total_mean": "MiB/s",
    "total_min": "MiB/s",
    "stable_median": "MiB/s",
    "data_median": "MiB/s",
    "open_s": "s",
    "write_s": "s",
    "sync_s": "s",
    "close_s": "s",
    "close_fraction": "1",
    "ratio": "1",
}


class InvalidResult(Exception):
    """A run that gives no figure; the message is one sentence that says why."""


@dataclass(frozen=True)
class Repetition:
    """One timed write, or read, of all files by one backend."""

    round: int
    rates: dict[str, float]  # MiB/s: data, stable (of writes), total
    seconds: dict[str, float]  # of the slowest rank: open, write, ..., close, total
    verification: str  # passed, skipped


@dataclass(frozen=True)
class Measurement:
    """What one backend did, without its warm-up."""

    operation: str
    backend: str
    cache_suspect: bool  # what was read may have come from memory
    collective: str | None  # what the library says its transfers were; None: it does not say
    striping: dict[str, Any]  # requested, observed; sizes in bytes
    repetitions: list[Repetition]


@dataclass(frozen=True)
class Result:
    """A run with status `ok`."""

    run: dict[str, Any]  # as the schema has it
    measurements: list[Measurement]


@cache
def _schema() -> Any:
    text = resources.files("iowatch").joinpath("benchio.result-1.schema.json").read_text("utf-8")
    return json.loads(text)


def load(path: Path) -> Result:
    """Read a benchio.result/1 file; InvalidResult if it is not one or the run was not ok."""
    try:
        data = json.loads(path.read_text("utf-8"), parse_constant=_refuse_constant)
        jsonschema.validate(data, _schema())
    except (OSError, ValueError) as err:
        raise InvalidResult(f"{path.name} is not readable JSON: {err}") from None
    except jsonschema.ValidationError as err:
        place = "/".join(str(step) for step in err.absolute_path) or "top level"
        raise InvalidResult(
            f"{path.name} is not a benchio.result/1: {place}: {err.message[:200]}"
        ) from None

    if error := data["error"]:
        parts = [f"rank {error['rank']}", error["call"], error["path"], error["message"]]
        raise InvalidResult(f"benchio: {data['status']}: {': '.join(filter(None, parts))}")
    if data["status"] != "ok":
        raise InvalidResult(f"benchio: the run is {data['status']}")
    return Result(data["run"], [_measurement(case) for case in data["cases"]])


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _measurement(case: dict[str, Any]) -> Measurement:
    return Measurement(
        case["operation"],
        case["backend"],
        bool(case["cache"] and case["cache"]["suspect"]),
        case["collective"]["observed"],
        case["striping"],
        [
            Repetition(
                rep["round"],
                rep["rates"],
                {phase: time["max"] for phase, time in rep["phases"].items()},
                rep["verification"],
            )
            for rep in case["repetitions"]
            if not rep["warmup"]
        ],
    )


def backends_of(case: Case) -> list[str]:
    """The backends a job for this case runs: the control first."""
    return [CONTROL] if case.backend == CONTROL else [CONTROL, case.backend]


def require(result: Result, case: Case, repeats: int, filesystem_types: Collection[str]) -> None:
    """Enforce the law: what ran is what was asked for, synced and verified."""
    run = result.run
    bytes_written = 8 * math.prod(case.local_size) * case.writers
    laws: list[tuple[str, Any, Collection[Any]]] = [
        ("writers", run["writers"], [case.writers]),
        ("operations", run["operations"], [[case.operation]]),
        ("files", run["files"], [case.files]),
        ("instances", run["instances"], [1]),
        ("local size", run["local_size"] and format_size(run["local_size"]),
         [format_size(case.local_size)]),
        ("bytes", run["bytes"], [bytes_written]),
        ("filesystem", run["filesystem"]["type"], filesystem_types),
        ("sync", run["sync"], ["data"]),
        ("verify", run["verify"], ["all", "last"]),
        ("backends", [m.backend for m in result.measurements], [backends_of(case)]),
    ]  # fmt: skip
    for measurement in result.measurements:
        backend, reps = measurement.backend, measurement.repetitions
        # Under --verify last only the last repetition is read back.
        to_verify = reps if run["verify"] == "all" else reps[-1:]
        laws += [
            (f"repetitions of {backend}", len({rep.round for rep in reps}), [repeats]),
            (f"rounds of {backend}", [rep.round for rep in reps],
             [[rep.round for rep in result.measurements[0].repetitions]]),
            (f"unverified repetitions of {backend}",
             sum(rep.verification != "passed" for rep in to_verify), [0]),
            (f"repetitions of {backend} with a rate or time that is no number",
             sum(not _is_timed(rep) for rep in reps), [0]),
        ]  # fmt: skip
        laws += [
            (f"collective transfer of {backend}", measurement.collective, [None, "collective"]),
            (f"striping of {backend}", measurement.striping["requested"], [_striping(case)]),
        ]
        if _striping(case):  # benchio has compared the two
            observed = measurement.striping["observed"] is not None
            laws += [(f"observed striping of {backend}", observed, [True])]
    if suspects := [m.backend for m in result.measurements if m.cache_suspect]:
        raise InvalidResult(f"what {' and '.join(suspects)} read may have come from a cache")
    for name, found, wanted in laws:
        if found not in wanted:
            expected = " or ".join(str(value) for value in wanted)
            raise InvalidResult(f"{name}: {found}, where {expected} was asked for")


def _striping(case: Case) -> dict[str, int | None] | None:
    """What the job of a case asks benchio for."""
    if case.stripe_count is None and case.stripe_size is None:
        return None
    size = None if case.stripe_size is None else case.stripe_size * MIB
    return {"count": case.stripe_count, "size": size, "offset": None}


def _is_timed(rep: Repetition) -> bool:
    numbers = [*rep.rates.values(), *rep.seconds.values()]
    return all(math.isfinite(number) for number in numbers) and rep.seconds["total"] > 0


def figure_names(backend: str) -> list[str]:
    """The figures that a case of this backend must have."""
    return [name for name in FIGURES if name != "ratio" or backend != CONTROL]


def figures(result: Result, backend: str) -> dict[str, float]:
    """The figures of one backend; their units are in FIGURES. The result satisfies the law."""
    measured = {m.backend: m.repetitions for m in result.measurements}
    reps = measured[backend]
    totals = [rep.rates["total"] for rep in reps]
    values = {
        "total_max": max(totals),
        "total_median": median(totals),
        "total_mean": fmean(totals),
        "total_min": min(totals),
        "stable_median": median(rep.rates["stable"] for rep in reps),
        "data_median": median(rep.rates["data"] for rep in reps),
        **{
            f"{phase}_s": median(rep.seconds[phase] for rep in reps)
            for phase in ("open", "write", "sync", "close")
        },
        "close_fraction": median(rep.seconds["close"] / rep.seconds["total"] for rep in reps),
    }
    if backend != CONTROL:
        # Within a round both meet the same contention, so it cancels.
        control = {rep.round: rep.rates["total"] for rep in measured[CONTROL]}
        values["ratio"] = median(rep.rates["total"] / control[rep.round] for rep in reps)
    return values
