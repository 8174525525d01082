"""benchio on two and four nodes, each with its own host name, started by srun."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference_data
from benchio.traces import calls_on, rounds, watched
from conftest import BACKENDS, FILES, MPI_IO, OMPIO, RECORD, RUN_ID, files_of, run_directory
from filesystems.bench import EXTENT, Bench, ReadResult
from filesystems.gluster import Gluster
from filesystems.machine import wait_until
from filesystems.slurm import NODES, Slurm

TIME_LIMIT = 5


@pytest.mark.parametrize(("nodes", "order"), [(2, "block"), (4, "cyclic")])
def test_a_file_per_node(
    slurm: Slurm, benchio: Path, read_result: ReadResult, nodes: int, order: str
) -> None:
    """On storage that each node has for itself, so that ranks of another could not share it, be
    their numbers consecutive or not."""
    bench = Bench(slurm, benchio, Path("/dev/shm/benchio"), read_result)
    slurm.srun(nodes, nodes, "mkdir", bench.directory)
    done = bench.run(
        nodes, 2 * nodes, "--backend", ",".join(BACKENDS), "--files", "node",
        "--operation", "write-keep", srun=(f"--distribution={order}",),
    )  # fmt: skip
    assert done.code == 0, done.err
    ran = bench.result()["run"]
    assert ran["hosts"] == list(NODES[:nodes])
    assert (ran["file_count"], ran["ranks"]) == (nodes, 2 * nodes)
    for index, node in enumerate(NODES[:nodes]):
        local = run_directory(slurm.seen_on(node, bench.directory))
        names = {backend: files_of(backend, nodes, 2)[index] for backend in BACKENDS}
        earlier = {files_of(backend, nodes, 1)[index] for backend in BACKENDS}
        left = {file.name for file in local.iterdir()} - {RECORD}
        assert left == {*names.values(), *earlier}
        for backend, name in names.items():
            reference_data.check(backend, local / name, size(ran), RUN_ID, 2, index)
    slurm.srun(nodes, nodes, "rm", "-r", bench.directory)


@pytest.mark.parametrize(
    ("files", "component"),
    [("shared", MPI_IO[0]), ("shared", OMPIO), ("process", MPI_IO[0]), ("gather", OMPIO)],
)
def test_layouts_across_nodes(on: Callable[[str], Bench], files: str, component: str) -> None:
    bench = on("fs2")
    done = bench.run(
        4, 8, "--backend", ",".join(BACKENDS), "--files", files, "--operation", "write-keep",
        srun=(f"--export=ALL,OMPI_MCA_io={component}",),
    )  # fmt: skip
    assert done.code == 0, done.err
    ran = bench.result()["run"]
    assert ran["hosts"] == list(NODES)
    check_files(bench, 8 if files == "process" else 1, ran)


def test_kept_files_are_read_on_other_nodes(on: Callable[[str], Bench]) -> None:
    """Two nodes read each other's files; one of them alone reads half of its own bytes."""
    bench = on("fs2")
    backends = ("--backend", ",".join(BACKENDS))
    done = bench.run(2, 4, *backends, "--operation", "write-keep")
    assert done.code == 0, done.err
    bench.directory = run_directory(bench.directory)
    options = bench.options(*backends, "--operation", "read-existing")
    for nodes, ranks, hosts, other in (
        (2, 4, NODES[:2], 1),
        (2, 6, NODES[1:3], 1),
        (1, 2, (), 0.5),
    ):
        where = ("--nodelist", ",".join(hosts or NODES[:1]))
        done = bench.slurm.srun(nodes, ranks, *where, *options)
        assert done.code == 0, done.err
        result = bench.result()
        assert result["run"]["existing"]["hosts"] == list(NODES[:2])
        assert {case["cache"]["other_node_byte_fraction"] for case in result["cases"]} == {other}


def size(ran: dict[str, Any]) -> tuple[int, int, int]:
    x, y, z = (EXTENT * ranks for ranks in ran["grid"])
    return x, y, z


def check_files(bench: Bench, count: int, ran: dict[str, Any]) -> None:
    """Every file, with readers that share no code with benchio."""
    names = {backend: files_of(backend, count, 2) for backend in BACKENDS}
    made = run_directory(bench.directory)
    earlier = [files_of(backend, count, 1) for backend in BACKENDS]
    every = {RECORD}.union(*names.values(), *earlier)
    assert bench.files == sorted(f"{made.name}/{name}" for name in every)
    for backend, of_backend in names.items():
        for index, name in enumerate(of_backend):
            path = bench.slurm.machine.seen(made / name)
            reference_data.check(backend, path, size(ran), RUN_ID, 2, index)


