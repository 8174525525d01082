"""Options that change how a file is written: never what is in it, and what came of them is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import pytest
import reference_data
from conftest import BACKENDS, FILES, Run, files_of

from iowatch.case import format_size

# Options, what the result file says of them in its section `run` and as a case's `requested`.
SETTINGS = [
    ("--chunk 8x8x8", {"chunk": [8, 8, 8]}, {}),
    ("--chunk 5x100x3", {"chunk": [5, 100, 3]}, {}),
    ("--alignment 4096 --backend mpiio,hdf5,pnetcdf,stream", {"alignment": 4096}, {}),
    ("--collective-metadata no", {"collective_metadata": False}, {}),
    ("--file-format latest", {"file_format": "latest"}, {}),
    ("--phase-barrier", {"phase_barrier": True}, {}),
    ("--collective no --chunk 7x7x7", {"chunk": [7, 7, 7]}, {"collective": False}),
    (
        "--hint romio_cb_write=disable --hint cb_buffer_size=1048576",
        {},
        {"hints": {"romio_cb_write": "disable", "cb_buffer_size": "1048576"}},
    ),
]


@pytest.mark.usefixtures("io_component")
@pytest.mark.parametrize(("options", "ran", "asked"), SETTINGS, ids=[case[0] for case in SETTINGS])
def test_settings_change_no_value(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    options: str,
    ran: dict[str, Any],
    asked: dict[str, Any],
) -> None:
    size, json = (19, 23, 29), tmp_path / "result.json"
    done = mpirun(
        3, "--backend", ",".join(BACKENDS), "--global-size", format_size(size), *options.split(),
        "--operation", "write,read", "--warmup", 0, "--repeats", 1, "--keep", "--dir", tmp_path,
        "--json", json,
    )  # fmt: skip
    assert done.code == 0, done.err
    result = read_result(json)
    assert result["run"].items() >= ran.items()
    backends = {case["backend"] for case in result["cases"]}
    # the option may have replaced --backend
    assert backends == set(BACKENDS) - ({"netcdf"} if "alignment" in ran else set())
    for case in result["cases"]:
        assert {name: case[name]["requested"] for name in asked} == asked
    for backend in backends:
        reference_data.check(backend, tmp_path / files_of(backend, 1)[0], size, 1, 1)


def test_chunks_are_in_the_file(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    """Of readers in C, which count dimensions from the slowest; never more than the array has."""
    done = mpirun(
        2, "--backend", "hdf5,netcdf", "--global-size", "19x23x29", "--chunk", "5x100x3",
        "--repeats", 1, "--keep", "--dir", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    with h5py.File(tmp_path / FILES["hdf5"]) as file:
        assert file["data"].chunks == (3, 23, 5)
    with netCDF4.Dataset(tmp_path / FILES["netcdf"]) as file:
        assert file["data"].chunking() == [3, 23, 5]


@pytest.mark.parametrize(
    ("options", "is_aligned", "superblock"),
    [("", False, 0), ("--alignment 65536 --file-format latest", True, 3)],
)
def test_alignment_and_format_are_in_the_file(
    mpirun: Callable[..., Run], tmp_path: Path, options: str, is_aligned: bool, superblock: int
) -> None:
    done = mpirun(
        2, "--backend", "hdf5,pnetcdf", "--local-size", 8, *options.split(), "--repeats", 1,
        "--keep", "--dir", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    hdf5, pnetcdf = (tmp_path / FILES[backend] for backend in ("hdf5", "pnetcdf"))
    with h5py.File(hdf5) as file:
        begins = [file["data"].id.get_offset(), pnetcdf.stat().st_size - 2 * 8**3 * 8]
    assert [begin % 65536 == 0 for begin in begins] == [is_aligned] * 2, begins
    assert hdf5.read_bytes()[8] == superblock  # the byte after the signature


def test_hints_are_told_apart(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    """What was asked for, and what the open file repeats: also what nobody knows."""
    json = tmp_path / "result.json"
    done = mpirun(
        2, "--local-size", 8, "--hint", "romio_cb_write=disable", "--hint", "nosuch=1",
        "--repeats", 1, "--dir", tmp_path, "--json", json,
    )  # fmt: skip
    assert done.code == 0, done.err
    hints = read_result(json)["cases"][0]["hints"]
    assert hints["requested"] == {"romio_cb_write": "disable", "nosuch": "1"}
    assert hints["echoed"].items() >= hints["requested"].items()
    assert hints["observed"] is None


@pytest.mark.parametrize(
    ("options", "observed"),
    [
        ("", "collective"),
        ("--collective no", "independent, independent requested"),
    ],
)
def test_collective_transfer_is_observed(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    options: str,
    observed: str,
) -> None:
    json = tmp_path / "result.json"
    done = mpirun(
        2, "--backend", "hdf5", "--local-size", 8, *options.split(), "--repeats", 1,
        "--operation", "write,read", "--dir", tmp_path, "--json", json,
    )  # fmt: skip
    assert done.code == 0, done.err
    cases = read_result(json)["cases"]
    assert [case["operation"] for case in cases] == ["write", "read"]
    for case in cases:
        assert case["collective"] == {
            "requested": options == "",
            "echoed": None,
            "observed": observed,
        }


@pytest.mark.parametrize("option", ["--stripe-count 2", "--stripe-size 4", "--stripe-offset 0"])
def test_stripes_off_lustre(mpirun: Callable[..., Run], tmp_path: Path, option: str) -> None:
    """Refused, and not ignored."""
    files, json = tmp_path / "files", tmp_path / "result.json"
    files.mkdir()
    done = mpirun(2, "--local-size", 8, *option.split(), "--dir", files, "--json", json)
    assert done.code == 3, done.err
    assert len(done.errors) == 1, done.err
    assert "lustre" in done.errors[0].lower()
    assert list(files.iterdir()) == []
