"""The checks under Slurm: one job at a time on a filesystem, and nothing left of those that die."""

import itertools
import json
import os
import re
import shutil
import signal
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest
from conftest import finish
from filesystems.centre import ENDLESS, Centre
from filesystems.machine import wait_until

ONE = {"SharedFileWrite": {"backend": ["mpiio"], "local_size": [8], "nodes": [2]}}
WRITE = {"SharedFileWrite": {"backend": ["mpiio", "hdf5"], "local_size": [8], "nodes": [2]}}
READ = {"SharedFileRead": {"backend": ["mpiio"], "local_size": [8], "nodes": [2]}}
ONLY = ("-n", "SharedFileWrite")


def left(centre: Centre, directory: Path) -> list[str]:
    """What lies in the directory of a filesystem, but for the lock, which stays."""
    found = {entry.name for entry in centre.slurm.machine.seen(directory).iterdir()}
    return sorted(found - {".iowatch.lock"})


def test_night_beside_a_hand_run(centre: Centre) -> None:
    """It is green. The jobs of a filesystem take turns, whoever starts them; filesystems are
    measured at the same time."""
    centre.prepare = ["sleep 1"]  # the accounting counts in seconds
    # On a node each, so that there is room for more jobs than may run.
    write = {"SharedFileWrite": {**WRITE["SharedFileWrite"], "nodes": [1]}}
    directories = [centre.add("fs2", write), centre.add("fs3", READ)]
    for partition in centre.partitions:
        partition["max_jobs"] = 4
    begin = datetime.now().astimezone()
    queued = ("squeue", "-h", "--name=iowatch_fs2", "--states=PENDING")
    with centre.slurm.busy():
        sessions = [centre.start(centre.nightly())]
        centre.environment["RFM_PREFIX"] = str(centre.folder / "by_hand")
        by_hand = centre.reframe("-n", "SharedFileWrite.*mpiio", system="cluster:fs2")
        sessions.append(centre.start(by_hand))
        wait_until(
            lambda: len(centre.slurm.sh(*queued).splitlines()) == 3, "jobs of both sessions", 60
        )
    done, *others = [finish(session, 120) for session in sessions]
    assert [session.code for session in (done, *others)] == [0, 0], (done, *others)
    assert "green: 5 cases measured, 0 with a red verdict, 0 problems" in done.out
    assert [left(centre, directory) for directory in directories] == [[], []]

    fs2, fs3 = (
        centre.slurm.accounting(f"iowatch_{name}", begin, count)
        for name, count in (("fs2", 3), ("fs3", 1))
    )
    assert (len(fs2), len(fs3)) == (3, 1)
    assert not any(first.overlaps(second) for first, second in itertools.pairwise(fs2))
    assert any(job.overlaps(fs3[0]) for job in fs2)


def test_filesystem_that_one_node_does_not_have(centre: Centre) -> None:
    """It is named: the last one by benchio, and the first one by the job itself."""
    with ExitStack() as mounts:
        for name, node, options in (("fs2", "node2", []), ("fs3", "node1", ["-o", "ro"])):
            centre.add(name, ONE)
            centre.partitions[-1]["access"] = ["--nodelist=node1,node2"]
            place = centre.slurm.folder / name
            mount = centre.slurm.on_node(node, "mount", "-t", "tmpfs", *options, "none", place)
            centre.slurm.sh(*mount)
            mounts.callback(centre.slurm.sh, *centre.slurm.on_node(node, "umount", place))
        done = centre.run(centre.nightly())
    assert done.code == 1, done.out + done.err
    folder = centre.slurm.folder
    for said in (
        rf"benchio: io_error: rank 2 on node2: realpath: {folder}/fs2/iowatch/",
        rf"failed \(io_error\): .*: on node1: mkdir: .*{folder}/fs3/iowatch.*: Read-only",
    ):
        assert re.search(said, done.out), done.out


def test_what_else_went_on(centre: Centre) -> None:
    """Of others' jobs the number is on record, and nothing that says whose or what they are."""
    centre.add("fs2", ONE)
    node3, node4 = (
        centre.slurm.submit("sleep 600", f"--nodelist={node}", "--job-name=secret")
        for node in ("node3", "node4")
    )
    try:
        wait_until(
            lambda: len(centre.slurm.sh("squeue", "-h", "-t", "R", "-o", "%i").split()) == 2,
            "two jobs",
        )
        done = centre.run(centre.reframe(*ONLY))
    finally:
        centre.slurm.sh("scancel", node3, node4)
    assert done.code == 0, done.out + done.err
    (case,) = centre.cases()
    found = case["system_context"]
    assert (found["jobs"], found["jobs_on_nodes"], found["nodes_in_use"]) == (2, 0, 4)
    assert "unknown" not in found
    kept = Path(case["kept"])
    for when in ("before", "after"):
        said = (kept / f"context.{when}.slurm").read_text()
        assert {f"job {node3} 1", f"job {node4} 1"} < {*said.splitlines()}
        assert "secret" not in said
        assert "root" not in said
    # Two nodes, each of which says of itself what it does.
    nodes = json.loads((kept / "result.json").read_text())["run"]["nodes"]
    assert [node["host"] for node in nodes] == ["node1", "node2"]
    assert found["load"] == max(node["load"] for node in nodes)
    for job in (node3, node4):
        centre.slurm.wait(job)


