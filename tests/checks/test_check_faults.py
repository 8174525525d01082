"""Faults of benchio, and below it: each fails its check, gives no metric and leaves no file but its
raw results."""

import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchio.traces import calls_on, watched
from cases import backend_of, verdict_of
from conftest import ROOT, compiled

from iowatch.past import history

REFERENCES = """
SharedFileWrite:
  .*:
    ratio: [0.9, -0.5, null]
"""

# Environment -> fault of the stand-in, verdict, what the sentence says.
FAULTS = {
    "cut_off": ("cut off", "failed (no_output)", "result.json is not readable JSON"),
    "no_result": ("no result", "failed (no_output)", "benchio: error: stand-in: wrote nothing"),
    "another": ("another run", "failed (no_output)", "result.json is another job's: its run has"),
    "spread": ("spread", "failed (not_as_asked)", "on 2 hosts (node1 node2), where 1 node was"),
    "late": ("fails at the end", "ok", "its launcher ended with 1: benchio: error: stand-in: "),
    "too_fast": ("too fast", "failed (above_ceiling)", "above the physical ceiling of 1000000 "),
    "slow_hdf5": ("slow hdf5", "regression (reference)", "ratio is 0.1, below its bound of 0.45"),
    "lost": ("none", "failed (not_as_asked)", "LOST: rank 0 had none, where that of the job was"),
    "none": ("none", "ok", "1 metric is within"),
}
EVERY_JOB = {"rfm_job.sh", "rfm_job.out", "rfm_job.err"}
SECRET = "not-to-be-told"
RESULT = "result.json"  # besides those of every job


def test_every_fault_has_its_verdict_sentence_and_raw_results(site):
    """A job that never ends is one of them, and one in which the clock is set a day forward."""
    site.faults = {name: fault for name, (fault, *_) in FAULTS.items()} | {"endless": "hangs"}
    site.faults["tomorrow"] = "none"
    site.partitions = {
        "memory": {"environs": [*FAULTS, "tomorrow"]},
        "away": {"environs": ["endless"], "time_limit": "3s"},
    }
    site.write["backend"] = ["hdf5"]
    site.extras["settle"] = 7
    site.environs["none"] = {"extras": {"spack": "benchio@0.1.0 /abcdefg"}}
    site.environs["lost"] = {
        "env_vars": [["HANDED", "$HOME/over"], ["LOST", SECRET]],
        "prepare_cmds": ['mpirun() { env -u LOST mpirun "$@"; }'],  # as a scheduler may
    }
    site.references = REFERENCES
    once = site.folder / "asked_once"
    later = f'[ ! -e {once} ] || set -- -d tomorrow "$@"\n: >{once}\nexec /bin/date "$@"'
    date = site.program("tomorrow", "date", later)
    site.environs["tomorrow"] = {"env_vars": [["PATH", f"{date.parent}:$PATH"]]}
    done = site.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 1, done.stdout
    tests = {test["environ"]: test for test in site.report()}
    kept = {name: Path(test["kept"]) for name, test in tests.items()}
    endless, tomorrow = tests.pop("endless"), tests.pop("tomorrow")
    assert verdict_of(tomorrow) == "unjudged (wrong_clock)"
    assert re.match(r"the clock of \S+ was set forward by 86400 s while", tomorrow["sentence"])
    assert set(tests) == set(FAULTS)
    for name, (_, verdict, sentence) in FAULTS.items():
        test = tests[name]
        assert verdict_of(test) == verdict, name
        assert sentence in test["sentence"]
        assert (test["result"] == "pass") == (verdict == "ok"), name
        if verdict != "ok":
            assert test["sentence"] in test["fail_reason"]
        names = {file.name for file in kept[name].iterdir()}
        assert names >= EVERY_JOB, name
        assert (RESULT in names) == (name != "no_result"), name
    assert tests["none"]["provenance"]["spack"] == "benchio@0.1.0 /abcdefg"
    assert '--settle 7 --dir "$RUNDIR" ' in (kept["none"] / "rfm_job.sh").read_text()
    for file in kept["lost"].iterdir():
        assert file.name == "rfm_job.sh" or SECRET not in file.read_text()
    assert tests["slow_hdf5"]["metrics"]["ratio"] == [
        pytest.approx(0.1), 0.9, -0.5, None, "1", "fail",
    ]  # fmt: skip

    assert endless["sentence"] == (
        "benchio: error: rank 0: write: /f: no end after 1 s (--phase-limit); "
        "its job was ended at its time limit of 0:00:03"
    )
    kinds = {run.case.environ: str(run.outcome) for run in history.read([site.database])}
    assert kinds["endless"] == "failed (time_limit)"
    assert {file.name for file in kept["endless"].iterdir()} >= EVERY_JOB
    assert not list(site.scratch.iterdir())


