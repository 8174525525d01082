"""`reframe -S build=spack`: what is built, what is kept of it, and what goes wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from spack.instance import NETCDF_FORTRAN, ROOT, git
from spack.locks import lock

from iowatch.adopt.spack import read_lock

CHECK = "SharedFileWrite.*backend=hdf5.*local_size=64x64x64"

# No time can spoil a verdict.
REFERENCES = """\
SharedFileWrite:
  local:.*:
    finish_fraction: [0, null, 0.999, '1']
"""


@pytest.fixture
def reframe(tmp_path):
    """reframe(clone, *options, path=...): checks of a clone on `local:tmpfs`; code and output."""

    (tmp_path / "local.yaml").write_text(REFERENCES)

    def run(clone, *options, path=()):
        sites = (f"{clone}/site_configs/{name}.py" for name in ("settings", "local"))
        places = os.environ["PATH"].split(os.pathsep)
        places = [place for place in places if not Path(place, "spack").exists()]
        places = [*map(str, path), str(Path(sys.executable).parent), *places]
        command = ["reframe", "-c", f"{clone}/reframe_checks", "--system", "local:tmpfs"]
        environment = {
            **os.environ,
            "PATH": ":".join(places),
            "PYTHONPATH": f"{clone}/src",
            "RFM_CONFIG_FILES": ":".join(sites),
            "RFM_PREFIX": str(tmp_path / "run"),
            "RFM_REFERENCE_PREFIX": str(tmp_path),
        }
        done = subprocess.run(
            [*command, "-n", "LibraryVersions", *options],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    return run


SPACK = ("-r", "-S", "build=spack")


def test_without_spack_it_says_so(reframe, clone):
    code, out = reframe(clone, *SPACK)
    assert code != 0
    assert "no spack on PATH: source its setup-env.sh; see " in out


@pytest.fixture
def copy(clone, tmp_path):
    """A clone that a test may change."""
    git(tmp_path, "clone", "--quiet", str(clone), "copy")
    return tmp_path / "copy"


def test_changes_that_are_not_committed_are_not_built(reframe, copy):
    with (copy / "src/benchio/app/benchio.f90").open("a") as source:
        source.write("! more\n")
    code, out = reframe(copy, *SPACK)
    assert code != 0
    assert "src/benchio has changes, and Spack builds commits" in out


def test_a_system_without_an_environment_is_named(reframe, copy):
    (copy / "spack-repo/environments/local/spack.yaml").unlink()
    code, out = reframe(copy, *SPACK)
    assert code != 0
    assert "spack-repo/environments/local/spack.yaml is missing" in out


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ([], "spack -e environments/local add benchio@0.1.0\n"),
        (["-S", "spack_spec=benchio@main"], "spack -e environments/local add benchio@main\n"),
        (["-S", "build=cmake"], "cmake --build "),
    ],
)
def test_a_site_can_ask_for_a_spec(reframe, copy, tmp_path, options, command):
    site = copy / "site_configs/local.py"
    plain = '{"name": "gnu", "target_systems": ["local"]'
    text = site.read_text()
    assert plain in text
    site.write_text(text.replace(plain, plain + ', "extras": {"spack": "benchio@0.1.0"}'))
    code, out = reframe(copy, "--dry-run", *options)
    assert code == 0, out
    (job,) = (tmp_path / "run/stage").glob("**/BuiltBenchio*/rfm_job.sh")
    assert command in job.read_text()


#: Spack's part without its work: what it would install is there already.
STAND_IN = """\
#!/bin/sh
echo "$*" >>{lock}.asked
case "$*" in
"-e environments/local config add packages:"*) ;;
# What another Spack wrote cannot be read.
"-e environments/local add benchio@"*) [ ! -e environments/local/spack.lock ] ;;
"-e environments/local install") cp {lock} environments/local/spack.lock ;;
"-e environments/local load --sh "*) ;;
"-e environments/local location --install-dir benchio@"*) echo {build} ;;
*) echo "==> Error: beyond this stand-in: $*" >&2 && exit 2 ;;
esac
"""


@pytest.fixture
def stand_in(tmp_path):
    """The stand-in's folder, and the lock file that it copies; `.asked` beside it has its calls."""
    program, asked = tmp_path / "bin/spack", tmp_path / "spack.lock"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(lock=asked, build=ROOT / "build"))
    program.chmod(0o755)
    return program.parent, asked


