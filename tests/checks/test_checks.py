"""The checks under the real ReFrame: what runs, what is refused, and what is said about it."""

import fcntl
import os
import platform
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cases import verdict_of

ROOT = Path(__file__).parents[2]


def test_site_that_says_too_little_ends_reframe_with_what_is_missing(site):
    done = site._run("reframe", "-c", ROOT / "reframe_checks", "-r")
    assert done.returncode == 1, done.stdout
    said = "error: no system that is configured has this host: name one with --system"
    assert said in done.stdout, "an unknown host is not taken for local"

    del site.extras["peak"]
    done = site.reframe("-r")
    assert done.returncode == 1
    assert f"{site.folder}/small.py, partition small:memory, extras: has no peak" in done.stdout
    assert "Traceback" not in done.stdout

    site.environment["RFM_PREFIX"] = "here"  # ReFrame reads its configuration in another folder
    sentence = "error: RFM_PREFIX is 'here': it must be an absolute path"
    assert site.reframe("-l").stdout == f"{sentence}\n"


def test_a_case_that_no_suite_has_can_be_asked_for_on_the_command_line(site):
    site.write.update(backend=["mpiio", "hdf5"], local_size=[8, 16])
    tail = "local_size=32x32x32/ranks=2"

    def listed(setting):
        done = site.reframe("-l", "-n", "SharedFileWrite", "-P", f"setting={setting}")
        return done, re.findall(r"^- SharedFileWrite %setting=(\S+)", done.stdout, re.MULTILINE)

    done, tests = listed(f"backend=hdf5/{tail}/collective=no")
    assert {*tests} == {f"backend=hdf5/{tail}/collective=no"}, done.stdout
    done, tests = listed(f"backend=hdf5/stripe_count=4/stripe_size=1/{tail}")
    assert tests == [], "where nothing is striped"
    done, _ = listed(f"backend=hdf5/{tail}/colective=no")
    assert done.returncode == 1
    assert "not a case: 'any:any/any/SharedFileWrite/backend=hdf5/" in done.stdout


def leave(scratch, name, mark, days):
    """A directory, so many days old."""
    folder = scratch / name
    folder.mkdir(parents=True)
    marked = [folder / mark] if mark else []
    for path in [*marked, folder]:
        path.touch()
        os.utime(path, (time.time() - days * 86400,) * 2)
    return folder


def test_a_place_where_no_job_can_run_is_refused_by_name(site):
    """ReFrame itself would look for a script by the first word of its path."""
    site.faults = {"gnu": "none"}
    site.environment = {"RFM_STAGE_DIR": str(site.folder / "a place")}
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    (said,) = [line for line in done.stdout.splitlines() if "Reason:" in line]
    assert "Reason: reframe error: RFM_STAGE_DIR or --stage: '" in said
    assert "has ' ' in it, and no job can run there: name a path without blanks" in said
    assert "Traceback" not in done.stdout


