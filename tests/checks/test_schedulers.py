"""What schedulers say, with stand-ins that say what the real ones said, or stand-ins that fail."""

import importlib
import subprocess
from types import SimpleNamespace

import pytest
from conftest import ROOT

#: Grid Engine 8.1.9: a job over its limit, one that somebody has deleted, one that ended by itself.
LIMIT = """\
jobnumber    4
failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit
exit_status  137                  (Killed)
"""
DELETED = """\
failed       100 : assumedly after job
exit_status  137                  (Killed)
"""
WELL = "failed       0\nexit_status  0\n"
IN_ERROR = """\
job_number:                 3
cwd:                        /nonexistent
error reason          1:      11/27/2026 18:33:43 [0:947]: error: can't chdir to /nonexistent
scheduling info:            Job is in error state
"""


@pytest.fixture
def schedulers(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("reframe_checks.schedulers")


@pytest.fixture
def say(tmp_path, monkeypatch):
    """say(qstat="text", ...): these commands are there, and print that; nothing: they fail."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def put(**told):
        for name, text in told.items():
            (tmp_path / f"{name}.text").write_text(text)
            end = f"cat {tmp_path}/{name}.text" if text else "echo 'no answer' >&2; exit 1"
            (tmp_path / name).write_text(f"#!/bin/sh\n# Stands in for {name}.\n{end}\n")
            (tmp_path / name).chmod(0o755)

    return put


def job(number, state="COMPLETED", *, has_begun=True):
    return SimpleNamespace(
        jobid=number, state=state, has_begun=lambda: has_begun, nodelist=["node2"]
    )


@pytest.mark.parametrize(
    ("record", "detail", "state", "words", "is_outside"),
    [
        (LIMIT, "", "COMPLETED", "ended its job 4: qmaster enforced h_rt", False),
        (DELETED, "", "COMPLETED", "job 4 was deleted, or killed by its node: assumedly", True),
        (WELL, "", "COMPLETED", "", False),
        ("no jobs running since startup\n", IN_ERROR, "ERROR",
         "job 4 is in the state ERROR (can't chdir to /nonexistent)", True),
    ],
)  # fmt: skip
def test_fate_under_grid_engine(schedulers, say, record, detail, state, words, is_outside):
    say(qacct=record, qstat=detail)
    fate = schedulers.fate("sge", job("4", state))
    assert words in fate.words
    assert bool(words) == bool(fate.words)
    assert (fate.is_outside, fate.is_limit) == (is_outside, record == LIMIT)


@pytest.mark.parametrize(
    ("state", "words", "is_outside"),
    [
        ("CANCELLED by 0", "the scheduler ended its job 7 as CANCELLED by root", True),
        ("PREEMPTED", "the scheduler ended its job 7 as PREEMPTED", True),
        ("NODE_FAIL", "the scheduler ended its job 7 as NODE_FAIL on node2", True),
        ("TIMEOUT", "the scheduler ended its job 7 as TIMEOUT", False),
        ("FAILED", "", False),
    ],
)
def test_fate_under_slurm(schedulers, say, state, words, is_outside):
    say(sacct=f"Welcome\n{state}\n", scontrol="")
    fate = schedulers.fate("slurm", job("7"))
    assert (fate.words, fate.is_outside) == (words, is_outside)


@pytest.mark.parametrize(
    ("said", "had_none"),
    [
        ("srun: error: Unable to confirm allocation for job 13: Unable to contact slurm controller "
         "(connect failure)", True),
        ("srun: error: Unable to create step for job 7: Socket timed out on send/recv operation",
         True),
        ('error: commlib error: got select error (Connection refused)', True),
        ("srun: error: node2: task 1: Segmentation fault", False),
        ("srun: error: Unable to create step for job 7: Invalid node name specified", False),
    ],
)  # fmt: skip
def test_job_that_its_scheduler_did_not_answer(schedulers, said, had_none):
    assert schedulers.had_no_answer(said) == had_none


def test_job_is_known_by_the_folder_in_which_it_works(schedulers, say, tmp_path):
    """Though its number could not be read."""
    stage = tmp_path / "stage"
    stage.mkdir()
    say(squeue=f"Welcome\n12 /other\n13 {stage}\n")
    assert schedulers.job_in("slurm", stage) == "13"
    assert schedulers.job_in("slurm", tmp_path) == ""
    say(squeue="")
    assert schedulers.job_in("slurm", stage) == ""
    assert "no answer" in schedulers.silence("slurm")


@pytest.mark.parametrize(
    ("backend", "line", "told"),
    [
        ("pbs", "12.server", "12.server"),
        ("sge", 'Your job 12 ("case") has been submitted', "Your job 12 "),
        ("sge", "12", "Your job 12 "),
        ("lsf", "Job <12> is submitted to queue <all>.", "Job <12> is submitted"),
    ],
)
def test_number_of_a_job_stands_among_other_words(schedulers, say, backend, line, told):
    importlib.import_module("reframe_checks.reframe_4_10")
    module = importlib.import_module(f"reframe.core.schedulers.{backend}")
    say(submit=f"Welcome to 7 clusters\n2 of them are down\n{line}\nbye\n")
    assert module._run_strict("submit").stdout == told


@pytest.mark.parametrize(
    ("state", "has_kept", "is_over"),
    [
        ("RUNNING", True, True),  # its scheduler is slow, or does not answer
        ("RUNNING", False, False),
        ("PREEMPTED", False, True),  # ReFrame waits for another state
        ("PENDING", True, False),  # queued again: it runs once more
    ],
)
def test_job_that_a_scheduler_does_not_end(
    schedulers, tmp_path, monkeypatch, state, has_kept, is_over
):
    inside = importlib.import_module("reframe_checks.reframe_4_10")
    monkeypatch.setattr(inside, "SETTLE_S", 0)
    if has_kept:
        (tmp_path / "exit_code").touch()
    waiting = SimpleNamespace(kept=tmp_path, state=state, is_over=False, over_since=None)
    ended = []
    scheduler = SimpleNamespace(registered_name="pbs", cancel=inside._cancel(print))
    scheduler.cancel.__wrapped__ = lambda scheduler, job: ended.append(job)
    finished = inside._finish(lambda scheduler, job: False)
    assert finished(scheduler, waiting) == is_over
    assert ended == [waiting] * is_over, "nothing is left in the queue"


def test_job_that_waits_too_long_ends_no_other(schedulers, tmp_path, monkeypatch):
    """ReFrame cancels it as it asks for all of them: the session goes on."""
    inside = importlib.import_module("reframe_checks.reframe_4_10")
    monkeypatch.setattr(inside, "CANCEL_S", 0)
    monkeypatch.setattr(inside, "_ending", None)
    facts = {"max_pending_time": 1, "submit_time": 0, "kept": tmp_path, "jobid": "1", "was": None}
    waits = SimpleNamespace(**facts, state="PENDING", is_over=False, over_since=None)
    runs = SimpleNamespace(**facts | {"kept": None}, state="RUNNING", is_over=False)
    ended = []

    class Scheduler:
        registered_name, silent, is_asking = "sge", "", False
        poll = inside._poll(inside._give_up(lambda self, *jobs: None))
        cancel = inside._cancel(lambda self, job: ended.append(job))
        finished = inside._finish(lambda self, job: False)

    monkeypatch.setattr(schedulers, "why_waiting", lambda name, job: ("PENDING", "no room"))
    scheduler = Scheduler()
    scheduler.poll(waits, runs)
    assert (ended, waits.was) == ([waits], ("PENDING", "no room"))
    assert not scheduler.finished(runs)
    scheduler.cancel(runs)  # as ReFrame does with all, when it is ended itself
    assert scheduler.finished(runs)


def test_job_that_is_queued_again_begins_anew(schedulers, tmp_path):
    """What it kept when it was ended is not taken for its end."""
    scripts = importlib.import_module("reframe_checks.scripts")
    (tmp_path / "stage").mkdir()
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("exit_code", "result.json", "job.json"):
        (kept / name).touch()
    lines = scripts.keep_results(tmp_path / "stage", kept, ["exit_code", "result*.json"])
    subprocess.run(["bash", "-c", "\n".join([*lines, "trap - EXIT"])], check=True)
    assert [file.name for file in kept.iterdir()] == ["job.json"]


def test_job_that_is_queued_again_writes_over_no_wrong_data(schedulers, tmp_path):
    """Wrong data of its first beginning are the verdict."""
    scripts = importlib.import_module("reframe_checks.scripts")
    stage, kept = tmp_path / "stage", tmp_path / "kept"
    for folder in (stage, kept):
        folder.mkdir()
    (kept / "exit_code").write_text("4\n")
    lines = scripts.keep_results(stage, kept, ["exit_code"])
    script = "\n".join([*lines, "touch began"])
    subprocess.run(["bash", "-c", script], check=True)
    assert (kept / "exit_code").read_text() == "4\n"
    assert not (stage / "began").exists()
