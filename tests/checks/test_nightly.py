"""`iowatch run` with the real ReFrame and benchio: nothing passes quietly."""

import hashlib
import re
from pathlib import Path

import pytest
from cases import backend_of, verdict_of
from checks.conftest import new_site

from iowatch import __version__
from iowatch.base import build
from iowatch.cases.metric import Reference
from iowatch.past import history

CASE = "small:memory/{}/SharedFileWrite/backend={}/local_size={}/ranks=2"
HDF5 = CASE.format("real", "hdf5", "64x64x64")
REFERENCES = f"""
SharedFileWrite:
  {HDF5}:
    total_max: [1, -0.999, 1.0e+9, MiB/s]
    overhead_fraction: [0, null, 0.999, '1']
  small:.*:
    overhead_fraction: [0, null, 0.999, '1']
"""


@pytest.fixture(scope="module")
def green(tmp_path_factory, benchio):
    """A site after a green night, and what was said of it."""
    with new_site(tmp_path_factory.mktemp("green"), benchio) as site:
        # Of smaller files a library may write more headers than data.
        site.write |= {"backend": ["mpiio", "hdf5"], "local_size": [64]}
        site.references = REFERENCES
        site.environs["real"] = {"modules": ["gcc/12", "hdf5"]}
        temporary = site.folder / "tmp"
        temporary.mkdir()
        site.environment["TMPDIR"] = str(temporary)
        site.partition["prepare_cmds"] = [f'echo "$TMPDIR" >> {site.folder}/tmpdirs']
        done = site.iowatch()
        assert done.returncode == 0, done.stdout
        yield site, done.stdout


def test_green_night(green):
    site, output = green
    announced, unknown, log, _, *table = output.splitlines()
    assert re.fullmatch(
        r"Night \S+ of small: 3 cases will be measured \(3 on memory\)\.", announced
    )
    assert unknown == "How long it takes is not known: no whole night like this one is on record."
    assert log.startswith(f"ReFrame's own log is {site.folder}/run/reframe.log; with --verbose ")
    *rows, _, note, page, _, summary = table[-8:]
    anew = f"{site.database} was not there: history begins anew with this night"
    assert note == f"note: {anew}"
    assert [line.split()[-1] for line in rows] == ["ok"] * 3
    checks = [line[:12].strip() for line in rows]
    assert checks == ["write shared"] * 2 + ["versions"], rows
    assert [line[13:20].strip() for line in rows] == ["hdf5", "mpiio", "-"]
    assert summary == "green: 3 cases measured, 0 with a red verdict, 0 problems with the night"
    page = Path(page.removeprefix("report: "))
    assert page.parent == site.folder / "run"
    assert "hdf5" in page.read_text()
    assert (site.folder / "run" / "reframe.log").is_file()


def test_night_leaves_no_temporary_files(green):
    """ReFrame leaves a log in TMPDIR whenever it starts; jobs need theirs as it was."""
    site, _ = green
    folder = site.folder / "tmp"
    assert set((site.folder / "tmpdirs").read_text().split()) == {str(folder)}
    assert list(folder.iterdir()) == []
    assert list(site.scratch.iterdir()) == []


