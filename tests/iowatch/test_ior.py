"""IOR's results, as the real one gave them, under the law that benchio's must satisfy."""

import json
import re
from pathlib import Path

import pytest
from cases import case as make_case
from cases import changed
from refusals import assert_refused

from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.ior import API, rate_of, read_options, write_options
from iowatch.measure.result import InvalidResult

DATA = Path(__file__).parents[1] / "data/ior"
SIZE = {"local_size": (16, 16, 16), "ranks": 2}
CASE = make_case("IorPeer", "s:p/e", backend="mpiio", files="shared", **SIZE)
READ = changed(CASE, "IorPeerRead")
GOOD = [  # the rate is that of the last iteration: the first write warms up
    ("mpiio-4.0", CASE, 32.4155),
    ("mpiio-3.3", CASE, 3.798),
    ("mpiio-read-4.0", READ, 54.3529),
    ("mpiio-read-3.3", READ, 97.6682),
    ("hdf5-4.0", changed(CASE, backend="hdf5", files="process"), 11.4279),
    ("pnetcdf-4.0", changed(CASE, backend="pnetcdf"), 27.9531),
    ("posix-4.0", changed(CASE, backend="posix", files="process"), 97.1984),
]


@pytest.fixture
def read(tmp_path):
    """read(name, case, status="0", edit=..., said=...): the rate of a recorded run, changed."""

    def read(name, case, status="0", edit=None, said=""):
        text = (DATA / f"{name}.json").read_text()
        for old in tmp_path.iterdir():
            old.unlink()  # what is written over goes to the disk at once
        (tmp_path / "ior.json").write_text(edit(text) if edit else text)
        (tmp_path / "ior.out").write_text((DATA / f"{name}.out").read_text() + said)
        (tmp_path / "ior.code").write_text(f"{status}\n")
        return rate_of(tmp_path, "ior", case, 1, case.operation, "scratch")

    return read


def test_rate_and_options_of_runs_that_did_what_was_asked_for(read):
    for name, case, found in GOOD:
        assert read(name, case) == found, name
        line = json.loads((DATA / f"{name}.json").read_text())["Command line"]
        if case is READ:
            asked = read_options(case, 2, "scratch", f"{name}.json")
        else:
            asked = write_options(case, "scratch", f"{name}.json")
        assert f"ior {' '.join(asked)}" == line
    assert {case.backend for _, case, _ in GOOD} == set(API), "every library has a record"
    for check in ("IorPeer", "IorPeerRead"):
        assert set(CHECKS[check].backends) == set(API)


def test_wrong_data_give_no_rate(read):
    """Although the summary has one, and although 256 errors would be an exit status of 0."""
    said = "IOR: WARNING: Incorrect data on"
    for status in ("8", "0"):
        with pytest.raises(InvalidResult, match=rf"{said} write \(2 errors"):
            read("wrong-data-4.0", changed(CASE, backend="posix"), status)
        with pytest.raises(InvalidResult, match=rf"{said} read \(1 errors"):
            read("wrong-read-4.0", READ, status)


def test_a_sync_that_was_not_possible(read):
    case = changed(CASE, backend="hdf5")
    with pytest.raises(InvalidResult, match=r"ior WARNING: fsync\(\) not supported"):
        read("no-sync-3.3", case)


#: The values of IOR's summary that the law is about.
LAW = {
    *("api", "blockSize", "bwMiB", "collective", "deadlineForStonewall", "dryRun", "filePerProc"),
    *("nodes", "segmentCount", "tasks", "testFileName", "transferSize", "xsizeMiB", "access"),
    "totalTime",
}


