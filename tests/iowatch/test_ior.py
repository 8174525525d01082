"""IOR's results, as the real one gave them, under the law that benchio's must satisfy."""

import json
import re
from pathlib import Path

import pytest
from cases import case as make_case
from cases import changed
from refusals import assert_refused

from iowatch.checks import CHECKS
from iowatch.ior import API, rate, read_options, require_stripes, write_options
from iowatch.result import InvalidResult

DATA = Path(__file__).parents[1] / "data/ior"
SIZE = {"local_size": (16, 16, 16), "writers": 2}
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
        (tmp_path / "ior.json").write_text(edit(text) if edit else text)
        (tmp_path / "ior.out").write_text((DATA / f"{name}.out").read_text() + said)
        (tmp_path / "ior.code").write_text(f"{status}\n")
        return rate(tmp_path, "ior", case, case.operation, "scratch")

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


WRITTEN = {
    "fsync": 1,
    "checkWrite": 1,
    "deadlineForStonewall": 0,
    "dryRun": 0,
    "filePerProc": 0,
    "collective": 1,
    "segmentCount": 1,
}
PARAMETERS = [
    *((CASE, name, value) for name, value in WRITTEN.items()),
    *((READ, name, 1) for name in ("checkRead", "reorderTasks")),
]


def test_parameter_that_was_reset(read):
    def attempt(case, parameter, value):
        def edit(text):
            data = json.loads(text)
            assert data["tests"][0]["Parameters"][parameter] == value
            data["tests"][0]["Parameters"][parameter] = 1 - value
            return json.dumps(data)

        read("mpiio-4.0" if case is CASE else "mpiio-read-4.0", case, edit=edit)

    assert_refused(
        InvalidResult, attempt, [(given, "IOR: .* was asked for") for given in PARAMETERS]
    )


def edited(old, new):
    def edit(text):
        assert old in text
        return text.replace(old, new)

    return edit


RATE = '"bwMiB": 32.4155'
NO_RATE = "results that are no rate of these bytes: 1, where 0"


SUMMARIES = [
    (edited('"tasks": 2', '"tasks": 1'), "tasks: 1, where 2"),
    (edited('"api": "MPIIO"', '"api": "POSIX"'), "api: 'POSIX', where MPIIO"),
    (edited('"blockSize": 32768', '"blockSize": 16384'), "bytes of a task: 16384"),
    (edited('"xsizeMiB": 0.0625', '"xsizeMiB": 0.0312'), "MiB in all: [0.0312], where"),
    (edited(RATE, '"bwMiB": 64.8310'), NO_RATE),
    (edited(RATE, '"bwMiB": "inf"'), NO_RATE),
    (edited(RATE, '"bwMiB": Infinity'), NO_RATE),
    (edited(RATE, '"bwMiB": 0.0000'), NO_RATE),
    (edited('"access": "write"', '"access": "read"'), "accesses: ['read', 'read'], where"),
    (edited('"Results"', '"Result"'), "is no summary that is known: KeyError"),
    (lambda text: text[:-900], "is not readable JSON"),
    (lambda text: "", "is not readable JSON"),
]


def test_summary_that_is_not_what_was_asked_for(read):
    def attempt(edit):
        read("mpiio-4.0", CASE, edit=edit)

    assert_refused(InvalidResult, attempt, [(edit, re.escape(said)) for edit, said in SUMMARIES])


def test_complaints_are_heard(read):
    def attempt(said):
        read("pnetcdf-4.0", changed(CASE, backend="pnetcdf"), said=f"{said}\n")

    heard = ("WARNING: fsync(9) failed", "ERROR: cannot write", "ior ERROR: x")
    assert_refused(InvalidResult, attempt, [(it, re.escape(f"IOR: {it}")) for it in heard])


def test_failed_exit_and_missing_files(read, tmp_path):
    with pytest.raises(InvalidResult, match="its exit status is 255"):
        read("mpiio-4.0", CASE, status="255")
    with pytest.raises(InvalidResult, match="its exit status is missing"):
        rate(tmp_path, "none", CASE, "write", "scratch")
    (tmp_path / "none.code").write_text("0")
    with pytest.raises(InvalidResult, match=r"none.json is not readable JSON: .*No such file"):
        rate(tmp_path, "none", CASE, "write", "scratch")


def test_each_task_reads_what_another_node_has_written():
    assert " -Q 1 " in " ".join(read_options(changed(READ, writers=4), 4, "f", "s"))
    assert " -Q 4 " in " ".join(read_options(changed(READ, writers=8), 4, "f", "s"))


def test_a_block_above_a_gibibyte_is_written_in_planes():
    asked = " ".join(write_options(changed(CASE, local_size=(512, 512, 1536)), "f", "s"))
    assert f"-b {3 * 2**30} -t {2**30} " in asked


STRIPES = """\
/scratch/ior
lmm_stripe_count:  {}
lmm_stripe_size:   {}
lmm_pattern:       raid0
lmm_stripe_offset: 3
"""


def test_stripes_of_its_files(tmp_path):
    listing, striped = tmp_path / "stripes", changed(CASE, stripe_count=-1, stripe_size=4)
    listing.write_text(STRIPES.format(8, 4 * 2**20))
    require_stripes(listing, striped, 8)
    require_stripes(listing, changed(striped, stripe_count=8), 16)
    for other, said in [
        (changed(striped, stripe_count=4), r"\(8, 4194304\), where \(4, 4194304\)"),
        (changed(striped, stripe_size=1), r"\(8, 4194304\), where \(8, 1048576\)"),
        (changed(striped, files="process"), r"stripes of 1 file, where .* of 2 was asked for"),
    ]:
        with pytest.raises(InvalidResult, match=said):
            require_stripes(listing, other, 8)
    listing.write_text(STRIPES.format(8, 4 * 2**20) * 2)
    require_stripes(listing, changed(striped, files="process"), 8)
    with pytest.raises(InvalidResult, match=r"stripes of 0 files"):
        require_stripes(tmp_path / "none", striped, 8)
