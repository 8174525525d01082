"""Why a run is slow, in clauses."""

import pytest
from cases import case, changed

from iowatch.judge.explain import finish_s, is_defect, is_slow_to_finish, ratio_median, why_slow

CASE = case()
READ = changed(CASE, "SharedFileRead")
MPIIO = changed(CASE, backend="mpiio")
NETCDF, PNETCDF = (changed(CASE, backend=backend) for backend in ("netcdf", "pnetcdf"))
MANY = changed(CASE, "FilePerProcess", backend="posix", files="process")
GOOD = {"overhead_fraction": 0.04, "stable_max": 730.0, "ratio": 1.0}
GOOD |= {"open_s": 0.002, "define_s": 0.001, "write_s": 0.011, "close_s": 0.005}
#: HDF5 as on Cirrus, with a close that everybody notices.
SLOW = GOOD | {"overhead_fraction": 0.71, "stable_max": 25.0, "close_s": 0.302, "ratio": 25 / 700}
CONTROL = {"open": 0.001, "write": 0.011, "close": 0.001}


def why(case=CASE, usual=GOOD, slow=0.7, is_sure=True, **now):
    return why_slow(case, SLOW | now, usual, slow, is_sure)


def test_who_is_slow_to_finish_is_told_in_which_phase_and_call_and_how_mpiio_was(golden):
    every = {
        "HDF5": why(),
        "HDF5, and nothing is usual": why(usual={}),
        "netCDF": why(NETCDF, define_s=0.7, close_s=0.1),
        "PnetCDF": why(PNETCDF, define_s=0.2, close_s=0.2, open_s=0.21),
        "with flushes": why(usual=GOOD | {"flush_s": 0.01}, flush_s=0.4),
        "MPI-IO, its close alone": why(MPIIO, open_s=9.0, usual={}),
        "many files": why(MANY),
        "a read that opens": why(READ, open_s=0.4),
        "a read that closes": why(READ),
        "a read, and a trifle": why(READ, open_s=1e-3, read_s=0.4, write_s=0.0, close_s=1e-4),
    }
    golden("explained.txt", "".join(f"# {title}\n{message}\n" for title, message in every.items()))


def test_read_makes_nothing_of_its_file():
    message = why(READ)
    assert message.startswith("it spends 71 % of the time opening and closing its file")
    assert "; most of the extra time is in close (H5Fclose): 302 ms, usually 5 ms;" in message


def test_whose_fault_it_is():
    def beside(rate, stable, **options):
        message = why(stable_max=stable, ratio=stable / rate, **options)
        return message.rpartition("MPI-IO in the same ")[2].removeprefix("rounds ")

    library = "it is the library's path, not the filesystem"
    at_500 = "is slow too, at 500 of its usual 730 MiB/s"
    assert beside(730, 25) == f"is as fast as always: {library}"
    assert beside(500, 25) == f"{at_500}: it is the library's path and the filesystem"
    filesystem = f"{at_500}: it is the filesystem, not the library"
    assert beside(500, 500) == filesystem
    assert beside(500, 500, slow=0.37) == filesystem, "of a case that varies as much, too"
    assert beside(500, 500, is_sure=False) == at_500, "one slow night blames nobody"
    assert beside(600, 600, slow=0.9) == "still reaches 600 of its usual 730 MiB/s"
    assert not why(MPIIO, ratio=0).count("MPI-IO"), "of itself it says nothing"


USUAL = {"write_s": 1.0, "sync_s": 0.5, "close_s": 0.1, "stable_max": 100.0}


def lost(now, usual=USUAL):
    return why_slow(MPIIO, now, usual)


def test_phase_that_takes_most_longer_is_named():
    slow = {"write_s": 1.2, "sync_s": 0.5, "close_s": 2.1, "stable_max": 50.0}
    assert lost(slow) == "most of the time is lost in close: 2.1 s, usually 100 ms"
    shared = {"write_s": 2.0, "sync_s": 1.5, "stable_max": 50.0}
    assert lost(shared) == "", "several share the loss"
    assert lost({"write_s": 0.9, "stable_max": 200.0}) == "", "none takes longer"
    assert lost({"write_s": 0.9}, {}) == "", "nothing is known of other nights"
    gone = {"unlink_s": 9.0, "write_s": 1.1}
    assert "lost in write" in lost(gone, USUAL | {"unlink_s": 0.1}), "no bandwidth waits for it"


def test_trifle_is_named_by_nobody():
    """5 microseconds, or a hundredth of the time."""
    tiny = {"write_s": 2e-3, "close_s": 8.11e-5, "stable_max": 50.0}
    assert lost(tiny, tiny | {"close_s": 7.64e-5}) == ""
    assert lost(tiny | {"close_s": 9e-4}, tiny) == "", "less than a millisecond"
    assert lost(USUAL | {"write_s": 1.07}) == "", "less than a twentieth of the time"
    assert lost(USUAL | {"write_s": 1.1}) != ""


def test_founding_fault_is_unmistakable_or_none():
    assert finish_s(SLOW) == pytest.approx(0.71 * 0.316)
    assert ratio_median(SLOW, CONTROL) == pytest.approx(0.013 / 0.316)
    assert is_defect(SLOW, CONTROL)
    for what, change in {
        "nobody notices it": {"close_s": 0.02},
        "the best round has more than half of MPI-IO's rate": {"ratio": 0.51},
        "it is a third of the time, as in health": {"overhead_fraction": 0.45},
        "it is less than half of what is lost": {"overhead_fraction": 0.47},
    }.items():
        assert not is_defect(SLOW | change, CONTROL), what
    assert is_defect(SLOW | {"overhead_fraction": 0.49}, CONTROL)
    assert not is_defect(SLOW, {"write": 0.16}), "the median round has more than half of it"
    assert not is_defect({name: SLOW[name] for name in ("close_s", "overhead_fraction")}, {})


def test_who_takes_a_trifle_to_finish_is_not_slow_to_finish():
    assert is_slow_to_finish(SLOW, GOOD)
    assert is_slow_to_finish(SLOW, {})
    assert not is_slow_to_finish(SLOW | {"close_s": 0.02}, GOOD)
    assert not is_slow_to_finish(SLOW | {"overhead_fraction": 0.45}, {})
    alike = SLOW | {"ratio": 0.9, "overhead_fraction": 0.4}
    assert is_slow_to_finish(alike, GOOD)
    assert not is_slow_to_finish(alike, GOOD | {"overhead_fraction": 0.35})
    assert is_slow_to_finish({"overhead_fraction": 0.5}, {}), "of old records no seconds are known"