@pytest.mark.slow
def test_what_a_night_has_kept_is_read_on_the_next(centre: Centre) -> None:
    """Two nights of two jobs each: a job reads what another one has written, and neither is
    suspect of having met a cache of its own node."""
    back = {"backend": ["hdf5"], "local_size": [8], "nodes": [2]}
    directory = centre.add("fs2", {"ReadBack": back})
    first = centre.run(centre.nightly())
    assert first.code == 0, first.out + first.err
    assert "nothing was kept before: the next night reads what this one has" in first.out
    second = centre.run(centre.nightly())
    assert second.code == 0, second.out + second.err
    (file,) = centre.folder.glob("run/runs/*/*ReadBack*/result.json")
    result = json.loads(file.read_text())
    assert {one["cache"]["other_node_byte_fraction"] for one in result["cases"]} == {1}
    assert left(centre, directory) == [f"kept.{os.getuid()}"]


@pytest.mark.slow
def test_time_limit(centre: Centre) -> None:
    """Slurm looks at jobs' times twice a minute."""
    directory = centre.add("fs2", ONE)
    with centre.in_mid_run(directory, *ENDLESS) as session:
        job = centre.slurm.sh("squeue", "-h", "-o", "%i", "--name=iowatch_fs2").strip()
        centre.failed(session, timeout=150)
    assert "TIMEOUT" in centre.slurm.sh("sacct", "-nXP", "-j", job, "--format=state")
    assert left(centre, directory) == []


def test_killed_job(centre: Centre) -> None:
    """What its trap could not remove a later run does, once it is old; and nothing else."""
    directory = centre.add("fs2", ONE)
    with centre.in_mid_run(directory, *ENDLESS) as session:
        processes = centre.slurm.machine.processes().items()
        # The first; the one that it leaves has the same words.
        os.kill(min(pid for pid, words in processes if "slurm_script" in words), signal.SIGKILL)
        centre.failed(session)
    (dead,) = left(centre, directory)

    seen = centre.slurm.machine.seen(directory)
    young = "iowatch.ghijkl"  # a job may still use it
    others = ["iowatch.abcdef", "results.abcdef"]  # without our mark, and without our name
    for name in others:
        (seen / name).mkdir()
    (seen / others[1] / ".iowatch").touch()
    old = datetime.now().astimezone().timestamp() - 3 * 24 * 3600
    for path in [*seen.glob("*"), *seen.glob("*/.iowatch")]:
        os.utime(path, (old, old))
    (seen / young).mkdir()
    (seen / young / ".iowatch").touch()
    done = centre.run(centre.reframe(*ONLY, "-S", "repeats=1"))
    assert done.code == 0, done.out + done.err
    assert left(centre, directory) == sorted([*others, young]), f"{dead} is old"


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ["", "10:00"])
def test_jobs_that_have_nothing_of_the_login_node(centre: Centre, allocation: str) -> None:
    """Though a greeting comes before the number of each, and srun's tasks would have as little."""
    centre.add("fs2", WRITE)
    centre.partitions[-1]["access"] = ["--export=NONE"]
    names = [name for name in centre.slurm.env if re.match("OMPI_|PRTE_|PMIX_", name)]
    centre.partitions[-1]["env_vars"] = [[name, centre.slurm.env[name]] for name in names]
    if allocation:
        centre.share_allocation(allocation)
    greeting = centre.folder / "greeting" / "sbatch"
    greeting.parent.mkdir()
    greeting.write_text(f'#!/bin/sh\necho "Welcome\n7 users"\nexec {shutil.which("sbatch")} "$@"\n')
    greeting.chmod(0o755)
    path = [greeting.parent, Path(sys.executable).parent, os.environ["PATH"]]
    centre.environment["PATH"] = ":".join(map(str, path))
    done = centre.run(centre.nightly())
    assert done.code == 0, done.out + done.err
    assert "green: 3 cases measured, 0 with a red verdict, 0 problems" in done.out
    results = [*centre.folder.glob("run/runs/*/*SharedFile*/result.json")]
    seen = [json.loads(file.read_text())["environment"]["variables"] for file in results]
    assert [variables["OMPI_MCA_btl"] for variables in seen] == ["self,vader,tcp"] * 2
    assert centre.slurm.sh("squeue", "-h") == ""
