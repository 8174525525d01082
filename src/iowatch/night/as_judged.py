"""Nights as they were judged: by the words of the gate and the documents beside them.

To show one of them needs neither its past nor ReFrame's configuration. `None` says that the record
is to be read: a row was changed, something has come since, or there is no word or document.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.documents import filled, structured
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
    digests,
    night_id_of,
    rows,
    starts,
    state_of,
    systems,
)
from iowatch.past.words import FOLDER, LASTS_S, GateRecord, Words, judged_nights, judged_rows


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
        kept = _document(system, database, now)
        night = structured(NightSummary, kept) if kept else None
        age = max(now - night.ended, timedelta()) if night else SILENT
        if night is None or age >= SILENT:  # or the site keeps its record elsewhere by now
            return None
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
    if not listed or len(told) < len(listed) or max(words.nights) > night_id(now):
        return None
    of_words = {session: row for _, word in told for session, row in word.rows.items()}
    if _digests(database, of_words) != of_words or _others(database, listed[-1], now):
        return None
    if any(any(words.damage(name, word.rows)) for name, word in told):
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
    kept = _document(system, database, now, night)
    return structured(NightDocument, kept) if kept else None


def _document(
    system: str, database: Path, now: datetime, night: str = ""
) -> Mapping[str, Any] | None:
    words = Words(system, [database.parent])
    begun = [name for name in words.nights if name.startswith(night)]
    if not begun or max(words.nights) > night_id(now) or (night and len(begun) > 1):
        return None
    name = max(begun)
    word = words.read(name)
    if word is None or not word.document:
        return None
    of_word = _digests(database, word.rows)
    last = began(name) + timedelta(seconds=LASTS_S)
    is_whole = of_word == word.rows and not any(words.damage(name, of_word))
    kept = words.document(name) if is_whole else None
    if kept is None or any(map(_may_be_of_night, _others(database, name, last))):
        return None
    of_night: Mapping[str, Any] = kept["night"]
    return of_night


def case(system: str, database: Path, now: datetime, text: str) -> CaseDocument | None:
    """The case of a system that has this id, or this name in the last night, or alone has this in
    either; with the nights that are listed. UserError."""
    words, told = Words(system, [database.parent]), nights(system, database, now, None, None) or ()
    documents = ((entry.id, words.document(entry.id)) for entry in told)
    kept = {night: document["night"] for night, document in documents if document}
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
    return structured(
        CaseDocument, of_case[last] | {"night": last, "user_costs": costs, "nights": rows}
    )


def _digests(database: Path, wanted: Collection[str]) -> dict[str, str]:
    """The digests of the rows of these sessions, as the cache of runs has them, if nobody has
    written to the database since it compared them."""
    kept, state = dict[str, str](), state_of(database)
    cache = database.with_name(database.name + CACHE)
    if state and cache.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(cache)) as connection:
            query = "SELECT uuid, row FROM sessions WHERE file = ?"
            kept = {uuid: row for uuid, row in connection.execute(query, [state]) if uuid in wanted}
    return kept | digests(database, {*wanted} - kept.keys())


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
