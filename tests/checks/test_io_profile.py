"""The check of access patterns under the real ReFrame, with logs that were recorded, and live."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cases import backend_of, verdict_of
from checks.conftest import STAND_IN, STAND_IN_PROGRAM
from conftest import OPEN_MPI, run

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


@pytest.fixture
def recorded(profiled, tmp_path):
    """A site whose jobs leave logs that were recorded; recorded.leave(environ, hdf5=log, ...) says
    which. benchio's stand-in writes nothing."""
    library = tmp_path / "libdarshan.so"
    made = run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"])
    assert made.code == 0, made.err
    profiled.library = str(library)

    def leave(environ, fault="none", darshan=profiled.library, **logs):
        logs = {backend: f"collective-{backend}" for backend in PROFILE["backend"]} | logs
        choice = "".join(
            f"*{backend}\\ *) log={LOGS}/{logs[backend]}.darshan ;;\n"  # the last of --backend
            for backend in logs
        )
        stand_in = STAND_IN_PROGRAM.format(python=sys.executable, program=STAND_IN, fault=fault)
        program = profiled.folder / f"{environ}.benchio"
        program.write_text(
            "#!/bin/sh\n"
            f'case "$*" in\n{choice}esac\n'
            # Like Darshan, by rank 0, and only where it is loaded and not switched off.
            'case "$LD_PRELOAD:$DARSHAN_DISABLE:$OMPI_COMM_WORLD_RANK" in */libdarshan.so::0)\n'
            '    grep -qx "NAME_EXCLUDE [.][*] [*]" "$DARSHAN_CONFIG_PATH" &&\n'
            '        grep -q "^NAME_INCLUDE ^.*/iowatch\\.[^ ]*/ [*]$" "$DARSHAN_CONFIG_PATH" &&\n'
            '        cp "$log" "$DARSHAN_LOGFILE" && chmod 400 "$DARSHAN_LOGFILE" ;;\n'
            "esac\n" + stand_in
        )
        program.chmod(0o755)
        profiled.faults[environ] = fault
        extras = {"benchio": str(program), **({"darshan": darshan} if darshan else {})}
        profiled.environs[environ] = {"extras": extras}

    profiled.leave = leave
    return profiled


def assert_collective(test, backend):
    place = f"{test['partition']}/{test['environ']}"
    assert (test["result"], verdict_of(test)) == ("pass", "ok"), test["sentence"]
    assert test["case_id"] == ID.format(place, backend)
    assert not test["metrics"], "Darshan takes time"
    assert f"{backend}: {WRITES[backend]} and 0 independent writes" in test["sentence"]
    kept = Path(test["kept"])
    assert "MPI-IO" in (kept / "benchio.darshan.html").read_text()
    assert (kept / "benchio.darshan").stat().st_size > 0


@pytest.mark.slow
def test_collective_writes_pass_and_independent_ones_fail_unless_that_is_expected(recorded):
    site = recorded
    site.partitions = {
        "memory": {"environs": ["collective"]},
        "netcdf": {"environs": ["independent", "excused"], "suite": profile("netcdf")},
        "mpiio": {
            "environs": ["unverified", "path", "module", "other", "without"],
            "suite": profile("mpiio"),
        },
    }
    site.leave("collective")
    site.leave("independent", netcdf="independent-netcdf")
    site.leave("excused", netcdf="independent-netcdf")
    site.leave("unverified", fault="no result")
    site.leave("path", darshan="/not/there/libdarshan.so")
    site.leave("module", darshan="no-such-module")
    site.leave("other", darshan="/etc/passwd")
    site.leave("without", darshan="")
    today = datetime.now(UTC).date()
    site.expect_failures((".*/excused/IoProfile/.*", today, "a new module is asked for"))
    done = site.reframe("-r", "-n", "IoProfile")
    assert done.returncode == 1, done.stdout
    assert "1 expected failure(s), 1 skipped" in done.stdout
    assert "there is no darshan-config on PATH or in Spack: `spack install d" in done.stdout
    assert "or name libdarshan.so, or its module, as 'darshan' in the extras of" in done.stdout
    tests = site.report()
    assert not list(site.scratch.iterdir())
    collective = {backend_of(test): test for test in tests if test["partition"] == "memory"}
    assert set(collective) == set(PROFILE["backend"])
    for backend, test in collective.items():
        assert_collective(test, backend)

    found = {test["environ"]: test for test in tests if test["partition"] != "memory"}
    says = {
        "independent": ("netcdf", "regression (not_collective)",
                        "netcdf does not write collectively: 48 collective "),
        "unverified": ("mpiio", "failed (no_output)", "benchio: error: stand-in: wrote nothing"),
        "path": ("mpiio", "failed (no_output)",
                 "there is no Darshan library /not/there/libdarshan.so"),
        "module": ("mpiio", "failed (no_output)",
                   "the module no-such-module brings no darshan-config"),
        "other": ("mpiio", "failed (program_failed)", "benchio.darshan"),
    }  # fmt: skip
    for environ, (backend, verdict, sentence) in says.items():
        test = found[environ]
        assert (test["result"], verdict_of(test)) == ("fail", verdict), environ
        assert sentence in test["sentence"], (environ, test["sentence"])
        case = ID.format(f"{test['partition']}/{environ}", backend)
        assert f"{case}: " in test["fail_reason"], environ
        assert (Path(test["kept"]) / "rfm_job.err").exists(), environ
        page = Path(test["kept"]) / "benchio.darshan.html"
        assert page.exists() == (verdict == "regression (not_collective)"), environ
    assert "mpiio does not write collectively: 0 collective" in found["independent"]["sentence"]
    assert (found["excused"]["result"], verdict_of(found["excused"])) == (
        "xfail",
        "regression (not_collective, known)",
    )


def test_library_is_found_through_darshan_config(recorded, tmp_path):
    recorded.suite = {**profile("mpiio"), "SharedFileWrite": recorded.write}
    recorded.leave("gnu", darshan="")
    config = tmp_path / "bin/darshan-config"
    config.parent.mkdir()
    config.write_text(f"#!/bin/sh\necho '-L{tmp_path}  -ldarshan -lz -Wl,@{tmp_path}/ld-opts'\n")
    config.chmod(0o755)
    recorded.environment["PATH"] = f"{config.parent}:{recorded.environment['PATH']}"
    done = recorded.reframe("-r", "--mode=record")
    assert done.returncode == 0, done.stdout
    tests = {test["name"].split()[0]: test for test in recorded.report()}
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
