"""Nights as they were judged: the documents beside the words of the gate, as long as they hold.

To show one of them, neither the past nor ReFrame's configuration is read. A night whose rows were
changed, to which something has come since, or that has no word, is to be judged from the record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.cases.run import LOOK_BACK, began, night_id
from iowatch.past.reframe_database import (
    CACHE,
    digests,
    night_id_of,
    rows,
    starts,
    state_of,
    systems,
)
from iowatch.past.words import FOLDER, LASTS_S, Words, judged_nights, judged_rows


def documents(database: Path, now: datetime) -> list[dict[str, Any]] | None:
    """The document of the last night of each system that has had a night within a year; None: the
    record is to be read. UserError."""
    since = night_id(now - LOOK_BACK)
    every = judged_nights(database.parent / FOLDER)
    names = sorted({system for system, night in every if night >= since})
    if not names or systems(database, now - LOOK_BACK) - {*names}:
        return None
    last = [document(name, database, now) for name in names]
    return None if None in last else [entry for entry in last if entry]


def document(system: str, database: Path, now: datetime, night: str = "") -> dict[str, Any] | None:
    """The document of the night of a system whose id begins with `night`, or of the last one; None:
    the record is to be read. UserError."""
    words = Words(system, [database.parent])
    nights = [name for name in words.nights if name.startswith(night)]
    if not nights or max(words.nights) > night_id(now) or (night and len(nights) > 1):
        return None
    name = max(nights)
    word = words.read(name)
    if word is None or not word.document:
        return None
    of_word = _digests(database, word.rows)
    if of_word != word.rows or any(words.damage(name, of_word)) or _is_more(database, name):
        return None
    return words.document(name)


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


def _is_more(database: Path, night: str) -> bool:
    """Has a session that began with this night, or in the days after it, no word, and may it be
    one of a night?"""
    first = began(night).timestamp()
    last = first + LASTS_S
    judged = judged_rows([database], [(first, last)])
    begun = {uuid for uuid, start in starts(database).items() if first <= start <= last}
    for _, text in rows(database, begun - judged.keys()):
        try:
            if night_id_of(decoded(text)):
                return True
        except (ValueError, LookupError, TypeError, AttributeError):
            return True
    return False
