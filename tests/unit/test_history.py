from datetime import date, datetime, timedelta, timezone

from typer.testing import CliRunner

from iowatch import cli
from iowatch.case import Case
from iowatch.history import Record, by_night, is_same_night

CASE = Case("local", "tmpfs", "gnu", "write", "shared", "hdf5", None, None, (64, 64, 64), 4)
LATE = datetime(2026, 1, 1, 22, tzinfo=timezone.utc)


def test_rerun_past_midnight_is_of_the_same_night():
    hours = [0, 4, 8, 24, 47, 52, 96]
    records = [Record(CASE, LATE + timedelta(hours=h), "ok", "", {}, "a1", "1") for h in hours]
    nights = by_night(reversed(records))[CASE]
    assert [len(runs) for runs in nights.values()] == [3, 1, 2, 1]
    days = [date(2026, 1, day) for day in (1, 2, 3, 5)]
    assert list(nights) == days


def test_two_nights_that_begin_on_one_day_stay_two():
    day = datetime(2026, 1, 1, tzinfo=timezone.utc)
    times = [
        day + timedelta(days=days, minutes=minutes)
        for days, minutes in [(0, 2), (0, 23 * 60 + 58), (2, 2), (2, 23 * 60 + 58), (5, 2)]
    ]
    nights = by_night(Record(CASE, time, "ok", "", {}, "a1", "1") for time in times)[CASE]
    assert {night: [run.time for run in runs] for night, runs in nights.items()} == {
        date(2026, 1, day): [time] for day, time in zip((1, 2, 3, 4, 6), times, strict=True)
    }


def test_night_of_the_future_is_not_this_one():
    night = [Record(CASE, LATE, "ok", "", {}, "a1", "1")]
    hours = [-24 * 365, -1, 0, 19.9, 20]
    same = [is_same_night(night, LATE + timedelta(hours=h)) for h in hours]
    assert same == [False, False, True, True, False]


def test_table_without_a_match_prints_nothing_but_the_error(monkeypatch):
    monkeypatch.setattr(cli, "selected", lambda db, case: [])
    done = CliRunner().invoke(cli.app, ["history", "--csv"])
    error = "iowatch: error: no valid run in the results database matches\n"
    assert (done.exit_code, done.output) == (2, error)