def test_every_kind_of_check_measures_only_what_counts_and_leaves_nothing(site):
    """A partition for each place that a job may meet."""
    common = {"backend": ["hdf5"], "local_size": [8], "nodes": [1]}
    swept, new = site.scratch / "swept", site.scratch / "new"
    site.partitions = {
        "memory": {
            "suite": {
                "SharedFileRead": common,
                "FilePerProcess": {**common, "backend": ["posix"], "files": ["process", "gather"]},
                "FilePerProcessRead": {**common, "files": ["process"]},
                "SystemLoad": {**common, "instances": [1, 2]},
                "SharedFileWrite": {**common, "local_size": [32], "pattern": ["steps=2:deflate=1"]},
            }
        },
        "swept": {"extras": {"path": str(swept)}},
        "new": {"extras": {"path": str(new)}},
        # In memory, every read is served from a cache.
        "cached": {"extras": {"cached_reads": False}, "suite": {"SharedFileRead": site.write}},
        "full": {"suite": {"SharedFileWrite": {**site.write, "local_size": [2**15]}}},
        "other": {"extras": {"type": ["lustre", "gpfs"]}},
        "unmounted": {"extras": {"path": f"{site.scratch}/not/there"}},
    }
    says = {
        "cached": [
            "cached_read",
            "may have come from a cache, which 'cached_reads' of small:cached",
        ],
        "full": ["io_error", f"{site.scratch}: 549755813888 KiB will be written, but only"],
        "other": ["wrong_filesystem", "io_error", "rank 0", "tmpfs", str(site.scratch)],
        "unmounted": ["io_error", f"on {platform.node()}: mkdir: cannot create", "not/there"],
    }
    kept = {
        leave(swept, "iowatch.young1", ".iowatch", 1.9),
        leave(swept, "iowatch.nomark", None, 9),
        leave(swept, "iowatch.other1", ".other", 9),
        leave(swept, "iowatch.longname", ".iowatch", 9),
        leave(swept, "another.abcdef", ".iowatch", 9),
    }
    leave(swept, "iowatch.old123", ".iowatch", 2.1)
    site.references = (
        "SharedFileRead:\n"
        "  small:memory/.*: {ratio: [0.002, -0.5, null]}\n"
        "  .*: {total_max: [1, -0.999, null]}\n"
        "SystemLoad: {'small:.*': {ratio: [0.002, -0.5, null]}}\n"
        "FilePerProcess: {'small:.*': {ratio: [0.002, -0.5, null]}}\n"
        "general: {'.*': {total_max: [1, -0.999, null]}}\n"
        "SharedFileWrite:\n"
        "  .*deflate.*: {stored_fraction: [0, null, 0.9, '1']}\n"
        "  small:.*: {overhead_fraction: [0, null, 0.999, '1']}\n"
    )
    done = site.reframe("-r", "-n", "Shared|PerProcess|Load", "-S", "repeats=1")
    assert done.returncode == 1, done.stdout
    tests = site.report()
    by_place = {test["partition"]: test for test in tests if test["partition"] != "memory"}
    assert set(by_place) == set(site.partitions) - {"memory"}
    for place, test in by_place.items():
        reason, *said = says.get(place, ("",))
        verdict = ("fail", f"failed ({reason})") if reason else ("pass", "ok")
        assert (test["result"], verdict_of(test)) == verdict, (place, test["sentence"])
        for sentence in said:
            assert sentence in test["sentence"], place
        if place in says:
            assert f"Reason: sanity error: {test['sentence']}" in done.stdout, place
            assert not [value for value, *_ in test["metrics"].values() if value is not None]
    assert set(swept.iterdir()) == kept, "only old directories with our mark are swept"
    assert list(new.iterdir()) == [], "a path is made where its parent exists"
    assert set(site.scratch.iterdir()) == {swept, new}

    found = {
        test["case_id"].removeprefix("small:memory/real/"): test["metrics"]
        for test in tests
        if test["partition"] == "memory"
    }
    size = "local_size=8x8x8/ranks=2"
    load = f"SystemLoad/backend=hdf5/{size}/instances="
    read = f"SharedFileRead/backend=hdf5/{size}"
    compressed = (
        "SharedFileWrite/backend=hdf5/local_size=32x32x32/ranks=2/pattern=steps=2:deflate=1"
    )
    assert set(found) == {
        read,
        f"FilePerProcess/backend=posix/{size}/files=process",
        f"FilePerProcess/backend=posix/{size}/files=gather",
        f"FilePerProcessRead/backend=hdf5/{size}/files=process",
        f"{load}1",
        f"{load}2",
        compressed,
    }
    assert 0.3 < found[compressed]["stored_fraction"][0] < 0.5
    assert not {"ratio", "overhead_fraction"} & {*found[compressed]}, "there is no control"
    assert "read_s" in found[read]
    assert "write_s" not in found[read]
    assert found[f"{load}2"]["instance_min"][0] > 0


