"""The check of access patterns under the real ReFrame, with logs that were recorded, and live."""

import os
import sys
from datetime import date
from pathlib import Path

import pytest
from conftest import OPEN_MPI, run

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests/data/darshan"

PROFILE = {"backend": ["mpiio", "hdf5", "netcdf"], "local_size": [8], "nodes": [1]}
ID = "small:memory/real/profile/shared/{}/count=none/size=none/local=8x8x8/writers=24"
WRITES = {"mpiio": "24 collective", "hdf5": "72 collective", "netcdf": "72 collective"}
RUNTIME = os.environ.get("DARSHAN_LIBRARY")


@pytest.fixture
def profiled(site):
    """A site that looks at each library, with as many writers as the logs are of."""
    site.sweep = {"IoProfile": {**PROFILE, "writers_per_node": [24]}}
    without = [p for p in os.environ["PATH"].split(":") if not Path(p, "darshan-config").exists()]
    site.environment.update(
        DARSHAN_LIBRARY="", PATH=":".join([str(Path(sys.executable).parent), *without])
    )
    return site


@pytest.fixture
def recorded(profiled, tmp_path):
    """A site whose jobs leave logs that were recorded; recorded.leave(hdf5=log, ...) says which."""
    library = tmp_path / "libdarshan.so"
    made = run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"])
    assert made.code == 0, made.err
    profiled.environment["DARSHAN_LIBRARY"] = str(library)
    benchio = profiled.benchio
    profiled.benchio = tmp_path / "benchio"

    def leave(**logs):
        logs = {backend: f"collective-{backend}" for backend in PROFILE["backend"]} | logs
        choice = "".join(
            f"*{backend}\\ *) log={LOGS}/{logs[backend]}.darshan ;;\n"  # the last of --backend
            for backend in logs
        )
        profiled.benchio.write_text(
            "#!/bin/sh\n"
            f'case "$*" in\n{choice}esac\n'
            # Like Darshan, by rank 0, and only where it is loaded and not switched off.
            'case "$LD_PRELOAD:$DARSHAN_DISABLE:$OMPI_COMM_WORLD_RANK" in */libdarshan.so::0)\n'
            '    grep -q "^NAME_INCLUDE ^.*/iowatch\\.[^ ]*/ [*]$" "$DARSHAN_CONFIG_PATH" &&\n'
            '        cp "$log" "$DARSHAN_LOGFILE" && chmod 400 "$DARSHAN_LOGFILE" ;;\n'
            "esac\n"
            f'exec {benchio} "$@"\n'
        )
        profiled.benchio.chmod(0o755)

    leave()
    profiled.leave = leave
    return profiled


def by_backend(site):
    return {test["backend"]: test for test in site.report()}


def assert_all_collective(site):
    for backend, test in by_backend(site).items():
        assert test["result"] == "pass"
        assert test["profile"] == ID.format(backend)
        assert test["case_id"] == "", "it has no figures"
        assert f"{backend}: {WRITES[backend]} and 0 independent writes" in test["sentence"]
        (folder,) = (site.folder / "run/output").rglob(f"IoProfile_{test['hashcode']}")
        assert "MPI-IO" in (folder / "benchio.darshan.html").read_text()
        assert (folder / "benchio.darshan").stat().st_size > 0
    assert not list(site.scratch.iterdir())


def test_collective_writes_pass_and_the_summary_is_kept(recorded):
    done = recorded.reframe("-r")
    assert done.returncode == 0, done.stdout
    assert set(by_backend(recorded)) == set(PROFILE["backend"])
    assert_all_collective(recorded)
    done = recorded.reframe("-r", "-P", "backend=mpiio")
    assert done.returncode == 0, f"it writes over what the first has kept: {done.stdout}"


