"""What all tests are made with."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from changed import ROOT, select

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py").read_text()


def test_golden_file_is_written_only_on_demand(pytester):
    pytester.makeconftest(CONFTEST)
    test = pytester.makepyfile('def test_it(golden): golden("it.txt", "one\\ntwo\\n")')
    golden = pytester.path / "golden/it.txt"
    command = f"*pytest --update-golden {test.name}::test_it"
    pytester.runpytest().stdout.fnmatch_lines(["+one", command])
    assert not golden.exists()
    pytester.runpytest("--update-golden").assert_outcomes(passed=1)
    assert golden.read_text() == "one\ntwo\n"
    pytester.runpytest().assert_outcomes(passed=1)
    golden.write_text("one\n2\n")
    pytester.runpytest().stdout.fnmatch_lines(["-2", "+two", command])
    assert golden.read_text() == "one\n2\n"


@pytest.mark.parametrize(
    ("changed", "concerned", "spared"),
    [
        ("src/iowatch/night/blame.py", "iowatch/test_blame.py", "iowatch/test_case.py"),
        # cases.py imports it, and many tests cases.py.
        ("src/iowatch/cases/case.py", "iowatch/test_acceptance.py", "benchio/test_signals.py"),
        ("bench/acceptance.py", "iowatch/test_acceptance.py", "iowatch/test_case.py"),
        ("bench/speed.py", "test_benches.py", "iowatch/test_case.py"),
        ("tests/iowatch/test_case.py", "iowatch/test_case.py", "iowatch/test_result.py"),
        ("tests/checks/conftest.py", "checks/test_nights.py", "iowatch/test_case.py"),
        ("src/benchio/lib/rounds.f90", "faults/test_faults.py", "iowatch/test_case.py"),
        ("reference_values/local.yaml", "checks/test_checks.py", "benchio/test_signals.py"),
        ("reframe_checks/base.py", "iowatch/test_sites.py", "benchio/test_signals.py"),
        ("tests/faults/shim.c", "faults/test_faults.py", "benchio/test_signals.py"),
    ],
)
def test_change_concerns_what_imports_it_and_its_folder(changed, concerned, spared):
    tests = [ROOT / "tests" / name for name in (concerned, spared)]
    assert all(file.is_file() for file in [ROOT / changed, *tests])
    assert select([ROOT / changed], tests) == {tests[0]}


def test_every_test_needs_the_conftest_that_it_never_imports():
    tests = set(ROOT.glob("tests/**/test_*.py"))
    assert select([ROOT / "tests/conftest.py"], sorted(tests)) == tests
    assert select([ROOT / "LICENSE"], sorted(tests)) == set()


def test_failure_says_how_it_is_run_again(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        test_it="""
        import pytest
        from conftest import run

        @pytest.mark.parametrize("word", ["it's here"])
        def test_it(word):
            done = run(["sh", "-c", "exit 3"], env={"FAULT": "two words"})
            assert done.code == 0
        """
    )
    pytester.syspathinsert()
    lines = pytester.runpytest().stdout.lines
    assert """source env.sh && pytest 'test_it.py::test_it[it'"'"'s here]'""" in lines
    (command,) = (line for line in lines if line.startswith("env OMPI"))
    assert subprocess.run(["bash", "-c", command]).returncode == 3


def test_what_a_folder_keeps_for_a_session_ends_with_the_folder(pytester):
    pytester.makeconftest(CONFTEST)
    for folder in ("one", "two"):
        pytester.mkdir(folder)
    (pytester.path / "one/conftest.py").write_text(
        """
import pytest

@pytest.fixture(scope="session")
def cluster():
    print("cluster is up")
    yield
    print("cluster is down")

@pytest.fixture(scope="session")
def disk(cluster):
    yield
    print("disk is off")
"""
    )
    test = "def test_{0}({1}): print('in {0}')\n"
    (pytester.path / "one/test_1.py").write_text(test.format("a", "disk") + test.format("b", ""))
    (pytester.path / "one/test_2.py").write_text(test.format("c", "disk"))
    (pytester.path / "two/test_3.py").write_text(test.format("d", ""))
    lines = pytester.runpytest("-s", "-q").stdout.lines
    words = [line.lstrip(".") for line in lines if "is " in line or "in " in line]
    told = ["cluster is up", "in a", "in b", "in c", "disk is off", "cluster is down", "in d"]
    assert words[: len(told)] == told


LEFTOVERS = {
    "subprocess.Popen(['setsid', 'sleep', '77'])": "*process * still runs: *sleep 77*",
    # Nobody's child, and in a session of its own.
    "subprocess.run('setsid sleep 78 & exit', shell=True)": "*process * still runs: sleep 78*",
    "tempfile.mkdtemp(prefix='iowatch-left.')": "*/iowatch-left.* is still there*",
    "subprocess.run(['mktemp', '--tmpdir', 'benchio.XXX'])": "*/benchio.* is still there*",
    "made.append(tempfile.mkdtemp(prefix='iowatch-left.', dir='/dev/shm'))": "*/dev/shm/iowatch-*",
    "subprocess.run('mkdir m; mount -t tmpfs none m', shell=True)": "*/m is still mounted*",
    "pathlib.Path('known').write_text('changed')": "*a file that git knows has changed*",
}


@pytest.mark.parametrize("act", LEFTOVERS)
def test_what_a_test_leaves_behind_is_an_error(act, pytester, monkeypatch, request):
    if "mount" in act:
        request.getfixturevalue("own_mounts")
    monkeypatch.setattr("leftovers.GRACE_S", 0.3)
    monkeypatch.setattr("leftovers.ROOT", pytester.path)
    pytester.makeconftest(CONFTEST)
    (pytester.path / "known").touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "known"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, cwd=pytester.path)
    healthy = "def test_healthy(tmp_path): subprocess.run(['sleep', '0'])\n"
    made = pytester.makepyfile(
        test_1="import pathlib, subprocess, tempfile\nmade = []\n" + healthy,
        test_2=f"import pathlib, subprocess, tempfile\nmade = []\n{healthy}"
        f"def test_it():\n    {act}\n    print('made', *made)\n",
    )
    assert made
    done = pytester.runpytest("-s")
    try:
        done.assert_outcomes(passed=3, errors=1)
        done.stdout.fnmatch_lines([f"E*test_2.py leaves behind: {LEFTOVERS[act]}"])
    finally:
        text = done.stdout.str()
        for process in re.findall(r"process (\d+) still runs: (?:setsid )?sleep 7", text):
            os.kill(int(process), signal.SIGKILL)
        if (pytester.path / "m").is_mount():
            subprocess.run(["umount", pytester.path / "m"], check=True)
        for folder in re.findall(r"made (/dev/shm/iowatch-left\S+)", text):
            Path(folder).rmdir()


def test_what_a_fixture_keeps_for_the_session_is_left_behind_by_no_file(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        test_it="""
        import subprocess, pytest

        @pytest.fixture(scope="session")
        def server():
            with subprocess.Popen(["sleep", "79"]) as process:
                yield process
                process.kill()

        def test_it(server):
            assert server.poll() is None
        """,
        test_others="def test_it(): pass",
    )
    pytester.runpytest().assert_outcomes(passed=2)
