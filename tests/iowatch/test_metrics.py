"""The metrics of a verified run."""

import gzip

import pytest
from cases import case, changed, metrics_of
from result_file import SECONDS, timed, turn_into_read, turn_into_targets

from iowatch.measure.checks import CHECKS, METRICS, kind_of, metric
from iowatch.measure.kinds.ior import ior_metrics
from iowatch.measure.kinds.slow_ost import (
    hung_osts,
    ost_metrics,
    ost_rates,
    osts_of,
    slow_osts,
    void_osts,
)
from iowatch.measure.measured import node_rates, slow_node, slow_rank
from iowatch.measure.result import InvalidResult

CASE = case()
MIB = 8.0  # of CASE: 4 ranks x 64^3 elements of 8 bytes
READ = changed(CASE, "SharedFileRead")
MPIIO = changed(CASE, backend="mpiio")


def test_metrics_of_the_stand_in(spoil):
    """Seconds are those of each phase, twice as long; rates are the bytes over them."""
    values = metrics_of(spoil(slowdown={"hdf5": 2.0}), CASE)
    rates = {"total": 2.0, "stable": 2.5, "data": 1.8}
    expected = {
        name: MIB / rates[kind] for name in CASE.metrics if (kind := name.split("_")[0]) in rates
    }
    expected |= {
        f"{phase}_s": 2 * s for phase, s in SECONDS.items() if f"{phase}_s" in CASE.metrics
    }
    # Of 0.2 s that HDF5 takes for it, MPI-IO takes 0.1 s.
    expected |= {"overhead_fraction": 0.1 / 2.5, "ratio": 0.5}
    assert values == pytest.approx(expected)


def test_rates_of_nodes_are_those_of_the_case_and_not_of_its_control(spoil):
    rates = node_rates(spoil(slowdown={"hdf5": 2.0}), "write")
    assert rates == {"node1": pytest.approx(MIB / (2 * (SECONDS["write"] + SECONDS["sync"])))}


def test_metrics_tell_the_repetitions_apart(spoil):
    def change(result):
        for number, rep in enumerate(timed(result), start=1):
            rep["rates"].update(total=2.0 * number, stable=float(number))

    values = metrics_of(spoil(change), CASE)
    assert (values["total_min"], values["total_max"]) == (2.0, 20.0)
    assert (values["total_median"], values["total_mean"]) == (11, 11)
    assert (values["stable_median"], values["stable_max"]) == (5.5, 10.0)
    assert values["ratio"] == pytest.approx(10 * 1.25 / MIB), "the best against the best, synced"


def test_overhead_fraction_is_of_the_median_round_as_the_seconds_are(spoil):
    def change(result):
        for rep in timed(result):
            is_best = rep["round"] == 2
            times(rep, open=0.8 if is_best else 0.01)
            rep["rates"]["stable"] = 100.0 if is_best else 5.0

    values = metrics_of(spoil(change), CASE)
    assert (values["overhead_fraction"], values["open_s"]) == (0.0, 0.01)


def times(rep, **windows):
    for phase, seconds in windows.items():
        rep["phases"].setdefault(phase, dict(rep["phases"]["close"]))
        rep["phases"][phase].update(window=seconds, file_window=seconds)
    whole = rep["phases"]["total"]["window"] + rep["phases"]["sync"]["window"]
    rep["phases"]["stable"].update(window=whole)


def finish(spoil, own, control, backend="hdf5"):
    """The part of the time that finishes a file with these times, beside such a control; both take
    2 s from opening to closing."""

    def change(result):
        for made, windows in zip(result["cases"], (control, own), strict=True):
            for rep in timed(result, result["cases"].index(made)):
                usual = {"open": 0.1, "define": 0.0, "close": 0.1, "sync": 0.5, "total": 2.0}
                times(rep, **(usual | windows))

    result = spoil(change, backends=["mpiio", backend])
    return metrics_of(result, changed(CASE, backend=backend))["overhead_fraction"]


def test_library_is_charged_for_what_its_files_take_beyond_mpiios(spoil):
    for own, control, seconds in (
        ({}, {}, 0.0),
        ({"close": 1.1}, {}, 1.0),  # HDF5 sets the size of its file in H5Fclose
        ({"define": 0.4, "open": 0.3}, {}, 0.6),  # NetCDF writes its header in nc_enddef
        ({"close": 0.6}, {"close": 0.3}, 0.3),  # as slow for all: the filesystem, not a library
        ({"close": 0.1}, {"close": 0.3}, 0.0),  # nobody is paid for closing faster
        ({"flush": 0.7}, {"flush": 0.2}, 0.5),  # the library's own flush, where it was asked for
        ({"sync": 1.5}, {}, 0.0),  # nobody waits for the library there
    ):
        sync = own.get("sync", 0.5)
        found = finish(spoil, own, control)
        assert found == pytest.approx(seconds / (2 + sync)), own


