"""Options that change how a file is written: never what is in it, and what came of them is said."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import netCDF4
import pytest
import reference_data
from benchio.traces import calls_on, watched
from conftest import (
    BACKENDS,
    FILES,
    MPI_IO,
    RUN_ID,
    THROUGH_MPIIO,
    Run,
    each,
    kept_file,
    run_directory,
)

from iowatch.checks import format_size

SIZE = (19, 23, 29)


class Settings(NamedTuple):
    """Options, and what the result file says of them: in its section `run`, and as what was
    `requested` of a case."""

    options: str
    ran: dict[str, Any]
    asked: dict[str, Any]


PLAIN = Settings(
    "",
    {"file_format": "earliest", "transfer": 2**30, "flush": False, "direct": False, "settle": 0},
    {"collective": True, "collective_metadata": True},
)
CHUNKS = Settings(
    "--chunk 5x100x3 --collective-metadata no --phase-barrier",
    {"chunk": [5, 100, 3], "phase_barrier": True},
    {"collective": True, "collective_metadata": False},
)
FORMAT = Settings(
    "--alignment 65536 --file-format latest --backend mpiio,hdf5,pnetcdf,posix",
    {"alignment": 65536, "file_format": "latest"},
    {},
)
INDEPENDENT = Settings(
    "--collective no --chunk 7x7x7 --transfer 64KiB --flush",
    {"chunk": [7, 7, 7], "transfer": 2**16, "flush": True},
    {"collective": False},
)
HINTS = Settings(
    "--hint romio_cb_write=disable --hint cb_buffer_size=1048576 --hint nosuch=1",
    {},
    {"hints": {"romio_cb_write": "disable", "cb_buffer_size": "1048576", "nosuch": "1"}},
)
SETTINGS = (PLAIN, CHUNKS, FORMAT, INDEPENDENT, HINTS)


class Outcome(NamedTuple):
    """The result file and the files."""

    result: dict[str, Any]
    files: Path


@pytest.fixture(scope="module", params=MPI_IO)
def outcomes(
    request: pytest.FixtureRequest,
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Outcome]:
    """Of a run with each settings' options, through one of the components of MPI-IO."""
    found: dict[str, Outcome] = {}

    def start(settings: Settings) -> None:
        files = tmp_path_factory.mktemp("settings")
        json = files / "result.json"
        done = mpirun(
            3, "--backend", ",".join(BACKENDS), "--global-size", format_size(SIZE),
            *settings.options.split(), "--operation", "write-keep,read", "--warmup", 0,
            "--repeats", 1, "--run-id", RUN_ID, "--dir", files, "--json", json,
            env={"OMPI_MCA_io": request.param},
        )  # fmt: skip
        assert done.code == 0, done.err
        found[settings.options] = Outcome(read_result(json), run_directory(files))

    each(SETTINGS, start)
    return found


def test_settings_change_no_value(outcomes: dict[str, Outcome]) -> None:
    for settings in SETTINGS:
        result, files = outcomes[settings.options]
        backends = {case["backend"] for case in result["cases"]}
        # the option may have replaced --backend
        assert backends == set(BACKENDS) - ({"netcdf"} if settings is FORMAT else set())
        for backend in backends:
            reference_data.check(backend, files / kept_file(backend, 1), SIZE, RUN_ID, 1)


def test_settings_are_in_the_result(outcomes: dict[str, Outcome]) -> None:
    for settings in SETTINGS:
        result = outcomes[settings.options].result
        assert {name: result["run"].get(name) for name in settings.ran} == settings.ran
        for case in result["cases"]:
            said = {name: case[name]["requested"] for name in settings.asked}
            assert said == settings.asked, case["backend"]


def test_chunks_are_in_the_file(outcomes: dict[str, Outcome]) -> None:
    """Of readers in C, which count dimensions from the slowest; never more than the array has."""
    for settings, chunks in ((PLAIN, None), (CHUNKS, (3, 23, 5)), (INDEPENDENT, (7, 7, 7))):
        files = outcomes[settings.options].files
        with h5py.File(files / kept_file("hdf5", 1)) as file:
            assert file["data"].chunks == chunks
        with netCDF4.Dataset(files / kept_file("netcdf", 1)) as file:
            assert file["data"].chunking() == (list(chunks) if chunks else "contiguous")