def test_measured_case_is_on_record_with_bounds_conditions_and_raw_results(green):
    site, _ = green
    (test,) = [test for test in site.report() if backend_of(test) == "hdf5"]
    assert (test["case_id"], verdict_of(test)) == (HDF5, "ok")
    assert test["sentence"] == f"2 metrics are within {site.folder.name}/small.yaml"
    metrics = test["metrics"]
    assert metrics["total_max"][1:] == [1, -0.999, 1.0e9, "MiB/s", "pass"]
    assert metrics["overhead_fraction"][1:] == [0, None, 0.999, "1", "pass"]
    may_be_none = ("close_s", "overhead_fraction")  # as where MPI-IO takes as long
    assert all(entry[0] > 0 for name, entry in metrics.items() if name not in may_be_none)
    assert test["provenance"]["transfer"] == "collective"
    assert re.match(r"\d+\.\d+", test["provenance"]["hdf5"])
    assert test["provenance"]["modules"] == "gcc/12 hdf5"
    digest = hashlib.sha256(site.benchio.read_bytes()).hexdigest()
    assert test["provenance"]["program"] == digest[:16]
    slowest = r"rank [01] on \S+, \d+ of 10 times, \d+\.\d times the mean"
    assert set(test["slowest"]) == {"open", "define", "write", "close", "sync"}
    assert all(re.fullmatch(slowest, said) for said in test["slowest"].values())

    runs = {str(run.case): run for run in history.read([site.database])}
    run = runs[HDF5]
    assert run.slowest == test["slowest"]
    assert run.provenance == {"iowatch": build.version(__version__), **test["provenance"]}
    assert run.references == {
        "total_max": Reference(1, -0.999, 1e9),
        "overhead_fraction": Reference(0, None, 0.999),
    }
    (log,) = (site.folder / "run" / "perflogs").rglob("SharedFileWrite.log")
    assert f"|pass|{HDF5}|ok|" in log.read_text()

    assert {run.night for run in runs.values()} == {night.name for night in site.kept.iterdir()}
    for case, run in runs.items():
        files = {file.name for file in Path(run.folder).iterdir()}
        assert Path(run.folder) == site.kept / run.night / case.replace("/", ",")
        assert {"rfm_job.sh", "rfm_job.out", "rfm_job.err"} <= files, case
        assert ("result.json" in files) == ("SharedFileWrite" in case), case


@pytest.fixture
def quick(site):
    """A site whose benchio measures nothing."""
    site.faults = {"gnu": "none"}
    return site


def test_name_that_nothing_matches_is_red_and_so_is_a_case_without_reference(quick):
    """What nobody asked for is not missed, and the night's id is not given away."""
    quick.write["backend"] = ["mpiio", "hdf5"]
    done = quick.iowatch("-n", "SharedFileWrit3")
    assert done.returncode == 1
    assert "problem: --name matches none of the cases" in done.stdout

    quick.references = "SharedFileWrite: {}"
    done = quick.iowatch("--verbose", "-n", "SharedFileWrite.*hdf5", "-n", "LibraryVersions")
    assert done.returncode == 1
    words = "Run by hand on small: those of 3 cases (3 on memory) that --name matches.\n"
    assert words in done.stdout
    assert "red, run by hand: 2 cases measured, 1 with a red verdict, 0 problems" in done.stdout
    assert CASE.format("gnu", "hdf5", "8x8x8") in done.stdout
    sentence = f"there is no reference value for it in {quick.folder.name}/small.yaml"
    told = [line for line in done.stdout.splitlines() if sentence in line][-1]
    assert told.endswith("`iowatch run --record`, or `reframe --mode=record`")
    (test,) = quick.report()
    assert (test["result"], verdict_of(test)) == ("fail", "unjudged (no_reference)")
    assert test["metrics"]["total_max"][0] > 0, "the night's metrics are kept"
    assert "[       OK ]" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout), "ReFrame's own output"


def test_benchio_that_does_not_run_and_a_session_that_is_not_stored_are_red(quick):
    quick.faults = {"fine": "none", "broken": "broken"}
    nowhere = quick.folder / "results.db"
    nowhere.symlink_to("/proc/iowatch/results.db")
    quick.environment["RFM_SQLITE_DB_FILE"] = str(nowhere)
    done = quick.iowatch("--quiet")
    assert done.returncode == 1
    (unrun,) = re.findall(r"^problem: (2 of 4 cases were not run: .+)$", done.stdout, re.MULTILINE)
    assert f"{quick.folder}/broken does not build or run: run `make setup`" in unrun
    assert "the session is not in ReFrame's results database" in done.stdout
