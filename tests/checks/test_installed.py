"""Where iowatch finds things: beside a centre's own files, and installed without a checkout."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from installed import copy_checkout, everybodys_python

from iowatch.base import places
from iowatch.base.files import UserError

ROOT = Path(__file__).parents[2]

CENTRE = """
site_configuration = {
    "systems": [
        {"name": name, "hostnames": [".*"], "partitions": [
            {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["own"]}
        ]}
        for name in ("theirs", "local")
    ],
    "environments": [{"name": "own"}],
    "general": [{"target_systems": ["theirs"], "check_search_path": ["/theirs"]}],
}
"""


def test_env_sh_adds_to_the_configuration_of_a_centre(tmp_path):
    """From any directory, however often, with a folder of the site's own; and so does iowatch."""
    site, centre = tmp_path / "a site" / "site_configs", tmp_path / "centre.py"
    site.mkdir(parents=True)
    centre.write_text(CENTRE)
    local = (ROOT / "site_configs/local.py").read_text()
    (site / "local.py").write_text(local.replace('"gnu"', '"mine"'))
    new = local.replace('"name": "local"', '"name": "new"').replace('["local"]', '["new"]')
    (site / "new.py").write_text(new)

    def files_after(script, given, **more):
        path = os.environ["PATH"].replace(f"{ROOT}/.venv/bin:", "")
        path = path.replace(f"{ROOT}/build/bin:", "")
        environment = {**os.environ, **more, "RFM_CONFIG_FILES": given, "PATH": path}
        done = subprocess.run(
            ["bash", "-euc", f"{script}\necho $RFM_CONFIG_FILES; echo $PATH"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        *_, files, path = done.stdout.splitlines()
        for folder in (".venv/bin", "build/bin"):  # reframe, iowatch, benchio
            assert path.split(":").count(f"{ROOT}/{folder}") == 1
        return files.split(":")

    source = f"source '{ROOT}/env.sh'"
    iowatch = f'eval "$({ROOT}/.venv/bin/iowatch env)"'
    shipped = {file.name: str(file) for file in sorted((ROOT / "site_configs").glob("*.py"))}
    ours = [shipped.pop("settings.py"), *shipped.values()]
    gone = f"{ROOT}/site_configs/gone.py"  # was there when env.sh was sourced before
    assert files_after(source, "") == ours
    assert files_after(source, f"{centre}:") == [str(centre), *ours]
    for script in (iowatch, f"{source}\n{iowatch}"):
        assert files_after(script, f":{centre}:{ours[3]}:{gone}") == ["", str(centre), *ours]
        with_site = files_after(script, str(centre), IOWATCH_SITE_DIR=str(site.parent))
        mine = [str(site / "local.py"), str(site / "new.py")]  # in place of all of ours
        assert with_site == [str(centre), ours[0], *mine], script

    def reframe(system, *options):
        """What ReFrame has of it, with all of these files."""
        done = subprocess.run(
            ["reframe", *system, "--show-config=systems/0/partitions/0/environs", *options],
            env={
                **os.environ,
                "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
                "RFM_CONFIG_FILES": ":".join(with_site),
                "RFM_PREFIX": str(tmp_path / "run"),
                "IOWATCH_SITE_DIR": str(site.parent),
            },
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    assert "mine" in reframe(["--system", "local"]), "ours has the word on what both define"
    assert "gnu" in reframe(["--system", "new"])
    assert "own" in reframe([]), "found by its host name, as before"


def test_env_sh_without_a_virtual_environment_asks_a_python_that_has_nothing_else(tmp_path):
    """A checkout that is not set up, with a centre's ReFrame from a module, and before that."""
    checkout, module = tmp_path / "a checkout", tmp_path / "module"
    shutil.copytree(ROOT / "src/iowatch", checkout / "src/iowatch")
    shutil.copytree(ROOT / "site_configs", checkout / "site_configs")
    shutil.copy(ROOT / "env.sh", checkout)
    module.mkdir()

    def program(name, text):
        (module / name).write_text(f"#!/bin/sh\n{text}\n")
        (module / name).chmod(0o755)

    def sourced(folder=checkout, **more):
        """What a shell says that goes on after it, and what it then has."""
        done = subprocess.run(
            ["bash", "-uc", f"source '{folder}/env.sh' || echo refused; env; set"],
            env={"PATH": f"{module}:{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), **more},
            cwd=ROOT / "tests",  # has a folder iowatch
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "\nrefuse" not in done.stdout, "nothing of it stays in the shell"
        return done.stdout, done.stderr

    again = ", and then source env.sh again\n"
    out, err = sourced()
    assert out.startswith("refused\n")
    assert err == (
        f"env.sh: {checkout} is not set up, and no reframe is on PATH: run `make setup` there, or "
        f"load a module of ReFrame{again}"
    )
    program("reframe", "exit 1")
    program("python3", "exit 1")  # as one before 3.11 does
    assert sourced()[1] == (
        "env.sh: the ReFrame on PATH needs a python3 of version 3.11 or later there: load its "
        f"module{again}"
    )
    program("python3", f'exec {sys._base_executable} -S "$@"')
    out, err = sourced(PYTHONPATH="/theirs")
    assert (err, out.startswith("refused")) == ("", False)
    assert f"\nPYTHONPATH={checkout}/src:/theirs\n" in out
    assert f"RFM_CONFIG_FILES={checkout}/site_configs/settings.py:" in out
    for folder in (checkout, ROOT):
        out, err = sourced(folder, IOWATCH_SITE_DIR="/nosuch")
        assert out.startswith("refused\n")
        assert err.count("\n") == 1
        assert "IOWATCH_SITE_DIR: there is no folder /nosuch" in err


def test_reframe_is_the_one_on_path_or_beside_python(tmp_path, monkeypatch):
    """A cron job has no virtual environment activated."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "an environment" / "python"))
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError) as error:
        places.reframe_program()
    beside = tmp_path / "an environment" / "reframe"
    assert str(error.value) == f"there is no reframe on PATH or at {beside}: source env.sh"
    for program in (beside, tmp_path / "bin" / "reframe"):
        program.parent.mkdir()
        program.touch(0o755)
        assert places.reframe_program() == str(program)


TINY = """
from iowatch.base.places import results

SUITE = {"SharedFileWrite": {"backend": ["mpiio", "hdf5"], "local_size": [8], "nodes": [1]}}

site_configuration = {
    "systems": [{
        "name": "tiny", "hostnames": [], "prefix": str(results()),
        "partitions": [{
            "name": "memory", "scheduler": "local", "launcher": "mpirun", "environs": ["gnu"],
            "max_jobs": 1, "time_limit": "2m",
            "extras": {
                "filesystem": "memory", "path": "SCRATCH", "type": "tmpfs", "peak": 1e6,
                "osts": None, "cached_reads": True, "ranks_per_node": 2, "keep_days": 1,
                "suites": {"nightly": SUITE, "acceptance": SUITE},
            },
        }],
    }],
    "environments": [{"name": "gnu", "target_systems": ["tiny"]}],
}
"""
NOBODY = 65534


@pytest.fixture
def folder():
    """Where another user may look, too; pytest's own folders are closed."""
    with tempfile.TemporaryDirectory(prefix="iowatch-test.") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def memory():
    with tempfile.TemporaryDirectory(prefix="iowatch-test.", dir="/dev/shm") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def other_user():
    """How subprocess starts a program as another user than root."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.mark.slow  # pip installs what iowatch needs
def test_installed_package_runs_a_night_for_another_user(folder, memory, benchio):
    """From a wheel, with no checkout beside it, in a path with blanks; the installation and the
    site's folder are somebody else's, and what is written is in the user's own."""
    source, venv = folder / "source", folder / "an environment"
    copy_checkout(source)
    subprocess.run([everybodys_python(**other_user()), "-m", "venv", venv], check=True)
    pip = [venv / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, source], check=True)
    (wheel,) = folder.glob("*.whl")
    constraints = ROOT / "tests/constraints.txt"
    subprocess.run([*pip, "install", "-c", constraints, wheel], check=True)
    shutil.rmtree(source)

    site, home, here, programs = (folder / name for name in ("a site", "home", "a folder", "a bin"))
    for made in (site / "site_configs", site / "reference_values", home, here, programs):
        made.mkdir(parents=True)
    (programs / "benchio").symlink_to(benchio)
    (site / "site_configs/tiny.py").write_text(TINY.replace("SCRATCH", f"{memory}/scratch"))
    (site / "reference_values/tiny.yaml").write_text("general: {}\n")
    for own in (home, here):
        os.chown(own, *([NOBODY] * 2 if other_user() else [-1, -1]))
    environment = {
        "HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8",
        "IOWATCH_SITE_DIR": str(site), "RFM_PREFIX": str(home / "results"),
    }  # fmt: skip

    def shell(script, code=0, **changed):
        given = {name: value for name, value in (environment | changed).items() if value}
        done = subprocess.run(
            ["bash", "-euc", script.replace("iowatch", f"'{venv}/bin/iowatch'", 1)],
            env=given, cwd=here, timeout=300, text=True, **other_user(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    installed = {file for file in venv.rglob("*") if "__pycache__" not in file.parts}
    night = shell("iowatch nightly --system tiny --record --quiet")
    assert "green: 3 cases measured, 0 with a red verdict, 0 problems" in night
    assert "hdf5 on memory: the stable" in shell("iowatch report --system tiny --format md")
    (page,) = (home / "results").glob("report-tiny-*.html")
    assert "tiny:memory/gnu/SharedFileWrite" in page.read_text()

    where = environment["PATH"].replace(f"{programs}:", "")
    if not shutil.which("benchio", path=where):
        none = shell("iowatch nightly --system tiny --record --quiet", 1, PATH=where)
        assert (
            "there is no benchio on PATH: load what brings it, or name a prebuilt one as 'benchio' "
            "in the extras of environment 'gnu'"
        ) in none

    # Without a folder that is named, the user's own things are in the home.
    mine = {"IOWATCH_SITE_DIR": "", "RFM_PREFIX": ""}
    said = shell(f"iowatch site new mine --path {memory}/mine", **mine)
    ready, check, *_ = re.findall(r"^    (\S.*)$", said, re.MULTILINE)
    assert (home / "iowatch/site_configs/mine.py").is_file()
    assert ready == 'eval "$(iowatch env)"'
    listed = shell(f'{ready}\n{check}\nreframe -c "$IOWATCH_CHECKS" --system local -l', **mine)
    assert "- SharedFileWrite " in listed
    assert "ok  site " in listed
    assert "~local:" in listed
    assert {file for file in venv.rglob("*") if "__pycache__" not in file.parts} == installed

    for given, why in (
        ("sites", "IOWATCH_SITE_DIR is 'sites': it must be an absolute path"),
        ("/no/such", "IOWATCH_SITE_DIR: there is no folder /no/such: make it, or mend the name"),
    ):
        (line,) = shell("iowatch history", 2, IOWATCH_SITE_DIR=given).splitlines()
        assert line == f"iowatch: error: {why}"
