"""Every layout, decomposition and operation, named or drawn at random: each file is read by readers
that share nothing with benchio, and compared bit for bit.

Each example runs all backends, so that each meets each layout."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import pytest
import reference_data
from conftest import BACKENDS, MPI_IO, RECORD, each, files_of, run_directory
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from many_runs import Plan, result_of, run_many

from iowatch.cases.parameters import Size, format_size

# Not shrunk, which would take hundreds of runs: they are small as they are.
DRAWN = settings(database=None, phases=[Phase.explicit, Phase.generate])

EXTENTS = st.sampled_from([1, 2, 3, 5, 7, 8, 13, 16, 31, 37])
RANKS = st.sampled_from([1, 2, 3, 4, 6, 8])  # each number is a start
OPERATIONS = ["write-keep", "write-keep,read", "read,write-keep"]


def divisors(number: int) -> list[int]:
    return [i for i in range(1, number + 1) if number % i == 0]


@dataclass(frozen=True)
class Example:
    """A run, and what must come of it."""

    ranks: int
    size: Size
    weak: bool = False  # size is of a rank's block, else of an instance's array
    halo: int = 0
    grid: Size | None = None  # None: automatic
    files: str = "shared"
    instances: int = 1
    operations: str = "write-keep"
    run_id: str = "test"
    transfer: str = "1GiB"
    flush: bool = False
    warmup: int = 0
    repeats: int = 1
    collective: str = "yes"
    component: str = MPI_IO[0]

    @property
    def files_per_instance(self) -> int:
        team = self.ranks // self.instances
        of_layout = {"shared": 1, "gather": 1, "node": 1, "process": team}
        return of_layout.get(self.files) or int(self.files)

    @property
    def file_count(self) -> int:
        return self.files_per_instance * self.instances

    @property
    def last(self) -> int:
        """The number of its last round."""
        return self.warmup + self.repeats

    @property
    def plan(self) -> Plan:
        options: list[object] = [
            "--backend", ",".join(BACKENDS), "--files", self.files, "--instances", self.instances,
            "--local-size" if self.weak else "--global-size", format_size(self.size),
            *(["--grid", format_size(self.grid)] if self.grid else []), "--halo", self.halo,
            "--operation", self.operations, "--warmup", self.warmup,
            "--repeats", self.repeats, "--collective", self.collective,
            "--transfer", self.transfer, *(["--flush"] if self.flush else []),
        ]  # fmt: skip
        return Plan(self.ranks, options, component=self.component, run_id=self.run_id, of=self)

    def size_of(self, file: int, grid: Size) -> Size:
        """The extents of a file's array."""
        nx, ny, nz = self.size
        if self.weak:
            return nx * grid[0], ny * grid[1], nz * grid[2]
        count, slab = self.files_per_instance, file % self.files_per_instance
        return nx, ny, (slab + 1) * nz // count - slab * nz // count


# Each is one that hypothesis may never draw.
NAMED = [
    Example(1, (1, 1, 1), transfer="8"),
    Example(1, (7, 5, 3), halo=2),
    Example(2, (13, 11, 9), halo=1, grid=(2, 1, 1), transfer="16"),  # two elements, of rows of six
    Example(2, (401, 403, 2), transfer="1MiB", component="ompio"),  # a plane alone exceeds it
    Example(3, (7, 8, 10), halo=2, grid=(3, 1, 1), repeats=3),
    # Ranks have one piece or two
    Example(3, (512, 256, 4), halo=1, grid=(1, 1, 3), transfer="1MiB", component="ompio"),
    Example(4, (17, 33, 65), grid=(2, 2, 1), warmup=1, repeats=2),
    # 13 rows of 8, 15 of 9: no planes
    Example(4, (17, 33, 65), grid=(2, 2, 1), transfer="1000", component="ompio"),
    Example(4, (5, 9, 4), halo=1, grid=(1, 1, 4), run_id="i" * 64),
    Example(6, (1, 1, 6), halo=2),  # an element a rank
    Example(6, (31, 29, 7), grid=(3, 2, 1), warmup=2),
    Example(6, (128, 100, 90), halo=1, grid=(1, 2, 3)),  # larger than a collective buffer
    Example(4, (9, 5, 7), files="gather"),
    Example(4, (8, 8, 8), weak=True, files="2"),
    Example(4, (8, 8, 8), weak=True, instances=2),
    # Blocks that exceed what a call may move, and what is gathered at a time
    *(
        Example(4, (65, 97, 47), True, 2, grid, files, operations="write-keep,read",
                transfer="1MiB")
        for files, grid in (("shared", (2, 2, 1)), ("process", (1, 1, 1)), ("2", (2, 1, 1)),
                            ("gather", (1, 2, 2)))
    ),
]  # fmt: skip


