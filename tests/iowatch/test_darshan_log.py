"""How a library writes: judged by counts that Darshan recorded, and read from two of its logs."""

import importlib
from pathlib import Path

import pytest

from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.profile import (
    BOUNDS,
    ProfileError,
    Writes,
    fault_of,
    read_log,
    write_summary,
    writes_of,
)

LOGS = Path(__file__).parents[1] / "data/darshan"

# In the header of a log, after its version, its magic number and the kind of compression.
PARTIAL_FLAGS = 24
MPI_IO = 2

#: Counts of the logs that tests/data/darshan/README.md describes: 24 ranks of 8x8x8 elements.
DATA = 24 * 8**3 * 8
COLLECTIVE = {
    "mpiio": Writes(24, 0, DATA, 1, DATA),
    "hdf5": Writes(72, 0, 99800, 8, 99800),
    "netcdf": Writes(72, 0, 104603, 14, 104603),
}
INDEPENDENT = {
    "mpiio": Writes(0, 24, DATA, 24, 1076736),
    "hdf5": Writes(48, 1536, 99800, 1543, 99800),
    "netcdf": Writes(48, 1536, 104603, 1549, 104603),
}


@pytest.fixture
def reader():
    importlib.import_module("reads_darshan")


@pytest.mark.usefixtures("reader")
def test_a_log_is_counted_file_by_file():
    """One in which HDF5 writes collectively beside MPI-IO, and one in which it does not."""
    for log, recorded in (
        ("collective-hdf5", COLLECTIVE),
        ("independent-hdf5", INDEPENDENT),
    ):
        files = read_log(LOGS / f"{log}.darshan", 24)
        for backend in ("mpiio", "hdf5"):
            assert writes_of(backend, files) == recorded[backend], (log, backend)


def test_collective_writes_pass_and_independent_ones_are_named():
    for backend in BOUNDS:
        assert fault_of(backend, COLLECTIVE[backend], 24, 1) == ""
        sentence = fault_of(backend, INDEPENDENT[backend], 24, 1)
        assert sentence.startswith(f"{backend} does not write collectively: {INDEPENDENT[backend]}")
    assert fault_of("mpiio", INDEPENDENT["mpiio"], 24, 1) == (
        "mpiio does not write collectively: 0 collective and 24 independent writes, where 24 "
        "ranks and 1 repetition make 24 collective ones or more, and 0 independent at most"
    )
    assert fault_of("hdf5", Writes(72, 0, 99800, 7, 99800), 24, 1) == "", "by OMPIO"


def test_independent_writes_beyond_a_bound_are_seen():
    """Of 4 ranks, 4 independent ones may be the data, though 6 were the bound."""
    assert "3 independent at most" in fault_of("hdf5", Writes(8, 4, 17880, 9, 17880), 4, 1)
    assert "6 independent at most" in fault_of("hdf5", Writes(24, 7, 99800, 8, 99800), 24, 1)


@pytest.mark.parametrize(
    ("backend", "writes", "wrong"),
    [
        ("mpiio", Writes(24, 0, DATA, 24, 1076736), "it writes 11.0 times its bytes"),
        ("hdf5", Writes(72, 0, 99800, 31, 1078232), "it writes 10.8 times its bytes"),
        ("mpiio", Writes(24, 0, DATA, 1536, DATA), "it makes 1536 of them, of 64 bytes each, f"),
        ("hdf5", Writes(72, 0, 99800, 1543, 99800), "it makes 1543 of them, of 65 bytes each, f"),
    ],
)
def test_writes_that_mpiio_does_not_collect_are_seen(backend, writes, wrong):
    """They are collective calls: only what follows from them differs, by sieving or by pieces."""
    sentence = fault_of(backend, writes, 24, 1)
    assert sentence.startswith(f"MPI-IO does not collect the writes of {backend}: {wrong}")


def test_collected_writes_may_be_many_or_unseen():
    size = 24 * 128**3 * 8
    for writes in (
        Writes(24, 0, size, size // 2**20, size),  # stripe by stripe
        Writes(24, 0, 2**10, 24, 2**10),  # small, but no more than were made
        Writes(24, 0, size),  # not through POSIX
    ):
        assert fault_of("mpiio", writes, 24, 1) == ""


def test_bounds_are_those_of_the_white_paper_and_of_each_repetition():
    assert set(BOUNDS) == set(CHECKS["IoProfile"].backends)
    for backend, bound in (("mpiio", 0), ("hdf5", 6), ("netcdf", 10)):
        assert fault_of(backend, Writes(24, bound), 24, 1) == "", backend
        assert fault_of(backend, Writes(24, bound + 1), 24, 1), backend
        assert fault_of(backend, Writes(23, 0), 24, 1), backend
        assert fault_of(backend, Writes(0, 0), 24, 1), "nothing went through MPI-IO"
    assert fault_of("hdf5", Writes(240, 20), 24, 10) == ""
    assert fault_of("hdf5", Writes(239, 0), 24, 10)
    assert fault_of("hdf5", Writes(240, 24), 24, 10), "that of one repetition, of 60 allowed"


def test_a_backend_has_one_file_and_what_mpiio_leaves_beside_it_is_none():
    hdf5 = {"/scratch/a/benchio.hdf5.h5": Writes(24, 0)}
    beside = {"/scratch/a/benchio.hdf5.h5-47110815.sm": Writes(1, 1)}
    assert writes_of("hdf5", hdf5 | beside) == Writes(24, 0)
    with pytest.raises(ProfileError, match="0 files that mpiio wrote, and not 1"):
        writes_of("mpiio", hdf5)
    with pytest.raises(ProfileError, match="2 files that hdf5 wrote"):
        writes_of("hdf5", hdf5 | {"/scratch/b/benchio.hdf5.h5": Writes(24, 0)})


@pytest.mark.usefixtures("reader")
def test_log_that_is_missing_of_another_run_or_incomplete_is_no_evidence(tmp_path):
    """Darshan sets a bit of each module for which it had too little memory. A log that is cut off
    makes PyDarshan crash, or find nothing."""
    whole = (LOGS / "collective-hdf5.darshan").read_bytes()
    partial = bytearray(whole)
    partial[PARTIAL_FLAGS] |= 1 << MPI_IO
    log = tmp_path / "x.darshan"
    with pytest.raises(ProfileError, match=r"^Darshan wrote no x\.darshan: "):
        read_log(log, 24)
    for content, ranks, said in (
        (whole, 23, r"x\.darshan is of 24 processes, and 23 wrote"),
        (partial, 24, r"x\.darshan is incomplete"),
        (whole[: len(whole) * 6 // 10], 24, r"x\.darshan|0 files that hdf5 wrote"),
        (b"garbage", 24, r"PyDarshan cannot read x\.darshan: "),
    ):
        log.write_bytes(content)
        with pytest.raises(ProfileError, match=said):
            writes_of("hdf5", read_log(log, ranks))


@pytest.mark.usefixtures("reader")
def test_summary_is_darshans_own_page(tmp_path):
    page = tmp_path / "summary.html"
    write_summary(LOGS / "collective-hdf5.darshan", page)
    assert "benchio --backend mpiio,hdf5" in page.read_text()
