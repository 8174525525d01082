"""A record that somebody has edited, or restored in part, is never greener than what it lost."""

import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cases import changed
from clock import NOW
from reported import HDF5, MPIIO, forget, of_night, reported, session, store
from rich.console import Console
from typer.testing import CliRunner

from iowatch.base import documents
from iowatch.cases.run import day_of, night_id
from iowatch.cli import app
from iowatch.night import as_judged
from iowatch.night.document import NightEntry
from iowatch.night.night import night_entry
from iowatch.night.on_record import night_on_record, nights, standing
from iowatch.night.record import SystemRecord
from iowatch.pages import tables
from iowatch.past import history, reframe_database, run_cache, words
from iowatch.past.words import GateRecord

BROKEN = {"result": "fail", "verdict": "failed (corrupt)", "sentence": "wrong data"}
#: Nights ago, from the first: well, with wrong data, with a problem of the whole night, well twice.
WELL, CORRUPT, KILLED, BEFORE, LAST = (night_id(NOW - timedelta(days=n)) for n in (5, 4, 3, 2, 1))
EVERY = (WELL, CORRUPT, KILLED, BEFORE, LAST)
COLOURS = dict.fromkeys(EVERY, "green") | dict.fromkeys((CORRUPT, KILLED), "red")


def began(night):
    return datetime.fromisoformat(night).replace(tzinfo=UTC)


def loaded(database):
    return SystemRecord.load("local", [database])


def judge(database, night, *problems, system="local"):
    """Put the word on a night, and its document, on record, as `iowatch run` does."""
    record = SystemRecord.load(system, [database])
    shown = night_on_record(record, night)
    colour = "red" if problems or shown.red else "green"
    counts = {"measured": shown.measured, "red": len(shown.red), "amber": len(shown.amber)}
    told = {"time": NOW, "promised": 2, "rows": record.rows(night), "problems": problems}
    word = GateRecord(colour=colour, why="as told", ended=shown.ended, **counts, **told)
    shown = replace(shown, judged=word, problems=problems, is_gated=True)
    record.words.keep(night, word, documents.document(night=shown.document))


def measure(database, night, **changes):
    """Store the session of a night that `iowatch run` has begun."""
    tests = [reported(of, began(night), 687.0, **changes) for of in (HDF5, MPIIO)]
    store(database, of_night(began(night), *tests, promise="2-5e"))


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "values"))
    database = tmp_path / "prefix" / "results.db"
    for night in EVERY:
        measure(database, night, **(BROKEN if night == CORRUPT else {}))
        judge(database, night, *(["reframe was killed"] if night == KILLED else []))
    return database


def colours(database):
    return {night.id: night.colour for night in nights(loaded(database))}


def test_a_word_of_more_than_a_year_ago_costs_nothing(database, monkeypatch):
    """Though its folder has those of all years."""
    last, old = (words.Words("local", [database.parent])._paths(night)[0]
                 for night in (LAST, night_id(NOW - timedelta(days=800))))  # fmt: skip
    shutil.copy(last, old)
    given, read = [], words.json_of
    monkeypatch.setattr(words, "json_of", lambda path: given.append(path) or read(path))
    assert colours(database) == COLOURS
    assert last in given
    assert old not in given


def sql(file, statement, *values):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, values)


def edit(database, night, old, new):
    """Change the row of a night's session."""
    sql(
        database, "UPDATE sessions SET json_blob = replace(json_blob, ?, ?) WHERE uuid = ?",
        old, new, night,
    )  # fmt: skip


def word_of(database, night):
    return database.parent / words.FOLDER / f"local-{night}.json"


def edit_word(database, night, sealed=False, **changes):
    file = word_of(database, night)
    data = json.loads(file.read_text()) | changes
    if sealed:
        data["seal"] = words.Words("local", [database.parent])._seal(night, data)
    file.write_text(json.dumps(data))


def made_well(database, night, **how):
    edit_word(database, night, colour="green", problems=[], **how)


