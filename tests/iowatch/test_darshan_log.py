"""How a library writes: judged by counts, and by real logs of Darshan."""

from functools import cache
from pathlib import Path

import pytest

from iowatch.checks import CHECKS
from iowatch.darshan_log import (
    BOUNDS,
    ProfileError,
    Writes,
    judge,
    read_log,
    write_summary,
    writes_of,
)

LOGS = Path(__file__).parents[1] / "data/darshan"

# In the header of a log, after its version, its magic number and the kind of compression.
PARTIAL_FLAGS = 24
MPI_IO = 2


@cache
def recorded(log, writers):
    return read_log(LOGS / f"{log}.darshan", writers)


def judged(log, backend, writers=24):
    """The writes in a log, and the sentence on them."""
    writes = writes_of(backend, recorded(log, writers))
    return writes, judge(backend, writes, writers, 1)


@pytest.mark.long
def test_logs_are_told_apart():
    data = 24 * 8**3 * 8
    assert judged("collective-mpiio", "mpiio") == (Writes(24, 0, data, 1, data), "")
    assert judged("collective-hdf5", "hdf5") == (Writes(72, 0, 99800, 8, 99800), "")
    assert judged("collective-netcdf", "netcdf") == (Writes(72, 0, 104603, 14, 104603), "")
    for backend, writes in {
        "mpiio": Writes(0, 24, data, 24, 1076736),
        "hdf5": Writes(48, 1536, 99800, 1543, 99800),
        "netcdf": Writes(48, 1536, 104603, 1549, 104603),
    }.items():
        found, sentence = judged(f"independent-{backend}", backend)
        assert found == writes
        assert sentence.startswith(f"{backend} does not write collectively: {writes}, ")


def test_other_mpiio_and_the_files_that_it_leaves_beside():
    writes, sentence = judged("ompio-hdf5", "hdf5")
    assert (writes, sentence) == (Writes(72, 0, 99800, 7, 99800), "")


def test_control_in_a_log_is_told_from_its_backend():
    for backend in ("hdf5", "netcdf"):
        for how in ("collective", "independent"):
            assert judged(f"{how}-{backend}", "mpiio") == judged(f"{how}-mpiio", "mpiio"), backend


def test_sentence_says_what_is_wanted():
    assert judged("independent-mpiio", "mpiio")[1] == (
        "mpiio does not write collectively: 0 collective and 24 independent writes, where 24 "
        "writers and 1 repetition make 24 collective ones or more, and 0 independent at most"
    )


@pytest.mark.long
def test_independent_writes_beyond_a_bound_are_seen():
    writes, sentence = judged("independent-hdf5-4-writers", "hdf5", writers=4)
    assert (writes.collective, writes.independent) == (8, 4), "would do, if 6 were the bound"
    assert "3 independent at most" in sentence
    # Of metadata.
    writes, sentence = judged("independent-metadata-hdf5", "hdf5")
    assert (writes.collective, writes.independent) == (24, 7)
    assert "6 independent at most" in sentence


@pytest.mark.long
def test_writes_that_mpiio_does_not_collect_are_seen():
    """They are collective calls, of both libraries: only what follows from them differs."""
    for log, of_mpiio, of_hdf5 in (
        ("sieved-hdf5", "it writes 11.0 times its bytes", "it writes 10.8 times its bytes"),
        (
            "scattered-hdf5",
            "it makes 1536 of them, of 64 bytes each, from 24",
            "it makes 1543 of them, of 65 bytes each, from 72",
        ),
    ):
        for backend, wrong in (("mpiio", of_mpiio), ("hdf5", of_hdf5)):
            writes, sentence = judged(log, backend)
            assert writes.independent == 0
            assert sentence == f"MPI-IO does not collect the writes of {backend}: {wrong}"


def test_collected_writes_may_be_many_or_unseen():
    size = 24 * 128**3 * 8
    for writes in (
        Writes(24, 0, size, size // 2**20, size),  # stripe by stripe
        Writes(24, 0, 2**10, 24, 2**10),  # small, but no more than were made
        Writes(24, 0, size),  # not through POSIX
    ):
        assert judge("mpiio", writes, 24, 1) == ""


def test_bounds_are_those_of_the_white_paper_and_of_each_repetition():
    assert set(BOUNDS) == set(CHECKS["IoProfile"].backends)
    for backend, bound in (("mpiio", 0), ("hdf5", 6), ("netcdf", 10)):
        assert judge(backend, Writes(24, bound), 24, 1) == "", backend
        assert judge(backend, Writes(24, bound + 1), 24, 1), backend
        assert judge(backend, Writes(23, 0), 24, 1), backend
        assert judge(backend, Writes(0, 0), 24, 1), "nothing went through MPI-IO"
    assert judge("hdf5", Writes(240, 20), 24, 10) == ""
    assert judge("hdf5", Writes(239, 0), 24, 10)
    assert judge("hdf5", Writes(240, 24), 24, 10), "that of one repetition, of 60 allowed"


def test_log_or_file_that_is_missing_or_of_another_run():
    with pytest.raises(ProfileError, match=r"^Darshan wrote no nothing\.darshan: "):
        read_log(LOGS / "nothing.darshan", 24)
    with pytest.raises(ProfileError, match=r"mpiio\.darshan is of 24 processes, and 23 wrote"):
        read_log(LOGS / "collective-mpiio.darshan", 23)
    with pytest.raises(ProfileError, match="0 files that hdf5 wrote, and not 1"):
        writes_of("hdf5", recorded("collective-mpiio", 24))
    files = {f"/scratch/{run}/benchio.hdf5.h5": Writes(24, 0) for run in "ab"}
    with pytest.raises(ProfileError, match="2 files that hdf5 wrote"):
        writes_of("hdf5", files)


@pytest.mark.long
def test_log_that_is_cut_off_is_no_evidence(tmp_path):
    """One of these makes PyDarshan crash, and one makes it find nothing."""
    whole = (LOGS / "collective-hdf5.darshan").read_bytes()
    log = tmp_path / "cut.darshan"
    for part in (0, 0.3, 0.6, 0.9):
        log.write_bytes(whole[: int(len(whole) * part)])
        with pytest.raises(ProfileError, match=r"cut\.darshan|0 files that hdf5 wrote"):
            writes_of("hdf5", read_log(log, 24))


def test_log_that_is_incomplete_is_no_evidence(tmp_path):
    """Darshan sets a bit of each module for which it had too little memory."""
    content = bytearray((LOGS / "collective-mpiio.darshan").read_bytes())
    content[PARTIAL_FLAGS] |= 1 << MPI_IO
    log = tmp_path / "partial.darshan"
    log.write_bytes(content)
    with pytest.raises(ProfileError, match=r"partial\.darshan is incomplete"):
        read_log(log, 24)


@pytest.mark.long
def test_summary_is_a_page_or_nothing(tmp_path):
    page = tmp_path / "summary.html"
    write_summary(LOGS / "collective-hdf5.darshan", page)
    text = page.read_text()
    assert "benchio --backend mpiio,hdf5" in text
    assert "MPI-IO" in text
    log = tmp_path / "garbage.darshan"
    log.write_text("garbage")
    with pytest.raises(ProfileError, match=r"PyDarshan cannot read garbage\.darshan"):
        write_summary(log, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
