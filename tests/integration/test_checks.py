"""The checks under the real ReFrame: what runs, what is refused, and what is said about it."""

import os
import re
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from iowatch import history
from iowatch.verdict import Reference

ROOT = Path(__file__).parents[2]


LOCAL = {
    "SharedFileWrite": 2 * 7,
    "SharedFileRead": 2 * 3,
    "FilePerProcess": 2 * 4,
    "SystemLoad": 2 * 2,
    "LibraryVersions": 2,
}


def test_number_of_checks_of_local(site):
    listed = site.reframe("-lC", system="local")
    cases = re.findall(r"^- (\w+).* @local:(?:disk|tmpfs)\+gnu", listed.stdout, re.MULTILINE)
    assert Counter(cases) == LOCAL, listed.stdout
    acceptance = site.reframe("-l", "--mode=acceptance", system="local")
    assert "Found 57 check(s)" in acceptance.stdout, acceptance.stdout


def test_dry_run_of_local(site):
    site.environment["RFM_REFERENCE_PREFIX"] = str(ROOT / "reference_values")
    done = site.reframe("--dry-run", system="local")
    assert done.returncode == 0, done.stdout
    assert f"Ran {sum(LOCAL.values()) + 2}/36 test case(s)" in done.stdout
    assert "0 failure(s), 0 expected failure(s), 0 skipped, 0 aborted" in done.stdout
    assert "WARNING" not in done.stdout


def test_unknown_host_is_not_taken_for_local(site):
    done = site._run("reframe", "-c", ROOT / "reframe_checks", "-r")
    assert done.returncode == 1, done.stdout
    assert "generic:default: the partition's extras have no 'filesystem'" in done.stdout


def test_measured_case_is_recorded_with_its_bounds(site):
    site.write["backend"] = ["hdf5"]
    site.references = """
SharedFileWrite:
  $index: [case_id]
  small:memory/real/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2:
    total_max: [1, -1, 1.0e+9, MiB/s]
    close_fraction: [0, null, 1, '1']
"""
    done = site.reframe("-r")
    assert done.returncode == 0, done.stdout
    (test,) = site.report()
    case = "small:memory/real/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2"
    assert (test["case_id"], test["verdict"]) == (case, "ok")
    assert test["sentence"] == f"{case}: 2 figure(s) within {site.folder.name}/small.yaml"
    figures = test["figures"]
    assert figures["total_max"][1:] == [1, -1, 1.0e9, "MiB/s", "pass"]
    assert figures["close_fraction"][1:] == [0, None, 1, "1", "pass"]
    assert all(entry[0] > 0 for name, entry in figures.items() if name != "close_s")
    assert test["conditions"]["transfer"] == "collective"
    assert re.match(r"\d+\.\d+", test["conditions"]["hdf5"])
    slowest = r"rank [01] on \S+, \d+ of 10 times, \d+\.\d times the mean"
    assert set(test["slowest"]) == {"open", "define", "write", "sync", "close"}
    assert all(re.fullmatch(slowest, said) for said in test["slowest"].values())
    (record,) = history.read([site.folder / "run" / "results.db"])
    assert (record.slowest, record.conditions) == (test["slowest"], test["conditions"])
    assert record.references == {
        "total_max": Reference(1, -1, 1e9),
        "close_fraction": Reference(0, None, 1),
    }
    (log,) = (site.folder / "run" / "perflogs").rglob("SharedFileWrite.log")
    assert f"|pass|{case}|ok|" in log.read_text()
    assert not list(site.scratch.iterdir())


def test_parameters_can_be_set_on_the_command_line(site):
    site.write.update(backend=["mpiio", "hdf5"], local_size=[8, 16])
    options = ["-P", "backend=hdf5", "-P", "local_size=32", "-P", "stripe_count=none"]
    done = site.reframe("-l", "-n", "SharedFileWrite", *options)
    assert "Found 1 check(s)" in done.stdout, done.stdout
    (test,) = re.findall(r"^- SharedFileWrite (.*)", done.stdout, re.MULTILINE)
    assert "backend=hdf5" in test
    assert "local_size=32x32x32" in test, "a value that no sweep has"
    striped = site.reframe("-l", "-n", "SharedFileWrite", "-P", "stripe_count=4")
    assert "Found 0 check(s)" in striped.stdout, "where nothing is striped"


