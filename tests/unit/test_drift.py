"""Which runs are the past that tonight's job is judged by."""

import pytest
from unit.nights import CASE, SLOW, USUAL, at, blessed, ran

from iowatch.history import by_night
from iowatch.judge import judge_tonight

ENTRY = blessed()[CASE]
LAST = -10  # nights from tonight to the last that was blessed


def judged(*records, rate=SLOW, hours=0):
    """What is said of tonight's job, so many hours after the night began."""
    nights = by_night(records).get(CASE, {})
    return judge_tonight(nights, ENTRY, at(hours), {"total_max": rate})


def test_last_blessed_night_of_these_tests():
    assert at(24 * LAST).date() == ENTRY.last


@pytest.mark.parametrize(
    ("nights", "counts"), [(LAST - 1, False), (LAST, False), (LAST + 1, True), (-1, True)]
)
def test_only_nights_after_the_blessed_ones_add_to_the_drift(nights, counts):
    alone = judged().drift
    assert 0 < alone < 1
    assert (judged(ran(24 * nights, SLOW)).drift > alone) is counts


def test_rerun_is_judged_with_the_jobs_of_its_night():
    slow = judged(ran(0, SLOW), ran(4, None), hours=8)
    assert (slow.judgement.kind, slow.judgement.jobs) == ("suspect", 2)
    good = judged(ran(0, SLOW), hours=4, rate=USUAL)
    assert (good.judgement.kind, good.judgement.jobs) == ("ok", 2)


@pytest.mark.parametrize("hours", [1, 19, 24, 24 * 365 * 4])
@pytest.mark.parametrize("before", [(), (ran(-48, SLOW), ran(-24, SLOW))])
def test_runs_of_the_future_change_nothing(hours, before):
    """A clock that was wrong has dated them."""
    assert judged(*before, ran(hours, USUAL)) == judged(*before)
    assert judged(*before, ran(hours, SLOW), rate=USUAL) == judged(*before, rate=USUAL)
