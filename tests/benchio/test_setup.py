"""Set-up: the libraries benchio got, and scripts/setup.sh run again or where it cannot work."""

import hashlib
import os
import re
import shutil
import subprocess
import time
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from conftest import BACKENDS, FILES, OPEN_MPI, ROOT, kill_session, run, session_of
from packaging.specifiers import SpecifierSet

PARALLEL = {"libnetcdf_mpi", "libhdf5_openmpi", "libpnetcdf"}
SERIAL = {"libnetcdf", "libhdf5_serial"}


def names(text):
    """The libraries named in a text: libnetcdf_mpi for /usr/lib/libnetcdf_mpi.so.19."""
    return set(re.findall(r"\b(lib[\w-]+)(?:[.-][\d.]+)?\.so\b", text))


def test_running_benchio_maps_only_the_parallel_libraries(benchio, tmp_path):
    """The memory map of a writing rank tells: ldd does not see what is loaded later."""
    process = subprocess.Popen(
        ["mpirun", "-n", "2", benchio, "--backend", ",".join(BACKENDS), "--local-size", "16",
         "--repeats", "100000", "--dir", tmp_path],
        env={**os.environ, **OPEN_MPI}, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        seen: set[str] = set()
        while not seen >= set(FILES.values()):
            assert time.monotonic() < deadline, f"no rank wrote all of {FILES}"
            assert process.poll() is None, process.stderr and process.stderr.read()
            seen |= {file.name for file in tmp_path.glob("benchio.*/*")}
        ranks = [
            Path(f"/proc/{member}")
            for member in session_of(process)
            if Path(f"/proc/{member}/exe").resolve() == benchio
        ]
        mapped = [names((rank / "maps").read_text()) for rank in ranks]
    finally:
        kill_session(process)
    assert len(mapped) == 2
    for libraries in mapped:
        assert libraries >= PARALLEL
        assert not libraries & SERIAL


def test_set_up_again_changes_nothing():
    # It would make .venv anew, from which this test runs.
    for name in ("pyproject.toml", "tests/constraints.txt"):
        needed = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
        assert needed in (ROOT / ".venv/.stamp").read_text(), f"{name} changed: run make setup"
    # The sources may have changed, too.
    assert run([ROOT / "scripts/setup.sh"], timeout=600).code == 0
    products = [*(ROOT / "build").glob("*/.stamp"), ROOT / ".venv/.stamp"]
    before = {product: product.stat().st_mtime_ns for product in products}
    assert len(before) >= 2
    done = run([ROOT / "scripts/setup.sh"], timeout=600)  # another test may be building
    assert done.code == 0, done.err
    assert {product: product.stat().st_mtime_ns for product in products} == before
    built = (ROOT / "build/logs/build.log").read_text()
    assert built == "ninja: no work to do.\n"
    assert [line for line in done.out.splitlines() if "up to date" not in line] == [
        line for line in done.out.splitlines() if line.startswith("set-up: build: ")
    ]


def test_oldest_python_can_install_what_the_tests_run_with():
    """A newer Python would resolve tests/constraints.txt to versions that refuse this one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    wanted = {d.name: d.metadata["Requires-Python"] or "" for d in distributions()}
    assert {"pytest", "soupsieve"} <= set(wanted)
    refused = {name: bound for name, bound in wanted.items() if oldest not in SpecifierSet(bound)}
    assert not refused


def test_debians_python_is_taken_before_a_newer_one(tmp_path):
    """Constraints are made for Debian's, whatever else stands first on PATH."""
    newer = tmp_path / "python3"
    newer.write_text("#!/bin/sh\nexit 0\n")
    newer.chmod(0o755)
    script = (ROOT / "scripts/setup.sh").read_text()
    function = re.search(r"^find_python\(\) \{\n.*?^\}", script, re.MULTILINE | re.DOTALL)
    assert function

    def taken(**env):
        path = f"{tmp_path}:{os.environ['PATH']}"
        return run(["bash", "-c", f"{function[0]}; find_python"], env={"PATH": path, **env}).out

    assert taken(debian="/usr/bin/dpkg-query") == "/usr/bin/python3\n"
    assert taken(debian="") == f"{newer}\n", "a site's module is meant"
    assert taken(debian="/usr/bin/dpkg-query", PYTHON=str(newer)) == f"{newer}\n"


@pytest.fixture
def elsewhere(tmp_path):
    """elsewhere(hidden, fakes): runs set-up in a copy of the project on a machine that lacks the
    hidden commands and whose fakes (name: shell text) stand before the real ones."""
    copy = tmp_path / "project"
    for name in (
        *("scripts", "src", "reframe_checks", "site_configs", "reference_values"),
        *("docs", "pyproject.toml", "README.md", "LICENSE", "tests/constraints.txt"),
    ):
        source = ROOT / name
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy / name)
        else:
            shutil.copy(source, copy / name)

    def start(hidden, fakes):
        commands = tmp_path / "commands"
        commands.mkdir()
        for folder in ("/bin", "/usr/bin"):
            for command in Path(folder).iterdir():
                link = commands / command.name
                if command.name not in hidden | set(fakes) and not link.is_symlink():
                    link.symlink_to(command)
        for name, text in fakes.items():
            (commands / name).write_text(f"#!/bin/sh\n{text}\n")
            (commands / name).chmod(0o755)
        return run([copy / "scripts/setup.sh"], env={"PATH": str(commands)})

    return start