def test_independent_writes_fail_unless_that_is_expected(recorded):
    recorded.sweep["IoProfile"]["backend"] = ["hdf5", "netcdf"]
    recorded.leave(netcdf="independent-netcdf", hdf5="independent-metadata-hdf5")
    done = recorded.reframe("-r")
    assert done.returncode == 1, done.stdout
    found = by_backend(recorded)
    assert {test["result"] for test in found.values()} == {"fail"}
    reason = found["hdf5"]["fail_reason"]
    assert f"{ID.format('hdf5')}: hdf5 does not write collectively: 24 collective and 7 " in reason
    reason = found["netcdf"]["fail_reason"]
    assert f"{ID.format('netcdf')}: mpiio does not write collectively: 0 collective and" in reason
    assert "; netcdf does not write collectively: 48 collective and 1536 independent" in reason
    pages = (recorded.folder / "run/stage").rglob("benchio.darshan.html")
    assert len(list(pages)) == 2, "of those that failed"

    (recorded.folder / "expected_failures").mkdir()
    (recorded.folder / "expected_failures/small.yaml").write_text(
        f"- {{case: '.*/profile/.*', until: {date.today()}, why: a new module is asked for}}\n"
    )
    done = recorded.reframe("-r", "-P", "backend=netcdf")
    assert done.returncode == 0, done.stdout
    assert "1 expected failure(s)" in done.stdout


def test_run_that_is_not_verified_is_not_judged(recorded):
    recorded.sweep["IoProfile"]["backend"] = ["mpiio"]
    recorded.extras["type"] = "lustre"
    done = recorded.reframe("-r")
    assert done.returncode == 1, done.stdout
    (test,) = recorded.report()
    assert f"{ID.format('mpiio')}: benchio: io_error: rank 0" in test["fail_reason"]


@pytest.mark.parametrize(
    ("library", "sentence"),
    [
        ("/not/there/libdarshan.so", "there is no Darshan library /not/there/libdarshan.so"),
        ("darshan/3.5", "the module darshan/3.5 brings no darshan-config"),
        ("/bin/true", "Darshan wrote no benchio.darshan"),  # no library of Darshan's
    ],
    ids=["path", "module", "other"],
)
def test_darshan_that_is_named_and_does_not_work_fails(profiled, library, sentence):
    profiled.sweep["IoProfile"]["backend"] = ["mpiio"]
    profiled.environment["DARSHAN_LIBRARY"] = library
    done = profiled.reframe("-r")
    assert done.returncode == 1, done.stdout
    (test,) = profiled.report()
    assert test["result"] == "fail"
    assert f"{ID.format('mpiio')}: {sentence}" in test["fail_reason"]
    assert not list(profiled.scratch.iterdir())


def test_library_is_found_through_darshan_config(recorded, tmp_path):
    recorded.sweep["IoProfile"]["backend"] = ["mpiio"]
    config = tmp_path / "bin/darshan-config"
    config.parent.mkdir()
    config.write_text(f"#!/bin/sh\necho '-L{tmp_path}  -ldarshan -lz -Wl,@{tmp_path}/ld-opts'\n")
    config.chmod(0o755)
    recorded.environment.update(
        DARSHAN_LIBRARY="", PATH=f"{config.parent}:{recorded.environment['PATH']}"
    )
    done = recorded.reframe("-r")
    assert done.returncode == 0, done.stdout
    assert_all_collective(recorded)


@pytest.mark.parametrize(
    ("at_start", "reason"),
    [
        ("", "no Darshan: name its libdarshan.so, or its module, as 'darshan' in the extras of"),
        ("import sys; sys.modules['darshan'] = None", "PyDarshan is missing: pip install"),
    ],
    ids=["runtime", "pydarshan"],
)
def test_without_darshan_the_check_is_skipped_and_says_why(profiled, tmp_path, at_start, reason):
    profiled.sweep["IoProfile"]["backend"] = ["mpiio"]
    (tmp_path / "sitecustomize.py").write_text(at_start)
    profiled.environment["PYTHONPATH"] = f"{ROOT / 'src'}:{tmp_path}"
    done = profiled.reframe("-r")
    assert reason in done.stdout
    assert "0 failure(s), 0 expected failure(s), 1 skipped, 0 aborted" in done.stdout


