"""`reframe -S build=spack`: what is built, what is kept of it, and what goes wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cases import verdict_of
from spack.instance import ROOT, git
from spack.locks import lock

from iowatch.adopt.spack import read_lock

CHECK = "SharedFileWrite.*backend=hdf5.*local_size=64x64x64"

# No time can spoil a verdict.
REFERENCES = """\
SharedFileWrite:
  local:.*:
    overhead_fraction: [0, null, 0.999, '1']
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


def spoilt_source(copy):
    with (copy / "src/benchio/app/benchio.f90").open("a") as source:
        source.write("! more\n")


def spoilt_environment(copy):
    (copy / "spack-repo/environments/local/spack.yaml").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoilt_source, "src/benchio has changes, and Spack builds commits"),
        pytest.param(
            spoilt_environment,
            "spack-repo/environments/local/spack.yaml is missing",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_spack_cannot_build_is_named(reframe, copy, spoil, said):
    spoil(copy)
    code, out = reframe(copy, *SPACK)
    assert code != 0
    assert said in out


def edit_site(copy, old, new):
    site = copy / "site_configs/local.py"
    assert site.read_text().count(old) == 1
    site.write_text(site.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("spack_spec=benchio@main", "SPEC=benchio@main\n"),
        ("build=cmake", "cmake --build "),
    ],
)
@pytest.mark.slow
def test_a_session_can_ask_for_another_spec(reframe, copy, tmp_path, option, command):
    plain = '{"name": "gnu", "target_systems": ["local"]'
    edit_site(copy, plain, f'{plain}, "extras": {{"spack": "benchio@0.1.0"}}')
    code, out = reframe(copy, "--dry-run", "-S", option)
    assert code == 0, out
    (job,) = (tmp_path / "run/stage").glob("**/BuiltBenchio*/rfm_job.sh")
    assert command in job.read_text()


#: Spack's part without its work: what it would install is there already, and each environ of
#: ReFrame's gets a lock file made up.
STAND_IN = """\
#!/bin/sh
echo "$*" >>{asked}
case "$*" in
"-e environments/local config add packages:"*) ;;
# What another Spack wrote cannot be read.
"-e environments/local add benchio@"*) [ ! -e environments/local/spack.lock ] ;;
"-e environments/local install") cp {lock}.$(basename "$PWD") environments/local/spack.lock ;;
"-e environments/local load --sh "*) ;;
"-e environments/local location --install-dir benchio@"*) echo {build} ;;
*) echo "==> Error: beyond this stand-in: $*" >&2 && exit 2 ;;
esac
"""


@pytest.mark.slow
def test_spack_builds_an_environ_once_a_session_and_a_wrong_library_fails(reframe, copy, tmp_path):
    """Not once a partition: it takes minutes. Each partition keeps what was made. Where Spack was
    asked for another HDF5 than benchio has, such as by a wrong external, no case is valid."""
    here = subprocess.run(
        [ROOT / "build/bin/benchio", "--version"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    version = re.search(r"^hdf5 +(\S+)$", here, re.MULTILINE)[1]
    program, asked = tmp_path / "bin/spack", tmp_path / "asked"
    locks = {"gnu": tmp_path / "lock.gnu", "wrong": tmp_path / "lock.wrong"}
    program.parent.mkdir()
    program.write_text(STAND_IN.format(asked=asked, lock=tmp_path / "lock", build=ROOT / "build"))
    program.chmod(0o755)
    for (environ, file), hdf5 in zip(locks.items(), (version, "1.99.5"), strict=True):
        file.write_text(json.dumps(lock((f"of{environ}", hdf5))))
    edit_site(copy, '"environs": ["gnu"]', '"environs": ["gnu", "wrong"]')
    edit_site(
        copy,
        '"environments": [{"name": "gnu", "target_systems": ["local"]}]',
        '"environments": [{"name": "gnu", "target_systems": ["local"]}, {"name": "wrong",'
        ' "target_systems": ["local"], "extras": {"spack": "benchio@0.1.0"}}]',
    )
    (copy / "spack-repo/environments/local/spack.lock").write_text("of another Spack")

    code, out = reframe(copy, *SPACK, "--system", "local", path=[program.parent])
    assert code == 1, out
    kept = sorted((tmp_path / "run/output").glob("local/*/gnu/BuiltBenchio*/spack.lock"))
    assert [path.parts[-4] for path in kept] == ["disk", "tmpfs"], out
    assert [path.read_text() for path in kept] == [locks["gnu"].read_text()] * 2
    calls = asked.read_text().splitlines()
    assert len([call for call in calls if call.endswith(" install")]) == 2, calls
    (source,) = (call for call in calls if "config add" in call)
    assert source.endswith(f'config add packages:benchio:package_attributes:git:"file://{copy}"')
    added = sorted(call.split(" add ")[1] for call in calls if " add benchio@" in call)
    commit = git(copy, "log", "-1", "--format=%H", "--", "src/benchio")
    assert added == ["benchio@0.1.0", f"benchio@git.{commit}=main"]

    code, out = reframe(copy, *SPACK, "-n", CHECK, "-S", "repeats=1", path=[program.parent])
    assert code == 1, out
    calls = asked.read_text().splitlines()
    assert len([call for call in calls if call.endswith(" install")]) == 4, calls
    *_, report = sorted((tmp_path / "run/reports").glob("*.json"), key=os.path.getmtime)
    tests = json.loads(report.read_text())["runs"][-1]["testcases"]
    failed = [
        (test["environ"], verdict_of(test) == "failed (not_as_asked)")
        for test in tests
        if test.get("case_id")
    ]
    assert sorted(failed) == [("gnu", False)] * 2 + [("wrong", True)] * 2, out
    said = f"hdf5: the library says {version}, where Spack was asked for hdf5@1.99.5"
    assert said in " ".join(out.split())


@pytest.mark.slow
def test_what_spack_has_built_is_measured_and_kept(reframe, clone, spack, tmp_path):
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
    assert (write["result"], verdict_of(write)) == ("pass", "ok")
    assert write["provenance"]["spack"] == build["concrete_spec"]  # with every metric

    job = Path(write["kept"], "rfm_job.sh").read_text()
    assert f"{spack.folder}/store/" in job
    assert "/load.sh . && . ./load.sh\n" in job
    assert f"{spack.folder}/store/" in Path(write["kept"], "load.sh").read_text()
    (kept,) = (tmp_path / "run/output").glob("**/BuiltBenchio*/spack.lock")
    assert str(read_lock(kept.read_text())[-1]) == build["concrete_spec"]
    asked = yaml.safe_load(kept.with_name("spack.yaml").read_text())["spack"]["specs"]
    assert f"benchio@git.{commit}=main" in asked
    assert git(clone, "status", "--porcelain", "spack-repo") == ""