def leaves(data):
    """What holds each value, and the name of the value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield from leaves(value) if isinstance(value, dict | list) else [(data, key)]


@pytest.mark.parametrize(
    ("name", "case", "more"),
    [("mpiio-4.0", CASE, {"fsync", "checkWrite"}),
     ("mpiio-read-4.0", READ, {"checkRead", "reorderTasks"})],
)  # fmt: skip
def test_a_value_that_changes_is_refused_or_changes_no_rate(read, name, case, more):
    data = json.loads((DATA / f"{name}.json").read_text())
    rate, refused = read(name, case), set()
    for within, key in list(leaves(data)):
        before = within[key]
        within[key] = "x" if isinstance(before, str) else 2 * before or 1
        try:
            assert read(name, case, edit=lambda text: json.dumps(data)) == rate, key
        except InvalidResult:
            refused.add(key)
        within[key] = before
    assert refused == LAW | more


RATE = '"bwMiB": 32.4155'
NO_RATE = "results that are no rate of these bytes: 1, where 0"
SUMMARIES = [
    ('"tasks": 2', '"tasks": 1', "tasks: 1, where 2"),
    ('"segmentCount": 1', '"segmentCount": 2', "bytes of a task: 65536, where 32768"),
    *((RATE, f'"bwMiB": {rate}', NO_RATE) for rate in ("64.8310", '"inf"', "Infinity", "0.0000")),
    ('"access": "write"', '"access": "read"', "accesses: ['read', 'read'], where"),
    ('"Results"', '"Result"', "is no summary that is known: KeyError"),
    ("}", "", "is not readable JSON"),
]


def test_summary_that_is_not_what_was_asked_for(read):
    def attempt(old, new):
        assert old in (DATA / "mpiio-4.0.json").read_text()
        read("mpiio-4.0", CASE, edit=lambda text: text.replace(old, new))

    wanted = [((old, new), re.escape(said)) for old, new, said in SUMMARIES]
    assert_refused(InvalidResult, attempt, wanted)


def test_complaints_are_heard(read):
    def attempt(said):
        read("pnetcdf-4.0", changed(CASE, backend="pnetcdf"), said=f"{said}\n")

    heard = ("WARNING: fsync(9) failed", "ERROR: cannot write", "ior ERROR: x")
    assert_refused(InvalidResult, attempt, [(it, re.escape(f"IOR: {it}")) for it in heard])


def test_failed_exit_and_missing_files(read, tmp_path):
    with pytest.raises(InvalidResult, match="its exit status is 255"):
        read("mpiio-4.0", CASE, status="255")
    with pytest.raises(InvalidResult, match="its exit status is missing"):
        rate_of(tmp_path, "none", CASE, 1, "write", "scratch")
    (tmp_path / "none.code").write_text("0")
    with pytest.raises(InvalidResult, match=r"none.json is not readable JSON: .*No such file"):
        rate_of(tmp_path, "none", CASE, 1, "write", "scratch")


def test_options_for_other_nodes_and_large_blocks():
    """Each task reads what another node has written; a block above a gibibyte is in planes."""
    for ranks, on_node, option in ((4, 4, " -Q 1 "), (8, 4, " -Q 4 ")):
        case = changed(READ, ranks=ranks)
        assert option in " ".join(read_options(case, on_node, "f", "s"))
    asked = " ".join(write_options(changed(CASE, local_size=(512, 512, 1536)), "f", "s"))
    assert f"-b {3 * 2**30} -t {2**30} " in asked


def test_patterns_of_io500():
    """Its calls and places in the file, by the rules for ior-easy and ior-hard."""
    easy = changed(CASE, backend="posix", files="process", local_size=(64, 64, 64), io500="easy")
    hard = changed(CASE, backend="posix", local_size=(5876, 10, 3), io500="hard")
    asked = [" ".join(write_options(case, "f", "s")) for case in (easy, hard)]
    assert "-a POSIX -F -b 2097152 -t 2097152 -g " in asked[0]
    assert "-a POSIX -b 47008 -t 47008 -s 30 -g " in asked[1]
    commands = [" ".join(case.check.command_line(case)) for case in (easy, hard)]
    assert commands[0].endswith("--local-size 64x64x64 --transfer 2097152 --halo 0")
    assert commands[1].endswith("--local-size 5876x10x3 --transfer 47008 --halo 0 --grid 2x1x1")
