"""Nights as they were judged: by the words of the gate and the documents beside them.

To show one of them needs neither its past nor ReFrame's configuration. `None` says that the record
is to be read: a row was changed, or has failed in a night that is not red; a word or a document is
gone, or of another iowatch; something has come since; or the last night is so old that the site may
keep its record elsewhere by now.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.documents import Entry, filled, structured
from iowatch.base.text import one_line
from iowatch.cases.run import LOOK_BACK, began, day_of, night_id
from iowatch.night.document import (
    MOST,
    SILENT,
    CaseDocument,
    NightDocument,
    NightEntry,
    NightSummary,
    SystemEntry,
)
from iowatch.past.reframe_database import (
    CACHE,
    night_id_of,
    rows,
    rows_with_digests,
    starts,
    state_of,
    systems,
)
from iowatch.past.words import FOLDER, LASTS_S, GateRecord, Words, judged_nights, judged_rows

#: A test of a session that has failed, as ReFrame or a check says, whatever was said later.
_FAILED = re.compile(rb'"(?:result": ?"fail|state": ?"failed")')


def names(database: Path, now: datetime) -> list[str] | None:
    """The systems that have had a night within a year, if each has one with a word. UserError."""
    since = now - LOOK_BACK
    every = judged_nights(database.parent / FOLDER)
    judged = {system for system, night in every if night >= night_id(since)}
    return None if systems(database, since) - judged or not judged else sorted(judged)


def standings(
    database: Path, now: datetime, wanted: Sequence[str] | None = None
) -> list[SystemEntry] | None:
    """The last nights of these systems, or of all. UserError."""
    entries = list[SystemEntry]()
    for system in wanted or names(database, now) or [""]:
        night = _made(NightSummary, _document(system, database, now))
        if night is None:
            return None
        age = max(now - night.ended, timedelta())
        entries.append(filled(SystemEntry, night, age_s=round(age.total_seconds()), late=False))
    return entries


def nights(
    system: str, database: Path, now: datetime, since: date | None, until: date | None
) -> list[NightEntry] | None:
    """The nights of a system that began on one of these days, both included, the last first;
    None also if something else was run since the first of them. UserError."""
    words = Words(system, [database.parent])
    every = [name for name in words.nights if since is None or day_of(name) >= since]
    listed = [name for name in reversed(every) if until is None or day_of(name) <= until]
    listed = listed if since or until else listed[:MOST]
    told = [(name, word) for name in listed if (word := words.read(name)) and word.ended]
    if not listed or len(told) < len(listed) or not (until or _is_young(words, now)):
        return None
    if not all(_holds(database, words, name, word) for name, word in told):
        return None
    since_then = Words(system, [database.parent], since=listed[-1])
    if since_then.followed.keys() - {*since_then.nights} or _others(database, listed[-1], now):
        return None
    return [_entry(system, name, word) for name, word in told]


def _entry(system: str, night: str, word: GateRecord) -> NightEntry:
    return filled(
        NightEntry,
        word,
        system=system,
        id=night,
        began=began(night),
        why=one_line(word.why),
        by_hand=False,
        sessions=sorted(word.rows),
        promised=word.promised - word.skipped,
        problems=[*map(one_line, word.problems)],
    )


def document(system: str, database: Path, now: datetime, night: str = "") -> NightDocument | None:
    """The night of a system whose id begins with `night`, or the last one. UserError."""
    return _made(NightDocument, _document(system, database, now, night))


def _document(
    system: str, database: Path, now: datetime, night: str = ""
) -> Mapping[str, Any] | None:
    words = Words(system, [database.parent])
    begun = [name for name in words.nights if name.startswith(night)]
    if not begun or (len(begun) > 1 if night else not _is_young(words, now)):
        return None
    name = max(begun)
    word, last = words.read(name), began(name) + timedelta(seconds=LASTS_S)
    if word is None or not _holds(database, words, name, word):
        return None
    if any(map(_may_be_of_night, _others(database, name, last))):
        return None
    return _beside(words, name)


def _beside(words: Words, night: str) -> Mapping[str, Any] | None:
    """The document beside the word on a night, if it is of that night and has the word's colour."""
    word, kept = words.read(night), words.document(night)
    of_night: Mapping[str, Any] = (kept or {}).get("night") or {}
    told = word and (night, word.colour)
    return of_night if told == (of_night.get("id"), of_night.get("colour")) else None


