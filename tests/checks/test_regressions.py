"""Faults of libraries and nodes, real ones below benchio, found the whole way: by benchio, ReFrame,
its history, and the baseline that `iowatch bless` made of this machine's own nights.

The faults are much stronger than the noise of a busy machine: half a second or more where
hundredths of a second are usual. `make demo` shows the one of H5Fclose.
"""

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from cases import verdict_of
from checks import replay
from checks.conftest import new_site
from checks.replay import DAY, HOUR, bless
from conftest import compiled

from iowatch.case import Case
from iowatch.run import night_id

#: They start the real ReFrame and benchio many times.
pytestmark = pytest.mark.slow

RUNS = 5  # real ones, which are the nights of the baseline in turn
NIGHTS = 21
MPIIO, HDF5, NETCDF = (("shared", backend, False) for backend in ("mpiio", "hdf5", "netcdf"))
FLUSHED = ("shared", "hdf5", True)  # by H5Fflush, as many programs do
MPIIO_FILES = ("process", "mpiio", False)
ALL = {MPIIO, HDF5, FLUSHED, NETCDF, MPIIO_FILES}
GREEN = {"ok", "suspect"}  # a busy machine may be suspicious, and no more


@dataclass(frozen=True)
class Fault:
    """A fault of slow_shim.c, half a second in each repetition, and what must be said of it."""

    slow: str  # its variables
    hit: dict  # the cases that are slow, and the phase in which each is, as a pattern
    verdict: str
    says: str
    runs: int  # of one night, hours apart, until it is certain
    checks: str  # that meet it
    rank: str = ""  # what is said of a rank
    is_certain_at_once: bool = False  # on a quiet machine


FAULTS = {
    # What the white paper found. NetCDF sets the size when it writes its definitions, and HDF5 when
    # it is told to flush.
    "MPI_File_set_size": Fault(
        "SLOW=MPI_File_set_size SLOW_S=0.5",
        {HDF5: "close", FLUSHED: "flush|close", NETCDF: "define"},
        "regression (own_past)",
        r"finishing the file takes \d+% of the time, .* of the extra time is "
        r"in \w+ \((H5Fclose|H5Fflush|nf90_enddef|nf90_close)",
        runs=2,
        checks="SharedFileWrite",
        is_certain_at_once=True,
    ),
    "one rank": Fault(
        "SLOW=MPI_File_write_at_all SLOW_S=0.25 SLOW_RANK=2",
        {MPIIO_FILES: "write"},
        "regression (own_past)",
        "all 5 runs of the night are [0-9]+% or more below its baseline",
        runs=5,
        checks="FilePerProcess",  # of a shared file all ranks wait for it
        rank=r"; rank 2 on \S+ is the slowest in write in all 10 repetitions, by [234]\.\d times",
    ),
}


@dataclass(frozen=True)
class Session:
    """What ReFrame did, and its tests by (files, backend, flushed)."""

    code: int
    tests: dict

    @property
    def red(self):
        return {case for case, test in self.tests.items() if test["result"] != "pass"}

    @property
    def verdicts(self):
        return {case: test["state"] for case, test in self.tests.items()}


def prepare(site, shim):
    """Small cases of four ranks, one shared file and a file for each."""
    one_node = {"local_size": [64], "nodes": [1]}
    site.extras["ranks_per_node"] = 4
    site.suite = {
        "SharedFileWrite": [
            {"backend": ["mpiio", "hdf5", "netcdf"], **one_node},
            {"backend": ["hdf5"], "flush": [True], **one_node},
        ],
        "FilePerProcess": {"backend": ["mpiio"], "files": ["process"], **one_node},
    }
    site.references = "".join(f"{check}: {{}}\n" for check in site.suite)
    site.shim = shim