def test_one_rank_of_every_node_syncs_a_shared_file(
    on: Callable[[str], Bench], need: Callable[[str], str], tmp_path: Path
) -> None:
    """And a rank of another node reads what each of them has written."""
    bench, traces = on("fs2"), tmp_path / "traces"
    below = watched(need, traces)
    done = bench.run(2, 4, "--backend", ",".join(BACKENDS), below=below)
    assert done.code == 0, done.err
    for backend in BACKENDS:
        for calls in rounds(calls_on(traces, FILES[backend])):
            # NetCDF's close syncs, too, on every rank.
            syncing = [call.process for call in calls if call.kind == "sync"]
            assert backend == "netcdf" or len(syncing) == len(set(syncing)) == 2, backend
    for case in bench.result()["cases"]:
        for repetition in case["repetitions"]:
            assert repetition["witness"]["other_node_byte_fraction"] == 1, case["backend"]


@pytest.mark.parametrize(
    ("files", "filesystem"), [("shared", "disk"), ("node", "fs2"), ("process", "disk")]
)
def test_reads_are_of_another_nodes_data(
    on: Callable[[str], Bench], files: str, filesystem: str
) -> None:
    """All nodes share this kernel and its page cache, so that a page that any of them still has is
    resident on each: on a disk none is left, in memory all are."""
    bench = on(filesystem)
    done = bench.run(
        2, 4, "--backend", ",".join(BACKENDS), "--operation", "read", "--files", files
    )  # fmt: skip
    assert done.code == 0, done.err
    result = bench.result()
    kind = result["run"]["filesystem"]["type"]
    assert kind == "tmpfs" or filesystem == "disk"
    for case in result["cases"]:
        cache = case["cache"]
        assert cache["other_node_byte_fraction"] == 1, case["backend"]
        assert cache["suspect"] == (cache["page_cache_fraction"] > 0.01), case["backend"]
        if kind in ("ext4", "xfs", "btrfs", "tmpfs"):
            assert cache["suspect"] == (kind == "tmpfs"), case["backend"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_reads_through_clients_of_their_own(
    on: Callable[[str], Bench], gluster: Gluster, nodes: int
) -> None:
    """Of a distributed filesystem that may cache what it likes: only what another node wrote is
    above suspicion."""
    bench = on(gluster.path.name)
    done = bench.run(nodes, 4, "--backend", ",".join(BACKENDS), "--operation", "read")
    assert done.code == 0, done.err
    result = bench.result()
    assert result["run"]["filesystem"]["type"] == "fuse"
    for case in result["cases"]:
        assert case["cache"]["other_node_byte_fraction"] == nodes - 1
        unknown = case["cache"]["page_cache_fraction"] is None  # FUSE does not say
        assert unknown or case["cache"]["page_cache_fraction"] == 0
        assert case["cache"]["suspect"] == (nodes == 1 or unknown)


def test_files_on_a_distributed_filesystem(on: Callable[[str], Bench], gluster: Gluster) -> None:
    bench = on(gluster.path.name)
    done = bench.run(
        4, 8, "--backend", ",".join(BACKENDS), "--files", "node", "--fs-type", "fuse",
        "--operation", "write-keep",
    )  # fmt: skip
    assert done.code == 0, done.err
    check_files(bench, 4, bench.result()["run"])


def test_version_on_a_login_node(slurm: Slurm, benchio: Path) -> None:
    """Where MPI programs do not start, as on a Cray's."""
    without_network = {**slurm.env, "OMPI_MCA_oob_tcp_if_include": "none"}
    done = slurm.machine.run(benchio, "--version", env=without_network)
    assert done.code == 0, done.err
    assert done.out.startswith("benchio ")


SCRIPT = """\
srun --ntasks-per-node=2 {command}
echo $? > exit_code
"""


def endless(bench: Bench, *options: object) -> str:
    """Submits a job without end on four nodes and waits until it is in its rounds."""
    command = bench.options("--local-size", 16, "--repeats", 100_000)
    script = SCRIPT.format(command=" ".join(map(str, command)))
    (bench.slurm.folder / "exit_code").unlink(missing_ok=True)
    job = bench.slurm.submit(script, "--nodes=4", "--ntasks-per-node=2", *options)
    wait_until(lambda: len(bench.files) > 0, "a file", 60)
    return job


def check_ended_early(bench: Bench) -> None:
    """With its complete rounds, marked, and no file left."""
    assert (bench.slurm.folder / "exit_code").read_text().strip() == str(TIME_LIMIT)
    result = bench.result()
    assert result["status"] == "time_limit"
    rounds = [rep["round"] for rep in result["cases"][0]["repetitions"]]
    assert rounds == list(range(1, len(rounds) + 1))
    assert len(rounds) > 1
    for repetition in result["cases"][0]["repetitions"]:
        assert repetition["witness"]["bytes"] == result["run"]["bytes"]
    assert bench.files == []


def test_warning_signal(on: Callable[[str], Bench]) -> None:
    bench = on("fs2")
    job = endless(bench, "--time=5")
    # into the rounds that count
    output = bench.slurm.folder / f"slurm-{job}.out"
    wait_until(lambda: "round 4/" in output.read_text(), "the fourth round", 60)
    bench.slurm.sh("scancel", "--signal=USR1", job)
    bench.slurm.wait(job)
    check_ended_early(bench)
