"""What a page says first: the headline of a night, its baselines, and what is new."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from cases import case, changed
from nights import (
    BLESSED,
    HDF5,
    MPIIO,
    NIGHT,
    at,
    eventful,
    over_osts,
    ran,
    recorded,
    red,
    slow,
    tonight,
    unmeasured,
    unverified,
    well,
)
from shown import html

from iowatch.cases.verdict import Reason
from iowatch.night.headline import next_step
from iowatch.night.on_record import night_on_record
from iowatch.night.record import SystemRecord
from iowatch.night.summary import acknowledged, baselines, marks, matrix, since_last_night
from iowatch.pages.report import as_html, sections
from iowatch.site.declared import Event, ExpectedFailure, Maintenance

FS2 = changed(HDF5, place="archer:fs2/cray")
ENTRY = ExpectedFailure(
    case=re.compile("archer:fs3/.*"), until=NIGHT, why="a bug", owner="jane", when=NIGHT
)


def in_words(night):
    top = night.summary.headline
    step = f"next: {top.next_step} ({top.reason})" if top.next_step or top.reason else "next: -"
    return f"{top.banner}\n{top.sentence}\n{step}"


def test_headline_says_where_what_how_much_since_when_and_which_layer(golden):
    finishing = {"finish": 0.7, "rate": 2400.0, "control": 7700.0}
    lasting = [*well(), *(red(ago=ago, **finishing) for ago in (2, 1)), red(**finishing)]
    together = {"rate": 3000.0, "control": 3000.0}
    newer = {"hdf5": "1.14.5", "hosts": "n1 n2"}
    nights = {
        "a library": tonight(*lasting, *well(MPIIO), ran(MPIIO), blessed={HDF5: BLESSED}),
        "its version changed": tonight(*well(), red(provenance=newer, **finishing)),
        "with MPI-IO": tonight(*well(), red(**together), *well(MPIIO), red(MPIIO, rate=3000.0)),
        "two filesystems": tonight(*well(), *well(FS2), unverified(), unverified(FS2, folder="/k")),
        "an OST": over_osts(9, lambda ost, op, ago: 0.6 if ost == 2 and ago < 9 else 1.0),
        "queued": tonight(*well()[:-1], unmeasured(ago=1), unmeasured(verdict="unjudged (queued)")),
        "suspect": tonight(*well(), slow(), blessed={HDF5: BLESSED}, now=at(5), again="x"),
        "a problem": tonight(*well(), ran(), problems=["no disk"]),
        "expected": tonight(*well(), red(result="xfail", **together), expected=[ENTRY]),
        "green": tonight(*well(), ran(), blessed={HDF5: BLESSED}),
        "on record": recorded(*well(), ran(), blessed={HDF5: BLESSED}),
        "no past": tonight(ran(verdict="unjudged (no_reference)", result="fail")),
        "something of everything": eventful(),
    }
    lines = (f"# {title}\n{in_words(night)}\n" for title, night in nights.items())
    golden("headlines.txt", "\n".join(lines))


def test_what_is_worst_comes_first():
    """Wrong data before an alarm, and a problem of the night before a suspect case."""
    night = over_osts(9, lambda ost, op, ago: 0.6 if ost == 2 and ago < 9 else 1.0)
    assert "OST" in night.summary.headline.banner
    wrong = tonight(*well(FS2), unverified(FS2, verdict="failed (corrupt)"))
    top = replace(night, cases=[*night.cases, *wrong.cases]).summary.headline
    assert (top.where, top.reason) == ("fs2", Reason.CORRUPT)
    night = tonight(*well(), slow(), blessed={HDF5: BLESSED}, problems=["no disk"])
    assert (night.summary.headline.banner, night.summary.headline.sentence) == (
        "Red · 1 problem with the night as a whole",
        "no disk",
    )


def test_every_red_case_has_a_next_step_that_is_a_command():
    versions = {"hdf5": "1.14.5", "hosts": "n1 n2"}
    for run, start in (
        (red(rate=3000.0), f"iowatch ack {HDF5} --until {NIGHT + timedelta(days=14)} --why "),
        (red(rate=3000.0, provenance=versions), f"iowatch blame {HDF5}"),
        (unverified(folder="/kept/run 1"), "ls -l '/kept/run 1'"),
        (red(verdict="unjudged (no_reference)"), "iowatch run --system archer --record"),
    ):
        night = tonight(*well(), run)
        assert next_step(night, night.cases[0]).startswith(start)


def test_baselines_say_how_many_nights_are_missing():
    night = tonight(*well(), ran(), *well(MPIIO, 30), ran(MPIIO), ran(FS2), blessed={HDF5: BLESSED})
    assert baselines(night) == (
        "1 of 3 cases blessed, last on 11 Nov 2026; 1 without a baseline: 1 of 20 nights; "
        "1 with the nights for one: iowatch bless --system archer"
    )
    assert baselines(tonight(ran(case("LibraryVersions", "archer:fs3/cray"), metrics={}))) == ""
    words = acknowledged(tonight(*well(), ran(), ran(FS2), expected=[ENTRY]))
    assert words == [f"{ENTRY} (1 case)"]


def test_what_is_new_since_the_night_before():
    still, new, gone, away, fine = (changed(HDF5, ranks=number) for number in range(1, 6))
    skipped = changed(HDF5, ranks=9)
    night = tonight(
        *(ran(of, 2) for of in (still, new, gone, away, fine, skipped)),
        *(red(of, 1) for of in (still, gone)),
        *(ran(of, 1) for of in (new, away, fine, skipped)),
        *(red(of) for of in (still, new)),
        *(ran(of) for of in (gone, fine)),
        unmeasured(away),
        ran(skipped, verdict="skipped (not_installed)", metrics={}, sentence="no IOR"),
    )
    since = since_last_night(night)
    assert {kind: {*cases} for kind, cases in since.cases.items()} == {
        "New red": {new}, "Still red": {still}, "Resolved": {gone}, "Newly not measured": {away},
    }  # fmt: skip
    assert [(entry.case, entry.why) for entry in since.skipped] == [(skipped, "no IOR")]
    assert since_last_night(tonight(ran())).last == ""
    assert "Since the night before" not in html(tonight(ran()))


def test_matrix_has_the_worst_case_of_each_check_and_library():
    small = changed(HDF5, ranks=2)
    night = tonight(*well(), ran(), *well(small), red(small, rate=3850.0), ran(MPIIO), ran(FS2))
    first, second = matrix(night)
    assert (first.filesystem, second.filesystem) == ("fs2", "fs3")
    assert second.columns == {"mpiio": "MPI-IO", "hdf5": "HDF5"}
    mpiio, hdf5 = second.checks["write shared"]
    assert (mpiio.sign, hdf5.sign, hdf5.worst) == ("", "-50 %", small)
    assert hdf5.words.endswith("regression (own_past), 50% below what is expected, and 1 more case")


def test_events_are_marked_where_they_happened():
    newer = {"hdf5": "1.14.5", "hosts": "n1 n2"}
    begins = datetime(2026, 11, 14, 8, tzinfo=UTC)
    record = SystemRecord(
        system="archer",
        runs=[*well(nights=15), ran(provenance=newer)],
        now=at(24),
        blessed={HDF5: evolve(BLESSED, why="quiet")},
        expected=[evolve(ENTRY, when=NIGHT - timedelta(days=2))],
        events=[
            Event(at=at(ago=5), event="firmware 7.2", who="jane"),
            Event(at=at(ago=400), event="long ago", who="jane"),
        ],
        maintenance=[
            Maintenance(begins=begins, ends=at(), filesystems=(name,), why=f"work on {name}")
            for name in ("fs3", "fs9")
        ],
    )
    night = night_on_record(record)
    assert [mark.sentence for mark in marks(night, night.cases[0])] == [
        "11 Nov: blessed by ops: quiet",
        "14 Nov: maintenance: work on fs3",
        "15 Nov: firmware 7.2 (jane)",
        "18 Nov: acknowledged, expected until 2026-11-20, jane: a bug",
        "20 Nov: hdf5 1.10.8 → 1.14.5",
    ]
    page = html(night)
    letters = re.findall(r'<g class="event">.*?>(\w)</text></g>', page)
    assert letters == [*"abcde"]
    assert "b 14 Nov: maintenance: work on fs3" in page


def test_runbook_of_each_reason_is_on_the_page():
    assert sections().keys() == {*map(str, Reason)}
    text = "See [the *docs*](a.md#b), `a<b` and\n**more**.\n\nAgain."
    assert as_html(text) == (
        "<p>See the *docs*, <code>a&lt;b</code> and <strong>more</strong>.</p>\n<p>Again.</p>"
    )
    page = html(tonight(*well(), red(rate=3000.0)))
    assert 'href="#runbook-own_past"' in page
    assert re.findall('<h3 id="runbook-([a-z_]+)"', page) == ["own_past"]
    assert "runbook-" not in html(tonight(*well(), ran()))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_pages_lead_to_their_neighbours_and_to_json(tmp_path, place):
    """In whichever order they are written."""
    from iowatch.pages.report import LATEST, write_page

    ids = [f"{NIGHT - timedelta(days=ago)}T003000" for ago in (2, 1, 0)]
    order = [*ids[place:], *ids[:place]]
    night = tonight(ran())
    paths = {name: write_page(replace(night, id=name), tmp_path) for name in order}
    for number, name in enumerate(ids):
        (nav,) = re.findall(r"<nav .*?</nav>", paths[name].read_text())
        near = ids[max(number - 1, 0) : number] + ids[number + 1 : number + 2]
        wanted = [paths[other].name for other in near] + [f"{paths[name].stem}.json"]
        assert re.findall('href="([^"]+)"', nav) == wanted
        assert (tmp_path / wanted[-1]).is_file()
    assert f'url={paths[ids[2]].name}"' in (tmp_path / LATEST).read_text()