@pytest.mark.slow
def test_night_is_red_unless_the_access_pattern_was_looked_at(recorded):
    recorded.sweep["IoProfile"]["backend"] = ["mpiio"]
    recorded.sweep["SharedFileWrite"] = recorded.write
    pattern = f"1 of 1 access patterns not looked at: {ID.format('mpiio')}"
    done = recorded.iowatch("--record")
    assert done.returncode == 0, done.stdout
    assert pattern not in done.stdout
    (script,) = (recorded.folder / "run/output").rglob("SharedFileWrite*/rfm_job.sh")
    assert "export DARSHAN_DISABLE=1\n" in script.read_text(), "it would cost bandwidth"

    done = recorded.iowatch("--record", "--name", "SharedFileWrite", "--name", "LibraryVersions")
    assert done.returncode == 1, done.stdout
    assert pattern in done.stdout

    recorded.leave(mpiio="independent-mpiio")
    done = recorded.iowatch("--record")
    assert done.returncode == 1, done.stdout
    assert "mpiio does not write collectively: 0 collective and 24" in " ".join(done.stdout.split())

    recorded.environment["DARSHAN_LIBRARY"] = ""
    done = recorded.iowatch("--record")
    assert done.returncode == 1, done.stdout
    assert pattern in done.stdout
    assert "1 check(s) skipped or aborted" in done.stdout


def test_stream_has_no_profile(profiled):
    profiled.sweep["IoProfile"]["backend"] = ["stream"]
    done = profiled.reframe("-r")
    assert done.returncode == 1
    assert "nightly/IoProfile/backend for stream: there are mpiio, hdf5, netcdf" in done.stdout


live = pytest.mark.skipif(not RUNTIME, reason="DARSHAN_LIBRARY does not name a libdarshan.so")


@live
def test_live_collective_writes_pass(profiled):
    profiled.environment["DARSHAN_LIBRARY"] = RUNTIME
    done = profiled.reframe("-r")
    assert done.returncode == 0, done.stdout
    assert_all_collective(profiled)


@live
def test_live_independent_writes_fail(profiled, tmp_path):
    profiled.environment["DARSHAN_LIBRARY"] = RUNTIME
    program = tmp_path / "benchio"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || set -- "$@" --collective no\n'
        f'exec {profiled.benchio} "$@"\n'
    )
    program.chmod(0o755)
    profiled.benchio = program
    done = profiled.reframe("-r")
    assert done.returncode == 1, done.stdout
    found = by_backend(profiled)
    assert {test["result"] for test in found.values()} == {"fail"}
    assert "mpiio does not write collectively: 0 collective" in found["mpiio"]["fail_reason"]
    assert "netcdf does not write collectively: 48 coll" in found["netcdf"]["fail_reason"]
    # HDF5 says so by itself.
    assert "collective transfer of hdf5: independent" in found["hdf5"]["fail_reason"]


@live
@pytest.mark.parametrize("disabled", [True, False])
def test_live_bandwidth_is_measured_without_darshan(site, tmp_path, disabled):
    """Even where a site has it in every job."""
    logs = tmp_path / "logs"
    logs.mkdir()
    site.partition["env_vars"] = [
        *([name, value] for name, value in OPEN_MPI.items()),
        ["LD_PRELOAD", RUNTIME],
        ["DARSHAN_LOGFILE", str(logs / "benchio.darshan")],
    ]
    if not disabled:  # then this test sees it
        enabled = tmp_path / "benchio"
        enabled.write_text(f'#!/bin/sh\nunset DARSHAN_DISABLE\nexec {site.benchio} "$@"\n')
        enabled.chmod(0o755)
        site.benchio = enabled
    done = site.reframe("-r", "--mode=record", "-n", "SharedFileWrite")
    assert done.returncode == 0, done.stdout
    assert bool(list(logs.iterdir())) != disabled
