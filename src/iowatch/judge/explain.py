"""Why a run is slow: what is on record of it, and of its usual runs, as clauses of a sentence.

The check says them once, and terminal, page and mail show what it said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import StrEnum

from iowatch.base.text import brief_rate, brief_time
from iowatch.cases.case import Case
from iowatch.cases.metric import ENDS, PHASES, PLAIN
from iowatch.judge.settings import NORMAL
from iowatch.measure.checks import rate_name

#: A phase is named if it takes so many seconds more, and so much of the run's time. Less is how two
#: runs differ that are alike.
NAMED_S, NAMED_PART = 1e-3, 0.05

#: The calls of a library in each of ENDS, and what they are known to do; of a read where that
#: calls another.
_CALLS: Mapping[str, Mapping[str, str]] = {
    "mpiio": {"open": "MPI_File_open", "flush": "MPI_File_sync", "close": "MPI_File_close"},
    "hdf5": {
        "open": "H5Fcreate",
        "open of a read": "H5Fopen",
        "define": "H5Dcreate",
        "define of a read": "H5Dopen",
        "flush": "H5Fflush, which writes the metadata and syncs the file",
        "close": "H5Fclose, which writes the metadata and sets the file's size by "
        "MPI_File_set_size",
    },
    "netcdf": {
        "open": "nc_create_par",
        "open of a read": "nc_open_par",
        "define of a read": "nc_inq_varid",
        "define": "nc_enddef, which writes the metadata, sets the file's size by "
        "MPI_File_set_size and syncs the file",
        "flush": "nc_sync, which writes the metadata and syncs the file",
        "close": "nc_close, which writes the metadata, syncs the file and ends in H5Fclose",
    },
    "pnetcdf": {
        "open": "nf90mpi_create",
        "open of a read": "nf90mpi_open",
        "define of a read": "nf90mpi_inq_varid",
        "define": "nf90mpi_enddef, which writes the file's header",
        "flush": "nf90mpi_sync",
        "close": "nf90mpi_close",
    },
    "adios2": {
        "open": "adios2_open, which makes the directory and its files",
        "define": "adios2_define_variable",
        "open of a read": "adios2_open, which reads the metadata",
        "define of a read": "adios2_begin_step",
        "flush": "adios2_flush",
        "close": "adios2_close, which waits for what the engine has deferred",
    },
    "posix": {"open": "open", "flush": "fsync", "close": "close"},
}

Metrics = Mapping[str, float]  # of a run, or the medians of several


class Layer(StrEnum):
    """The layer that a loss comes from."""

    STORAGE = "storage"
    LIBRARY = "library"
    BOTH = "library and storage"
    NODE = "node"
    OST = "OST"


_BLAME: Mapping[Layer, str] = {
    Layer.STORAGE: "it is the filesystem, not the library",
    Layer.LIBRARY: "it is the library's path, not the filesystem",
    Layer.BOTH: "it is the library's path and the filesystem",
}


def _phases_s(metrics: Metrics) -> float:
    """The seconds of all phases of the median round; 0: they are not on record."""
    return sum(metrics.get(f"{phase}_s", 0.0) for phase in PHASES)


def finish_s(metrics: Metrics) -> float:
    """Return the seconds of `overhead_fraction`, in the median round; infinite: not on record."""
    seconds = _phases_s(metrics)
    return metrics.get("overhead_fraction", 0.0) * seconds if seconds else math.inf


def ratio_median(metrics: Metrics, control: Metrics) -> float:
    """The rate of the median round over that of MPI-IO, of whose phases these are the median
    seconds; 0: it is not known."""
    seconds = _phases_s(metrics)
    return sum(control.values()) / seconds if seconds else 0.0


def is_slow_to_finish(metrics: Metrics, usual: Metrics) -> bool:
    """Return whether so much of the time finishes the file that the detector's R3 looks for it."""
    now, before = metrics.get("overhead_fraction"), usual.get("overhead_fraction")
    if now is None or finish_s(metrics) < NORMAL.noticed_s:
        return False
    usually = NORMAL.defect_overhead_fraction if before is None else NORMAL.finish_limit(before)
    return now > usually or is_defect(metrics, {})


def is_defect(metrics: Metrics, control: Metrics) -> bool:
    """Is this the founding fault, whatever the past? The library is below half of MPI-IO's rate in
    the median round as in the best. Most of its loss goes into making a file of the data, and a
    user notices."""
    now, ratio = metrics.get("overhead_fraction"), metrics.get("ratio")
    if now is None or ratio is None or finish_s(metrics) < NORMAL.noticed_s:
        return False
    return NORMAL.is_defect(now, max(ratio, ratio_median(metrics, control)))


