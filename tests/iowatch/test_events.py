"""Events that people put on record."""

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from iowatch import cli
from iowatch.site.declared import read_events


@pytest.fixture
def event(monkeypatch, tmp_path):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    def run(*words):
        return CliRunner().invoke(cli.app, ["event", "--system", "archer", *words])

    return run


def test_event_is_appended_with_its_time(event, tmp_path):
    done = event("firmware: 7.2", "--at", "2026-11-18T06:30", "--who", "jane")
    file = tmp_path / "events" / "archer.yaml"
    assert done.output == (f"archer, 2026-11-18 06:30 UTC: firmware: 7.2 (jane)\nwritten: {file}\n")
    assert event("a new rack").exit_code == 0
    first, second = read_events("archer", tmp_path)
    assert (first.at, first.event) == (datetime(2026, 11, 18, 6, 30, tzinfo=UTC), "firmware: 7.2")
    assert "@" in second.who
    assert abs((datetime.now(UTC) - second.at).total_seconds()) < 60


def test_mistake_is_one_line_and_writes_nothing(event, tmp_path):
    for words, message in (
        ((" ",), "the event is empty: say what has happened"),
        (("x", "--system", "nowhere"), "nowhere"),
    ):
        done = event(*words)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
        assert message in done.stderr
    assert not (tmp_path / "events").exists()
