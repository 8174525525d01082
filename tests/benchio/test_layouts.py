"""Every layout, decomposition and operation, drawn at random, with every file read independently.

Each example runs all backends, so that each meets each layout."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import pytest
import reference_data
from conftest import BACKENDS, MPI_IO, RECORD, RUN_ID, Run, each, files_of, run_directory
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iowatch.checks import Size, format_size

# The same examples everywhere and every time. Not shrunk, which would take hundreds of runs: they
# are small as they are.
DRAWN = settings(
    derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)

EXTENTS = st.sampled_from([1, 2, 3, 5, 7, 8, 13, 16, 31, 37])
OPERATIONS = ["write-keep", "write-keep,read", "read,write-keep"]


def divisors(number: int) -> list[int]:
    return [i for i in range(1, number + 1) if number % i == 0]


@dataclass(frozen=True)
class Example:
    """A run, and what must come of it."""

    ranks: int
    files: str
    instances: int
    weak: bool  # size is of a rank's block, else of an instance's array
    size: Size
    grid: Size | None
    halo: int
    operations: str
    run_id: str
    transfer: str
    flush: bool
    warmup: int
    repeats: int
    collective: str
    component: str

    @property
    def team(self) -> int:
        return self.ranks // self.instances

    @property
    def files_per_instance(self) -> int:
        of_layout = {"shared": 1, "gather": 1, "node": 1, "process": self.team}
        return of_layout.get(self.files) or int(self.files)

    @property
    def file_count(self) -> int:
        return self.files_per_instance * self.instances

    def options(self) -> list[object]:
        return [
            "--files", self.files, "--instances", self.instances,
            "--local-size" if self.weak else "--global-size", format_size(self.size),
            *(["--grid", format_size(self.grid)] if self.grid else []), "--halo", self.halo,
            "--operation", self.operations, "--run-id", self.run_id, "--warmup", self.warmup,
            "--repeats", self.repeats, "--collective", self.collective,
            "--transfer", self.transfer, *(["--flush"] if self.flush else []),
        ]  # fmt: skip

    def size_of(self, file: int, grid: Size) -> Size:
        """The extents of a file's array."""
        nx, ny, nz = self.size
        if self.weak:
            return nx * grid[0], ny * grid[1], nz * grid[2]
        count, slab = self.files_per_instance, file % self.files_per_instance
        return nx, ny, (slab + 1) * nz // count - slab * nz // count