@st.composite
def examples(draw: Any) -> Example:
    ranks = draw(RANKS)
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
        ranks,
        (nx, ny, nz),
        weak,
        halo=draw(st.integers(0, 3)),
        grid=draw(st.none() | st.sampled_from(grids)),
        files=files,
        instances=instances,
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
    collected: list[Example] = []

    @settings(DRAWN, max_examples=count)
    @given(example=examples())
    def collect(example: Example) -> None:
        collected.append(example)

    collect()
    return collected


def check_files(example: Example, result: dict[str, Any], files: Path) -> None:
    count, measured = example.file_count, range(example.warmup + 1, example.last + 1)
    kept = {name for b in BACKENDS for n in measured for name in files_of(b, count, n)}
    of_run = run_directory(files, example.run_id)
    assert list(files.iterdir()) == [of_run]
    assert {file.name for file in of_run.iterdir()} == kept | {RECORD}
    for backend in BACKENDS:
        for index, name in enumerate(files_of(backend, count, example.last)):
            size = example.size_of(index, result["run"]["grid"])
            reference_data.check(backend, of_run / name, size, example.run_id, example.last, index)


def check_result(example: Example, result: dict[str, Any]) -> None:
    ran = result["run"]
    operations = example.operations.split(",")
    assert result["status"] == "ok"
    assert result["environment"]["variables"]["OMPI_MCA_io"] == example.component
    assert (ran["files"], ran["file_count"]) == (example.files, example.file_count)
    assert (ran["instances"], ran["operations"]) == (example.instances, operations)
    assert (ran["ranks"], ran["halo"], ran["id"]) == (example.ranks, example.halo, example.run_id)
    assert prod(ran["grid"]) == example.ranks // example.file_count
    assert ran["file_size"] == list(example.size_of(0, ran["grid"]))
    assert ran["grid"] == list(example.grid or ran["grid"])
    assert ran["local_size" if example.weak else "global_size"] == list(example.size)
    sizes = [example.size_of(file, ran["grid"]) for file in range(example.file_count)]
    assert ran["bytes"] == 8 * sum(map(prod, sizes))

    timed = [operation.removesuffix("-keep") for operation in operations]
    asked = [(operation, backend) for operation in timed for backend in BACKENDS]
    assert [(case["operation"], case["backend"]) for case in result["cases"]] == asked
    for case in result["cases"]:
        assert len(case["repetitions"]) == example.last
        for repetition in case["repetitions"]:
            assert repetition["witness"]["bytes"] == ran["bytes"]
            assert repetition["witness"]["method"] == "pread"
            if case["backend"] == "posix":
                assert repetition["file_bytes"] == ran["bytes"], "of all files"
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


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(NAMED, id="named"),
        pytest.param(drawn(15), id="drawn"),
        pytest.param(drawn(200), id="at length", marks=pytest.mark.slow),
    ],
)
def test_every_layout(read_result, new_directory, chosen):
    def check(outcome):
        assert (outcome.done.code, outcome.done.errors) == (0, []), outcome.done.err
        result = read_result(result_of(outcome.directory))
        check_result(outcome.plan.of, result)
        check_files(outcome.plan.of, result, outcome.directory)

    each(run_many([one.plan for one in chosen], new_directory), check, at_once=1)