def faster(database):
    edit(database, LAST, "687.0", "6870.0")


def mended(database):
    edit(database, CORRUPT, '"corrupt"', '""')
    edit(database, CORRUPT, '"failed"', '"ok"')
    edit(database, CORRUPT, '"fail"', '"pass"')


def slower_before(database):
    """So that a slow night looks as usual."""
    edit(database, BEFORE, "687.0", "68.7")


def row_and_word_gone(database):
    forget(database, CORRUPT)
    word_of(database, CORRUPT).unlink()


def failed_and_green(database):
    forget(database, LAST)
    measure(database, LAST, **BROKEN)
    made_well(database, LAST, sealed=True, rows=digests(database))


def digests(database):
    """Of the rows, whatever the words say."""
    folder = database.parent / words.FOLDER
    aside = folder.rename(folder.with_name("aside"))
    try:
        return loaded(database).rows(LAST)
    finally:
        aside.rename(folder)


def copied_word(database):
    shutil.copy(word_of(database, WELL), word_of(database, KILLED))


def began_long_ago(database):
    sql(database, "UPDATE sessions SET session_start_unix = 0 WHERE uuid = ?", CORRUPT)


def words_of_long_ago(database):
    for night in (KILLED, BEFORE, LAST):
        word_of(database, night).unlink()


def rows_of_long_ago(database):
    forget(database, KILLED, BEFORE, LAST)


def word_of_before_its_rerun(database):
    file = word_of(database, LAST)
    before = file.read_text()
    tests = [reported(HDF5, began(LAST) + timedelta(hours=5))]
    store(database, session(*tests, uuid="again", began=NOW, night=LAST, promise="2-5e"))
    judge(database, LAST, "reframe was killed again")
    file.write_text(before)


def never_promised(database):
    edit(database, LAST, '"promise"', '"nothing"')
    word_of(database, LAST).unlink()


def database_of_another(database):
    database.unlink()
    measure(database, LAST, sentence="of another site")


#: What is done to the record, and the nights that are red then besides those that were.
LIES = {
    "a rate of the last night": (faster, {LAST}),
    "a rate of the night before": (slower_before, {BEFORE}),
    "wrong data are made right": (mended, ()),
    "a row is gone": (lambda db: forget(db, WELL), {WELL}),
    "a row and its word are gone": (row_and_word_gone, ()),
    "the begin of a session": (began_long_ago, ()),
    "a word is gone": (lambda db: word_of(db, KILLED).unlink(), ()),
    "the last word is gone": (lambda db: word_of(db, LAST).unlink(), {LAST}),
    "all words are gone": (lambda db: shutil.rmtree(db.parent / words.FOLDER), EVERY),
    "a word is edited": (lambda db: made_well(db, KILLED), ()),
    "a word is edited and sealed": (lambda db: made_well(db, KILLED, sealed=True), ()),
    "a word of wrong data, too": (lambda db: made_well(db, CORRUPT, sealed=True), ()),
    "a word of the last night over what failed": (failed_and_green, {LAST}),
    "a word of another night": (copied_word, ()),
    "words of an older backup": (words_of_long_ago, {BEFORE, LAST}),
    "rows of an older backup": (rows_of_long_ago, {BEFORE, LAST}),
    "a word of before its re-run": (word_of_before_its_rerun, {LAST}),
    "no promise and no word": (never_promised, {LAST}),
    "another database": (database_of_another, EVERY),
}


@pytest.mark.parametrize("lie", LIES)
def test_lost_or_edited(database, lie, tmp_path):
    """With a cache of before, and without one."""
    assert colours(database) == COLOURS
    spoil, more = LIES[lie]
    spoil(database)
    expected = COLOURS | dict.fromkeys(more, "red")
    assert (listed := as_judged.nights("local", database, NOW, None, None)) is None or {
        entry.id: entry.colour for entry in listed
    } == expected
    assert (last := document(database)) is None or last.colour == expected[LAST]
    assert colours(database) == expected
    database.with_name("results.db.runs").unlink()
    assert colours(database) == expected
    for night in expected:
        shown = night_on_record(loaded(database), night)
        assert shown.colour == expected[night], night
        if night in more:
            assert any("restore" in problem or "failed" in problem for problem in shown.problems), (
                shown.problems
            )