@pytest.fixture
def frozen(tmp_path):
    """A directory on ext4, and what freezes it once a run has begun there, for so many seconds:
    whoever writes there cannot be killed meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    image, place = tmp_path / "image", tmp_path / "place"
    place.mkdir()
    image.touch()
    os.truncate(image, 2**26)
    subprocess.run(["mkfs.ext4", "-qF", image], check=True)
    done = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no loop device can be mounted: {done.stderr.strip()}")

    def freeze(seconds):
        while not list(place.glob("iowatch.*/benchio.*")):
            time.sleep(0.02)
        subprocess.run(["fsfreeze", "--freeze", place], check=True)
        time.sleep(seconds)
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)

    yield place, freeze
    while subprocess.run(["umount", place], capture_output=True).returncode:  # ranks still end
        time.sleep(0.2)


@pytest.mark.slow
def test_word_of_benchio_outlives_that_its_processes_could_not_be_killed(site, frozen):
    place, freeze = frozen
    site.extras |= {"path": str(place), "type": "ext4"}
    site.write["local_size"] = [64]
    site.partition["time_limit"] = "10s"
    with ThreadPoolExecutor() as beside:
        ended = beside.submit(freeze, 60)
        done = site.reframe("-r", "-n", "SharedFileWrite", "-S", "SharedFileWrite.repeats=500")
        ended.result()
    (test,) = site.report()
    assert verdict_of(test) == "failed (time_limit)", done.stdout
    assert re.fullmatch(
        rf"benchio: error: rank \d: \w+: {place}/\S+: no end after 1 s \(--phase-limit\).*; "
        r"its job was ended at its time limit of 0:00:10, and its processes could not be killed "
        r"until \d+ s later",
        test["sentence"],
    ), test["sentence"]


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
    files = [kept / name for name in sorted({*EVERY_JOB, RESULT, "exit_code", "job.json"})]
    for path in [*files, kept, kept.parent, site.kept, site.kept.parent]:
        assert max(synced(path), default=stored) < stored, path


def test_what_an_earlier_job_has_left_in_the_stage_is_no_result(site):
    """Of one that stops before it measures, and of one that never starts."""
    path = site.scratch / "filesystem"
    site.faults = {"gnu": "none"}
    site.partitions = {"spoiled": {"extras": {"path": str(path)}}, "idle": {}, "unmarked": {}}
    site.environment.update(RFM_CLEAN_STAGEDIR="0", RFM_KEEP_STAGE_FILES="1")
    done = site.reframe("-r")
    assert done.returncode == 0, done.stdout
    path.rmdir()
    path.touch()
    site.partitions["idle"]["prepare_cmds"] = ["exit 0"]
    site.partitions["unmarked"]["prepare_cmds"] = [
        f"for kept in {site.kept}/*/small:unmarked*SharedFileWrite*; do "
        'mkdir "$kept/benchio_started"; done 2> /dev/null'
    ]
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    tests = {
        (test["partition"], test["name"].split()[0]): test
        for test in site.report("LibraryVersions")
    }
    test = tests["spoiled", "SharedFileWrite"]
    assert (verdict_of(test), test["metrics"]) == ("failed (io_error)", {}), test["sentence"]
    assert "Not a directory" in test["sentence"]
    assert "result.json" not in {file.name for file in Path(test["kept"]).iterdir()}
    idle = {verdict_of(test) for (place, _), test in tests.items() if place == "idle"}
    assert idle <= {"failed (no_output)"}, tests
    # Nothing else would show that what it failed to do was tried.
    test = tests["unmarked", "SharedFileWrite"]
    assert verdict_of(test) == "failed (no_output)", "benchio may not run without its mark"


def test_a_quota_that_ends_in_the_middle_is_no_fault_of_the_storage(site, shim):
    one = {"backend": ["posix"], "files": ["process"], "local_size": [64], "nodes": [1]}
    site.suite = {"FilePerProcess": one}
    site.injected = {"quota": f"LD_PRELOAD={shim} FAULT=write FAULT_ERRNO=122 FAULT_RANK=all"}
    site.injected["quota"] += f" FAULT_FILE='{site.scratch}/iowatch.*/benchio.*/posix*.dat'"
    site.reframe("-r", "-n", "FilePerProcess", "-S", "repeats=1")
    (test,) = site.report()
    assert verdict_of(test) == "unjudged (quota)", test["sentence"]
    assert "Disk quota exceeded" in test["sentence"]


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


#: What a check does not tell from the others here: benchio's own tests do.
SLOW = {"halved", "closed", "failing", "quota", "unsynced"}


@pytest.mark.parametrize(
    ("backends", "names"),
    [
        pytest.param(["hdf5"], INJECTED.keys() - SLOW, id="hdf5"),
        pytest.param(["hdf5"], SLOW, id="hdf5, all others", marks=pytest.mark.slow),
        pytest.param(["mpiio", "netcdf"], INJECTED, id="mpiio+netcdf", marks=pytest.mark.slow),
    ],
)
def test_every_fault_below_benchio_fails_the_check_and_leaves_no_file(
    site, shim, backends, names, tmp_path_factory
):
    site.write.update(backend=backends, local_size=[64])
    site.injected = {name: f"LD_PRELOAD={shim} FAULT={INJECTED[name][0]}" for name in names}
    says = {name: INJECTED[name][1] for name in names}
    site.partitions = {"memory": {"environs": [*names], "max_jobs": 2}}  # nothing is measured
    if "flipped" in names and "hdf5" in backends:
        # A hang is ended by benchio, long before the job's own time is over.
        site.injected["hung"] = f"LD_PRELOAD={shim} FAULT=sleep FAULT_RANK=0"
        site.partitions["late"] = {"environs": ["hung"], "time_limit": "50s"}
        says["hung"] = (
            r"benchio: error: rank 0: (\w+): \S+/hdf5\.h5: no end after 5 s \(--phase-limit\); "
        )
        # What is slow because nobody collects it is not what was asked for.
        slow_shim = compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))
        site.injected["scattered"] = f"LD_PRELOAD={slow_shim} SLOW=independent"
        site.partitions["memory"]["environs"].append("scattered")
        says["scattered"] = "collective transfer of hdf5: independent, independent requested"
    done = site.reframe("-r", "-n", "SharedFileWrite", "-S", "repeats=1")
    assert done.returncode == 1, done.stdout
    tests = {(test["environ"], backend_of(test)): test for test in site.report()}
    assert set(tests) == {(name, backend) for name in says for backend in backends}
    for (name, backend), test in tests.items():
        sentence = test["sentence"]
        assert (test["result"], test["state"]) == ("fail", "failed"), (name, backend, sentence)
        assert (test["reason"] == "corrupt") is (name == "flipped"), (name, backend, sentence)
        assert re.search(says[name], sentence), (name, backend, sentence)
        assert not [value for value, *_ in test["metrics"].values() if value is not None]
    # Wrong data stay, as evidence, and nothing else does.
    evidence = [file.parent for file in site.scratch.rglob("wrong_data.txt")]
    assert len(evidence) == len(backends) * ("flipped" in names)
    assert [file for file in site.scratch.rglob("*.h5") if file.parent not in evidence] == []
    assert len(list(site.scratch.iterdir())) == len(evidence)
