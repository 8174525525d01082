from datetime import date, datetime, timedelta, timezone

from iowatch.case import Case
from iowatch.past.history import Record, by_night

CASE = Case("local", "tmpfs", "gnu", "write", "shared", "hdf5", None, None, (64, 64, 64), 4)
LATE = datetime(2026, 1, 1, 22, tzinfo=timezone.utc)


def test_rerun_past_midnight_is_of_the_same_night():
    hours = [0, 4, 8, 24, 47, 52, 96]
    records = [Record(CASE, LATE + timedelta(hours=h), "ok", "", {}, "a1", "1") for h in hours]
    nights = by_night(reversed(records))[CASE]
    assert [len(runs) for runs in nights.values()] == [3, 1, 2, 1]
    days = [date(2026, 1, day) for day in (1, 2, 3, 5)]
    assert list(nights) == days
