from dataclasses import replace

import pytest
from unit.result_file import CASE, timed, turn_into_read

from iowatch.metrics import figure_names, figures, ost_figures, slow_osts, unit

MIB = 8.0  # of CASE: 4 writers x 64^3 elements of 8 bytes


def test_figures_of_the_stand_in(spoil):
    result = spoil(slowdown={"hdf5": 2.0})
    assert figures(result, CASE) == pytest.approx(
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


def test_figures_tell_the_repetitions_apart(spoil):
    def change(result):
        for number, rep in enumerate(timed(result), start=1):
            rep["rates"]["total"] = float(number)

    values = figures(spoil(change), CASE)
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

    values = figures(spoil(change), CASE)
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

        return figures(spoil(change), replace(CASE, backend=backend))["finish_fraction"]

    assert finish(1.5, 0.5) == pytest.approx((0.2 + 1.5 - 0.5) / 2)
    assert finish(0.1, 0.5) == pytest.approx(0.2 / 2), "a quick flush makes up for no slow close"
    assert finish(1.5, 0.5, "mpiio") == pytest.approx(0.2 / 2), "there is nothing to compare with"


def test_every_case_has_its_figures(spoil):
    common = ["total_max", "total_median", "total_mean", "total_min"]
    written = [
        *common,
        "stable_median",
        "data_median",
        "open_s",
        "define_s",
        "write_s",
        "sync_s",
        "close_s",
    ]
    read = [*common, "data_median", "open_s", "read_s", "close_s"]
    hdf5 = ["close_fraction", "finish_fraction", "ratio"]
    expected = {
        CASE: [*written, *hdf5],
        replace(CASE, backend="mpiio"): [*written, "close_fraction", "finish_fraction"],
        replace(CASE, operation="read"): [*read, *hdf5],
        replace(CASE, instances=2): [*written, *hdf5, "instance_min"],
        replace(CASE, backend="mpiio", each_ost=True): [*common, "ost_ratio"],
        replace(CASE, ior_peer=True): [*common, "ior_max", "ior_median", "ior_ratio"],
    }
    assert {case: figure_names(case) for case in expected} == expected
    assert all(unit(name) for names in expected.values() for name in names)
    for case in list(expected)[:2]:
        assert list(figures(spoil(), case)) == figure_names(case)


def test_figures_of_a_read(spoil):
    result = spoil(lambda result: turn_into_read(result, suspect=False))
    read = replace(CASE, operation="read")
    values = figures(result, read)
    assert list(values) == figure_names(read)
    assert (values["read_s"], values["total_max"]) == (0.5, MIB)


def test_slowest_instance_is_told_apart(spoil):
    def change(result):
        for rep in timed(result):
            rep["instances"] = [9.0, rep["round"], 20.0]  # of rounds 2 to 11

    values = figures(spoil(change), replace(CASE, instances=3))
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
    values = ost_figures(osts(spoil, [400.0, 420.0, 100.0, 410.0, 150.0]))
    assert values["ost_2"] == values["total_min"] == 100.0
    assert values["total_max"] == 420.0
    assert values["ost_ratio"] == pytest.approx(100 / 405)
    assert slow_osts(values, 0.5) == (
        "OST 2 (100 MiB/s, 0.25 of its peers), OST 4 (150 MiB/s, 0.37 of its peers)"
    )
    assert unit("ost_2") == "MiB/s"


def test_osts_alike_and_an_ost_alone_are_not_slow(spoil):
    alike = ost_figures(osts(spoil, [400.0, 400.0]))
    assert alike["ost_ratio"] == 1
    assert slow_osts(alike, 0.5) == ""
    assert ost_figures(osts(spoil, [400.0]))["ost_ratio"] == 1