def test_every_kind_of_check_measures_and_is_judged(site):
    site.extras["cached_reads"] = True
    common = {"backend": ["hdf5"], "local_size": [8], "nodes": [1]}
    site.sweep = {
        "SharedFileRead": common,
        "FilePerProcess": {**common, "backend": ["stream"], "files": ["process", "gather"]},
        "SystemLoad": {**common, "instances": [1, 2]},
    }
    site.references = "".join(
        REGRESSION_ONLY.replace("SharedFileWrite", check).replace("ratio: [0.9", "ratio: [0.002")
        for check in site.sweep
    )
    done = site.reframe("-r")
    assert done.returncode == 0, done.stdout
    found = {test["case_id"].split("/", 2)[2]: test["figures"] for test in site.report()}
    size = "count=none/size=none/local=8x8x8/writers=2"
    assert set(found) == {
        f"read/shared/hdf5/{size}",
        f"write/process/stream/{size}",
        f"write/gather/stream/{size}",
        f"write/shared/hdf5/{size}/instances=1",
        f"write/shared/hdf5/{size}/instances=2",
    }
    assert "read_s" in found[f"read/shared/hdf5/{size}"]
    assert "write_s" not in found[f"read/shared/hdf5/{size}"]
    load = found[f"write/shared/hdf5/{size}/instances=2"]
    assert 0 < load["instance_min"][0] < load["total_max"][0]


def test_read_that_a_cache_may_have_served_is_invalid_where_the_site_forbids_it(site):
    site.extras["cached_reads"] = False  # in memory, every read is served from it
    site.sweep = {"SharedFileRead": site.write}
    assert_one_failure(site, "may have come from a cache, which 'cached_reads' of small:memory")


def test_filesystem_without_room_is_not_written_to(site):
    site.write["local_size"] = [2**15]
    assert_one_failure(site, f"{site.scratch}: 549755813888 KiB will be written, but only")


def test_only_old_directories_with_our_mark_are_swept(site):
    def leave(name, mark, days):
        folder = site.scratch / name
        folder.mkdir()
        marked = [folder / mark] if mark else []
        for path in [*marked, folder]:
            path.touch()
            os.utime(path, (time.time() - days * 86400,) * 2)
        return folder

    kept = {
        leave("iowatch.young1", ".iowatch", 1.9),
        leave("iowatch.nomark", None, 9),
        leave("iowatch.other1", ".other", 9),
        leave("iowatch.longname", ".iowatch", 9),
        leave("another.abcdef", ".iowatch", 9),
    }
    leave("iowatch.old123", ".iowatch", 2.1)
    assert site.reframe("-r").returncode == 0
    assert set(site.scratch.iterdir()) == kept


def test_library_that_is_known_to_be_slow_on_lustre_fails(site):
    site.faults = {"old": "none"}  # the stand-in has HDF5 1.8.16
    assert site.reframe("-r", "-n", "LibraryVersions").returncode == 0
    site.extras.update(type=["tmpfs", "lustre"])
    done = site.reframe("-r", "-n", "LibraryVersions")
    assert done.returncode == 1
    sentence = "small:memory/old/versions: hdf5 1.8.16: H5Fclose sets"
    assert f"Reason: sanity error: {sentence}" in done.stdout

    (site.folder / "expected_failures").mkdir()
    expected = site.folder / "expected_failures" / "small.yaml"
    entry = "- {case: 'small:memory/old/versions', until: %s, why: a new module is asked for}\n"
    expected.write_text(entry % date.today())
    done = site.reframe("-r", "-n", "LibraryVersions")
    assert done.returncode == 0, done.stdout
    assert "1 expected failure(s)" in done.stdout
    expected.write_text(entry % (date.today() - timedelta(days=1)))
    assert site.reframe("-r", "-n", "LibraryVersions").returncode == 1


def test_missing_key_ends_reframe_with_its_name(site):
    del site.extras["peak"]
    done = site.reframe("-r")
    assert done.returncode == 1
    sentence = "small:memory: the partition's extras have no 'peak': add it in "
    assert f"{sentence}{site.folder}/small.py" in done.stdout