def test_data_that_are_synced_within_the_close_are_no_cost_of_the_library(spoil):
    """As NetCDF does: the disk has to take them once in any case."""
    for own, part in (
        ({"close": 0.6, "sync": 0.0}, 0.0),
        ({"close": 1.6, "sync": 0.0}, 1.0 / 2),
        ({"close": 1.6, "sync": 0.9}, 1.5 / 2.9),  # none was saved
    ):
        assert finish(spoil, own, {"sync": 0.5}, "netcdf") == pytest.approx(part), own


def test_files_that_are_nothing_but_the_array_take_only_their_close(spoil):
    assert finish(spoil, {"open": 0.9, "close": 0.5}, {}, "posix") == pytest.approx(0.5 / 2.5)
    control = spoil(lambda result: [times(rep, close=0.5) for rep in timed(result, 0)])
    assert metrics_of(control, MPIIO)["overhead_fraction"] == pytest.approx(0.5 / 1.25)


def test_many_files_that_are_closed_one_after_the_other_are_not_closed_slowly(spoil):
    def change(result):
        for rep in timed(result):
            rep["phases"]["close"].update(window=0.9, file_window=0.05)

    values = metrics_of(spoil(change), CASE)
    assert (values["overhead_fraction"], values["close_s"]) == (0.0, 0.05)
    # A part stays one though the slowest of many files are added up.
    assert finish(spoil, {"open": 1.9, "define": 1.9, "close": 1.9}, {}) == 1.0


def test_a_case_has_the_metrics_of_its_check_that_it_can_have():
    """That a result of it has them all, and no others, stands with the law."""
    peer = changed(CASE, "MdtestPeer", items=10, files="shared")
    compressed = changed(CASE, pattern="deflate=1")
    for one, absent in {
        CASE: {"flush_s", "stored_fraction"},
        changed(CASE, flush=True): {"stored_fraction"},
        MPIIO: {"ratio", "flush_s", "stored_fraction"},
        compressed: {"ratio", "overhead_fraction", "flush_s"},
        READ: {"stored_fraction"},
        peer: set(),
        changed(peer, files="process", io500="easy"): {"mdtest_read_rate"},
    }.items():
        assert {*one.check.metrics} - {*one.metrics} == absent, one
    assert set(METRICS) == {name for one in CHECKS.values() for name in one.metrics} | {"drift"}


def test_slowest_instance_is_told_apart(spoil):
    def change(result):
        for rep in timed(result):
            rep["instances"] = [9.0, rep["round"], 20.0]  # of rounds 2 to 11

    values = metrics_of(spoil(change), changed(CASE, "SystemLoad", instances=3))
    assert values["instance_min"] == 6.5  # median of 2, 3, ..., 9, 9, 9


def each_ost(spoil, rates, failed=()):
    """A result of three rounds on OSTs with these best rates, of which some have failed."""

    def change(result):
        turn_into_targets(result, [*rates], rates)
        for one in result["cases"]:
            if one["target"]["name"] in failed:
                error = {"rank": 0, "call": "open", "path": "/f", "message": "no space"}
                one["target"]["error"], one["repetitions"] = error, one["repetitions"][:-1]

    return spoil(change, backends=["mpiio"], repeats=3)


def test_slow_ost_is_found_and_named(spoil):
    rates = {"0": 400.0, "1": 420.0, "2": 100.0, "5": 410.0, "12": 150.0, "13": 7.0}
    osts = {name: int(name) for name in rates}
    result = each_ost(spoil, rates, failed=["13"])
    values = ost_metrics(result, osts)
    assert (values["ost_2"], values["ost_read_2"]) == pytest.approx((100.0, 200.0))
    assert (values["total_min"], values["total_max"]) == pytest.approx((125.0, 525.0))
    assert (values["stable_median"], values["stable_max"]) == pytest.approx((400.0, 420.0))
    assert values["ost_ratio"] == values["ost_read_ratio"] == pytest.approx(100 / 405)
    for operation in ("write", "read"):
        assert [ost.name for ost in osts_of(values, operation)] == ["2", "12", "0", "5", "1"]
    assert slow_osts(values, "read", 0.5) == (
        "OST 2 (200 MiB/s, 0.25 of its peers), OST 12 (300 MiB/s, 0.37 of its peers)"
    )
    assert slow_osts({"ost_1": 0.37, "ost_4": 5.0}, "write", 0.5).startswith("OST 1 (0.37 MiB/s,")
    assert {metric(name).unit for name in ("ost_2", "ost_read_2")} == {"MiB/s"}
    # What the failed one has reached counts for nothing.
    assert not {"ost_13", "ost_read_13"} & set(values)
    said = "OST 13 was not measured: rank 0: open: /f: no space"
    assert void_osts(result.void, osts) == [said]
    by_operation = {
        name: [round(rate) for rate in of[2]] for name, of in ost_rates(result, osts).items()
    }
    assert by_operation == {"write": [100, 50, 33], "read": [200, 100, 67]}


