"""Options that change how a file is written: never what is in it, and what came of them is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import netCDF4
import pytest
import reference_data
from conftest import BACKENDS, FILES, MPI_IO, Run, each

from iowatch.checks import format_size

SIZE = (19, 23, 29)


class Settings(NamedTuple):
    """Options, and what the result file says of them: in its section `run`, as a case's
    `requested`."""

    options: str
    ran: dict[str, Any]
    asked: dict[str, Any]


PLAIN = Settings("", {"file_format": "earliest"}, {"collective": True})
CHUNKS = Settings(
    "--chunk 5x100x3 --collective-metadata no --phase-barrier",
    {"chunk": [5, 100, 3], "collective_metadata": False, "phase_barrier": True},
    {"collective": True},
)
FORMAT = Settings(
    "--alignment 65536 --file-format latest --backend mpiio,hdf5,pnetcdf,stream",
    {"alignment": 65536, "file_format": "latest"},
    {},
)
INDEPENDENT = Settings("--collective no --chunk 7x7x7", {"chunk": [7, 7, 7]}, {"collective": False})
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
            *settings.options.split(), "--operation", "write,read", "--warmup", 0, "--repeats", 1,
            "--keep", "--dir", files, "--json", json, env={"OMPI_MCA_io": request.param},
        )  # fmt: skip
        assert done.code == 0, done.err
        found[settings.options] = Outcome(read_result(json), files)

    each(SETTINGS, start)
    return found


def test_settings_change_no_value(outcomes: dict[str, Outcome]) -> None:
    for settings in SETTINGS:
        result, files = outcomes[settings.options]
        backends = {case["backend"] for case in result["cases"]}
        # the option may have replaced --backend
        assert backends == set(BACKENDS) - ({"netcdf"} if settings is FORMAT else set())
        for backend in backends:
            reference_data.check(backend, files / FILES[backend], SIZE, 1, 1)


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
        with h5py.File(files / FILES["hdf5"]) as file:
            assert file["data"].chunks == chunks
        with netCDF4.Dataset(files / FILES["netcdf"]) as file:
            assert file["data"].chunking() == (list(chunks) if chunks else "contiguous")


def test_alignment_and_format_are_in_the_file(outcomes: dict[str, Outcome]) -> None:
    for settings, is_aligned, superblock in ((PLAIN, False, 0), (FORMAT, True, 3)):
        result, files = outcomes[settings.options]
        hdf5, pnetcdf = (files / FILES[backend] for backend in ("hdf5", "pnetcdf"))
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
