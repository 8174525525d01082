import math
from statistics import fmean, stdev

import pytest

from iowatch.accept.criteria import (
    CriteriaError,
    Criterion,
    judge_median,
    judge_repeatability,
    judge_scaling,
    judge_slowest,
    read,
)

RATES = [95.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0, 104.0, 106.0]
CONTRACT = """\
system: archer
title: Phase 2 storage
criteria:
  - {name: A1, kind: peak, filesystem: fs3, at_least: 0.5}
"""


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
    steady = Criterion("R", "repeatability", "fs3", at_most=0.1)
    assert judge_repeatability(steady, RATES, 1, 0.95).margin(steady) > 0.6


def test_too_few_repetitions_conclude_nothing():
    found = judge_median(bandwidth(at_least=50), RATES[:5], 1, 0.95)
    assert found.verdict == "not conclusive"
    assert found.reason == "5 repetitions are too few for a confidence interval"


def test_repetitions_that_would_settle_it_are_estimated():
    # The interval reaches 3.5 below the median of 100.5 and the bound is 2.5 below: (3.5 / 2.5)^2.
    found = judge_median(bandwidth(at_least=98), RATES, 1, 0.95)
    assert found.reason == "about 10 repetitions more would settle it"
    hopeless = judge_median(bandwidth(at_least=100.5), RATES, 1, 0.95)
    assert hopeless.reason.startswith("too near to the committed value")


def test_scaling_is_relative_to_linear():
    scaling = Criterion("S", "scaling", "fs3", at_least=0.8, from_nodes=2, to_nodes=8)
    found = judge_scaling(scaling, RATES, [3.6 * rate for rate in RATES], 2, 0.95)
    assert (found.verdict, found.measured) == ("pass", pytest.approx(0.9))
    assert 0.83 < found.low < 0.9 < found.high < 0.97
    assert judge_scaling(scaling, RATES, RATES, 2, 0.95).verdict == "fail"
    assert judge_scaling(scaling, RATES, RATES[:1], 2, 0.95).verdict == "not conclusive"


def test_repeatability_is_standard_deviation_over_mean():
    def judged(values, bound):
        steady = Criterion("R", "repeatability", "fs3", at_most=bound)
        return judge_repeatability(steady, values, 1, 0.95)

    assert judged(RATES, 0.1).measured == pytest.approx(stdev(RATES) / fmean(RATES))
    assert judged(RATES, 0.1).verdict == "pass"
    assert judged([*RATES[:5], *[10 * rate for rate in RATES[5:]]], 0.1).verdict == "fail"


def test_bootstrap_is_the_same_each_time():
    steady = Criterion("R", "repeatability", "fs3", at_most=0.03)
    assert judge_repeatability(steady, RATES, 1, 0.95) == judge_repeatability(
        steady, RATES, 1, 0.95
    )


def test_slowest_ost_is_named():
    slow = Criterion("O", "slow_ost", "fs3", at_least=0.5)
    rates = {0: [100.0, 90.0], 1: [40.0, 30.0], 2: [110.0, 100.0], 3: [90.0, 100.0]}
    found = judge_slowest(slow, rates)
    assert (found.verdict, found.reason) == ("fail", "OST 1")
    assert found.measured == pytest.approx(0.4)
    assert judge_slowest(slow, {**rates, 1: [60.0]}).verdict == "pass"


def test_contract_is_read(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    contract = read(path)
    assert (contract.system, contract.confidence) == ("archer", 0.95)
    assert contract.criteria == [Criterion("A1", "peak", "fs3", at_least=0.5)]
    assert math.isclose(contract.criteria[0].committed, 0.5)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("system: archer\n", "", "needs system, title and criteria"),
        ("title:", "titel:", "needs system, title and criteria"),
        (CONTRACT, "[", "cannot be read"),
        ("system: archer", "system: archer\nconfidence: 95", "confidence is 95, not between"),
        ("  - {name: A1, kind: peak, filesystem: fs3, at_least: 0.5}\n", "  []", "is empty"),
        ("name: A1, ", "", "criterion 1: needs filesystem, kind, name"),
        ("kind: peak", "kind: peek", "kind is 'peek': there are bandwidth, peak"),
        ("at_least", "atleast", "has no key atleast"),
        (", at_least: 0.5", "", "peak needs at_least"),
        ("at_least: 0.5", "at_least: 0.5, at_most: 2", "peak needs at_least, and no other"),
        ("at_least: 0.5", "at_least: -1", "at_least is -1, not a positive number"),
        ("kind: peak", "kind: repeatability", "repeatability needs at_most"),
        ("kind: peak", "kind: scaling", "from_nodes and to_nodes belong to scaling"),
        ("kind: peak", "kind: peak, from_nodes: 1, to_nodes: 2", "belong to scaling"),
        ("kind: peak", "kind: ratio", "ratio needs a backend other than mpiio"),
        ("kind: peak", "kind: peak, nodes: many", "nodes is 'many', not a number of nodes"),
    ],
)
def test_contract_that_says_too_little_is_an_error(tmp_path, old, new, sentence):
    path = tmp_path / "contract.yaml"
    assert old in CONTRACT
    path.write_text(CONTRACT.replace(old, new))
    with pytest.raises(CriteriaError, match=sentence):
        read(path)
