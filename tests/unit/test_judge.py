from statistics import fmean, stdev

import numpy as np
import pytest

from iowatch.acceptance.certify import (
    judge_median,
    judge_repeatability,
    judge_scaling,
    judge_slowest,
)
from iowatch.acceptance.contract import Criterion

RATES = [95.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0, 104.0, 106.0]


def bandwidth(**bound):
    return Criterion("A1", "bandwidth", "fs3", **bound)


@pytest.mark.parametrize(
    ("bound", "verdict"), [(90, "pass"), (96, "pass"), (100, "not conclusive"), (110, "fail")]
)
def test_verdict_rests_on_the_whole_interval(bound, verdict):
    found = judge_median(bandwidth(at_least=bound), RATES, 1, 0.95)
    assert (found.verdict, found.measured) == (verdict, 100.5)
    # Order statistics: the median lies between the 2nd and 9th of 10 with 97.9 %.
    assert (found.low, found.high) == (97.0, 104.0)
    assert (found.repetitions, found.jobs) == (10, 1)


def test_margin_is_positive_on_the_right_side():
    assert judge_median(bandwidth(at_least=67), RATES, 1, 0.95).margin(
        bandwidth(at_least=67)
    ) == pytest.approx(0.5)
    spread = Criterion("R", "repeatability", "fs3", at_most=0.1)
    assert judge_repeatability(spread, RATES, 1, 0.95).margin(spread) > 0.6


def test_too_few_repetitions_conclude_nothing():
    found = judge_median(bandwidth(at_least=50), RATES[:5], 1, 0.95)
    assert found.verdict == "not conclusive"
    assert found.reason == (
        "5 repetitions are too few for a confidence interval; about 1 repetitions more would "
        "settle it"
    )


def test_repetitions_that_would_settle_it_are_estimated():
    found = judge_median(bandwidth(at_least=98), RATES, 1, 0.95)
    # 2 of 10 are below, so 3 of 15: the interval of 15 begins with the 4th.
    assert found.reason == "about 5 repetitions more would settle it"
    more = [95.0, 96.0, 97.0, *range(98, 110)]
    assert judge_median(bandwidth(at_least=98), more, 1, 0.95).verdict == "pass"
    assert judge_median(bandwidth(at_least=98), more[:-1], 1, 0.95).verdict == "not conclusive"
    hopeless = judge_median(bandwidth(at_least=100.5), RATES, 1, 0.95)
    assert hopeless.reason.startswith("too near to the committed value")


def test_scaling_is_relative_to_linear():
    scaling = Criterion("S", "scaling", "fs3", at_least=0.8, from_nodes=2, to_nodes=8)
    found = judge_scaling(scaling, RATES, [3.6 * rate for rate in RATES], 2, 0.95)
    assert (found.verdict, found.measured) == ("pass", pytest.approx(0.9))
    assert 0.83 < found.low < 0.9 < found.high < 0.97
    assert judge_scaling(scaling, RATES, RATES, 2, 0.95).verdict == "fail"
    assert judge_scaling(scaling, RATES, RATES[:1], 2, 0.95).verdict == "not conclusive"


def steady(values, bound):
    return judge_repeatability(
        Criterion("R", "repeatability", "fs3", at_most=bound), values, 1, 0.95
    )


def test_repeatability_is_standard_deviation_over_mean():
    assert steady(RATES, 0.1).measured == pytest.approx(stdev(RATES) / fmean(RATES), rel=0.01)
    assert steady(RATES, 0.1).verdict == "pass"
    assert steady([*RATES[:5], *[10 * rate for rate in RATES[5:]]], 0.1).verdict == "fail"
    open_ = steady(RATES, 0.05)
    assert (open_.verdict, open_.reason) == (
        "not conclusive", "about 9 repetitions more would settle it"
    )  # fmt: skip
    assert steady(RATES[:1], 0.1).reason == "one repetition has no spread"


@pytest.mark.parametrize("count", [2, 5, 10])
def test_what_varies_more_than_committed_hardly_ever_passes(count):
    """Of 95 % intervals, 2.5 % lie wholly on the wrong side."""
    rng = np.random.default_rng(1)
    verdicts = [steady(rng.normal(100, 10, count), 0.0999).verdict for _ in range(1000)]
    assert 5 <= verdicts.count("pass") <= 45
    assert 5 <= verdicts.count("fail") <= 45


def test_bootstrap_is_the_same_each_time_and_needs_some_values():
    scaling = Criterion("S", "scaling", "fs3", at_least=0.99, from_nodes=1, to_nodes=1)
    found = [judge_scaling(scaling, RATES, RATES, 2, 0.95) for _ in range(2)]
    assert found[0] == found[1]
    few = judge_scaling(scaling, RATES[:5], RATES, 2, 0.95)
    assert (few.verdict, few.low) == ("not conclusive", None)
    assert few.reason.endswith("; about 1 repetitions more would settle it")


def test_slowest_ost_is_named():
    slow = Criterion("O", "slow_ost", "fs3", at_least=0.5)
    rates = {0: [100.0, 90.0], 1: [40.0, 30.0], 2: [110.0, 100.0], 3: [90.0, 100.0]}
    found = judge_slowest(slow, rates, 3)
    assert (found.verdict, found.reason) == ("fail", "OST 1")
    assert found.measured == pytest.approx(0.4)
    assert (found.low, found.high, found.jobs) == (None, None, 3)
    assert judge_slowest(slow, {**rates, 1: [60.0]}, 1).verdict == "pass"
    alone = judge_slowest(slow, {0: [100.0]}, 1)
    assert (alone.verdict, alone.reason) == ("not certified", "1 OST has no peers")
