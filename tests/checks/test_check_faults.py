"""Faults of benchio, and below it: each fails its check, gives no metric and leaves no file but its
raw results."""

import json
import re
from pathlib import Path

import pytest
from benchio.traces import calls_on, watched
from conftest import ROOT, compiled

from iowatch import history

REFERENCES = """
SharedFileWrite:
  .*:
    ratio: [0.9, -0.5, null]
"""

# Of the stand-in: its fault, the verdict, what the sentence says, and the raw results besides those
# of every job.
RESULT = {"result.json"}
FAULTS = {
    "cut_off": ("cut off", "invalid", "result.json is not readable JSON", RESULT),
    "no_rate": ("no rate", "invalid", "'total' is a required property", RESULT),
    "no_result": ("no result", "invalid", "benchio: error: stand-in: wrote nothing", set()),
    "another": ("another run", "invalid", "result.json is another job's: its run has", RESULT),
    "spread": ("spread", "invalid", "it ran on 2 hosts (node1 node2), where 1 node was", RESULT),
    "early": ("early", "invalid", "result.json began at 2026-01-31 01:02:03 UTC, before", RESULT),
    "late": ("fails at the end", "invalid", "benchio: error: stand-in: failed after its", RESULT),
    "too_fast": ("too fast", "too_fast", "above the physical ceiling of 1000000 MiB/s", RESULT),
    "slow_hdf5": ("slow hdf5", "regression", "ratio is 0.1, below its bound of 0.45", RESULT),
    "none": ("none", "ok", "1 metric is within", RESULT),
}
EVERY_JOB = {"rfm_job.sh", "rfm_job.out", "rfm_job.err"}


def folders_of(site, night):
    """The raw results of a night: case -> names of its files."""
    return {
        folder.name.replace(",", "/"): {file.name for file in folder.iterdir()}
        for folder in (site.kept / night).iterdir()
        if "LibraryVersions" not in folder.name
    }


def test_every_fault_has_its_verdict_sentence_and_raw_results(site):
    """Those of a night that follows are kept beside them, a job that never ended among them."""
    site.faults = {name: fault for name, (fault, *_) in FAULTS.items()}
    site.write["backend"] = ["hdf5"]
    site.extras["settle"] = 7
    site.references = REFERENCES
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    found = {test["environ"]: test for test in site.report()}
    assert set(found) == set(FAULTS)
    (night,) = {run.night for run in history.read([site.database])}
    folders = folders_of(site, night)
    for name, (_, verdict, sentence, files) in FAULTS.items():
        test = found[name]
        assert test["verdict"] == verdict, name
        assert sentence in test["sentence"]
        assert (test["result"] == "pass") == (verdict == "ok"), name
        if verdict != "ok":
            assert test["sentence"] in test["fail_reason"]
        kept = folders[test["case_id"]]
        assert kept >= EVERY_JOB | files, name
        assert ("result.json" in kept) == bool(files), name
    job = Path(found["none"]["kept"], "rfm_job.sh").read_text()
    assert '--settle 7 --dir "$RUNDIR" ' in job
    assert found["slow_hdf5"]["metrics"]["ratio"] == [
        pytest.approx(0.1), 0.9, -0.5, None, "1", "fail",
    ]  # fmt: skip
    assert not list(site.scratch.iterdir())
    (first,) = site.kept.iterdir()
    before = {file: file.read_bytes() for file in first.rglob("*") if file.is_file()}

    site.faults = {"none": "none", "hangs": "hangs"}
    done = site.reframe("-r", "-S", "SharedFileWrite.time_limit=12s")
    assert done.returncode == 1, done.stdout
    found = {test["environ"]: test for test in site.report()}
    assert found["hangs"]["result"] == "fail"
    runs = [run for run in history.read([site.database]) if run.case.backend]
    assert len(runs) == len(FAULTS) + 2
    last = {run.case.environ: run for run in runs[-2:]}
    assert (str(last["hangs"].kind), str(last["none"].kind)) == ("invalid", "ok")
    assert last["hangs"].night == last["none"].night > first.name, "a night of its own"
    second = folders_of(site, last["hangs"].night)
    assert second[str(last["hangs"].case)] >= EVERY_JOB
    assert second[str(last["none"].case)] >= EVERY_JOB | RESULT
    assert {file: file.read_bytes() for file in before} == before, "the first night's stay"
    assert not list(site.scratch.iterdir())

    listed = site._run("iowatch", "history", "--case", "/hangs/SharedFileWrite").stdout
    assert str(site.kept / last["hangs"].night) in listed
    assert str(last["hangs"].folder) in listed