def test_spack_makes_an_environ_concrete_once_a_session(reframe, copy, stand_in, tmp_path):
    """Not once a partition: it takes minutes. Each partition keeps what was made."""
    folder, asked = stand_in
    asked.write_text(json.dumps(lock(("abcdefghij", "1.10.8"))))
    (copy / "spack-repo/environments/local/spack.lock").write_text("of another Spack")
    for session in (1, 2):
        code, out = reframe(copy, *SPACK, "--system", "local", path=[folder])
        assert code == 0, out
        kept = sorted((tmp_path / "run/output").glob("local/*/gnu/BuiltBenchio*/spack.lock"))
        assert [path.parts[-4] for path in kept] == ["disk", "tmpfs"]
        assert [path.read_text() for path in kept] == [asked.read_text()] * 2
        calls = Path(f"{asked}.asked").read_text().splitlines()
        assert len([call for call in calls if call.endswith(" install")]) == session, calls
        (source,) = {call for call in calls if "config add" in call}
        assert source.endswith(
            f'config add packages:benchio:package_attributes:git:"file://{copy}"'
        )


def test_a_library_that_is_not_what_spack_was_asked_for_is_invalid(
    reframe, clone, stand_in, tmp_path
):
    """Such as a wrong external: the job has benchio with HDF5 of another version."""
    folder, asked = stand_in
    here = subprocess.run(
        [ROOT / "build/bin/benchio", "--version"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    version = re.search(r"^hdf5 +(\S+)$", here, re.MULTILINE)[1]
    for hdf5, verdict in ((version, "ok"), ("1.99.5", "invalid")):
        asked.write_text(json.dumps(lock(("abcdefghij", hdf5))))
        code, out = reframe(clone, *SPACK, "-n", CHECK, "-S", "repeats=1", path=[folder])
        (report,) = (tmp_path / "run/reports").glob("*.json")
        tests = json.loads(report.read_text())["runs"][-1]["testcases"]
        verdicts = {test["case_id"]: test["verdict"] for test in tests if test.get("case_id")}
        assert len(verdicts) == 2, out
        assert set(verdicts.values()) == {verdict}, out
        said = f"hdf5: the library says {version}, where Spack was asked for hdf5@{hdf5}"
        assert (code, said in " ".join(out.split())) == ((0, False), (1, True))[verdict != "ok"]
        report.unlink()


@pytest.mark.slow
def test_what_spack_has_built_is_measured_and_kept(reframe, clone, spack, tmp_path):
    if not NETCDF_FORTRAN.is_dir():
        pytest.skip(f"there is no {NETCDF_FORTRAN}: make setup makes it")
    options = ("-n", CHECK, "-S", "repeats=2")
    code, out = reframe(clone, *SPACK, *options, path=[spack.wrapper.parent])
    assert code == 0, out
    (report,) = (tmp_path / "run/reports").glob("*.json")
    tests = json.loads(report.read_text())["runs"][-1]["testcases"]
    (build,) = (test for test in tests if test["name"].startswith("BuiltBenchio"))
    (write,) = (test for test in tests if test["name"].startswith("SharedFileWrite"))
    commit = git(clone, "log", "-1", "--format=%H", "--", "src/benchio")
    assert build["concrete_spec"].startswith(f"benchio@git.{commit}=main+hdf5")
    assert "^openmpi@" in build["concrete_spec"]
    assert (write["result"], write["verdict"]) == ("pass", "ok")
    assert write["conditions"]["spack"] == build["concrete_spec"]  # with every metric

    job = Path(write["kept"], "rfm_job.sh").read_text()
    assert f"{spack.folder}/store/" in job
    assert "/load.sh . && . ./load.sh\n" in job
    assert f"{spack.folder}/store/" in Path(write["kept"], "load.sh").read_text()
    (kept,) = (tmp_path / "run/output").glob("**/BuiltBenchio*/spack.lock")
    assert str(read_lock(kept.read_text())[-1]) == build["concrete_spec"]
    asked = yaml.safe_load(kept.with_name("spack.yaml").read_text())["spack"]["specs"]
    assert f"benchio@git.{commit}=main" in asked
    assert git(clone, "status", "--porcelain", "spack-repo") == ""
