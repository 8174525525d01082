"""Installed, loaded and tested by a real Spack, from a clone of this checkout."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from spack.instance import PACKAGES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local(spack, environments):
    """The environment of this machine, installed."""
    folder = environments / "local"
    spack("-e", folder, "install")
    return folder


def test_packages_pass_spacks_audit(spack, clone, environments):
    folder = environments / "local"
    listed = spack("-e", folder, "repo", "list")
    assert "iowatch" in listed
    names = [path.name for path in (clone / PACKAGES).iterdir()]
    assert {"benchio", "iowatch"} <= set(names)
    spack("-e", folder, "audit", "packages", *names)


def test_installed_benchio_is_an_environment_of_reframe(spack, local):
    command = [sys.executable, "-m", "iowatch", "site", "environs", "--system", "local"]
    done = subprocess.run(
        [*command, "--from-spack", local],
        env={**os.environ, "PATH": f"{spack.wrapper.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (environ,) = ast.literal_eval(f"[{done.stdout}]")
    program = environ["extras"]["benchio"]
    assert program.startswith(str(spack.folder / "store"))
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"^hdf5 +(\S+)$", said, re.MULTILINE)[1]
    assert environ["name"] == f"hdf5-{version.replace('.', '-')}"
    assert f"^hdf5@{version} " in environ["extras"]["spack"]


def test_installed_benchio_passes_its_own_tests(spack, local):
    spack("-e", local, "test", "run", "--alias", "good", "benchio")
    results = spack("-e", local, "test", "results", "--logs", "good")
    assert "FAILED" not in results
    for name in ("mpiio", "posix", "hdf5", "netcdf", "pnetcdf"):
        assert f"PASSED: Benchio::test_verified_write_{name}\n" in results
    for name in ("usage", "io_error"):
        assert f"PASSED: Benchio::test_exit_codes_{name}\n" in results


def test_a_benchio_that_does_nothing_fails_them(spack, local):
    prefix = spack("-e", local, "location", "--install-dir", "benchio").strip()
    program = Path(prefix, "bin/benchio")
    good = program.rename(program.with_name("good"))
    try:
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        done = spack.run("-e", local, "test", "run", "--alias", "bad", "benchio")
    finally:
        good.replace(program)
    assert done.returncode != 0
    results = spack("-e", local, "test", "results", "--logs", "bad")
    assert "FAILED: Benchio::test_verified_write_mpiio" in results
    assert "FAILED: Benchio::test_exit_codes_usage" in results


def test_loaded_iowatch_runs_with_the_benchio_of_spack(spack, environments, tmp_path):
    """Nothing of who installed it is in what others load, and a case is measured and judged."""
    folder = environments / "iowatch"
    shutil.copytree(environments / "local", folder, ignore=shutil.ignore_patterns("spack.lock"))
    manifest = folder / "spack.yaml"
    text = manifest.read_text()
    (spec,) = yaml.safe_load(text)["spack"]["specs"]
    manifest.write_text(text.replace(spec, "iowatch ^benchio+hdf5~netcdf"))
    spack("-e", folder, "install")
    loaded = spack.loaded(folder, "iowatch")
    set_by_loading = {name for name in loaded if loaded[name] != os.environ.get(name)}
    assert not [name for name in set_by_loading if name.startswith(("RFM_", "IOWATCH_"))]
    spack("-e", folder, "module", "tcl", "refresh", "-y", "iowatch")
    (module,) = spack.folder.glob("modules/**/iowatch/*")
    assert str(Path.home()) not in module.read_text().replace(str(spack.folder), "")
    loaded = {**os.environ, **loaded, "RFM_PREFIX": str(tmp_path / "run")}
    for program in ("iowatch", "benchio"):
        found = shutil.which(program, path=loaded["PATH"])
        assert found.startswith(str(spack.folder / "store")), program

    def run(script):
        return subprocess.run(
            ["bash", "-euc", script],
            check=True, capture_output=True, text=True, env=loaded, cwd=tmp_path,
        ).stdout  # fmt: skip

    assert "acceptance" in run("iowatch --help")
    listed = run('eval "$(iowatch env)"; reframe -c "$IOWATCH_CHECKS" --system=slurm -l')
    assert "SharedFileWrite" in listed
    prefix = spack("-e", folder, "location", "--install-dir", "iowatch").strip()
    assert Path(prefix, "spack-repo/environments/slurm/spack.yaml").is_file()
    spack("-e", folder, "test", "run", "--alias", "judged", "iowatch")
    results = spack("-e", folder, "test", "results", "--logs", "judged")
    assert "PASSED: Iowatch::test_one_case\n" in results
