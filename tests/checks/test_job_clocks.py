"""Clocks of jobs: what was noted of them, and that no span is by one that can be set."""

import importlib
import re
import subprocess
import time

import pytest
from conftest import ROOT

from iowatch.cases.verdict import Reason
from iowatch.measure.job_environment import APART_S, NAME, ahead, require_unset, set_by
from iowatch.measure.result import InvalidResult

JOB = ROOT / "reframe_checks/job"


def look(up, now, host="node1", took=0.01):
    return f"{host} {up:.2f} {now:.9f} {up + took:.2f}\n"


# What was noted -> by how much node1's time was set. It went on for 60 s each time.
NOTED = {
    "as it should": (look(100, 5000) + look(160, 5060), 0),
    "forward": (look(100, 5000) + look(160, 5065), 5),
    "back": (look(100, 5000) + look(160, 5055), -5),
    "a day on": (look(100, 5000) + look(160, 5060 + 86400), 86400),
    "back and forth": (look(100, 5000) + look(130, 5020) + look(160, 5060), 10),
    "in two steps": (look(100, 5000) + look(130, 5230) + look(160, 5460), 400),
    # A busy node needs 3 s for a look; the time may be of its begin or of its end.
    "slow looks": (look(100, 5003, took=3) + look(160, 5060, took=3), 0),
    "another node": (look(100, 5000) + look(130, 9000, "node2") + look(160, 5060), 0),
    "torn": (look(100, 5000) + look(160, 5060) + "node1 170.00 50", 0),
}


@pytest.mark.parametrize("name", NOTED)
def test_a_clock_that_was_set_is_seen_by_the_one_that_nobody_sets(tmp_path, name):
    text, seconds = NOTED[name]
    (tmp_path / NAME).write_text(text)
    assert set_by(tmp_path).get("node1", 0) == pytest.approx(seconds, abs=0.05)
    for most_s in (0.05, APART_S):
        if abs(seconds) <= most_s:
            require_unset(tmp_path, most_s)
            continue
        with pytest.raises(InvalidResult, match=r"^the clock of node1 was set ") as refused:
            require_unset(tmp_path, most_s)
        assert refused.value.reason is Reason.WRONG_CLOCK
        assert ("set back by" in str(refused.value)) == (seconds < 0)


def test_what_programs_say_that_they_took_needs_two_looks_at_the_clocks(tmp_path):
    for text in ("", look(100, 5000)):
        (tmp_path / NAME).write_text(text)
        with pytest.raises(InvalidResult, match="says nothing of how the job's clocks went"):
            require_unset(tmp_path)


def test_the_clock_of_who_made_the_job_is_known_without_a_note(tmp_path, monkeypatch):
    """The time at which the run ended, as it is on record, is by that clock."""
    before, now = ahead(), time.time()
    require_unset(tmp_path, APART_S, before)
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    with pytest.raises(InvalidResult, match=r"^the clock of \S+ was set back by 864\d\d"):
        require_unset(tmp_path, APART_S, before)


def shell(text, folder, *arguments, **environment):
    return subprocess.run(
        ["bash", "-c", text, "job", *map(str, arguments)],
        cwd=folder, env={"PATH": f"{folder}:/usr/bin:/bin", **environment},
        capture_output=True, text=True,
    )  # fmt: skip


def stand_in(folder, name, text):
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_job_notes_both_clocks(tmp_path):
    """In the folder where it began, wherever it is; and from a node, if it is to."""
    stand_in(tmp_path, "date", '[ -e set ] && set -- -d "5 seconds ago" "$@"\nexec /bin/date "$@"')
    clocks = f". {JOB}/clocks.sh; look_at_clocks; cd /; look_at_clocks; cd -; touch set"
    clocks += "; STEP=env look_at_clocks"
    done = shell(clocks, tmp_path, CLOCKS=NAME)
    assert (done.returncode, done.stderr) == (0, "")
    assert len((tmp_path / NAME).read_text().splitlines()) == 3
    assert list(set_by(tmp_path).values()) == [pytest.approx(-5, abs=1)]


def test_a_sync_is_timed_by_no_clock_that_can_be_set(tmp_path):
    """It is as long as its syncs together; a file that is not there, or fails, is none."""
    stand_in(tmp_path, "date", "exit 1")
    for name in ("a file", "b"):
        (tmp_path / name).write_text(name)
    sync = (JOB / "sync_files.sh").read_text()
    done = shell(sync, tmp_path, "a file", "b")
    assert float(re.fullmatch(r"synced (\d+\.\d{9})\n", done.stdout)[1]) > 0
    assert (tmp_path / "a file").read_text() == "a file"
    assert shell(sync, tmp_path, "b", "gone").stdout == ""
    assert not (tmp_path / "gone").exists()
    says = "0 bytes copied, 0.5 s, 0.0 kB/s"
    syncs = 'case "$*" in *of=a*,fsync) ;; *) exit 1 ;; esac'
    stand_in(tmp_path, "dd", f'echo "{says}" >&2; {syncs}')
    assert shell(sync, tmp_path, "a", "a").stdout == "synced 1.000000000\n"
    assert shell(sync, tmp_path, "a", "b").stdout == ""


def test_an_allocation_ends_when_nobody_uses_it_whatever_is_the_time(tmp_path):
    """After as many looks as there are in so many minutes."""
    stand_in(tmp_path, "sbatch", 'echo "${@: -1}" >wrap; echo 77')
    once = "[ $(wc -l <looks) != 7 ] || touch -d 2001-01-01 in_use"
    stand_in(tmp_path, "sleep", f"echo look >>looks; {once}")
    before = f"ALLOCATION={tmp_path} ASKED=() MINUTES=1 GRANTED=yes QUEUE='echo 77 RUNNING'\n"
    shell(before + (JOB / "allocation.sh").read_text(), tmp_path)
    assert (tmp_path / "job").read_text() == "77\n"
    subprocess.run(["touch", "-d", "1 day ago", tmp_path / "in_use"], check=True)
    done = shell("sh wrap", tmp_path)  # as sbatch makes a script of it
    assert done.stderr == ""
    assert len((tmp_path / "looks").read_text().splitlines()) == 8 + 12


def test_no_part_of_a_job_takes_a_span_by_the_time_of_day():
    """The time of day is asked for once, beside the clock that nobody sets."""
    wall = re.compile(r"\bSECONDS\b|EPOCH|\bdate \+%s|-mmin|%\(%s\)T|^\s*time\s", re.MULTILINE)
    found = {file.name: wall.findall(file.read_text()) for file in JOB.glob("*.sh")}
    assert {name: words for name, words in found.items() if words} == {"clocks.sh": ["date +%s"]}


def test_a_clock_that_goes_forward_ends_no_job_of_this_machine(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    importlib.import_module("reframe_checks.reframe_4_10")
    local = importlib.import_module("reframe.core.schedulers.local")
    before, now = local.time.time(), time.time()
    assert before == pytest.approx(now, abs=60)
    monkeypatch.setattr(time, "time", lambda: now + 86400)
    assert local.time.time() - before < 60
