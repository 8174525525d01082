"""What schedulers say, with stand-ins that say what the real ones said, or stand-ins that fail."""

import importlib
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