def session(site, *options, checks=(), slow="", night=""):
    """Runs all checks, as a night of its own, or those with these names, by hand or as part of this
    night."""
    # The shim is always there; it does what it is told to.
    site.injected = {"gnu": f"LD_PRELOAD={site.shim} {slow}"}
    names = [f"--name={name}" for name in checks]
    repeats = f"repeats={3 if slow else 5}"
    extras = [f"--session-extras=night={night}"] if night else []
    return looked_at(site, site.reframe("-r", *names, "-S", repeats, *extras, *options))


def looked_at(site, done):
    """The session that has just ended; what it printed is shown if the test fails."""
    print(done.stdout)
    cases = {Case.parse(test["case_id"]): test for test in site.report()}
    tests = {(c.files, c.backend, c.get("flush")): test for c, test in cases.items()}
    return Session(done.returncode, tests)


@pytest.fixture(scope="module")
def healthy(module_site, tmp_path_factory):
    """A site with blessed nights, and a healthy one after them."""
    site = module_site
    prepare(site, compiled("slow_shim.c", tmp_path_factory.mktemp("shim")))
    runs = {}
    for _ in range(RUNS):
        night = session(site, "--mode=record")
        assert (night.code, set(night.tests)) == (0, ALL)
        runs[replay.sessions(site.database)[-1]] = {
            case: test["metrics"]["stable_max"][0] for case, test in night.tests.items()
        }
    quiet = replay.undisturbed(runs)
    for number in range(NIGHTS):
        replay.copy(site.database, quiet[number % len(quiet)], (number - 40) * DAY)
    for name in runs:
        replay.forget(site.database, name)
    bless(site, -10)
    before = session(site)
    replay.move(site.database, replay.sessions(site.database)[-1], -3 * DAY)
    assert before.code == 0
    assert set(before.verdicts) == ALL
    assert set(before.verdicts.values()) <= GREEN
    return site


@pytest.fixture
def site_of_fault(healthy, benchio, tmp_path):
    """A site of its own with that past."""
    with new_site(tmp_path, benchio) as site:
        prepare(site, healthy.shim)
        for name in ("run", "baselines"):
            shutil.copytree(healthy.folder / name, site.folder / name)
        yield site


@pytest.mark.parametrize("fault", [pytest.param(fault, id=name) for name, fault in FAULTS.items()])
def test_course_of_a_fault(site_of_fault, fault):
    """The first run is suspect and green, unless it says enough, as on a quiet machine; the last is
    red for the cases that are hit and no other, and names the slow phase."""
    site = site_of_fault
    night = night_id(datetime.now(UTC))
    first = session(site, checks=[fault.checks], slow=fault.slow, night=night)
    assert first.red <= (set(fault.hit) if fault.is_certain_at_once else set())
    suspects = set(fault.hit) - first.red
    for case in suspects:
        assert verdict_of(first.tests[case]) == "suspect (own_past)", case
        assert "in its only run: a re-run is due from" in first.tests[case]["sentence"], case

    tonight = replay.sessions(site.database)[-1]
    last = first
    if suspects:
        for number in range(1, fault.runs):  # hours ago
            replay.copy(site.database, tonight, -4 * number * HOUR)
        replay.forget(site.database, tonight)
        again = looked_at(site, site.iowatch("--again"))
        last = Session(again.code, first.tests | again.tests)
    assert (last.code, last.red) == (1, set(fault.hit))
    for case, phase in fault.hit.items():
        test = last.tests[case]
        assert verdict_of(test) == fault.verdict, case
        assert re.search(fault.says, test["sentence"]), case
        assert bool(re.search("; rank", test["sentence"])) == bool(fault.rank), case
        assert re.search(fault.rank, test["sentence"]), case
        for sentence in (first.tests[case]["sentence"], test["sentence"]):
            lost = re.search(r" in (\w+)(?: \(.*?\))?: (\S+) s, usually ([\d.e-]+) s", sentence)
            assert lost, sentence
            assert re.fullmatch(phase, lost[1]), sentence
            assert float(lost[2]) > 0.49 > float(lost[3])