def test_only_chunks_are_witnessed_through_the_library(outcomes: dict[str, Outcome]) -> None:
    """Nobody else finds them; and no O_DIRECT nor its absence is known of that."""
    for settings in SETTINGS:
        for case in outcomes[settings.options].result["cases"]:
            (repetition,) = case["repetitions"]
            in_chunks = "chunk" in settings.ran and case["backend"] in ("hdf5", "netcdf")
            method = "through the library" if in_chunks else "pread"
            assert repetition["witness"]["method"] == method, (settings, case["backend"])
            assert repetition["witness"]["bytes"] == 8 * prod(SIZE)


def test_alignment_and_format_are_in_the_file(outcomes: dict[str, Outcome]) -> None:
    for settings, is_aligned, superblock in ((PLAIN, False, 0), (FORMAT, True, 3)):
        result, files = outcomes[settings.options]
        hdf5, pnetcdf = (files / kept_file(backend, 1) for backend in ("hdf5", "pnetcdf"))
        with h5py.File(hdf5) as file:
            begins = [
                file["data"].id.get_offset(),
                pnetcdf.stat().st_size - result["run"]["bytes"],
            ]
        assert [begin % 65536 == 0 for begin in begins] == [is_aligned] * 2, begins
        assert hdf5.read_bytes()[8] == superblock  # the byte after the signature


def test_hints_are_told_apart(outcomes: dict[str, Outcome]) -> None:
    """What was asked for, and what the open file repeats: with ROMIO also what nobody knows."""
    result = outcomes[HINTS.options].result
    hints = result["cases"][0]["hints"]
    assert result["cases"][0]["backend"] == "mpiio"
    assert hints["observed"] is None
    if result["environment"]["OMPI_MCA_io"] == "romio321":
        assert hints["echoed"].items() >= hints["requested"].items()


def test_collective_transfer_is_observed(outcomes: dict[str, Outcome]) -> None:
    for settings, collective, observed in (
        (PLAIN, True, "collective"),
        (INDEPENDENT, False, "independent, independent requested"),
    ):
        cases = [
            case for case in outcomes[settings.options].result["cases"] if case["backend"] == "hdf5"
        ]
        assert [case["operation"] for case in cases] == ["write", "read"]
        for case in cases:
            assert case["collective"] == {
                "requested": collective,
                "echoed": None,
                "observed": observed,
            }


