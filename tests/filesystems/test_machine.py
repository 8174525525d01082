"""The cluster's own promise: nothing of it outlives the tests, however they end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from filesystems.machine import Machine, Unavailable, wait_until

TESTS = """\
import sys, time
from pathlib import Path
from filesystems.machine import Machine, wait_until
machine = Machine(Path(sys.argv[1]))
machine.daemon("escapes", "setsid", "sh", "-c", "sleep 1000 & sleep 1000", env={})
wait_until(lambda: len(machine.processes()) >= 2, "the second process")
print(*machine.processes(), flush=True)
time.sleep(1000)
"""


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/exe").is_symlink()]


def test_it_dies_with_the_tests(tmp_path: Path) -> None:
    try:
        Machine(tmp_path).stop()
    except Unavailable as err:
        pytest.skip(str(err))
    tests = subprocess.Popen(
        [sys.executable, "-c", TESTS, tmp_path],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )  # fmt: skip
    assert tests.stdout is not None
    inside = [int(pid) for pid in tests.stdout.readline().split()]
    assert len(alive(inside)) == len(inside) >= 2
    os.kill(tests.pid, signal.SIGKILL)
    tests.communicate()
    wait_until(lambda: not alive(inside), "the end of every process")
