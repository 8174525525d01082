"""`iowatch run` as cron runs it: never twice at once, ended in time, with the real ReFrame."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from agreed import contract

from iowatch.past.history import read

CASE = "small:memory/{}/SharedFileWrite/backend=hdf5/local_size=8x8x8/ranks=2"
NIGHTLY = ["iowatch", "nightly", "--system", "small"]


@pytest.fixture
def hanging(site):
    """A site with two environments: the jobs of one never end."""
    site.faults = {"fine": "none", "hangs": "hangs"}
    site.write["backend"] = ["hdf5"]
    return site


@contextlib.contextmanager
def night(site, **how):
    """A night that runs, and is ended: killed, it would leave its ReFrame behind."""
    process = site.start(*NIGHTLY, **how)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(100)


def wait_for_job(site, process, file):
    """Wait until the job has written this file."""
    for _ in range(1200):
        if list(site.scratch.glob(f"iowatch.*/{file}")):
            return
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    pytest.fail("the job never ran")


def processes_of(site):
    """The processes that know the site's folders: their numbers and command lines."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            line = file.read_text()
            if any(str(folder) in line for folder in (site.folder, site.scratch, site.temporary)):
                yield int(file.parent.name), line


def staged(site):
    """What jobs have said in the stage folders of the site."""
    return set((site.folder / "run" / "stage").rglob("rfm_job.out"))


def test_interrupted_night(hanging):
    with night(hanging) as process:
        wait_for_job(hanging, process, "hangs")
        hanging.environment["RFM_SQLITE_DB_FILE"] = str(hanging.folder / "another.db")
        second = hanging.iowatch("--quiet")  # its stage would be the same
        hanging.environment.clear()
        during = staged(hanging)
        by_hand = hanging.reframe("--dry-run")
        assert by_hand.returncode == 0, by_hand.stdout
        assert staged(hanging) == during != set(), "ReFrame by hand touches no job of the night"
        process.terminate()
        output, _ = process.communicate(timeout=90)
    assert process.returncode == 143, output
    # The case that was measured is shown and on record; nothing else is left.
    assert re.search(r"^write shared +hdf5 .* ok *$", output, re.M), output
    assert "\nproblem: interrupted by SIGTERM\n" in output
    assert f"\nproblem: 1 of 4 cases was not run: {CASE.format('hangs')}\n" in output
    assert "\nred: 3 cases measured, 0 with a red verdict, " in output
    assert "is not in ReFrame's results database" not in output
    runs = read([hanging.database])
    assert [str(run.case) for run in runs if run.metrics] == [CASE.format("fine")]
    (folder,) = {run.night for run in runs}
    stopped = hanging.kept / folder / CASE.format("hangs").replace("/", ",")
    assert (stopped / "rfm_job.sh").exists(), "its raw results are kept, too"
    assert list(hanging.scratch.iterdir()) == []
    assert [*processes_of(hanging)] == []

    assert second.returncode == 2
    assert re.fullmatch(
        r"iowatch: error: small: a night is still at work, since \S+ \S+ UTC, "
        rf"process {process.pid} on \S+; nothing was run\n",
        second.stdout,
    )


@pytest.mark.slow
def test_interrupted_night_leaves_no_data(site):
    """The real benchio: mpirun takes longer to end it than ReFrame by itself allows a job."""
    site.write["local_size"] = [192]
    patient = [["OMPI_MCA_odls_base_sigkill_timeout", "3"]]
    site.environs["real"] = {"env_vars": patient}
    with night(site) as process:
        wait_for_job(site, process, "benchio.*")
        process.terminate()
        output, _ = process.communicate(timeout=90)
    assert process.returncode == 143, output
    assert list(site.scratch.iterdir()) == []
    assert [*processes_of(site)] == []


def test_time_limit(site):
    """So short that ReFrame may not even have begun."""
    site.faults = {"gnu": "hangs"}
    done = site.iowatch("--quiet", "--time-limit", "1s")
    assert done.returncode == 1, done.stdout
    problems = re.findall(r"^problem: (.+)$", done.stdout, re.MULTILINE)
    assert problems[0] == "the time limit was reached"
    assert re.match(r"[12] of 2 cases w(as|ere) not run", problems[1]), problems
    assert "[----" not in done.stdout, "nothing of ReFrame's own"
    assert list(site.scratch.iterdir()) == []
    assert [*processes_of(site)] == []


