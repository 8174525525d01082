"""`make demo`, as somebody sees it who tries iowatch for the first time."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

#: More than twenty nights of real ReFrame and benchio.
pytestmark = pytest.mark.slow

MEMORY = Path("/dev/shm")
GREEN = {"ok", "suspect"}  # a busy machine may be suspicious, and no more


@pytest.fixture
def demo(tmp_path, benchio):
    """The demo, started in another directory than its own, with its folders in tmp_path."""
    before = set(MEMORY.glob("iowatch-demo.*"))
    elsewhere = tmp_path / "results"
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "RFM_PREFIX": str(elsewhere),  # somebody's own
        "RFM_SQLITE_DB_FILE": str(elsewhere / "results.db"),
        "RFM_SYSTEM": "nowhere",
    }
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts/demo/demo_nights.py"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.terminate()
    process.wait()
    assert not elsewhere.exists(), "nothing enters the history of a site"
    assert set(MEMORY.glob("iowatch-demo.*")) == before


def test_demo_ends_red_with_one_sentence_and_a_page(demo, tmp_path):
    out, _ = demo.communicate()
    assert demo.returncode == 0, out
    nights = re.findall(r"^(healthy night \d+|with the fault): +(\w+) .+$", out, re.MULTILINE)
    assert len(nights) > 20
    for name, colour in nights[:-1]:
        assert colour in {"green", "amber"} or name == "with the fault", out
    assert nights[-1] == ("with the fault", "red")
    busy = re.findall(r": +amber .*; this machine is too busy to judge", out)
    assert len(busy) == [colour for _, colour in nights].count("amber"), out
    assert re.search(r"\niowatch bless: +\d cases? blessed, \d refused\n", out)
    sentence, page, public = re.search(
        r"\n\n(hdf5 on tmpfs: .*)\n\nCost to users: up to \+\d+ min: .*\n\n"
        r"The page of that night: (.*)\nThe page for users: (.*)\n",
        out,
    ).groups()
    assert "close" in sentence
    assert "H5Fclose" in sentence or "in close" in sentence
    (folder,) = tmp_path.glob("iowatch-demo.*")
    assert folder in Path(page).parents
    assert "<h1>Slower than usual: Memory</h1>" in Path(public).read_text()
    text = Path(page).read_text()
    assert "hdf5 tonight" in text
    assert "mpiio usual" in text
    assert "the white paper on Cirrus" in text
    verdicts = re.findall(r'<span class="verdict (\w+)[ \w]*">[^<]+</span></a>', text)
    assert [verdict in GREEN for verdict in verdicts] == [False, False, True, True], verdicts
    assert "[====" not in out, "nothing of ReFrame's own"


def test_demo_that_is_interrupted_leaves_nothing_behind(demo, tmp_path):
    for line in demo.stdout:
        if line.startswith("healthy night 1:"):  # the second has begun
            break
    (files,) = MEMORY.glob("iowatch-demo.*")
    while not list(files.iterdir()):  # a job is about to write there
        assert demo.poll() is None
        time.sleep(0.05)
    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=120)
    assert demo.returncode == 130, out
    assert "nothing is left behind" in out
    assert list(tmp_path.iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in running
