"""`iowatch nightly` with the real ReFrame and benchio: nothing passes quietly."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = "small:memory/real/write/shared/{}/count=none/size=none/local=8x8x8/writers=2"


def test_green_night(site):
    site.write["backend"] = ["mpiio", "hdf5", "netcdf"]
    done = site.iowatch()
    assert done.returncode == 0, done.stdout
    table = done.stdout.splitlines()[-7:]
    assert [line.split()[3] for line in table[1:4]] == ["hdf5", "mpiio", "netcdf"]
    assert [line.split()[-1] for line in table[:4]] == ["verdict", "ok", "ok", "ok"]
    summary = "green: 3 case(s) measured, 0 with a red verdict, 0 problem(s) with the night"
    assert table[-1] == summary
    page = Path(table[4].removeprefix("report: "))
    assert page.parent == site.folder / "run"
    assert "netcdf" in page.read_text()


def test_checks_can_be_repeated(site):
    """Outside of nights; ReFrame skips a check that it cannot make, and that is no failure."""
    site.faults = {"gnu": "none"}
    done = site.reframe("-r", "--repeat=2", "--mode=record")
    assert done.returncode == 0, done.stdout
    assert [test["result"] for test in site.report()] == ["pass", "pass"]


def test_wrong_name_filter_is_red(site):
    done = site.iowatch("-n", "SharedFileWrit3")
    assert done.returncode == 1
    assert f"1 of 1 cases not run: {CASE.format('mpiio')}" in done.stdout


def test_filter_that_leaves_a_case_out_is_red(site):
    site.write["backend"] = ["mpiio", "hdf5"]
    done = site.iowatch("-n", "SharedFileWrite.*hdf5")
    assert done.returncode == 1
    assert f"1 of 2 cases not run: {CASE.format('mpiio')}\n" in done.stdout
    assert "red: 1 case(s) measured, 0 with a red verdict" in done.stdout


def test_case_without_reference_is_red_unless_recording(site):
    site.references = "SharedFileWrite: {}"
    done = site.iowatch()
    assert done.returncode == 1
    sentence = f"{CASE.format('mpiio')}: no reference value in {site.folder.name}/small.yaml"
    assert sentence in map(str.strip, done.stdout.splitlines())
    assert site.iowatch("--record").returncode == 0


def test_expected_failure_is_known_and_green(site):
    site.faults = {"gnu": "slow hdf5"}
    site.write["backend"] = ["hdf5"]
    site.references = (
        "SharedFileWrite: {$index: [case_id], 'small:.*': {ratio: [0, 0.5, null, '1']}}\n"
    )
    (site.folder / "expected_failures").mkdir()
    (site.folder / "expected_failures" / "small.yaml").write_text(
        "- {case: '.*/hdf5/.*', until: 2999-12-31, why: ticket 4711}\n"
    )
    done = site.iowatch("--quiet")
    assert done.returncode == 0, done.stdout
    row, sentence = done.stdout.splitlines()[2:4]
    assert row.endswith(" defect (known)")
    assert re.match(
        r"    small:memory/gnu/write/shared/hdf5/.*: ratio is 0\.1.*ticket 4711", sentence
    )


def test_missing_reference_file_is_red_even_when_recording(site):
    site.references = None
    done = site.iowatch("--record")
    assert done.returncode == 1
    assert f"{site.folder}/small.yaml cannot be used as reference values" in done.stdout


def test_benchio_that_does_not_run_is_red(site):
    site.faults = {"broken": "broken"}
    done = site.iowatch()
    assert done.returncode == 1
    assert f"{site.folder}/broken does not build or run: run `make setup`" in done.stdout
    assert "1 of 1 cases not run" in done.stdout


def test_session_that_is_not_stored_is_red(site):
    nowhere = site.folder / "results.db"
    nowhere.symlink_to("/proc/iowatch/results.db")
    site.environment["RFM_SQLITE_DB_FILE"] = str(nowhere)
    done = site.iowatch()
    assert done.returncode == 1
    assert "the session is not in ReFrame's results database" in done.stdout


def assert_usage_error(done, sentence):
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith("iowatch: error: ")
    assert sentence in done.stdout


def test_unknown_system(site):
    assert_usage_error(site.iowatch(system="archer9"), "'archer9'")


def test_results_folder_that_cannot_be_written(site):
    """Better before the night than after it."""
    site.environment["RFM_SQLITE_DB_FILE"] = "/proc/iowatch/results.db"
    assert_usage_error(site.iowatch(), "/proc/iowatch/nightly.small.lock: cannot be written")


def test_results_folder_that_is_relative(site):
    """ReFrame reads its configuration in another folder, and there it would be made."""
    site.environment["RFM_PREFIX"] = "here"
    sentence = "error: RFM_PREFIX is 'here': it must be an absolute path"
    assert_usage_error(site.iowatch(), sentence)
    assert site.reframe("-l").stdout == f"{sentence}\n"


def test_missing_key(site):
    del site.extras["peak"]
    sentence = (
        f"small:memory: the partition's extras have no 'peak': add it in {site.folder}/small.py"
    )
    assert_usage_error(site.iowatch(), sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("x = (", "SyntaxError"), (None, "No such file"), ("x = 1", "not a valid")],
)
def test_unreadable_configuration(site, text, sentence):
    broken = site.folder / "broken.py"
    if text is not None:
        broken.write_text(text)
    site.environment["RFM_CONFIG_FILES"] = str(broken)
    done = site.iowatch()
    assert_usage_error(done, sentence)
    assert str(broken) in done.stdout


def test_no_reframe(site, tmp_path):
    site.environment["PATH"] = str(tmp_path)
    assert_usage_error(site.iowatch(), "no reframe on PATH")


def test_env_sh_works_from_any_directory(tmp_path):
    script = (
        f"source '{ROOT}/env.sh' && source '{ROOT}/env.sh' && echo $RFM_CONFIG_FILES && echo $PATH"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    files, path = done.stdout.splitlines()
    assert files.split(":")[0] == f"{ROOT}/site_configs/settings.py"
    sites = {str(file) for file in (ROOT / "site_configs").glob("*.py")}
    assert sorted(files.split(":")) == sorted(sites)
    assert path.split(":").count(f"{ROOT}/.venv/bin") == 1
