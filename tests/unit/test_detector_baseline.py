"""What a baseline is estimated from, and when it is refused."""

import math
import random

import pytest
from unit.detector_nights import job, kinds, low, night

from iowatch.detector.baseline import BaselineRefused, baseline_of, change_point, estimate

#: 0 to 20 in an order in which no night resembles the one before.
MIXED = [8 * n % 21 for n in range(21)]


def healthy(count=30, spread=0.1, seed=1, **figures):
    rng = random.Random(seed)
    return [night(n, 1000 * math.exp(rng.gauss(0, spread)), **figures) for n in range(count)]


def test_the_baseline_is_median_and_mad_of_the_first_jobs():
    values = [990 + n for n in MIXED]
    nights = [[*night(n, value), job(n, 9000, 9, 0.9, 4)] for n, value in enumerate(values)]
    baseline = baseline_of(nights)
    assert baseline.m == pytest.approx(math.log(1000))
    assert (baseline.s, baseline.s_r) == (0.05, 0.05)  # nothing is believed to be quieter
    assert baseline.m_r == pytest.approx(math.log(0.9))
    assert (baseline.phi0, baseline.nights) == (0.03, 21)
    assert (baseline.first, baseline.last) == (nights[0][0].time, nights[-1][0].time)
    assert estimate(spread_over(MIXED)).s == pytest.approx(1.4826 * 0.5)


def spread_over(order):
    return [night(n, 1000 * math.exp((step - 10) / 10)) for n, step in enumerate(order)]


def test_spread_is_wider_where_contention_lasts_for_nights():
    free, lasting = (estimate(spread_over(order)) for order in (MIXED, range(21)))
    assert lasting.m == free.m
    # Of the values 0, 1, .. 20 in order, winsorised or not, a night resembles the next with 0.85.
    assert lasting.s / free.s == pytest.approx(1 + 1.5 * (0.85 - 0.2), abs=0.03)


def test_a_baseline_without_controls_has_no_ratio():
    baseline = baseline_of(healthy(ratio=None, close=None))
    assert (baseline.m_r, baseline.s_r, baseline.phi0) == (None, None, None)
    assert kinds([low(n) for n in range(3)], baseline)[-1] == "regression"
    few = [*healthy(ratio=None)[:15], *healthy()[15:]]
    assert baseline_of(few).m_r is None  # 15 controls are too few for one


def test_too_few_nights_are_refused():
    assert baseline_of(healthy(20)).nights == 20
    with pytest.raises(BaselineRefused, match=r"19 night\(s\); a baseline needs at least 20"):
        baseline_of(healthy(19))


def test_too_many_bad_nights_are_refused():
    nights = healthy(30)
    for number in range(0, 30, 5):
        nights[number] = night(number, 400)
    assert baseline_of(nights).s > 0.05
    nights[7] = night(7, 400)
    with pytest.raises(BaselineRefused, match="7 of 30 nights are below 50% of their median"):
        baseline_of(nights)


def test_a_change_inside_the_window_is_refused():
    before = healthy(18)
    nights = [*before, *([job(n, 650)] for n in range(18, 30))]
    with pytest.raises(BaselineRefused, match=r"MiB/s changes from .* to 650 .* at night 19 of 30"):
        baseline_of(nights)
    ratio = [*before, *([job(n, 1000, ratio=0.5)] for n in range(18, 30))]
    with pytest.raises(BaselineRefused, match=r"the ratio to MPI-IO changes from 0\.9 to 0\.5"):
        baseline_of(ratio)


def test_a_change_of_a_few_percent_is_none():
    values = [math.log(1000 if n < 15 else 930) for n in range(30)]
    assert change_point(values) is None
    assert change_point([value - 0.3 * (n >= 15) for n, value in enumerate(values)]) == 15


def test_gross_transients_hide_no_change():
    values = [math.log(night[0].best) - 0.4 * (n >= 20) for n, night in enumerate(healthy())]
    assert change_point(values) == 20
    values[2] = values[25] = 2  # ln MiB/s
    assert change_point(values) == 20


def test_gross_transients_are_no_change():
    nights = healthy(30)
    for number in (3, 9, 17, 26):
        nights[number] = night(number, 100)
    assert baseline_of(nights).m == pytest.approx(math.log(1000), abs=0.05)
