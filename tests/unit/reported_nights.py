"""Runs of a few nights, and the report on them."""

from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone

from iowatch.bless import Blessed
from iowatch.case import Case
from iowatch.history import Record
from iowatch.report.model import report_of

NIGHT = date(2026, 11, 20)
HDF5 = Case("archer", "fs3", "cray", "write", "shared", "hdf5", -1, 1, (128, 128, 128), 96)
MPIIO = replace(HDF5, backend="mpiio")
BLESSED = Blessed(
    bandwidth=7700, spread=0.05, ratio=1.0, ratio_spread=0.05, finish_fraction=0.02, nights=30,
    first=date(2026, 9, 1), last=date(2026, 10, 1), settings="", blessed=date(2026, 10, 2),
    who="ops", why="quiet",
)  # fmt: skip


def record(case=HDF5, ago=0, hour=1, rate=7700.0, control=7700.0, close=0.02, **changes):
    """A run so many nights before NIGHT; 8000 MiB were written."""
    figures = {"total_max": rate, "total_median": rate, "total_mean": rate, "total_min": rate}
    seconds = 8000 / rate
    figures |= {"open_s": 0.01, "close_s": seconds * close}
    figures |= {"close_fraction": close, "finish_fraction": close}
    figures |= {"write_s": seconds * (1 - close)}
    if case.backend != "mpiio":
        figures["ratio"] = rate / control
    night = datetime.combine(NIGHT, time(0), timezone.utc) - timedelta(days=ago)
    fields = {
        "case": case,
        "time": night + timedelta(hours=hour),
        "verdict": "ok",
        "sentence": f"{case}: fine",
        "figures": figures,
        "test": "abc",
        "session": "1",
        "conditions": {"hdf5": "1.10.8", "hosts": "n1 n2"},
        "result": "pass",
    }
    return Record(**(fields | changes))


def red(case=HDF5, ago=0, hour=1, verdict="regression", **changes):
    sentence = f"{case}: bandwidth is lower"
    return record(
        case, ago, hour, **({"verdict": verdict, "result": "fail", "sentence": sentence} | changes)
    )


def well(case=HDF5, nights=10):
    """Nights before this one, in which all was well."""
    return [record(case, ago) for ago in range(nights, 0, -1)]


def invalid(**changes):
    return red(verdict="invalid", figures={}, sentence=f"{HDF5}: disk full", **changes)


def report(*records, blessed=None, excuses=(), **options):
    return report_of(records, "archer", blessed or {}, excuses, **options)