def test_library_that_is_known_to_be_slow_on_lustre_fails(site):
    site.faults = {"old": "none", "other": "none"}  # the stand-in has HDF5 1.8.16
    # Spack was asked for another one.
    site.environs["other"] = {"extras": {"spack": "benchio@0.1.0+hdf5 ^hdf5@1.99.5 /abcdefg"}}
    site.partitions = {
        name: {"extras": {"type": ["tmpfs", *(["lustre"] if name != "memory" else [])]},
               "environs": ["old"]}
        for name in ("memory", "lustre", "excused", "late")
    }  # fmt: skip
    site.partitions["asked"] = {"environs": ["other"]}
    today, day = datetime.now(UTC).date(), timedelta(days=1)
    why = "a new module is asked for"
    site.expect_failures(
        ("small:excused/old/LibraryVersions", today + day, why),
        ("small:late/old/LibraryVersions", today - day, why),
    )
    done = site.reframe("-r", "-n", "LibraryVersions")
    assert done.returncode == 1
    assert "3 failure(s), 1 expected failure(s)" in done.stdout
    found = {test["partition"]: test for test in site.report("LibraryVersions")}
    ends = {name: (test["result"], verdict_of(test)) for name, test in found.items()}
    assert ends == {
        "memory": ("pass", "ok"),
        "lustre": ("fail", "regression (slow_version)"),
        "excused": ("xfail", "regression (slow_version, known)"),
        "late": ("fail", "regression (slow_version)"),
        "asked": ("fail", "failed (not_as_asked)"),
    }
    assert "where Spack was asked for hdf5@1.99.5" in found["asked"]["sentence"]
    assert found["lustre"]["case_id"] == "small:lustre/old/LibraryVersions"
    sentence = "hdf5 1.8.16: H5Fclose sets"
    assert f"Reason: sanity error: {sentence}" in done.stdout


def test_what_cannot_be_read_is_named_before_anything_is_measured(site):
    """Also while recording: nothing that is recorded would be judged."""
    site.faults = {"gnu": "none"}
    site.references = "SharedFileWrite: {.*: {rato: [0.9, -0.5, null]}}"
    done = site.reframe("-r", "--mode=record")
    assert done.returncode == 1, done.stdout
    (test,) = site.report()
    assert (test["result"], test["fail_phase"]) == ("fail", "setup")
    assert f"{site.folder}/small.yaml cannot be used as reference values" in test["fail_reason"]
    assert "rato: " in test["fail_reason"]

    site.expect_failures((".*", "soon", "ticket 4711"))
    done = site.reframe("-r")
    assert done.returncode == 1
    tests = site.report("LibraryVersions")
    assert {test["fail_phase"] for test in tests} == {"setup"}
    for test in tests:
        file = site.folder / "expected_failures/small.yaml"
        assert f"{file}, entry 1: until is 'soon'" in test["fail_reason"]


def test_damaged_history_is_an_error_and_no_verdict(site):
    site.faults = {"gnu": "none"}
    site.database.parent.mkdir()
    site.database.write_bytes(b"SQLite" * 1000)
    done = site.reframe("-r", "--mode=record")
    assert done.returncode == 1
    (test,) = site.report(session=site.last_report_file())
    assert verdict_of(test) == ""
    assert f"{site.database}: damaged, or no SQLite database" in test["fail_reason"]
    assert test["case_id"] not in test["fail_reason"], "who shows the reason names the case"
    assert test["metrics"]["total_max"][0] > 0, "the night's metrics are kept"


def test_checks_can_be_repeated(site):
    """Outside of nights; ReFrame skips a check that it cannot make, and that is no failure."""
    site.faults = {"gnu": "none"}
    done = site.reframe("-r", "--repeat=2", "--mode=record")
    assert done.returncode == 0, done.stdout
    tests = site.report()
    assert [test["result"] for test in tests] == ["pass", "pass"]
    assert len({test["kept"] for test in tests}) == 2, "each has raw results of its own"