@st.composite
def examples(draw: Callable[..., Any]) -> Example:
    ranks = draw(st.integers(1, 8))
    instances = draw(st.sampled_from(divisors(ranks)))
    team = ranks // instances
    numbers = [str(count) for count in divisors(team)]
    files = draw(st.sampled_from(["shared", "process", "node", "gather", *numbers]))
    count = {"shared": 1, "gather": 1, "node": 1, "process": team}.get(files) or int(files)
    sharers = team // count
    weak = draw(st.booleans())
    nx, ny, nz = (draw(EXTENTS) for _ in range(3))
    if not weak:
        nz += team - 1  # an element or more for each rank, however they are arranged
    thinnest = nz // count
    grids = [
        (p, q, sharers // p // q)
        for p in divisors(sharers)
        for q in divisors(sharers // p)
        if weak or (p <= nx and q <= ny and sharers // p // q <= thinnest)
    ]
    return Example(
        ranks=ranks,
        files=files,
        instances=instances,
        weak=weak,
        size=(nx, ny, nz),
        grid=draw(st.none() | st.sampled_from(grids)),
        halo=draw(st.integers(0, 3)),
        operations=draw(st.sampled_from(OPERATIONS)),
        run_id=draw(st.sampled_from(["0", "night_2026-11-22", "Z" * 64])),
        transfer=draw(st.sampled_from(["1GiB", "4KiB", "200", "24"])),
        flush=draw(st.booleans()),
        warmup=draw(st.integers(0, 1)),
        repeats=draw(st.integers(1, 2)),
        collective=draw(st.sampled_from(["yes", "no"])),
        component=draw(st.sampled_from(MPI_IO)),
    )


def drawn(count: int) -> list[Example]:
    """So many different examples."""
    found: list[Example] = []

    @settings(DRAWN, max_examples=count)
    @given(example=examples())
    def collect(example: Example) -> None:
        found.append(example)

    collect()
    return found


def check_all(
    count: int, mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]]
) -> None:
    def check(example: Example) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files, json = Path(folder, "files"), Path(folder, "result.json")
            files.mkdir()
            done = mpirun(
                example.ranks, "--backend", ",".join(BACKENDS), *example.options(),
                "--dir", files, "--json", json, env={"OMPI_MCA_io": example.component},
            )  # fmt: skip
            assert (done.code, done.errors) == (0, []), done.err
            result = read_result(json)
            check_result(example, result)
            check_files(example, result, files)

    each(drawn(count), check)


def check_files(example: Example, result: dict[str, Any], files: Path) -> None:
    last = example.warmup + example.repeats
    names = [(backend, files_of(backend, example.file_count, last)) for backend in BACKENDS]
    earlier = range(example.warmup + 1, last)
    kept = {name for b in BACKENDS for n in earlier for name in files_of(b, example.file_count, n)}
    of_run = run_directory(files, example.run_id)
    assert list(files.iterdir()) == [of_run]
    kept |= {name for _, of_backend in names for name in of_backend}
    assert {file.name for file in of_run.iterdir()} == kept | {RECORD}
    for backend, of_backend in names:
        for index, name in enumerate(of_backend):
            size = example.size_of(index, result["run"]["grid"])
            reference_data.check(backend, of_run / name, size, example.run_id, last, index)


def check_result(example: Example, result: dict[str, Any]) -> None:
    ran = result["run"]
    operations = example.operations.split(",")
    assert result["status"] == "ok"
    assert (ran["files"], ran["file_count"]) == (example.files, example.file_count)
    assert (ran["instances"], ran["operations"]) == (example.instances, operations)
    assert (ran["writers"], ran["halo"]) == (example.ranks, example.halo)
    assert prod(ran["grid"]) == example.ranks // example.file_count
    assert ran["file_size"] == list(example.size_of(0, ran["grid"]))
    assert ran["grid"] == list(example.grid or ran["grid"])
    sizes = [example.size_of(file, ran["grid"]) for file in range(example.file_count)]
    assert ran["bytes"] == 8 * sum(map(prod, sizes))

    timed = [operation.removesuffix("-keep") for operation in operations]
    asked = [(operation, backend) for operation in timed for backend in BACKENDS]
    assert [(case["operation"], case["backend"]) for case in result["cases"]] == asked
    for case in result["cases"]:
        assert len(case["repetitions"]) == example.warmup + example.repeats
        for repetition in case["repetitions"]:
            assert repetition["witness"]["bytes"] == ran["bytes"]
            assert ("gather" in repetition["parts"]) == (example.files == "gather")
            flushes = example.flush and case["operation"] == "write"
            assert ("flush" in repetition["phases"]) == flushes
            instances = repetition["instances"]
            if example.instances == 1:
                assert instances is None
            else:
                assert len(instances) == example.instances
                # the aggregate waits for the slowest, and they share its clock
                assert repetition["rates"]["total"] <= sum(instances) * (1 + 1e-6)


def test_every_layout(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]]
) -> None:
    check_all(25, mpirun, read_result)


@pytest.mark.slow
def test_every_layout_at_length(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]]
) -> None:
    check_all(300, mpirun, read_result)


# Ranks, files, grid. Each must be seen by every layout in this order, whatever hypothesis draws.
LARGE = [
    (4, "shared", "2x2x1"),
    (4, "process", "1x1x1"),
    (4, "2", "2x1x1"),
    (4, "gather", "1x2x2"),
]


def test_more_than_a_piece(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
) -> None:
    """Blocks that exceed what a call may move, and what is gathered at a time; a halo."""
    size = (129, 97, 47)
    assert 4 * prod(size) * 8 > 8 * 2**20, "what is gathered at a time"

    def check(case: tuple[int, str, str]) -> None:
        ranks, files, grid = case
        directory = new_directory()
        json = directory.parent / "result.json"
        done = mpirun(
            ranks, "--backend", ",".join(BACKENDS), "--files", files, "--local-size",
            format_size(size), "--grid", grid, "--halo", 2, "--operation", "write-keep,read",
            "--transfer", "1MiB", "--run-id", RUN_ID, "--warmup", 0, "--repeats", 1,
            "--dir", directory, "--json", json,
        )  # fmt: skip
        assert done.code == 0, done.err
        ran = read_result(json)["run"]
        assert ran["transfer"] == 2**20
        for backend in BACKENDS:
            for index, name in enumerate(files_of(backend, ran["file_count"], 1)):
                whole = tuple(n * of_grid for n, of_grid in zip(size, ran["grid"], strict=True))
                file = run_directory(directory) / name
                reference_data.check(backend, file, whole, RUN_ID, 1, index)

    each(LARGE, check)


def test_contiguous_bytes(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
) -> None:
    """Runs grow with every direction in which blocks are whole."""

    def check(case: tuple[str, int]) -> None:
        grid, run = case
        directory = new_directory()
        json = directory.parent / "result.json"
        done = mpirun(
            4, "--local-size", "5x6x7", "--grid", grid, "--repeats", 1, "--dir", directory,
            "--json", json,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert read_result(json)["run"]["contiguous_bytes"] == 8 * run

    each([("4x1x1", 5), ("2x2x1", 5), ("1x4x1", 5 * 6), ("1x1x4", 5 * 6 * 7)], check)