def killed(site, *options):
    """Kill a night and its ReFrame with one case measured, whose folder is returned, and one that
    runs."""
    process = site.start(*NIGHTLY, *options)
    try:
        wait_for_job(site, process, "hangs")
        fine = f"*/{CASE.format('fine').replace('/', ',')}"
        while not list(site.kept.glob(f"{fine}/exit_code")):
            time.sleep(0.1)
    finally:
        pids = [process.pid, *(pid for pid, _ in processes_of(site))]
        # All at once: no script sees its program end before it ends itself.
        for number, pid in itertools.product((signal.SIGSTOP, signal.SIGKILL), pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        process.communicate()
    for left in site.scratch.iterdir():
        shutil.rmtree(left)
    (measured,) = site.kept.glob(fine)
    return measured


def test_next_night_judges_what_one_that_was_killed_has_kept(hanging):
    """Once, and as a part of that night, which names what it has not measured."""
    measured = killed(hanging)
    was = measured.parent.name
    hanging.faults["hangs"] = "none"
    done = hanging.iowatch()
    assert done.returncode == 0, done.stdout
    said = f"the night {was}, whose session was killed, is now red, by 3 cases that its jobs have"
    assert f"note: {said} kept\n" in done.stdout
    assert "problem: " not in done.stdout
    (fine,) = [run for run in read([hanging.database]) if run.metrics and run.night == was]
    assert (fine.case.environ, fine.folder) == ("fine", str(measured))
    again = hanging.iowatch("--quiet")
    assert (again.returncode, was in again.stdout) == (0, False), again.stdout
    page = hanging._run("iowatch", "report", "--system", "small", "--night", was, "--format", "md")
    assert "its session was killed" in page.stdout, page.stdout
    assert "1 of 4 cases was not run: small:memory/hangs/" in page.stdout


def test_next_night_judges_nothing_of_another_suite(hanging):
    """By the past, which a contract alone would judge."""
    was = killed(hanging, "--suite", "acceptance").parent.name
    hanging.faults["hangs"] = "none"
    done = hanging.iowatch()
    assert f"problem: the night {was} is not in the results database" in done.stdout, done.stdout
    assert was not in {run.night for run in read([hanging.database])}
    resumed = hanging.iowatch("--resume")
    assert "nothing of it was lost" in resumed.stdout, "of the nightly suite"


def test_night_that_was_killed_goes_on_with_what_has_ended(hanging):
    """The case that was measured is judged by its raw results; the one that ran then runs anew. So
    it is of an acceptance test, which then has all of them on record."""
    acceptance = ("--suite", "acceptance")
    measured = killed(hanging, *acceptance)
    before = (measured / "result.json").read_bytes()

    hanging.faults["hangs"] = "none"
    done = hanging.iowatch("--resume", *acceptance)
    assert done.returncode == 0, done.stdout
    same = measured.parent.name
    assert done.stdout.startswith(f"Night {same} of small: goes on with 4 cases (4 on memory).\n")
    runs = {run.case.environ: run for run in read([hanging.database]) if run.metrics}
    assert {run.night for run in runs.values()} == {same}
    assert runs["fine"].folder == str(measured)
    assert (measured / "result.json").read_bytes() == before
    assert runs["hangs"].folder.endswith("+2")
    text = contract("kind: bandwidth, backend: hdf5, at_least: 1", reruns="failed")
    (hanging.folder / "contract.yaml").write_text(text)
    said = hanging._run("iowatch", "accept", "judge", "contract.yaml", "--output", "d.html").stdout
    assert "1 of the 2 sessions were measured" in said, said
    assert "1 run was replaced by re-runs" in said, said
    page = (hanging.folder / "d.html").read_text()
    assert re.search(r"/hangs/.* \(its session was killed and cut off \S+,hangs,\S+\) by ", page)


def test_reframe_that_was_killed_loses_no_measured_case(hanging):
    """The night itself has that judged which its job has kept; --resume measures the rest, and
    takes back what it has made untrue."""
    process = hanging.start(*NIGHTLY)
    try:
        wait_for_job(hanging, process, "hangs")
        while not list(hanging.kept.glob(f"*/{CASE.format('fine').replace('/', ',')}/exit_code")):
            time.sleep(0.1)
        (reframe,) = [pid for pid, line in processes_of(hanging) if "--report-file" in line]
        os.kill(reframe, signal.SIGKILL)
        output, _ = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(100)
    assert process.returncode == 1, output
    assert "\nproblem: reframe was killed by SIGKILL" in output
    unrun = f"1 of 4 cases was not run: {CASE.format('hangs')}"
    assert f"\nproblem: {unrun}\n" in output
    assert re.search(r"^write shared +hdf5 .* ok *$", output, re.M), output
    runs = {run.case.environ: run for run in read([hanging.database]) if run.metrics}
    assert [*runs] == ["fine"]

    hanging.faults["hangs"] = "none"
    for left in hanging.scratch.iterdir():
        shutil.rmtree(left)
    done = hanging.iowatch("--resume")
    assert done.returncode == 0, done.stdout
    assert ": goes on with 1 case (1 on memory).\n" in done.stdout
    assert "problem: " not in done.stdout
    again = hanging.iowatch("--resume")
    assert "nothing of it was lost" in again.stdout
