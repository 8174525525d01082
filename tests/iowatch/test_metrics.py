"""The metrics of a verified run, and where a slow one lost its time."""

import pytest
from cases import changed
from result_file import CASE, timed, turn_into_read

from iowatch.checks import METRICS, metric
from iowatch.metrics import (
    finish_fraction,
    ior_metrics,
    measured,
    metrics_of,
    ost_metrics,
    osts_of,
    slow_osts,
    slow_phase,
    slow_rank,
)

MIB = 8.0  # of CASE: 4 writers x 64^3 elements of 8 bytes
READ = changed(CASE, "SharedFileRead")
MPIIO = changed(CASE, backend="mpiio")


def test_metrics_of_the_stand_in(spoil):
    result = spoil(slowdown={"hdf5": 2.0})
    assert metrics_of(result, CASE) == pytest.approx(
        {
            "total_max": MIB / 2,
            "total_median": MIB / 2,
            "total_mean": MIB / 2,
            "total_min": MIB / 2,
            "stable_median": MIB / 1.3,
            "data_median": MIB,
            "open_s": 0.02,
            "define_s": 0.02,
            "write_s": 1.0,
            "sync_s": 0.3,
            "close_s": 0.16,
            "close_fraction": 0.08,
            "finish_fraction": 0.08,  # MPI-IO syncs as fast
            "ratio": 0.5,
        }
    )


def test_metrics_tell_the_repetitions_apart(spoil):
    def change(result):
        for number, rep in enumerate(timed(result), start=1):
            rep["rates"]["total"] = float(number)

    values = metrics_of(spoil(change), CASE)
    assert (values["total_min"], values["total_max"]) == (1.0, 10.0)
    assert (values["total_median"], values["total_mean"]) == (5.5, 5.5)
    assert values["ratio"] == pytest.approx(10 / MIB), "the best against the best"


def test_contention_in_some_rounds_leaves_ratio_and_close_fraction_alone(spoil):
    def change(result):
        for backend, factor in ((0, 1.0), (1, 0.9)):
            for rep in timed(result, backend):
                disturbed = rep["round"] % 3 == 0
                rep["rates"]["total"] = factor * (50.0 if disturbed else 100.0)
                rep["phases"]["close"]["max"] = 0.5 if disturbed else 0.08

    values = metrics_of(spoil(change), CASE)
    assert values["ratio"] == pytest.approx(0.9)
    assert values["close_fraction"] == pytest.approx(0.08)


def test_flush_that_takes_longer_than_mpiios_finishes_the_file(spoil):
    """HDF5's slow MPI_File_set_size is in its flush, if there is one before the close."""

    def finish(flush, control, backend="hdf5"):
        def change(result):
            for backend, seconds in ((0, control), (1, flush)):
                for rep in timed(result, backend):
                    rep["phases"]["sync"]["max"] = seconds
                    rep["phases"]["total"]["max"] = 2.0
                    rep["phases"]["close"]["max"] = 0.2
                    rep["rates"]["total"] = float(rep["round"])

        return metrics_of(spoil(change), changed(CASE, backend=backend))["finish_fraction"]

    assert finish(1.5, 0.5) == pytest.approx((0.2 + 1.5 - 0.5) / 2)
    assert finish(0.1, 0.5) == pytest.approx(0.2 / 2), "a quick flush makes up for no slow close"
    assert finish(1.5, 0.5, "mpiio") == pytest.approx(0.2 / 2), "there is nothing to compare with"


TOTALS = ["total_max", "total_median", "total_mean", "total_min"]
WRITTEN = [
    *TOTALS,
    *("stable_median", "data_median", "open_s", "define_s", "write_s", "sync_s", "close_s"),
]
FINISH = ["close_fraction", "finish_fraction", "ratio"]


def test_every_case_has_its_metrics(spoil):
    expected = {
        CASE: [*WRITTEN, *FINISH],
        MPIIO: [*WRITTEN, *FINISH[:-1]],
        READ: [*TOTALS, "data_median", "open_s", "read_s", "close_s", *FINISH],
        changed(CASE, "FilePerProcess", files="process"): [*WRITTEN, *FINISH],
        changed(READ, "FilePerProcessRead", files="2"): list(READ.metrics),
        changed(CASE, "SystemLoad", instances=2): [*WRITTEN, *FINISH, "instance_min"],
        changed(CASE, "SlowOst", stripe_size=1): [*TOTALS, "ost_ratio"],
        changed(CASE, "IorPeer", files="shared"): [*TOTALS, "ior_max", "ior_median", "ior_ratio"],
        changed(CASE, "IoProfile"): [],
        changed(CASE, "LibraryVersions"): [],
    }
    assert {case: case.metrics for case in expected} == expected
    assert {name for names in expected.values() for name in names} == set(METRICS) - {"drift"}
    for case in (CASE, MPIIO):
        assert list(metrics_of(spoil(), case)) == case.metrics
    read = spoil(lambda result: turn_into_read(result, suspect=False))
    values = metrics_of(read, READ)
    assert list(values) == READ.metrics
    assert (values["read_s"], values["total_max"]) == (0.5, MIB)


