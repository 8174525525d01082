"""What is gathered of acceptance sessions, and which of their runs count: sessions made up, with
raw results that satisfy the law."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from agreed import RULES, agreed, criterion, storage
from attrs import evolve
from cases import PLACE, case
from made_up import MadeUp

from iowatch.base.files import UserError
from iowatch.cases.filesystem import Setting
from iowatch.evidence.evidence import collect
from iowatch.evidence.gather import gather
from iowatch.evidence.terms import Exclusion
from iowatch.measure.checks import CHECKS
from iowatch.past.raw_results import names_before

CASE = case(backend="mpiio")
SETTING = Setting.make(
    CHECKS["SharedFileWrite"],
    {"backend": "mpiio", "local_size": (64, 64, 64), "nodes": 1, "ranks_per_node": 4},
)
SITE_PLACE = evolve(PLACE, suites={"acceptance": {"SharedFileWrite": (SETTING,)}, "nightly": {}})
NOW = RULES.begins + timedelta(days=20)


def at(hours):
    """So many hours after the test began."""
    return RULES.begins + timedelta(hours=hours)


class Record(MadeUp):
    """What a site has on record of its acceptance sessions."""

    def run(self, hours, **given):
        """The folder of a run of a session that began so many hours after the test; what its job
        was given besides. It is cut off until it has ended."""
        return self.begin(at(hours), CASE, suite="acceptance", **given)

    def ended(self, kept, hours):
        """The test of a run that has ended, as its session has it on record."""
        began = at(hours) + timedelta(minutes=1)
        return self.end(kept, CASE, began, suite="acceptance", promised=1)

    def session(self, uuid, hours, *tests, command="reframe -r"):
        """Put a session on record."""
        self.store(*tests, uuid=uuid, began=at(hours), cmdline=command)

    def measure(self, uuid, hours, began=None, command="reframe -r", changes=(), **given):
        """Put a session on record that has measured all there is; it may have taken up a night that
        began earlier."""
        began = hours if began is None else began
        test = self.ended(self.run(began, **given), began) | dict(changes)
        self.session(uuid, hours, test, command=command)

    def evidence(self, now=NOW, excluded=(), **rules):
        """What is gathered, and read again."""
        self.contract = agreed(
            criterion("bandwidth", filesystem="memory", at_least=1),
            system="local", confidence=0.5, rules=evolve(RULES, sessions=3, **rules),
            filesystems={"memory": storage(type="tmpfs")},
        )  # fmt: skip
        folder = self.folder / "evidence"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        given = self.folder / "contract.yaml", self.contract, None, self.site
        gather(folder, *given, [self.site.database])
        return collect(folder, self.contract, excluded, now)


@pytest.fixture
def record(tmp_path):
    (tmp_path / "contract.yaml").write_text("")
    return Record(tmp_path, SITE_PLACE)


def why_not(evidence):
    return {one.uuid: one.why_not for one in evidence.sessions}


def test_the_clock_and_the_rules_say_which_sessions_count(record):
    power = Exclusion(session="bad", by=("centre", "supplier"), why="power failed")
    for uuid, hours, test in (
        ("before", -1, {}), ("first", 0, {}), ("soon", 11.9, {}),
        ("part", 12, {"promised": 2}), ("one filesystem", 12.1, {"promised": 0}),
        ("second", 12.5, {"state": "", "result": "abort", "fail_reason": "stopped"}),
        ("bad", 25, {}), ("third", 26, {}), ("late", 60, {}),
    ):  # fmt: skip
        record.measure(uuid, hours, changes=test)
    found = record.evidence(excluded=[power])
    assert [one.uuid for one in found.sessions] == [*why_not(found)], "in the order of time"
    assert why_not(found) == {
        "before": "it began before the test, on 2026-11-01 00:00 UTC",
        "first": "",
        "soon": "it began 11.9 h after the one before that counts, and 12 h were agreed",
        "part": "it was asked for 1 of the 2 cases, and only the whole suite counts",
        "one filesystem": "it was asked for 1 cases, and only the whole suite counts",
        "second": "",  # it was stopped, perhaps by whoever saw that it was slow
        "bad": "excluded by centre and supplier: power failed",
        "third": "",
        "late": "it came after the 3 that count",
    }
    assert list(found.failed) == [("second", CASE)]
    with pytest.raises(UserError, match="no acceptance session worse is on record"):
        record.evidence(excluded=[evolve(power, session="worse")])


def test_what_is_gathered_of_the_site_is_read(record):
    record.measure("a", 0)
    record.measure("b", 1)
    assert record.evidence().failed == {}
    folder = record.folder / "evidence"
    facts = json.loads((folder / "site.json").read_text())
    (folder / "site.json").write_text(json.dumps(facts | {"filesystems": []}))
    found = collect(folder, record.contract, [], NOW)
    assert found.failed == {("a", CASE): "the site's configuration no longer has its partition"}
    (folder / "site.json").write_text("{}")
    with pytest.raises(UserError, match=r"is no evidence that this iowatch, .*, can read: KeyErr"):
        collect(folder, record.contract, [], NOW)


def test_results_are_of_their_session_and_as_it_has_them_on_record(record):
    """Not of a later one, whose results may have been put in their place; nor a little better."""

    def spoilt(change):
        kept = record.run(0)
        test = record.ended(kept, 0)
        change(kept / "result.json", test)
        record.session("a", 0, test)
        (why,) = record.evidence().failed.values() or [""]
        shutil.rmtree(kept.parent.parent)
        record.site.database.unlink()
        return why

    def written(hours):
        def change(file, test):
            data = json.loads(file.read_text())
            data["started"] = at(hours).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            file.write_text(json.dumps(data))

        return change

    def faster_by(part):
        def change(file, test):
            entry = test["perfvalues"]["local:tmpfs:stable_max"]
            entry[0] *= 1 + part

        return change

    def elsewhere(file, test):
        file.write_text(file.read_text().replace(f"{PLACE.path}/iowatch.1", "/else/iowatch.1"))

    assert "its files were in /else, and memory is at " in spoilt(elsewhere)
    for change in (written(0.2), faster_by(1e-12)):
        assert spoilt(change) == ""
    for hours in (0.3, 24):  # a session of 10 minutes, whose clocks may differ by 5
        assert "another session wrote it, at 2026-11-0" in spoilt(written(hours)), hours
    for part in (0.01, -0.01, 1e-6):
        assert "is on record: changed" in spoilt(faster_by(part)), part
    record.site = replace(record.site, filesystems=(evolve(SITE_PLACE, peak=6.0),))
    assert "6.4 MiB/s is above the peak of memory" in spoilt(written(0.1))


def test_what_was_cut_off_with_its_session_is_a_first_run_that_failed(record):
    """A session that was killed and resumed is on record; a re-run in it counts by the rules."""
    cut = record.run(0)
    again = record.run(0)
    assert again.name == f"{cut.name}+2"
    record.session("a", 1, record.ended(again, 1))
    found = record.evidence()
    assert (found.lost, found.failed, len(found.exhibits)) == ([], {}, 1)
    name = f"{cut.parent.name}/{cut.name}"
    assert found.replaced == [
        f"{CASE} of session a (its session was killed and cut off {name}) by a"
    ]
    assert (record.folder / "evidence/runs" / name / "job.json").is_file(), "it is evidence"
    never = record.evidence(reruns="none")
    assert (never.exhibits, list(never.failed)) == ([], [("a", CASE)])
    # What has ended was not cut off, and what is not even there cannot have been.
    (cut / "exit_code").write_text("0\n")
    assert record.evidence().lost == [name]
    shutil.rmtree(cut)
    found = record.evidence()
    assert (found.lost, found.replaced) == ([name], [])


def test_what_was_cut_off_twice_is_no_more_lost(record):
    """And what a power cut has left of the record of a job makes no evidence unreadable."""
    names = []
    for _ in range(2):
        kept = record.run(0)
        names.append(f"{kept.parent.name}/{kept.name}")
    last = record.run(0)
    (last / "job.json").write_text("")
    record.session("a", 1, record.ended(last, 1))
    found = record.evidence()
    assert (found.lost, len(found.exhibits)) == ([], 1)
    assert f"cut off {' and '.join(names)}) by a" in found.replaced[0]


def test_what_a_session_has_taken_up_was_measured_when_its_night_began(record):
    """So nobody moves a session away from the one before by killing and resuming it."""
    record.measure("a", 0)
    record.measure("b", 20, began=2)
    record.measure("c", 40, began=15)
    found = record.evidence()
    assert why_not(found) == {
        "a": "",
        "b": "it began 2 h after the one before that counts, and 12 h were agreed",
        "c": "",
    }
    assert (len(found.exhibits), found.failed) == (2, {})


def test_what_was_cut_off_and_never_resumed_is_lost(record):
    record.measure("a", 0)
    cut = record.run(20)
    record.measure("b", 40)
    found = record.evidence()
    assert found.lost == [f"{cut.parent.name}/{cut.name}"]
    assert found.lost_of([CASE]) == found.lost[0]


def test_a_folder_is_never_given_twice(record):
    """Not even if an earlier one was taken away."""
    first, second = record.run(0), record.run(0)
    shutil.rmtree(first)
    assert record.run(0).name == f"{first.name}+3"
    assert names_before(f"{first.name}+3") == [first.name, second.name]


def test_a_session_that_is_later_than_now_counts_for_nothing(record):
    for uuid, hours in (("a", 0), ("b", 13), ("c", 26)):
        record.measure(uuid, hours)
    assert set(why_not(record.evidence()).values()) == {""}
    found = record.evidence(now=RULES.begins + timedelta(hours=1))
    assert why_not(found)["a"] == ""
    assert why_not(found)["b"] == (
        "it began on 2026-11-01 13:00 UTC, and its evidence was gathered or judged on 2026-11-01 "
        "01:00 UTC: a clock is wrong"
    )
    # Nor later than when it was gathered, however long afterwards it is judged.
    hours = (datetime.now(UTC) - RULES.begins) / timedelta(hours=1) + 1
    record.measure("d", hours)
    assert "a clock is wrong" in why_not(record.evidence(now=NOW + timedelta(days=999)))["d"]


def test_a_clock_that_was_set_between_sessions_makes_no_hours(record):
    """By how long their login node was up, which no clock changes; of two nodes nobody knows."""
    for uuid, hours, boot, up_s in (
        ("a", 0, "x", 1000), ("b", 13, "y", 50), ("c", 26, "x", 1060), ("d", 27, "x", 98200),
    ):  # fmt: skip
        record.measure(uuid, hours, boot=boot, up_s=up_s)
    assert why_not(record.evidence()) == {
        "a": "",
        "b": "",
        "c": "it began 0.01667 h after session a by how long their node was up (its clock was "
        "set), and 12 h were agreed",
        "d": "",
    }
    assert set(why_not(record.evidence(hours_apart=0)).values()) == {
        "", "it came after the 3 that count",
    }  # fmt: skip


def test_a_re_run_replaces_what_has_failed(record):
    record.measure("a", 0, changes={"state": "failed", "sentence": "it was interrupted"})
    record.measure("b", 1)
    found = record.evidence()
    assert why_not(found)["b"].endswith("; it is a re-run of a, and replaces 1 of its runs")
    assert [(one.case, one.session) for one in found.exhibits] == [(CASE, "a")]
    assert found.replaced == [f"{CASE} of session a (it was interrupted) by b"]
    assert record.evidence(reruns="none").failed == {("a", CASE): "it was interrupted"}


def test_what_a_valid_run_has_left_may_not_be_lost(record):
    """Else whoever does not like it would have another take its place."""
    kept = record.run(0)
    record.session("a", 0, record.ended(kept, 0))
    record.measure("b", 1)
    (kept / "result.json").unlink()
    found = record.evidence()
    assert (found.exhibits, [*found.failed], found.replaced) == ([], [("a", CASE)], [])


@pytest.mark.parametrize("option", ["--disable-hook=x", "--skip-sanity-check", "--disa x"])
def test_a_session_that_leaves_out_a_part_of_the_checks_counts_for_nothing(record, option):
    """And replaces nothing, or whoever likes what it has measured would have chosen it."""
    record.measure("a", 0, changes={"state": "failed", "sentence": "x"})
    record.measure("b", 1, command=f"reframe {option} --mode=x")
    found = record.evidence()
    said = f"{option.split()[0]} in its command leaves out a part of each check"
    assert (why_not(found), found.exhibits) == ({"a": "", "b": said}, [])
    record.measure("c", 2)
    assert [one.session for one in record.evidence().exhibits] == ["a"]