READ_ONLY = ["unshare", "--mount", "--propagation", "private", "bash", "-euc"]


@pytest.mark.slow
def test_build_that_somebody_else_holds_for_ever_is_named(site):
    """Long before the job's time is over."""
    site.partition["time_limit"] = "12s"
    site.faults = {"gnu": "none"}
    build = ("-r", "-S", "BuiltBenchio.build=cmake", "-n", "LibraryVersions")
    lock = ROOT / "build/benchio/.lock"
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write("process 4711 on there, since 2026-11-22 05:00:00\n")
        file.flush()
        done = site.reframe(*build)
    owner = "process 4711 on there, since 2026-11-22 05:00:00"
    (said,) = (site.folder / "run/stage").glob("**/BuiltBenchio*/rfm_job.err")
    assert said.read_text() == f"waiting for {lock}, which {owner} holds\n"
    assert done.returncode == 1
    sentence = f"{lock} is held by {owner}: wait for it, or end it"
    assert sentence in " ".join(done.stdout.split())

    del site.partition["time_limit"]
    done = site.reframe(*build)
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(r"process \d+ on \S+, since \S+ \S+\n", lock.read_text())


MOUNTED = """
    mount --bind {root} {root}
    mount --bind {changed} {source}
    mount -o remount,ro,bind {root}
    exec {command}
"""


def test_benchio_of_a_read_only_checkout_is_taken_as_it_is(site, tmp_path):
    """If it is up to date; nothing is built or locked there."""
    tried = subprocess.run([*READ_ONLY, "mount -t tmpfs x /mnt"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"mounting needs root: {tried.stderr.strip()}")
    site.faults = {"gnu": "none"}
    source = ROOT / "src/benchio/lib/base/statistics.f90"
    changed = tmp_path / "statistics.f90"
    changed.write_text("")

    def checked(file):
        command = f"reframe -c {ROOT}/reframe_checks -r --system small -S BuiltBenchio.build=cmake"
        command += " -n LibraryVersions"
        script = MOUNTED.format(root=ROOT, source=source, changed=file, command=command)
        return site._run(*READ_ONLY, script)

    done = checked(source)
    assert done.returncode == 0, done.stdout
    done = checked(changed)
    assert done.returncode == 1
    assert (
        f"{ROOT}/build/bin/benchio is older than {source}: ask whoever owns this checkout to run "
        "`make setup`, or name a prebuilt one as 'benchio' in the extras of environment 'gnu'"
    ) in " ".join(done.stdout.split())

    setup = subprocess.run(
        [*READ_ONLY, MOUNTED.format(
            root=ROOT, source=source, changed=source, command=ROOT / "scripts" / "setup.sh"
        )],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert setup.returncode == 1
    (line,) = setup.stderr.splitlines()
    assert line.startswith(f"set-up: {ROOT}/build cannot be written: use what is set up there")


def test_slurm_jobs_of_a_filesystem_wait_for_each_other(site):
    """Also where one partition alone is asked for, which promises no night."""
    site.partitions = {"memory": {}, "other": {}}
    site.partition.update(scheduler="slurm", launcher="srun")
    site.write["nodes"] = [3]
    done = site.reframe("--dry-run", "--keep-stage-files", system="small:memory")
    assert done.returncode == 0, done.stdout
    tests = site.report(session=site.last_report_file())
    assert {test["promised"] for test in tests} == {0}
    scripts = (site.folder / "run" / "stage").rglob("SharedFileWrite*/rfm_job.sh")
    (script,) = [path.read_text() for path in scripts]
    assert "#SBATCH --dependency=singleton" in script
    assert "#SBATCH --job-name=iowatch_memory" in script
    assert "#SBATCH --ntasks=6" in script
    assert "#SBATCH --ntasks-per-node=2" in script
    assert not site.kept.exists(), "a dry run keeps nothing"
