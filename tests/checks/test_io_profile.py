"""The check of access patterns under the real ReFrame, with logs that were recorded, and live."""

import os
import sys
from pathlib import Path

import pytest
from cases import backend_of, verdict_of
from checks.conftest import STAND_IN, STAND_IN_PROGRAM
from conftest import OPEN_MPI, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests/data/darshan"

PROFILE = {"backend": ["mpiio", "hdf5", "netcdf"], "local_size": [8], "nodes": [1]}
ID = "small:{}/IoProfile/backend={}/local_size=8x8x8/ranks=24"
WRITES = {"mpiio": "24 collective", "hdf5": "72 collective", "netcdf": "72 collective"}
RUNTIME = os.environ.get("DARSHAN_LIBRARY")


def profile(*backends):
    """A suite that looks at these libraries, with as many ranks as the logs are of."""
    return {"IoProfile": {**PROFILE, "backend": list(backends), "ranks_per_node": [24]}}


@pytest.fixture
def profiled(site):
    site.suite = profile(*PROFILE["backend"])
    site.hide("darshan-config")
    site.environment["DARSHAN_LIBRARY"] = ""
    return site


def assert_collective(test, backend):
    place = f"{test['partition']}/{test['environ']}"
    assert (test["result"], verdict_of(test)) == ("pass", "ok"), test["sentence"]
    assert test["case_id"] == ID.format(place, backend)
    assert not test["metrics"], "Darshan takes time"
    assert f"{backend}: {WRITES[backend]} and 0 independent writes" in test["sentence"]
    kept = Path(test["kept"])
    assert "MPI-IO" in (kept / "benchio.darshan.html").read_text()
    assert (kept / "benchio.darshan").stat().st_size > 0


#: A stand-in for benchio that leaves a recorded log: like Darshan, by rank 0, and only where it is
#: loaded and not switched off.
RECORDED = """\
#!/bin/sh
case "$LD_PRELOAD:$DARSHAN_DISABLE:$OMPI_COMM_WORLD_RANK" in */libdarshan.so::0)
    grep -qx "NAME_EXCLUDE [.][*] [*]" "$DARSHAN_CONFIG_PATH" &&
        grep -q "^NAME_INCLUDE ^.*/iowatch\\.[^ ]*/ [*]$" "$DARSHAN_CONFIG_PATH" &&
        cp {log} "$DARSHAN_LOGFILE" && chmod 400 "$DARSHAN_LOGFILE" ;;
esac
"""


def test_library_is_found_through_darshan_config(profiled, tmp_path):
    library, program = tmp_path / "libdarshan.so", tmp_path / "gnu.benchio"
    made = run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"])
    assert made.code == 0, made.err
    stand_in = STAND_IN_PROGRAM.format(
        python=sys.executable, program=STAND_IN, fault="none", benchio=profiled.benchio
    )
    program.write_text(RECORDED.format(log=LOGS / "collective-mpiio.darshan") + stand_in)
    program.chmod(0o755)
    profiled.suite = {**profile("mpiio"), "SharedFileWrite": profiled.write}
    profiled.faults = {"gnu": "none"}
    profiled.environs["gnu"] = {"extras": {"benchio": str(program)}}
    config = tmp_path / "bin/darshan-config"
    config.parent.mkdir()
    config.write_text(f"#!/bin/sh\necho '-L{tmp_path}  -ldarshan -lz -Wl,@{tmp_path}/ld-opts'\n")
    config.chmod(0o755)
    profiled.environment["PATH"] = f"{config.parent}:{profiled.environment['PATH']}"
    done = profiled.reframe("-r", "--mode=record")
    assert done.returncode == 0, done.stdout
    tests = {test["name"].split()[0]: test for test in profiled.report()}
    assert_collective(tests["IoProfile"], "mpiio")
    script = Path(tests["SharedFileWrite"]["kept"], "rfm_job.sh").read_text()
    assert "export DARSHAN_DISABLE=1\n" in script, "it would cost bandwidth"


def test_without_pydarshan_the_check_is_skipped_and_says_why(profiled, tmp_path):
    profiled.suite = profile("mpiio")
    profiled.faults = {"gnu": "none"}
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['darshan'] = None")
    profiled.environment["PYTHONPATH"] = f"{ROOT / 'src'}:{tmp_path}"
    # Python reads that file only where it starts anew.
    process = profiled.start("reframe", "-c", ROOT / "reframe_checks", "--system", "small", "-r")
    said, _ = process.communicate(timeout=300)
    assert "PyDarshan is missing: `pip install" in said
    assert "0 failure(s), 0 expected failure(s), 1 skipped, 0 aborted" in said


live = pytest.mark.skipif(not RUNTIME, reason="DARSHAN_LIBRARY does not name a libdarshan.so")


@live
def test_live_collective_writes_pass(profiled):
    profiled.environment["DARSHAN_LIBRARY"] = RUNTIME
    done = profiled.reframe("-r")
    assert done.returncode == 0, done.stdout
    for test in profiled.report():
        assert_collective(test, backend_of(test))


@live
def test_live_independent_writes_fail(profiled, tmp_path):
    profiled.environment["DARSHAN_LIBRARY"] = RUNTIME
    hints = tmp_path / "hints"
    hints.write_text("romio_cb_write disable\n")
    profiled.environment["ROMIO_HINTS"] = str(hints)
    done = profiled.reframe("-r")
    assert done.returncode == 1, done.stdout
    found = {backend_of(test): test for test in profiled.report()}
    assert {verdict_of(test) for test in found.values()} == {"regression (not_collective)"}
    for backend, test in found.items():
        assert f"MPI-IO does not collect the writes of {backend}: it " in test["sentence"]


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