def _made(kind: type[Entry], document: Mapping[str, Any] | None) -> Entry | None:
    """The record of this document, unless another iowatch has written it in another form."""
    with suppress(LookupError, TypeError, ValueError):
        return structured(kind, document) if document else None
    return None


def _is_young(words: Words, now: datetime) -> bool:
    """Has the last night with a word ended lately, and is it dated no later than now?"""
    last = words.read(max(words.nights))
    is_late = last is None or last.ended is None or now - last.ended >= SILENT
    return not is_late and max(words.nights) <= night_id(now)


def _holds(database: Path, words: Words, night: str, word: GateRecord) -> bool:
    """Are the rows of a night as its word has them, its word as it was, and red if a row failed?"""
    rows_now = dict(_rows(database, word.rows))
    if {session: row for session, (row, _) in rows_now.items()} != word.rows:
        return False
    has_failed = any(failed for _, failed in rows_now.values())
    return not any(words.damage(night, word.rows)) and not (has_failed and word.colour != "red")


def case(system: str, database: Path, now: datetime, text: str) -> CaseDocument | None:
    """The case of a system that has this id, or this name in the last night, or alone has this in
    either; with the nights that are listed. UserError."""
    words, told = Words(system, [database.parent]), nights(system, database, now, None, None) or ()
    documents = ((entry.id, _beside(words, entry.id)) for entry in told)
    kept = {night: document for night, document in documents if document}
    cases = {
        night: {entry["case"]: entry for entry in document["cases"]}
        for night, document in kept.items()
    }
    if not told or len(cases) < len(told):
        return None
    names = {name: [name] for of_night in cases.values() for name in of_night}
    for entry in cases[told[0].id].values():
        names[entry["case"]].append(entry["name"])
    exact = [name for name, texts in names.items() if text in texts]
    meant = exact or [name for name, texts in names.items() if any(text in t for t in texts)]
    if len(meant) != 1:
        return None
    of_case = {night: rows[meant[0]] for night, rows in cases.items() if meant[0] in rows}
    last = max(of_case)
    costs = [cost for cost in kept[last]["user_costs"] if cost["case"] == meant[0]]
    rows = [entry | {"night": night} for night, entry in of_case.items()]
    return _made(CaseDocument, of_case[last] | {"night": last, "user_costs": costs, "nights": rows})


def _rows(database: Path, wanted: Collection[str]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield these sessions with the digest of their rows, and whether a test of theirs has failed;
    from the cache of runs, if nobody has written to the database since it compared the row."""
    left, state = {*wanted}, state_of(database)
    cache = database.with_name(database.name + CACHE)
    if state and cache.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(cache)) as connection:
            query = (
                "SELECT row, CAST(runs AS BLOB) FROM sessions JOIN contents USING (uuid) "
                "WHERE uuid = ? AND file = ?"
            )
            for session in wanted:
                for row, runs in connection.execute(query, [session, state]).fetchall():
                    left.discard(session)
                    yield session, (row, bool(_FAILED.search(runs or b"")))
    for session, row, text in rows_with_digests(database, left):
        yield session, (row, bool(_FAILED.search(text)))


def _others(database: Path, night: str, last: datetime) -> list[bytes]:
    """The sessions that began from this night until then, and that no word has judged."""
    first, end = began(night).timestamp(), last.timestamp()
    judged = judged_rows([database], [(first, end)])
    begun = {uuid for uuid, start in starts(database).items() if first <= start <= end}
    return [text for _, text in rows(database, begun - judged.keys())]


def _may_be_of_night(session: bytes) -> bool:
    try:
        return bool(night_id_of(decoded(session)))
    except (ValueError, LookupError, TypeError, AttributeError):
        return True
