"""Options that change how a file is written: never what is in it, and what came of them is said."""

from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import netCDF4
import pytest
import reference_data
from conftest import BACKENDS, ONE_MPI_IO, ROMIO, RUN_ID, each, kept_file
from many_runs import Plan, result_of, run_many

from iowatch.cases.parameters import format_size

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


@pytest.fixture(scope="module", params=ONE_MPI_IO)
def outcomes(request, read_result, tmp_path_factory):
    """The outcome of a run with each settings' options, through a component of MPI-IO."""
    plans = [
        Plan(
            3,
            [
                "--backend", ",".join(BACKENDS), "--global-size", format_size(SIZE),
                *settings.options.split(), "--operation", "write-keep,read", "--warmup", 0,
                "--repeats", 1,
            ],
            component=request.param,
            of=settings.options,
        )
        for settings in SETTINGS
    ]  # fmt: skip
    outcomes = {}
    for outcome in run_many(plans, lambda: made(tmp_path_factory.mktemp("settings") / "files")):
        assert outcome.done.code == 0, outcome.done.err
        result = read_result(result_of(outcome.directory))
        outcomes[outcome.plan.of] = Outcome(result, outcome.own)
    return outcomes


def made(directory):
    directory.mkdir()
    return directory


def test_settings_change_no_value(outcomes):
    for settings in SETTINGS:
        result, files = outcomes[settings.options]
        backends = {case["backend"] for case in result["cases"]}
        # the option may have replaced --backend
        assert backends == set(BACKENDS) - ({"netcdf"} if settings is FORMAT else set())
        for backend in backends:
            reference_data.check(backend, files / kept_file(backend, 1), SIZE, RUN_ID, 1)


def test_settings_are_in_the_result(outcomes):
    for settings in SETTINGS:
        result = outcomes[settings.options].result
        assert {name: result["run"].get(name) for name in settings.ran} == settings.ran
        for case in result["cases"]:
            said = {name: case[name]["requested"] for name in settings.asked}
            assert said == settings.asked, case["backend"]


def test_chunks_are_in_the_file(outcomes):
    """Readers in C count dimensions from the slowest; no chunk is longer than the array."""
    for settings, chunks in ((PLAIN, None), (CHUNKS, (3, 23, 5)), (INDEPENDENT, (7, 7, 7))):
        files = outcomes[settings.options].files
        with h5py.File(files / kept_file("hdf5", 1)) as file:
            assert file["data"].chunks == chunks
        with netCDF4.Dataset(files / kept_file("netcdf", 1)) as file:
            assert file["data"].chunking() == (list(chunks) if chunks else "contiguous")


def test_alignment_and_format_are_in_the_file(outcomes):
    for settings, is_aligned, superblock in ((PLAIN, False, 0), (FORMAT, True, 3)):
        result, files = outcomes[settings.options]
        hdf5, pnetcdf = (files / kept_file(backend, 1) for backend in ("hdf5", "pnetcdf"))
        with h5py.File(hdf5) as file:
            begins = [file["data"].id.get_offset(), pnetcdf.stat().st_size - result["run"]["bytes"]]
        assert [begin % 65536 == 0 for begin in begins] == [is_aligned] * 2, begins
        assert hdf5.read_bytes()[8] == superblock  # the byte after the signature


def test_hints_are_told_apart(outcomes):
    """An open file may repeat what was asked for; ROMIO repeats even an unknown hint. Open MPI 5,
    which has a newer ROMIO, hands it none."""
    result = outcomes[HINTS.options].result
    hints = result["cases"][0]["hints"]
    assert result["cases"][0]["backend"] == "mpiio"
    assert hints["observed"] is None
    if result["environment"]["variables"]["OMPI_MCA_io"] == ROMIO:
        requested = set(hints["requested"].items())
        repeated = requested & (hints["echoed"] or {}).items()
        assert repeated == requested or (repeated == set() and ROMIO != "romio321")


def test_collective_transfer_is_observed(outcomes):
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


def test_collective_metadata_is_echoed(outcomes):
    """HDF5 alone has collective metadata, and nobody sees what it does with them."""
    for settings, echo in ((PLAIN, "yes"), (CHUNKS, "no")):
        for case in outcomes[settings.options].result["cases"]:
            metadata = case["collective_metadata"]
            assert metadata["observed"] is None
            assert metadata["echoed"] == (echo if case["backend"] == "hdf5" else None)


def test_settling_takes_its_time(mpirun, read_result, new_directory):
    """Between the removal of files and the next that are made; and is in no figure."""

    def check(options):
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
