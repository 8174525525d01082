"""Which build of iowatch and of benchio this is: the last commit to their sources."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reported import HDF5, reported, session
from typer.testing import CliRunner

from iowatch import __version__, cli
from iowatch.base import build
from iowatch.past.history import runs_of

ROOT = Path(__file__).parents[2]
SOURCES = ("src/iowatch", "reframe_checks", "src/benchio")


@pytest.fixture
def clone(tmp_path):
    """A repository with what the build ids are made from, and a file of the site's."""
    for folder in SOURCES:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "code").write_text("")
    (tmp_path / "src/iowatch/base").mkdir()
    shutil.copy(ROOT / "src/iowatch/base/build.py", tmp_path / "src/iowatch/base")
    shutil.copytree(ROOT / "src/benchio/cmake", tmp_path / "src/benchio/cmake")
    (tmp_path / "src/benchio/lib/posix").mkdir(parents=True)
    shutil.copy(ROOT / "src/benchio/lib/posix/build.c.in", tmp_path / "src/benchio/lib/posix")
    (tmp_path / "values.yaml").write_text("")
    git(tmp_path, "init", "--quiet")
    return tmp_path


def git(folder, *words):
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder, *files):
    """Change and commit these files; the id."""
    for name in files:
        (folder / name).write_text("other\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=one")
    return git(folder, "rev-parse", "--short=10", "HEAD")


def of_iowatch(clone, **variables):
    """What the module says there, in a process of its own."""
    command = [sys.executable, clone / "src/iowatch/base/build.py"]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, cwd="/", check=True, capture_output=True)
    return done.stdout.decode().strip()


def of_benchio(clone, **variables):
    """What a build has in it."""
    output = clone / "build.c"
    words = f"-DNUMBER=1.2.3 -DSOURCE={clone}/src/benchio -DOUTPUT={output}".split()
    script = clone / "src/benchio/cmake/build.cmake"
    environment = {**os.environ, **variables}
    subprocess.run(["cmake", *words, "-P", script], env=environment, cwd="/", check=True)
    (found,) = re.findall(r'"1\.2\.3(.*)"', output.read_text())
    return found


def test_it_is_the_last_commit_to_the_sources(clone):
    assert of_iowatch(clone) == of_benchio(clone) == "", "there is none"
    first = commit(clone)
    assert (of_iowatch(clone), of_benchio(clone)) == (first, f"+{first}")
    commit(clone, "values.yaml")
    assert of_iowatch(clone) == first, "a site's files are not iowatch"
    written = (clone / "build.c").stat().st_mtime_ns
    assert of_benchio(clone) == f"+{first}"
    assert (clone / "build.c").stat().st_mtime_ns == written, "nothing is compiled again"
    second = commit(clone, "reframe_checks/code")
    assert (of_iowatch(clone), of_benchio(clone)) == (second, f"+{first}")
    third = commit(clone, "src/benchio/code")
    assert (of_iowatch(clone), of_benchio(clone)) == (second, f"+{third}")
    (clone / "src/iowatch/code").write_text("changed")
    (clone / "src/benchio/new").write_text("of nobody's")
    assert (of_iowatch(clone), of_benchio(clone)) == (f"{second}.dirty", f"+{third}")
    (clone / "src/benchio/code").write_text("changed")
    assert of_benchio(clone) == f"+{third}.dirty"


def test_another_repository_or_none_is_not_asked(clone, tmp_path_factory):
    first = commit(clone)
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    elsewhere = {"GIT_DIR": f"{other}/.git", "GIT_WORK_TREE": str(other)}  # as in a hook there
    assert (of_iowatch(clone, **elsewhere), of_benchio(clone, **elsewhere)) == (first, f"+{first}")
    shutil.copytree(clone / "src", other / "unpacked/src")
    assert of_iowatch(other / "unpacked") == of_benchio(other / "unpacked") == ""
    cmake, nothing = shutil.which("cmake"), tmp_path_factory.mktemp("bin")
    (nothing / "cmake").symlink_to(cmake)
    assert of_iowatch(clone, PATH=str(nothing)) == of_benchio(clone, PATH=str(nothing)) == ""


def test_what_is_built_has_it_without_git(clone):
    """A source distribution, and what is built of that one."""
    pytest.importorskip("setuptools")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    for folder in (
        "src/iowatch",
        "reframe_checks",
        "reference_values",
        "site_configs",
        "docs/explanation",
        "docs/howto",
        "docs/tutorials",
    ):
        shutil.copytree(ROOT / folder, clone / folder, dirs_exist_ok=True)
    first = commit(clone)
    quiet = {"check": True, "capture_output": True}
    setup = [sys.executable, "setup.py", "--quiet"]
    subprocess.run([*setup, "sdist", "--formats=gztar"], cwd=clone, **quiet)
    (archive,) = (clone / "dist").iterdir()
    shutil.unpack_archive(archive, clone / "unpacked")
    (source,) = (clone / "unpacked").iterdir()
    assert of_iowatch(source) == first
    subprocess.run([*setup, "build_py", "--build-lib=lib"], cwd=source, **quiet)
    assert (source / "lib/iowatch/BUILD").read_text() == f"{first}\n"
    assert not (clone / "src/iowatch/BUILD").exists(), "the sources stay as they are"


def test_it_stands_in_the_version_and_in_every_run(monkeypatch):
    monkeypatch.setattr(build, "commit", lambda: "0123abc")
    done = CliRunner().invoke(cli.app, ["--version"])
    assert done.output == f"iowatch {__version__}+0123abc\n"
    monkeypatch.setattr(build, "commit", lambda: "")
    assert build.version("1.2.3") == "1.2.3"
    known, unknown = (
        reported(HDF5, provenance=met, iowatch="1.2.3+0123abc") for met in ({"hdf5": "1.10"}, {})
    )
    (run,) = runs_of(session(known))
    assert run.provenance == {"iowatch": "1.2.3+0123abc", "hdf5": "1.10"}
    (run,) = runs_of(session(unknown))
    assert run.provenance == {}, "not verified: all else would look as if it had changed"