def test_missing_packages_without_root_are_named(elsewhere):
    done = elsewhere(
        hidden={"sudo"},
        fakes={
            "dpkg-query": 'echo "installed gfortran"; echo "config-files libpnetcdf-dev"; exit 1',
            "id": "echo 1000",
            "apt-get": "echo apt-get was called",
        },
    )
    assert done.code == 1
    assert "apt-get was called" not in done.out + done.err
    missing = next(line for line in done.err.splitlines() if "libopenmpi-dev" in line).split()
    assert {"cmake", "libhdf5-openmpi-dev", "libnetcdf-mpi-dev", "libpnetcdf-dev"} <= set(missing)
    assert "gfortran" not in missing
    assert "module load" in done.err
    assert "spack load" in done.err
    assert "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=$PWD/build/bin" in done.err, "where it is looked for"


def test_missing_packages_are_installed_with_sudo(elsewhere):
    done = elsewhere(
        hidden=set(),
        fakes={
            "dpkg-query": 'echo "installed gfortran"; exit 1',
            "id": "echo 1000",
            "sudo": 'test "$1" = -n && shift && exec "$@"',
            "apt-get": 'case "$*" in *install*) echo "asked for: $*"; exit 100;; esac',
        },
    )
    assert done.code != 0
    assert re.search("asked for: .*install -y .*libopenmpi-dev.*libnetcdf-mpi-dev", done.err)
    assert "packages failed" in done.err


@pytest.mark.parametrize("more", ["", "-DBENCHIO_NETCDF=OFF -DOTHER=1"])
def test_machine_without_debian_or_compiler(elsewhere, monkeypatch, more):
    """The advice can be followed through make. Nobody's build but CI's has -Werror."""
    monkeypatch.setenv("CMAKE_ARGS", more)
    done = elsewhere(
        hidden={"dpkg-query", "apt-get"},
        fakes={"cmake": 'echo "asked: $*."; echo no MPI; exit 1', "python3": python_stand_in()},
    )
    assert done.code == 1
    assert re.search(rf"^asked: .*build/bin{' ' if more else ''}{more}\.\nno MPI$", done.err, re.M)
    assert "module load" in done.err
    assert "CMAKE_ARGS='-DNAME=VALUE' make setup" in done.err


def python_stand_in():
    """Makes .venv without a package index: what is tested comes after."""
    return 'case "$*" in "-m venv"*) mkdir -p .venv/bin; ln -sf /bin/true .venv/bin/python;; esac'


@pytest.mark.slow
def test_clean_clone_with_half_a_venv(elsewhere, tmp_path):
    """An interrupted set-up is repaired by the next one."""
    half = tmp_path / "project/.venv/bin"
    half.mkdir(parents=True)
    (half / "python").symlink_to("/nowhere/python3")
    commands = tmp_path / "project"
    done = run([commands / "scripts/setup.sh"], timeout=600)
    assert done.code == 0, done.err
    assert "iowatch" in run([half / "iowatch", "--help"]).out
    assert (commands / "build/bin/benchio").stat().st_mode & 0o111