def test_of_imported_runs_only_the_close_is_known():
    assert finish_fraction({"close_fraction": 0.1, "finish_fraction": 0.2}) == 0.2
    assert finish_fraction({"close_fraction": 0.1}) == 0.1
    assert finish_fraction({"total_max": 1.0}) is None


def test_slowest_instance_is_told_apart(spoil):
    def change(result):
        for rep in timed(result):
            rep["instances"] = [9.0, rep["round"], 20.0]  # of rounds 2 to 11

    values = metrics_of(spoil(change), changed(CASE, "SystemLoad", instances=3))
    assert values["instance_min"] == 6.5  # median of 2, 3, ..., 9, 9, 9


def osts(spoil, rates):
    """Three runs on each OST, of which the second is the best."""

    def run(rate):
        def change(result):
            for rep in timed(result, 0):
                rep["rates"]["total"] = rate

        return spoil(change, backends=["mpiio"], repeats=1)

    return {ost: [run(rate / 2), run(rate), run(rate / 3)] for ost, rate in enumerate(rates)}


def test_slow_ost_is_found_and_named(spoil):
    values = ost_metrics(osts(spoil, [400.0, 420.0, 100.0, 410.0, 150.0]))
    assert values["ost_2"] == values["total_min"] == 100.0
    assert values["total_max"] == 420.0
    assert values["ost_ratio"] == pytest.approx(100 / 405)
    assert [ost.name for ost in osts_of(values)] == ["2", "4", "0", "3", "1"]
    assert slow_osts(values, 0.5) == (
        "OST 2 (100 MiB/s, 0.25 of its peers), OST 4 (150 MiB/s, 0.37 of its peers)"
    )
    assert metric("ost_2").unit == "MiB/s"


def test_osts_alike_and_an_ost_alone_are_not_slow(spoil):
    alike = ost_metrics(osts(spoil, [400.0, 400.0]))
    assert alike["ost_ratio"] == 1
    assert slow_osts(alike, 0.5) == ""
    assert ost_metrics(osts(spoil, [400.0]))["ost_ratio"] == 1


def test_benchio_beside_ior(spoil):
    """Its best against IOR's best, whatever the round."""
    rounds = [spoil(backends=["mpiio"], repeats=1, slowdown={"mpiio": n}) for n in (1.0, 2.0, 4.0)]
    assert ior_metrics(rounds, [5.0, 16.0, 10.0]) == {
        "total_max": MIB,
        "total_median": MIB / 2,
        "total_mean": pytest.approx((MIB + MIB / 2 + MIB / 4) / 3),
        "total_min": MIB / 4,
        "ior_max": 16.0,
        "ior_median": 10.0,
        "ior_ratio": 0.5,
    }


# Where the time was lost

USUAL = {"write_s": 1.0, "sync_s": 0.5, "close_s": 0.1, "total_max": 100.0}


def test_phase_that_takes_most_longer_is_named():
    slow = {"write_s": 1.2, "sync_s": 0.5, "close_s": 2.1, "total_max": 50.0}
    assert slow_phase(slow, USUAL) == "most of the time is lost in close: 2.1 s, usually 0.1 s"
    shared = {"write_s": 2.0, "sync_s": 1.5, "total_max": 50.0}
    assert slow_phase(shared, USUAL) == "", "several share the loss"
    assert slow_phase({"write_s": 0.9, "total_max": 200.0}, USUAL) == "", "none takes longer"
    assert slow_phase({"write_s": 0.9}, {}) == "", "nothing is known of other nights"


@pytest.fixture
def run(spoil):
    """A run in which, in all repetitions, one rank took so many times the mean of a phase."""

    def make(to_mean, ranks=(2,), phase="write"):
        def change(result):
            for number, rep in enumerate(timed(result)):
                for time in rep["phases"].values():
                    time["mean"] = time["max"]
                time = rep["phases"][phase]
                time.update(mean=time["max"] / to_mean, slowest_rank=ranks[number % len(ranks)])

        return measured(spoil(change), CASE)

    return make


def test_rank_that_is_always_the_slowest_is_named(run):
    assert slow_rank(run(3.0).repetitions) == (
        "rank 2 on node1 is the slowest in write in all 10 repetitions, by 3.0 times the mean or "
        "more"
    )
    assert slow_rank(run(3.0, ranks=(2, 3)).repetitions) == "", "it changes"
    assert slow_rank(run(1.4).repetitions) == "", "all take as long"
    assert slow_rank(run(3.0, phase="open").repetitions) == "", "that phase hardly counts"
    assert slow_rank(run(3.0).repetitions[:1]) == "", "one repetition says nothing"


def test_every_phase_has_its_slowest_rank(run):
    found = run(3.0, ranks=(2, 2, 2, 5))
    assert found.slowest["write"] == "rank 2 on node1, 8 of 10 times, 3.0 times the mean"
    assert found.slowest["close"].endswith(" 10 of 10 times, 1.0 times the mean")
    assert set(found.slowest) == set(found.repetitions[0].seconds) - {"total"}
    assert found.metrics["total_max"] == MIB
    assert found.conditions["hosts"] == "node1"