def why_slow(
    case: Case,
    metrics: Metrics,
    usual: Metrics,
    slow: float = 1 - NORMAL.wanted_drop,
    is_sure: bool = True,
    is_told: bool = False,
) -> str:
    """Where the time goes, in which phase and call, and how MPI-IO was in the same rounds; empty:
    it cannot be told.

    `usual` are the medians of good runs; empty: there are none. Below the part `slow` of what is
    usual a rate is low. Nothing follows from one slow night that is not sure. `is_told`: what goes
    before has said what part of the time it takes to finish the file.
    """
    if is_slow_to_finish(metrics, usual):
        parts = ["" if is_told else _finishing(case, metrics, usual), _ends(case, metrics, usual)]
        where = "; ".join(filter(None, parts))
    else:
        phases = [phase for phase in case.check.phases if f"{phase}_s" in usual]
        phase, part = _longest(phases, metrics, usual)
        is_most = part > 1 / 2
        where = f"most of the time is lost in {_seconds(phase, metrics, usual)}" if is_most else ""
    return "; ".join(filter(None, [where, _control(metrics, usual, slow, is_sure)]))


def _finishing(case: Case, metrics: Metrics, usual: Metrics) -> str:
    files = "its file" if case.files == "shared" else "its files"
    verb = "opening and closing" if case.operation == "read" else "finishing"
    text = f"it spends {100 * metrics['overhead_fraction']:.0f} % of the time {verb} {files}"
    if "overhead_fraction" not in usual:
        return text
    return f"{text}, against {100 * usual['overhead_fraction']:.0f} % on its good nights"


def _ends(case: Case, metrics: Metrics, usual: Metrics) -> str:
    """The phase of ENDS that takes longest, and its call; empty: none does by much."""
    # For the others benchio knows no more than the whole that `overhead_fraction` is made of.
    phase, part = _longest(("close",) if case.backend in PLAIN else ENDS, metrics, usual)
    if not part:
        return ""
    calls = _CALLS[case.backend]
    call = calls[phase]
    if case.operation == "read":  # what a call does to a written file is no part of it
        call = calls.get(f"{phase} of a read", call).split(",")[0]
    share = "most" if part > 1 / 2 else "much"
    return f"{share} of the extra time is in {_seconds(phase, metrics, usual, f' ({call})')}"


def _longest(phases: Collection[str], metrics: Metrics, usual: Metrics) -> tuple[str, float]:
    """The phase that takes most longer than usual, and its part of all that takes longer; 0: too
    little to name one."""
    now = {phase: metrics[f"{phase}_s"] for phase in phases if f"{phase}_s" in metrics}
    longer = {phase: max(0.0, s - usual.get(f"{phase}_s", 0.0)) for phase, s in now.items()}
    phase = max(longer, key=lambda phase: longer[phase], default="")
    if not phase or longer[phase] < max(NAMED_S, NAMED_PART * sum(now.values())):
        return "", 0.0
    return phase, longer[phase] / sum(longer.values())


def _seconds(phase: str, metrics: Metrics, usual: Metrics, call: str = "") -> str:
    before = usual.get(f"{phase}_s")
    text = f"{phase}{call}: {brief_time(metrics[f'{phase}_s'])}"
    return text if before is None else f"{text}, usually {brief_time(before)}"


def _control(metrics: Metrics, usual: Metrics, slow: float, is_sure: bool) -> str:
    """MPI-IO in the same rounds, and whose fault it is then; nothing of MPI-IO itself."""
    rate, before = _control_rate(metrics), _control_rate(usual)
    if rate is None:
        return ""
    if before is None:
        return f"MPI-IO in the same rounds reaches {brief_rate(rate)} MiB/s"
    layer = likely_layer(metrics, usual, slow)
    beside = f"{brief_rate(rate)} of its usual {brief_rate(before)} MiB/s"
    if layer in (Layer.STORAGE, Layer.BOTH):
        state = f"is slow too, at {beside}"
    else:
        state = "is as fast as always" if rate >= slow * before else f"still reaches {beside}"
    return f"MPI-IO in the same rounds {state}" + (
        f": {_BLAME[layer]}" if is_sure and layer else ""
    )


def likely_layer(
    metrics: Metrics, usual: Metrics, slow: float = 1 - NORMAL.wanted_drop
) -> Layer | None:
    """Tell which layer has lost, by MPI-IO in the same rounds; None: it cannot be told."""
    rate, before = _control_rate(metrics), _control_rate(usual)
    if rate is None or before is None:
        return None
    is_fault = metrics["ratio"] < slow * usual["ratio"]
    if rate < (1 - NORMAL.wanted_drop) * before:
        return Layer.BOTH if is_fault else Layer.STORAGE
    return Layer.LIBRARY if is_fault else None


def _control_rate(metrics: Metrics) -> float | None:
    """MPI-IO's best in the same job, MiB/s; None: the case is MPI-IO's, or has no control."""
    ratio = metrics.get("ratio")
    return metrics[rate_name(metrics)] / ratio if ratio else None
