"""Sessions as ReFrame reports them."""

from iowatch.case import Case
from iowatch.metrics import figure_names

HDF5 = Case("local", "tmpfs", "gnu", "write", "shared", "hdf5", None, None, (64, 64, 64), 4)
MPIIO = Case("local", "tmpfs", "gnu", "write", "shared", "mpiio", None, None, (64, 64, 64), 4)


def reported(case, **changes):
    """A test case as ReFrame reports it."""
    figures = {f"local:tmpfs:{n}": [0.5, 0, None, None, "", "pass"] for n in figure_names(case)}
    return {
        "name": "SharedFileWrite",
        "display_name": "SharedFileWrite",
        "partition": case.partition,
        "environ": case.environ,
        "fixture": False,
        "case_id": str(case),
        "verdict": "ok",
        "sentence": f"{case}: fine",
        "result": "pass",
        "perfvalues": figures,
        **changes,
    }


def session(*testcases, versions=True, **changes):
    every = [*testcases, LIBRARY_VERSIONS] if versions else testcases
    run = {"testcases": list(every), "num_skipped": 0, "num_aborted": 0, **changes}
    return {"session_info": {"uuid": "1"}, "runs": [run]}


FIXTURE = {
    "name": "BuiltBenchio",
    "display_name": "BuiltBenchio",
    "partition": "tmpfs",
    "environ": "gnu",
    "fixture": True,
    "result": "pass",
    "perfvalues": {},
}
LIBRARY_VERSIONS = {**FIXTURE, "name": "LibraryVersions", "display_name": "LibraryVersions"}
