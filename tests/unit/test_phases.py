import pytest
from unit.result_file import timed

from iowatch.metrics import slow_phase, slow_rank, slowest_ranks

USUAL = {"write_s": 1.0, "sync_s": 0.5, "close_s": 0.1, "total_max": 100.0}


def test_phase_that_takes_most_longer_is_named():
    figures = {"write_s": 1.2, "sync_s": 0.5, "close_s": 2.1, "total_max": 50.0}
    assert slow_phase(figures, USUAL) == ("most of the time is lost in close: 2.1 s, usually 0.1 s")


def test_no_phase_is_named_if_several_share_the_loss():
    assert slow_phase({"write_s": 2.0, "sync_s": 1.5, "total_max": 50.0}, USUAL) == ""


def test_no_phase_is_named_if_none_takes_longer():
    assert slow_phase({"write_s": 0.9, "total_max": 200.0}, USUAL) == ""
    assert slow_phase({"write_s": 0.9}, {}) == "", "nothing is known of other nights"


@pytest.fixture
def repetitions(spoil):
    """Those of a result in which, in all repetitions, one rank wrote so many times the mean."""

    def make(to_mean, ranks=(2,), phase="write"):
        def change(result):
            for number, rep in enumerate(timed(result)):
                for time in rep["phases"].values():
                    time["mean"] = time["max"]
                time = rep["phases"][phase]
                time.update(mean=time["max"] / to_mean, slowest_rank=ranks[number % len(ranks)])

        return spoil(change).measurements[-1].repetitions

    return make


def test_rank_that_is_always_the_slowest_is_named(repetitions):
    assert slow_rank(repetitions(3.0)) == (
        "rank 2 on node1 is the slowest in write in all 10 repetitions, by 3.0 times the mean or "
        "more"
    )


def test_no_rank_is_named_if_it_changes(repetitions):
    assert slow_rank(repetitions(3.0, ranks=(2, 3))) == ""


def test_no_rank_is_named_if_all_take_as_long(repetitions):
    assert slow_rank(repetitions(1.4)) == ""


def test_phase_that_hardly_counts_names_no_rank(repetitions):
    assert slow_rank(repetitions(3.0, phase="open")) == ""


def test_every_phase_has_its_slowest_rank(repetitions):
    reps = repetitions(3.0, ranks=(2, 2, 2, 5))
    said = slowest_ranks(reps)
    assert said["write"] == "rank 2 on node1, 8 of 10 times, 3.0 times the mean"
    assert said["close"].endswith(" 10 of 10 times, 1.0 times the mean")
    assert set(said) == set(reps[0].seconds) - {"total"}


def test_one_repetition_says_nothing(repetitions):
    assert slow_rank(repetitions(3.0)[:1]) == ""