def yesterday(database):
    """Both from one backup."""
    forget(database, LAST)
    word_of(database, LAST).unlink()


def moved(database):
    return database.parent.rename(database.parent.with_name("new")) / database.name


def by_cron(database, time=NOW):
    """Plain ReFrame has no word."""
    tests = [reported(of, time, promised=2) for of in (HDF5, MPIIO)]
    store(database, session(*tests, uuid="cron", began=time))


def by_cron_before(database):
    """As long as there was no `iowatch run`."""
    by_cron(database, NOW - timedelta(days=6))


def by_hand(database):
    store(database, session(reported(HDF5, NOW), uuid="hand", began=NOW))


def again(database):
    tests = [reported(HDF5, began(LAST) + timedelta(hours=5))]
    store(database, session(*tests, uuid="again", began=NOW, night=LAST, promise="2-5e"))
    judge(database, LAST)


def again_before(database):
    """An acceptance test of some nights ago, say, runs again after nightly ones."""
    tests = [reported(HDF5, began(BEFORE) + timedelta(hours=5))]
    store(database, session(*tests, uuid="again", began=NOW, night=BEFORE, promise="2-5e"))
    judge(database, BEFORE)


def of_two_systems(database):
    other = changed(HDF5, place="other:tmpfs/gnu")
    store(database, of_night(NOW, reported(other, NOW), uuid="other", promise="1-5e"))
    judge(database, night_id(NOW), system="other")


QUIET = {
    "nothing": lambda db: None,
    "VACUUM": lambda db: sql(db, "VACUUM"),
    "one backup of yesterday": yesterday,
    "a move": moved,
    "plain ReFrame before iowatch run": by_cron_before,
    "a hand run": by_hand,
    "a re-run": again,
    "a re-run of a night before": again_before,
    "two systems": of_two_systems,
    "no cache": lambda db: db.with_name("results.db.runs").unlink(),
}


@pytest.mark.parametrize("work", QUIET)
def test_what_a_site_may_do_is_quiet(database, work):
    database = QUIET[work](database) or database
    shown = colours(database)
    assert {night: shown[night] for night in COLOURS if night in shown} == {
        night: colour for night, colour in COLOURS.items() if night in shown
    }
    assert set(COLOURS) - set(shown) == ({LAST} if work == "one backup of yesterday" else set())
    assert night_on_record(loaded(database)).colour == "green"
    assert loaded(database).notes == []


def test_archived_nights_are_not_missed(database):
    forget(database, WELL, KILLED)
    word_of(database, KILLED).unlink()
    record = replace(loaded(database), archived={"tmpfs": day_of(KILLED)})
    assert record.damaged() == {}
    record = replace(loaded(database), archived={"tmpfs": day_of(CORRUPT)})
    assert [*record.damaged()] == [KILLED]


