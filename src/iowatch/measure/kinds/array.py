"""benchio's array: how fast libraries write and read it, in one file, in many, or several at once.

Every other backend than MPI-IO takes turns with it, its control, in the same rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from types import MappingProxyType
from typing import Any, ClassVar

from iowatch.cases.case import Case
from iowatch.cases.metric import (
    ENDS,
    PART,
    PLAIN,
    RATE,
    RATE_BOUND,
    STABLE,
    TO_CONTROL,
    TOTALS,
    Metrics,
    phase_seconds,
)
from iowatch.cases.parameters import (
    BACKEND,
    CHUNK,
    COMPRESSED,
    CONTROL,
    FILES,
    FLUSH,
    INSTANCES,
    PATTERN,
    SHARED_FILE,
    SHARING,
    SUBFILED,
    SUBFILING,
    WAYS,
    format_size,
    pattern_words,
)
from iowatch.measure.kinds.kind import Kind
from iowatch.measure.measured import Measured, medians_of, rate_metrics
from iowatch.measure.result import Repetition, Result

_FINISH: Metrics = {
    "overhead_fraction": replace(
        PART,
        about="The part of the median round in which the library opens, defines, flushes and "
        "closes the file, beyond MPI-IO in the same rounds. For MPI-IO and POSIX it is the close.",
    ),
    "ratio": TO_CONTROL,
    "stored_fraction": replace(
        PART, about="The part of the written bytes that the files take. Compressed data alone."
    ),
}
_DATA = replace(RATE, about="The median rate of writing or reading alone.")
WRITE: Metrics = MappingProxyType(
    {
        **TOTALS,
        **STABLE,
        "data_median": _DATA,
        **phase_seconds("open", "define", "write", "flush", "close", "sync", "unlink"),
        **_FINISH,
    }
)
READ: Metrics = MappingProxyType(
    {
        **TOTALS,
        "data_median": _DATA,
        **phase_seconds("open", "define", "read", "close"),
        **_FINISH,
    }
)
#: Data that are read were written before the clock runs.
WAYS_OF_READING = tuple(way for way in WAYS if way is not FLUSH)

#: Bounds of reference values that hold on any machine, by backend: a case beyond them is suspect.
#: The header of every generated reference file says why.
_CLOSE_BOUND = {"overhead_fraction": [0, None, 0.25, "1"]}  # of these two it is the close
_FINISH_BOUND = {"overhead_fraction": [0, None, 0.45, "1"]}
GENERAL_BOUNDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mpiio": {**RATE_BOUND, **_CLOSE_BOUND},
        "hdf5": {"ratio": [0.9, -0.5, None, "1"]} | _FINISH_BOUND,
        "netcdf": {"ratio": [0.7, -0.5, None, "1"]} | _FINISH_BOUND,
        "pnetcdf": {"ratio": [0.7, -0.5, None, "1"]} | _FINISH_BOUND,
        "adios2": {"ratio": [0.7, -0.5, None, "1"]} | _FINISH_BOUND,
        "posix": {**RATE_BOUND, **_CLOSE_BOUND},
    }
)
#: The same of cases that compress: less has to be stored than was written, or it was for nothing.
COMPRESSED_BOUNDS: Mapping[str, Any] = MappingProxyType(
    {**RATE_BOUND, "stored_fraction": [0, None, 0.9, "1"]}
)

#: Backends for which a word of a pattern has a meaning, if not for all.
_PATTERN_BACKENDS = {"deflate": ("hdf5", "netcdf"), "quantize": ("netcdf",),
                     "nonblocking": ("pnetcdf",), "subfiling": SUBFILING}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayKind(Kind):
    """An array that benchio writes or reads: the command line, and the metrics of the result."""

    def impossible(self, values: Mapping[str, Any]) -> str:
        if not values.get(PATTERN.name):
            return ""
        pattern, backend = values[PATTERN.name], values[BACKEND.name]
        words = pattern_words(pattern)
        layers = words.get("steps", 1) * words.get("variables", 1)
        for word, backends in _PATTERN_BACKENDS.items():
            if word in words and backend not in backends:
                only = " and ".join(backends)
                return f"pattern {pattern} with {backend}: {word} is of {only} alone"
        if SUBFILED in words and values.get(CHUNK.name):
            return f"pattern {pattern} with chunks: HDF5 reads none from subfiles collectively"
        if SUBFILED in words and (values.get("files") != "shared" or values.get("instances")):
            return f"pattern {pattern} with other than one shared file, of which it makes several"
        if words and values.get("files") == "gather":
            return f"pattern {pattern} with files gather, whose first process moves whole planes"
        if values["local_size"][2] % layers:
            return (
                f"pattern {pattern} with local size {format_size(values['local_size'])}: steps and "
                f"variables share the elements along z, which are to be a multiple of {layers}"
            )
        if values.get("collective", True):
            return ""
        alone = {COMPRESSED, "nonblocking"}
        alone |= {"steps"} if backend in ("netcdf", "pnetcdf") else set()
        if needing := [word for word in words if word in alone]:
            return f"pattern {pattern} with collective no: {needing[0]} needs collective transfers"
        return ""

    def is_free_of_others(self, case: Case) -> bool:
        return case.files in ("process", "node") or not case.get("collective")

    def command_line(self, case: Case) -> list[str]:
        options = [
            f"--backend {','.join(case.backends)}",
            f"--operation {','.join(self.operations)}",
            f"--files {case.files}",
            f"--local-size {format_size(case.local_size)}",
        ]
        if case.instances is not None:
            options.append(f"--instances {case.instances}")
        options += [way.option(way.format(value)) for way, value in case.ways]
        if case.subfiles:  # HDF5 sends each row by itself that does not follow another
            options.append("--halo 0")
            if not {"strided", "random"} & pattern_words(case.get(PATTERN.name)).keys():
                options.append(f"--grid 1x1x{case.ranks}")
        return options

    def metrics_for(self, case: Case) -> list[str]:
        absent = {"ratio"} if case.backend == CONTROL else set()
        absent |= set() if case.get("flush") else {"flush_s"}
        absent |= {"ratio", "overhead_fraction"} if case.is_compressed else {"stored_fraction"}
        return [name for name in self.metrics if name not in absent]

    def metrics_of(self, result: Result, case: Case) -> dict[str, float]:
        by_backend = {m.backend: m.repetitions for m in result.measurements}
        reps = by_backend[case.backend]
        # Whatever else is at work on the filesystem, it disturbs the fastest repetition least.
        fastest = max(reps, key=lambda rep: rep.rate)
        values = {
            **rate_metrics([rep.rates for rep in reps]),
            "data_median": median(rep.rates["data"] for rep in reps),
        }
        names = case.metrics
        if "overhead_fraction" in names:
            values["overhead_fraction"] = _overhead_fraction(
                case.backend, reps, by_backend[CONTROL]
            )
        if "stored_fraction" in names:
            values["stored_fraction"] = min(1.0, fastest.file_bytes / self.bytes_of(case))
        for name in names:
            if name.endswith("_s"):  # a read has had no `define` once
                values[name] = median(rep.seconds.get(name.removesuffix("_s"), 0.0) for rep in reps)
        if "instance_min" in names:
            values["instance_min"] = median(
                min(rep.instances, default=rep.rates["total"]) for rep in reps
            )
        if "ratio" in names:
            # With the sync: NetCDF syncs within its close, and MPI-IO does not.
            values["ratio"] = fastest.rate / max(rep.rate for rep in by_backend[CONTROL])
        return {name: values[name] for name in names}

    def measured(self, result: Result, case: Case, notes: Sequence[str] = ()) -> Measured:
        measured = super().measured(result, case, notes)
        *control, _ = result.measurements  # the control comes first
        return (
            replace(measured, control=medians_of(control[0].repetitions)) if control else measured
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ControlledArrayKind(ArrayKind):
    """An array beside MPI-IO's, if it is not MPI-IO's."""

    evidence_of: ClassVar[str] = "array"
    starts_once: ClassVar[bool] = True

    def backends_of(self, case: Case) -> list[str]:
        # Where the control cannot write the same bytes, a ratio to others would say nothing.
        if case.backend == CONTROL or case.is_compressed:
            return [case.backend]
        return [CONTROL, case.backend]


def _overhead_fraction(
    backend: str, reps: Sequence[Repetition], control: Sequence[Repetition]
) -> float:
    """The part of the time, sync included, in which a library makes a file of the data, by median
    seconds.

    This is the time to open, define, flush (if told to) and close the file beyond MPI-IO in the
    same rounds. HDF5 sets the file's size in H5Fclose, NetCDF makes its header in nc_enddef, and
    an application waits for either. Time saved in the sync does not count: NetCDF flushes its file
    before it closes it, and the disk has to do that once in any case. For MPI-IO and POSIX, which
    make nothing, it is the close.
    """
    seconds, usual = medians_of(reps), medians_of(control)
    if backend in PLAIN:
        finish = seconds["close"]
    else:
        # No sync is in a read.
        saved = usual.get("sync", 0.0) - seconds.get("sync", 0.0)
        finish = _ends_s(seconds) - _ends_s(usual) - max(0.0, saved)
    whole = median(rep.seconds.get("stable", rep.seconds["total"]) for rep in reps)
    # With many files each phase is that of the slowest, and the sum may be longer than any file
    # took.
    return min(1.0, max(0.0, finish) / whole)


def _ends_s(seconds: Mapping[str, float]) -> float:
    """Seconds before and after the data are moved."""
    return sum(seconds.get(phase, 0.0) for phase in ENDS)


SHARED_FILE_WRITE = ControlledArrayKind(
    name="SharedFileWrite",
    short="write shared",
    ways=WAYS,
    backends=SHARING,
    metrics=WRITE,
    stands_for_users=True,
)
FILE_PER_PROCESS = ControlledArrayKind(
    name="FilePerProcess",
    short="write {files}",
    parameters=(*SHARED_FILE, FILES),
    ways=WAYS,
    fixed={},
    metrics=WRITE,
    stands_for_users=True,
)
SYSTEM_LOAD = ControlledArrayKind(
    name="SystemLoad",
    short="write shared x{instances}",
    parameters=(*SHARED_FILE, INSTANCES),
    ways=WAYS,
    backends=SHARING,
    metrics={
        **WRITE,
        "instance_min": replace(RATE, about="The median rate of the slowest instance."),
    },
)
SHARED_FILE_READ = replace(
    SHARED_FILE_WRITE,
    name="SharedFileRead",
    short="read shared",
    operation="read",
    ways=WAYS_OF_READING,
    metrics=READ,
)
FILE_PER_PROCESS_READ = replace(
    FILE_PER_PROCESS,
    name="FilePerProcessRead",
    short="read {files}",
    operation="read",
    ways=WAYS_OF_READING,
    metrics=READ,
)
