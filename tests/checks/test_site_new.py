"""`iowatch site new`: what it writes on this machine, and where sinfo and lfs answer, works."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from login_node import CONFIG, findmnt, say
from typer.testing import CliRunner

from iowatch import cli

ROOT = Path(__file__).parents[2]
IOWATCH = [sys.executable, "-m", "iowatch"]


@pytest.fixture(autouse=True)
def no_cell(tmp_path_factory, monkeypatch):
    """A stand-in for Grid Engine's qstat where this machine is of no cell: a package may have given
    it one."""
    folder = tmp_path_factory.mktemp("programs")
    say(folder, qstat='fopen("act_qmaster") failed: No such file or directory')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def login(tmp_path):
    """login(command, NAME=value...): it runs in a folder that is the site's own."""
    (tmp_path / "site_configs").mkdir()

    def run(*command, **variables):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("RFM_CONFIG_FILES", "RFM_REFERENCE_PREFIX", "LOADEDMODULES"):
            environment.pop(name, None)
        return subprocess.run(
            [str(word) for word in command],
            env={
                **environment,
                "IOWATCH_SITE_DIR": str(tmp_path),
                "RFM_PREFIX": str(tmp_path / "run"),
                **variables,
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture
def memory():
    folder = tempfile.mkdtemp(prefix="iowatch-test.", dir="/dev/shm")
    yield Path(folder)
    shutil.rmtree(folder)


def next_steps(out):
    """The commands that are printed to go on with: get ready, check, night."""
    return re.findall(r"^    (\S.*)$", out, re.MULTILINE)


def test_site_of_this_machine_works_as_it_is_written(login, tmp_path, memory):
    done = login(*IOWATCH, "site", "new", "mine", "--path", memory / "new")
    assert done.returncode == 0, done.stdout
    assert f"written: {tmp_path}/site_configs/mine.py" in done.stdout
    ready, _, night = next_steps(done.stdout)

    # Smaller, for a test; that what stands beside benchio is listed, the next test shows.
    file = tmp_path / "site_configs/mine.py"
    text = file.read_text()
    others = re.search(r'\n +\*\*PEERS\["\w+"\]\["nightly"\],', text)[0]
    for long, short in (('"local_size": [128],', '"local_size": [64],'), (others, "")):
        assert text.count(long) == 1
        text = text.replace(long, short)
    file.write_text(text)
    measured = login("bash", "-ec", f"{ready}\n{night} -- -S repeats=3")
    assert measured.returncode == 0, measured.stdout
    assert re.search(r"green: \d+ cases measured, 0 with a red verdict", measured.stdout)
    libraries = 4 + ("adios2" in measured.stdout)  # which few machines have
    assert len(re.findall(r"(?m)^write +\w+ .* unjudged", measured.stdout)) == libraries
    assert len(re.findall(r"(?m)^(?:samples|start-up|checkpoint)", measured.stdout)) == 3
    assert list((memory / "new").iterdir()) == []


def test_site_of_the_walk_through_is_made_and_listed_as_its_page_shows(login, tmp_path, memory):
    """By its own commands, with its own changes of the site's file."""
    walk = (ROOT / "docs/tutorials/first-night.md").read_text()
    say(
        tmp_path,
        sinfo="compute*|up|infinite|4|2:12:1",
        scontrol=CONFIG.format("accounting_storage/none", "pmix"),
        findmnt=findmnt(("tmpfs", "tmpfs", f"{memory}/scratch")),
    )
    (memory / "scratch").mkdir()
    words = re.search(r"\$ iowatch (site new .*)", walk)[1].replace("/scratch", f"{memory}/scratch")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = login(*IOWATCH, *words.split(), PATH=path)
    installed = 'eval "$(iowatch env)"'  # as on a login node; here it is a checkout
    for real, documented in (
        (memory, ""), (tmp_path, "/home/me/iowatch"), (f"source {ROOT}/env.sh", installed),
    ):  # fmt: skip
        done.stdout = done.stdout.replace(str(real), documented)
    done.stdout = done.stdout.replace(", adios2", "")  # which few machines have
    shown = re.search(r"\$ iowatch site new .*\n((?:    .*\n|\n)*)", walk)[1]

    def lines(text):
        text = re.sub(r"[\d.]+ GB free", "1 GB free", text)
        return [line.strip() for line in text.splitlines() if line.strip()]

    assert lines(done.stdout) == lines(shown)

    file = tmp_path / "site_configs/hydra.py"
    text = file.read_text()
    for name, line in re.findall(r'^    ((?:[A-Z_]+ =|        +"nightly":) ?)(.*)$', walk, re.M):
        ends = r"\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}," if "nightly" in name else r".*"
        text, changed = re.subn(
            f"(?m){re.escape(name.strip())} {ends}", f"{name.strip()} {line}", text, count=1
        )
        assert changed, name
    file.write_text(text)
    listing = re.search(r"\$ (reframe .* -l)\n", walk)[1]
    listed = login("bash", "-ec", f"cd {ROOT}\nsource env.sh\n{listing}", PATH=path)
    (count,) = re.findall(r"Found \d+ check\(s\)", walk)
    assert count in listed.stdout, listed.stdout


def refusal(monkeypatch, site_folder, *arguments):
    """The one line of `iowatch site new` that ends with 2."""
    monkeypatch.setenv("IOWATCH_SITE_DIR", str(site_folder))
    done = CliRunner().invoke(cli.app, ["site", "new", *map(str, arguments)])
    assert done.exit_code == 2, done.output
    (line,) = done.output.splitlines()
    return line.removeprefix("iowatch: error: ")


def test_what_cannot_be_written_is_refused_and_nothing_is_overwritten(tmp_path, monkeypatch):
    folder = tmp_path / "site_configs"
    folder.mkdir()
    file = folder / "mine.py"
    file.write_text("site_configuration = {'systems': []}\n")
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path / "run"))
    for site, arguments, sentence in (
        (tmp_path, ["mine", "--path", "/dev/shm"], f"mine exists already ({file})"),
        (tmp_path, ["new", "--path", "no/such"], "--path no/such: not a directory"),
        ("/nosuch", ["new", "--path", "/dev/shm"], "there is no folder /nosuch"),
        ("/proc", ["new", "--path", "/dev/shm"], "/proc/site_configs cannot be made"),
    ):
        assert sentence in refusal(monkeypatch, site, *arguments)
        assert [file.name for file in folder.iterdir()] == ["mine.py"]
    assert file.read_text() == "site_configuration = {'systems': []}\n"