def test_osts_alike_are_not_slow_and_an_ost_alone_cannot_be_judged(spoil):
    osts = {"flash": 3, "disk": 7}
    rates = dict.fromkeys(osts, 400.0)

    def change(result):
        turn_into_targets(result, [*osts], rates, is_lustre=False)

    alike = ost_metrics(spoil(change, backends=["mpiio"], repeats=3), osts)
    assert (alike["ost_ratio"], alike["ost_3"]) == (1, alike["ost_7"])
    assert slow_osts(alike, "write", 0.5) == ""
    alone = each_ost(spoil, {"0": 400.0, "1": 400.0}, failed=["1"])
    void = void_osts(alone.void, {"0": 0, "1": 1})
    with pytest.raises(InvalidResult, match=r"^fewer than two OSTs can be .*; OST 1 was not meas"):
        ost_metrics(alone, {"0": 0, "1": 1}, void)


def test_targets_that_benchio_hung_on(tmp_path):
    """A start without result that names a target; the next goes on without it."""
    run = "rank 0: write: /scratch/target.x/iowatch.a/benchio.0f-{}/target.{}/mpiio.dat: no end"
    first, second = run.format(1, "12"), run.format(2, "osd.3")
    (tmp_path / "said.1").write_text(f"round 1\nbenchio: error: {first}\nmpirun: killed\n")
    (tmp_path / "said.2.gz").write_bytes(gzip.compress(f"benchio: error: {second}\n".encode()))
    (tmp_path / "said.3").write_text("benchio: error: rank 0: open: /x/benchio.0f-3/target.9/f\n")
    (tmp_path / "result.3.json").write_text("{}")
    assert hung_osts(tmp_path) == {"12": first, "osd.3": second}
    assert hung_osts(tmp_path / "none") == {}
    (tmp_path / "said.1").write_text("benchio: error: rank 0: open: /target.7/benchio.a/f: no\n")
    assert list(hung_osts(tmp_path)) == ["osd.3"]


def test_benchio_beside_ior(spoil):
    """Its best against IOR's best, whatever the round; both have their sync in it."""
    rounds = [spoil(backends=["mpiio"], repeats=1, slowdown={"mpiio": n}) for n in (1.0, 2.0, 4.0)]
    assert ior_metrics(rounds, [5.0, 16.0, 10.0]) == {
        "total_max": MIB,
        "total_median": MIB / 2,
        "total_mean": pytest.approx((MIB + MIB / 2 + MIB / 4) / 3),
        "total_min": MIB / 4,
        "stable_max": MIB / 1.25,
        "stable_median": MIB / 2.5,
        "ior_max": 16.0,
        "ior_median": 10.0,
        "ior_ratio": 0.4,
    }
    read = spoil(lambda result: turn_into_read(result, suspect=False), backends=["mpiio"])
    assert ior_metrics([read], [MIB])["ior_ratio"] == 1.0


# The slowest rank


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

        return kind_of(CASE).measured(spoil(change), CASE)

    return make


def test_rank_that_is_always_the_slowest_is_named(run):
    assert slow_rank(run(3.0).repetitions) == (
        "rank 2 on node1 is the slowest in write in all 10 repetitions, by 3.0 times the mean or "
        "more"
    )
    # It changes; all take as long; that phase hardly counts; one repetition says nothing.
    for how in ({"ranks": (2, 3)}, {"to_mean": 1.4}, {"phase": "open"}):
        assert slow_rank(run(**{"to_mean": 3.0, **how}).repetitions) == "", how
    assert slow_rank(run(3.0).repetitions[:1]) == ""


def test_node_that_is_always_the_slowest_is_named(spoil):
    """In its sync, which waits for no other node."""

    def found(most, hosts=("nid2",), nodes=4, phase="sync"):
        def change(result):
            for number, rep in enumerate(timed(result)):
                slowest = 9.0 if number == 0 else most
                rep["nodes"][phase] |= {
                    "nodes": nodes, "quantiles": [0.1, 0.2, 0.2, 0.2, slowest],
                    "most": hosts[number % len(hosts)],
                }  # fmt: skip

        return slow_node(kind_of(CASE).measured(spoil(change), CASE).repetitions)

    assert found(0.6) == (
        "the node nid2 is the slowest in sync in all 10 repetitions, by 3.0 times the median of 4 "
        "nodes or more"
    )
    assert found(0.6, phase="write").startswith("the node nid2 is the slowest in write")
    assert found(0.28) == found(0.6, hosts=("nid2", "nid3")) == found(0.6, nodes=2) == ""


def test_every_phase_has_its_slowest_rank(run):
    found = run(3.0, ranks=(2, 2, 2, 5))
    assert found.slowest()["write"] == "rank 2 on node1, 8 of 10 times, 3.0 times the mean"
    assert found.slowest()["close"].endswith(" 10 of 10 times, 1.0 times the mean")
    assert set(found.slowest()) == {"open", "define", "write", "close", "sync"}
    assert (found.metrics["total_max"], found.metrics["stable_max"]) == (MIB, MIB / 1.25)
    assert found.provenance["hosts"] == "node1"


def test_control_has_its_phases(spoil):
    found = kind_of(CASE).measured(spoil(slowdown={"hdf5": 2.0}), CASE)
    seconds = {"open": 0.01, "define": 0.01, "write": 0.9, "close": 0.08, "sync": 0.25}
    assert dict(found.control) == pytest.approx(seconds)
    assert MPIIO.check.measured(spoil(backends=["mpiio"]), MPIIO).control == {}, "it has none"