def assert_one_failure(site, *sentences):
    """The only check is invalid and ReFrame's message, that of the report, holds the sentences."""
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    assert (test["result"], test["verdict"]) == ("fail", "invalid")
    for sentence in sentences:
        assert sentence in test["sentence"]
    assert f"Reason: sanity error: {test['sentence']}" in done.stdout
    assert not [value for value, *_ in test["figures"].values() if value is not None]
    assert not site.scratch.exists() or not list(site.scratch.iterdir())


def test_wrong_filesystem_is_not_measured(site):
    site.extras["type"] = ["lustre", "gpfs"]
    assert_one_failure(site, "io_error", "rank 0", "tmpfs", str(site.scratch))


def test_path_on_a_filesystem_that_is_not_mounted(site):
    site.extras["path"] = f"{site.scratch}/not/there"
    assert_one_failure(site, "mktemp: failed to create directory", "not/there")
    assert not (site.scratch / "not").exists()


def test_path_is_made_where_its_parent_exists(site):
    site.extras["path"] = f"{site.scratch}/iowatch"
    assert site.reframe("-r").returncode == 0
    assert not list((site.scratch / "iowatch").iterdir())


REGRESSION_ONLY = """
SharedFileWrite:
  $index: [case_id]
  .*:
    ratio: [0.9, -0.5, null]
"""


def test_case_without_reference_is_red_until_recording_is_asked_for(site):
    site.references = REGRESSION_ONLY.replace(".*:", "another:.*:")
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    assert (test["result"], test["verdict"]) == ("fail", "no_baseline")
    assert test["figures"]["total_max"][0] > 0, "the night's figures are kept"
    for option in ("--mode=record", "-Srecord=1"):
        done = site.reframe("-r", option)
        assert done.returncode == 0, done.stdout
        (test,) = site.report()
        assert (test["result"], test["verdict"]) == ("pass", "no_baseline")
    assert site.reframe("-r", "-Srecord=0").returncode == 1


@pytest.mark.parametrize(
    ("references", "sentence"),
    [
        (None, "No such file or directory"),
        ("", "it is empty"),
        ("- SharedFileWrite", "it has no sections"),
        (REGRESSION_ONLY + "  .*: {}\n", "line 6: key '.*' stands in line 4 already"),
        ("SharedFileWrite: [", "while parsing"),
        ("SharedFileWrite: 5", "cannot be used"),
        (REGRESSION_ONLY.replace("  $index: [case_id]\n", ""), "cannot be used"),
        (REGRESSION_ONLY.replace("case_id", "backend"), "'$index: [case_id]' is missing"),
        (REGRESSION_ONLY.replace("[0.9, -0.5, null]", "0.9"), "invalid reference entry"),
        (REGRESSION_ONLY.replace("[0.9, -0.5, null]", "[0.9]"), "does not match type"),
        (
            REGRESSION_ONLY.replace("[0.9, -0.5, null]", "[$xfail, a bug, [0.9, -0.5, null, '1']]"),
            "a failure that is expected stands in expected_failures/",
        ),
        (REGRESSION_ONLY.replace("-0.5", "null"), "ratio: has no bound"),
        (REGRESSION_ONLY.replace("ratio", "rato"), "rato: small:memory/real/write/shared/hdf5/"),
    ],
)
def test_unusable_reference_file_is_named_before_anything_is_measured(site, references, sentence):
    site.write["backend"] = ["hdf5"]
    site.references = references
    done = site.reframe("-r", "--mode=record")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    assert (test["result"], test["fail_phase"]) == ("fail", "setup")
    assert f"{site.folder}/small.yaml cannot be used as reference values" in test["fail_reason"]
    assert sentence in test["fail_reason"]


def test_slurm_jobs_of_a_filesystem_wait_for_each_other(site):
    site.partition.update(scheduler="slurm", launcher="srun")
    site.write["nodes"] = [3]
    done = site.reframe("--dry-run", "--keep-stage-files")
    assert done.returncode == 0, done.stdout
    scripts = (site.folder / "run" / "stage").rglob("SharedFileWrite*/rfm_job.sh")
    (script,) = [path.read_text() for path in scripts]
    assert "#SBATCH --dependency=singleton" in script
    assert "#SBATCH --job-name=iowatch_memory" in script
    assert "#SBATCH --ntasks=6" in script
    assert "#SBATCH --ntasks-per-node=2" in script