def test_what_a_session_rests_on_is_on_stable_storage_before_it_is_on_record(site, need):
    """Else a power cut would leave a session whose raw results are empty, for ever."""
    site.faults = {"gnu": "none"}
    traces = site.folder / "traces"
    reframe = ("reframe", "-c", ROOT / "reframe_checks", "--system", "small", "-r")
    site._run(*watched(need, traces), *reframe, "-n", "SharedFileWrite")
    (test,) = site.report()
    kept = Path(test["kept"])

    def synced(path):
        calls = calls_on(traces, path.name)
        return [c.time for c in calls if c.kind == "sync" and f"<{path}>" in c.words]

    job = json.loads((kept / "job.json").read_text())
    assert job["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert 0 < job["up_s"] < float(Path("/proc/uptime").read_text().split()[0])
    stored = max(synced(site.database))
    files = [kept / name for name in sorted({*EVERY_JOB, *RESULT, "exit_code", "job.json"})]
    for path in [*files, kept, kept.parent, site.kept, site.kept.parent]:
        assert max(synced(path), default=stored) < stored, path


def test_what_an_earlier_job_has_left_in_the_stage_is_no_result(site):
    """Of one that stops before it measures, and of one that never starts."""
    path = site.scratch / "filesystem"
    site.extras["path"] = str(path)
    site.faults = {"gnu": "none"}
    site.environment.update(RFM_CLEAN_STAGEDIR="0", RFM_KEEP_STAGE_FILES="1")
    done = site.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 0, done.stdout
    path.rmdir()
    path.touch()
    done = site.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    assert (test["verdict"], test["metrics"]) == ("invalid", {}), test["sentence"]
    assert "Not a directory" in test["sentence"]
    assert "result.json" not in {file.name for file in Path(test["kept"]).iterdir()}

    path.unlink()
    site.partition["prepare_cmds"] = ["exit 0"]
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    tests = site.report("LibraryVersions")
    assert {test["verdict"] for test in tests} <= {"invalid"}, tests


def test_a_hang_is_ended_and_named_by_benchio(site, shim):
    """Long before the job's own time is over, which would say nothing of it."""
    site.injected = {"hung": f"LD_PRELOAD={shim} FAULT=sleep FAULT_RANK=0"}
    site.write.update(backend=["hdf5"], local_size=[64])
    site.partition["time_limit"] = "10m"
    done = site.reframe("-r", "-n", "SharedFileWrite", "-S", "SharedFileWrite.time_limit=50s")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    said = r"benchio: error: rank 0: (\w+): \S+/hdf5\.h5: no end after 5 s \(--phase-limit\); "
    assert re.search(said, test["sentence"]), test["sentence"]
    assert test["verdict"] == "invalid"
    assert not list(site.scratch.iterdir())


# Of shim.c: what happens to the file of the case's backend, and a regular expression for what the
# sentence then says after the case.
INJECTED = {
    "flipped": ("flip", "verification_error"),
    "halved": ("truncate", "io_error"),
    "closed": ("open FAULT_ERRNO=13 FAULT_RANK=all", "io_error"),
    "failing": ("write FAULT_ERRNO=5 FAULT_RANK=all", "io_error"),
    "full": ("write FAULT_ERRNO=28 FAULT_RANK=0", "io_error"),
    "quota": ("short FAULT_RANK=0", "io_error"),
    "unsynced": ("sync FAULT_ERRNO=28 FAULT_RANK=all", "io_error"),
    "unclosed": ("close FAULT_ERRNO=28 FAULT_RANK=all", "bytes of data were written"),
    "killed": ("kill FAULT_RANK=0", r"signal 9 \(Killed\)"),  # which left no result: mpirun's words
}


@pytest.mark.parametrize(
    "backends", [["hdf5"], pytest.param(["mpiio", "netcdf"], marks=pytest.mark.slow)], ids="+".join
)
def test_every_fault_below_benchio_fails_the_check_and_leaves_no_file(
    site, shim, backends, tmp_path_factory
):
    site.write.update(backend=backends, local_size=[64])
    site.injected = {
        name: f"LD_PRELOAD={shim} FAULT={fault}" for name, (fault, _) in INJECTED.items()
    }
    says = {name: sentence for name, (_, sentence) in INJECTED.items()}
    if "hdf5" in backends:  # what is slow because nobody collects it is not what was asked for
        slow_shim = compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))
        site.injected["scattered"] = f"LD_PRELOAD={slow_shim} SLOW=independent"
        says["scattered"] = "collective transfer of hdf5: independent, independent requested"
    done = site.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    found = {(test["environ"], test["backend"]): test for test in site.report()}
    assert set(found) == {(name, backend) for name in says for backend in backends}
    for (name, backend), test in found.items():
        said = test["sentence"].removeprefix(f"{test['case_id']}: ")
        assert (test["result"], test["verdict"]) == ("fail", "invalid"), (name, backend, said)
        assert re.search(says[name], said), (name, backend, said)
        assert not [value for value, *_ in test["metrics"].values() if value is not None]
    assert not list(site.scratch.iterdir())