def test_collective_writes_are_not_every_ranks_own(
    need: Callable[[str], str], mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Whatever a library says of itself: where the ranks' rows alternate in the file, ROMIO has one
    process of a node write what all have; independent transfers are each rank's own."""
    ranks, extent = 3, 32

    def check(collective: str) -> None:
        directory = new_directory()
        traces = directory.parent / "traces"
        done = mpirun(
            ranks, "--backend", ",".join(THROUGH_MPIIO), "--local-size", extent,
            "--grid", f"{ranks}x1x1", "--collective", collective, "--warmup", 0, "--repeats", 1,
            "--dir", directory, launcher=watched(need, traces), env={"OMPI_MCA_io": "romio321"},
        )  # fmt: skip
        assert done.code == 0, done.err
        for backend in THROUGH_MPIIO:
            moved: Counter[str] = Counter()
            for call in calls_on(traces, FILES[backend]):
                if call.kind == "write":
                    moved[call.process] += call.value
            # Another one may write what is the library's own.
            writers = [process for process, count in moved.items() if count >= 8 * extent**3]
            assert (len(writers) == ranks) == (collective == "no"), (backend, moved)

    each(["yes", "no"], check)


def test_collective_metadata_is_echoed(outcomes: dict[str, Outcome]) -> None:
    """By HDF5, which alone has it and of which nobody sees what it does."""
    for settings, echo in ((PLAIN, "yes"), (CHUNKS, "no")):
        for case in outcomes[settings.options].result["cases"]:
            metadata = case["collective_metadata"]
            assert metadata["observed"] is None
            assert metadata["echoed"] == (echo if case["backend"] == "hdf5" else None)


def test_settling_takes_its_time(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
) -> None:
    """Between the removal of files and the next that are made; and is in no figure."""

    def check(options: list[object]) -> None:
        directory = new_directory()
        json = directory.parent / "result.json"
        done = mpirun(2, *options, "--warmup", 0, "--settle", 1, "--dir", directory, "--json", json)
        assert done.code == 0, done.err
        result = read_result(json)
        assert result["run"]["settle"] == 1
        reps = [rep for case in result["cases"] for rep in case["repetitions"]]
        begun = [datetime.fromisoformat(rep["started"]) for rep in reps]
        assert (begun[1] - begun[0]).total_seconds() >= 1
        assert max(phase["window"] for phase in reps[0]["phases"].values()) < 1

    each(
        [
            ["--backend", "mpiio,posix", "--local-size", 8, "--repeats", 1],
            ["--operation", "metadata", "--items", 3, "--repeats", 2],
        ],
        check,
    )


def direct(directory: Path, size: str, *more: object) -> list[object]:
    """Halo and several pieces; planes along z, each of whole pages."""
    return [
        "--backend", "posix", "--global-size", size, "--grid", "1x1x3", "--halo", 2, "--direct",
        "--transfer", "20000", "--run-id", RUN_ID, "--warmup", 0, "--repeats", 1,
        "--dir", directory, "--json", directory.parent / "result.json", *more,
    ]  # fmt: skip


def test_direct_is_past_the_page_cache(
    need: Callable[[str], str],
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    directory: Path,
) -> None:
    """Whatever moves data, of every rank; the copy to aligned memory is said."""
    size = (512, 5, 7)
    traces = directory.parent / "traces"
    options = direct(directory, format_size(size), "--operation", "write-keep,read")
    done = mpirun(3, *options, launcher=watched(need, traces))
    if "refuses O_DIRECT" in done.err:
        pytest.skip("this filesystem refuses O_DIRECT")
    assert done.code == 0, done.err
    reference_data.check("posix", run_directory(directory) / kept_file("posix", 1), size, RUN_ID, 1)
    result = read_result(directory.parent / "result.json")
    assert result["run"]["direct"]
    for case in result["cases"]:
        assert set(case["repetitions"][0]["parts"]) == {"pack"}

    calls = calls_on(traces, kept_file("posix", 1))
    moved = {"write": 0, "read": 0}
    by_flags: dict[tuple[str, int], str] = {}  # of what is open
    for call in calls:
        if call.kind == "open":
            by_flags[call.process, call.descriptor] = call.words
        elif call.kind in moved:
            assert "O_DIRECT" in by_flags[call.process, call.descriptor], call
            moved[call.kind] += call.value
    assert moved["write"] == 8 * prod(size)
    assert moved["read"] >= 2 * moved["write"], "the timed reading and the witness"


def test_direct_that_cannot_be_is_refused(
    need: Callable[[str], str],
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
) -> None:
    """By the sizes of the run, or by the filesystem; nothing is left, and there is no figure."""

    def check(case: tuple[str, str, str]) -> None:
        size, said, advice = case
        directory = new_directory()
        launcher = []
        if "refuses" in said:
            path = run_directory(directory) / FILES["posix"]
            fault = "inject=openat:error=EINVAL:when=1"  # the first open of each rank
            launcher = [need("strace"), "-f", "-o", str(directory.parent / "trace"),
                        "-P", str(path), "-e", "trace=openat", "-e", fault]  # fmt: skip
        done = mpirun(3, *direct(directory, size), launcher=launcher)
        assert done.code == 3, done.err
        assert len(done.errors) == 1, done.err
        assert said in done.errors[0]
        assert advice in done.errors[0]
        assert "MiB/s" not in done.out
        result = read_result(directory.parent / "result.json")
        assert (result["status"], result["cases"]) == ("io_error", [])
        assert list(directory.iterdir()) == []

    each(
        [
            ("500x5x7", "O_DIRECT takes multiples of 4096 bytes", "leave --direct out"),
            ("512x5x7", "the filesystem refuses O_DIRECT", "leave --direct out"),
        ],
        check,
    )