def test_rows_are_compared_again_only_if_the_database_has_changed(database, monkeypatch):
    """Whatever its size is, and the time that somebody gave it."""
    monkeypatch.setattr(reframe_database, "SETTLED_S", -1e9)  # the clock of files is the real one
    history.read([database])
    with monkeypatch.context() as patch:
        patch.setattr(history, "row_digest", lambda *_: pytest.fail("a row is read"))
        assert len(history.read([database])) == 2 * len(EVERY)
    before = database.stat()
    edit(database, LAST, "687.0", "678.0")
    os.utime(database, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert database.stat().st_size == before.st_size
    assert rates(history.read([database])) == {687.0}, "of the others"


def test_row_of_plain_reframe_that_was_changed_is_told_once(database):
    """It has no word, and only the cache knows it."""
    by_cron_before(database)
    history.read([database])
    edit(database, "cron", '"fine"', '"good"')
    told = []
    for _ in range(2):
        notes = []
        history.read([database], notes=notes)
        told.append(notes)
    changed = "1 session was changed since the last reading: restore it from a backup"
    assert told == [[f"{database}: {changed}"], []]


def test_what_was_changed_has_no_figure(database):
    faster(database)
    notes = []
    runs = history.read([database], notes=notes)
    assert {run.night for run in runs} == {*EVERY} - {LAST}
    assert notes[1:] == [
        f"{database}: 1 session was changed after the night was judged, which counts for nothing "
        f"now ({LAST}): restore it from a backup"
    ]


def scaled(cache):
    """The rates of a cache times ten, and the digests that stand beside them as they were."""
    sql(cache, "UPDATE contents SET runs = replace(runs, '687.0', '6870.0')")


def forged(cache):
    """Likewise, with digests to match."""
    scaled(cache)
    with closing(sqlite3.connect(cache)) as connection, connection:
        rows = connection.execute(
            "SELECT uuid, row, CAST(runs AS BLOB) FROM sessions JOIN contents USING (uuid)"
        )
        for uuid, row, runs in rows.fetchall():
            values = run_cache._digest(uuid, row, runs), uuid
            connection.execute("UPDATE sessions SET content = ? WHERE uuid = ?", values)


def rates(runs):
    return {run.metrics["total_max"] for run in runs}


def test_cache_that_was_edited_is_not_believed(database):
    cache = database.with_name("results.db.runs")
    scaled(cache)
    notes = []
    assert rates(history.read([database], notes=notes)) == {687.0}
    assert [note for note in notes if "is damaged" in note and "made anew" in note]
    assert rates(history.read([database])) == {687.0}


def test_cache_that_was_forged_is_told_with_the_night_and_by_a_check(database):
    cache = database.with_name("results.db.runs")
    history.read([database])
    forged(cache)
    assert rates(history.read([database])) == {6870.0}, "the test forges what is read"
    shown = night_on_record(loaded(database))
    assert (shown.colour, shown.problems[0].split(": ")[0]) == ("red", str(cache))
    assert night_on_record(loaded(database)).colour == "green", "it was mended then"
    done = CliRunner().invoke(app, ["nights", "--check", "--db", str(database)])
    assert (done.exit_code, "4 sessions were not as in" in done.stdout) == (1, True), done.output
    assert rates(history.read([database])) == {687.0}
    done = CliRunner().invoke(app, ["nights", "--check", "--db", str(database)])
    assert (done.exit_code, done.stdout) == (0, "local: 5 nights checked, 0 faults\n")


def test_check_names_every_night_that_is_not_as_it_was(database):
    mended(database)
    word_of(database, WELL).unlink()
    shutil.copy(word_of(database, BEFORE), word_of(database, LAST))
    done = CliRunner().invoke(app, ["nights", "--check", "--db", str(database)])
    assert done.exit_code == 1
    for night in (CORRUPT, WELL, LAST):
        assert f"local: night {night}: " in done.stdout


def test_pages_are_bound_to_what_is_on_record(database, tmp_path):
    folder = tmp_path / "www"
    page = folder / f"local-{BEFORE}.html"

    def made():
        done = CliRunner().invoke(app, ["pages", str(folder), "--db", str(database)])
        assert done.exit_code == 0, done.output
        return page.stat().st_mtime_ns

    first = made()
    assert made() == first
    slower_before(database)
    assert made() != first
    assert "restore" in page.read_text()


# Shown as they were judged


def document(database, night=""):
    return as_judged.document("local", database, NOW, night)


def test_night_is_shown_as_it_was_judged(database):
    assert document(database).id == LAST
    assert document(database, CORRUPT).cases[0].sentence == "wrong data"
    assert document(database, WELL[:10]).id == WELL
    texts = io.StringIO(), io.StringIO()
    of_record = night_on_record(loaded(database)).document
    for text, night in zip(texts, (document(database), of_record), strict=True):
        tables.show_night(night, Console(file=text, width=100))
    assert texts[0].getvalue() == texts[1].getvalue()
    kept, of_record = (
        as_judged.standings(database, NOW),
        [standing(replace(loaded(database), now=NOW))],
    )
    assert documents.document(systems=kept) == documents.document(systems=of_record)
    assert as_judged.nights("local", database, NOW, None, None) == [
        night_entry(NightEntry, night) for night in nights(loaded(database))
    ]
    by_hand(database)
    assert document(database).id == LAST
    assert as_judged.nights("local", database, NOW, None, None) is None, "it is listed, too"


def without_document(database):
    word_of(database, LAST).with_suffix(words.DOCUMENT).unlink()


def another_document(database):
    without_document(database)
    older = word_of(database, BEFORE).with_suffix(words.DOCUMENT)
    older.rename(word_of(database, LAST).with_suffix(words.DOCUMENT))


def cut_document(database):
    file = word_of(database, LAST).with_suffix(words.DOCUMENT)
    file.write_bytes(file.read_bytes()[:-9])


def sealed_document(database):
    """Of a night that was well, and the word names it."""
    another_document(database)
    content = gzip.decompress(word_of(database, LAST).with_suffix(words.DOCUMENT).read_bytes())
    edit_word(database, LAST, sealed=True, document=hashlib.sha256(content).hexdigest())


def edited_word(database):
    edit_word(database, LAST, why="as nobody told")


def by_cron_since(database):
    by_cron(database, NOW - timedelta(hours=2))


def again_unjudged(database):
    tests = [reported(HDF5, NOW)]
    store(database, session(*tests, uuid="again", began=NOW, night=LAST, promise="2-5e"))


def undecoded(database):
    by_hand(database)
    sql(database, "UPDATE sessions SET json_blob = 'no JSON' WHERE session_start_unix = "
        "(SELECT max(session_start_unix) FROM sessions)")  # fmt: skip


@pytest.mark.parametrize(
    "work",
    [faster, edited_word, without_document, another_document, sealed_document, cut_document,
     by_cron_since, again_unjudged, undecoded],
    ids=lambda work: work.__name__,
)  # fmt: skip
def test_what_came_since_is_read_from_the_record(database, work):
    work(database)
    assert document(database) is None
    assert as_judged.standings(database, NOW) is None


def of_another_iowatch(database):
    """Before a member of the document was known."""
    file = word_of(database, LAST).with_suffix(words.DOCUMENT)
    shown = json.loads(gzip.decompress(file.read_bytes()))
    del shown["night"]["measured"]
    content = json.dumps(shown).encode()
    file.write_bytes(gzip.compress(content))
    edit_word(database, LAST, sealed=True, document=hashlib.sha256(content).hexdigest())


def test_document_of_another_iowatch_is_read_from_the_record(database):
    of_another_iowatch(database)
    assert document(database) is as_judged.standings(database, NOW) is None


def test_what_is_old_may_be_gone_on_with_elsewhere(database):
    """A site may have moved its database; a night that is named is that night."""
    later = NOW + timedelta(days=2)
    assert as_judged.document("local", database, later) is None
    assert as_judged.nights("local", database, later, None, None) is None
    assert as_judged.document("local", database, later, LAST).id == LAST


def test_systems_that_have_no_word_are_read_from_the_record(database):
    another = changed(HDF5, place="other:tmpfs/gnu")
    store(database, session(reported(another, NOW), uuid="other", began=NOW - timedelta(days=90)))
    assert as_judged.standings(database, NOW) is None


def test_night_of_a_wrong_clock_is_read_from_the_record(database):
    night = night_id(NOW + timedelta(days=1))
    measure(database, night)
    judge(database, night)
    assert document(database) is None
