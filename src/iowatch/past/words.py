"""The word of the gate on each night, and the rows of the results database that it holds for.

The word is kept beside the results database: nights/SYSTEM-NIGHT.json. Cases that never ran are in
no database, and files of the site change: without that word a later page would come to another
colour. A word names the rows by which its night was judged, and the word before it, by their
digests: a row, a word or a night that was changed or taken away is noticed. Beside a word is the
document of its night, nights/SYSTEM-NIGHT.document.gz, of which the word names the digest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from iowatch.base.bounded import decoded, json_of, reason_of, regular_bytes, unpacked
from iowatch.base.files import UserError, listed, make_folder, whole
from iowatch.base.records import (
    FLAG,
    INSTANT,
    TEXT,
    Record,
    Shape,
    choice,
    key,
    list_of,
    mapping_of,
    matching,
    number,
    optional,
)
from iowatch.base.text import counted
from iowatch.cases.run import began, day_of, is_night_id

FOLDER = "nights"
DOCUMENT = ".document.gz"
COLOURS = ("green", "amber", "red")  # of a night, the worst last
SEAL = "seal"  # the key that stands last
RESTORE = f"restore {FOLDER}/ and the results database from one backup"
_NIGHT = "2026-11-20T003000"  # as long as the id of each
LASTS_S = 7 * 24 * 3600  # from the begin of a night to that of its last session, at most
_COUNT = number("a whole number", 0, is_whole=True)
_TEXTS = list_of(TEXT, "a list of texts", may_be_empty=True)
_DIGEST = matching("[0-9a-f]{64}|", "a SHA-256")
_STATES = mapping_of(TEXT, Shape("a mapping", dict), "a mapping to states")
_DIGESTS = mapping_of(TEXT, _DIGEST, "a mapping to digests")


@attrs.frozen(kw_only=True)
class GateRecord(Record):
    """The word of the gate on a night."""

    time: datetime = key(INSTANT)
    colour: str = key(choice(*COLOURS))
    why: str = key(TEXT)  # the sentence that comes first
    promised: int = key(_COUNT)  # cases, by the site's file
    measured: int = key(_COUNT, default=0)
    red: int = key(_COUNT, default=0)  # that make the night red
    amber: int = key(_COUNT, default=0)  # that were not measured, for a known reason
    skipped: int = key(_COUNT, default=0)  # that need what has never been there
    ended: datetime | None = key(optional(INSTANT), default=None)  # the last run
    #: By each session that the night was judged by, the digest of its row; empty: it had none.
    rows: Mapping[str, str] = key(_DIGESTS)
    problems: Sequence[str] = key(_TEXTS, default=())  # of all sessions: a re-run takes none back
    #: Those of its sessions, which --resume takes back as it goes on with the night.
    unfinished: Sequence[str] = key(_TEXTS, default=())
    notes: Sequence[str] = key(_TEXTS, default=())  # that only who ran the night could make
    lost: Sequence[str] = key(_TEXTS, default=())  # earlier nights that this one said were lost
    #: The charts of what cases share, for iowatch.judge.stored.restored.
    groups: Mapping[str, Any] = key(_STATES, factory=dict)
    is_checked: bool = key(FLAG, default=False)  # the whole record was decoded anew then
    document: str = key(_DIGEST, default="")  # that of the night's document; empty: it has none
    before: Mapping[str, str] = key(_DIGESTS, factory=dict)  # the night before, and its seal
    was: Sequence[str] = key(_TEXTS, default=())  # its seals before its night ran again
    seal: str = key(TEXT, default="")  # digest of all else; empty: it is not on record


class Words:
    """The words on the nights of a system."""

    def __init__(
        self, system: str, folders: Sequence[Path], archived: date = date.min, since: str = ""
    ) -> None:
        """Read the words beside databases in these folders, of this night and those after it.
        Nobody misses what is `archived` until that day."""
        self._system, self._archived, self._since = system, archived, since
        self._folders = [folder / FOLDER for folder in dict.fromkeys(folders)]
        self._known = dict[str, GateRecord | None]()

    @cached_property
    def nights(self) -> list[str]:
        """The nights that have a word on record; UserError."""
        return [night for night in self._every if night >= self._since]

    @cached_property
    def _every(self) -> list[str]:
        every = (entry for folder in self._folders for entry in judged_nights(folder))
        return sorted({night for system, night in every if system == self._system})

    def read(self, night: str) -> GateRecord | None:
        """Read the word on a night; None: there is none, as of plain ReFrame.

        A word that cannot be read, or was changed, makes the night red.
        """
        if night not in self._known:
            words = (self._from(path, night) for path in self._paths(night))
            self._known[night] = next(filter(None, words), None)
        return self._known[night]

    def keep(self, night: str, judged: GateRecord, document: str = "") -> GateRecord:
        """Put the word on a night, and its document, on record, on stable storage, and return the
        word; UserError."""
        path, last = self._paths(night)[0], self.read(night)
        content = document.encode()
        judged = attrs.evolve(judged, document=_digest(content) if document else "")
        if last and last.seal:
            judged = attrs.evolve(judged, before=last.before, was=[*last.was, last.seal])
        else:
            before = max((earlier for earlier in self.nights if earlier < night), default="")
            word = self.read(before) if before else None
            judged = attrs.evolve(judged, before={before: word.seal} if word else {})
        data = json.loads(json.dumps(attrs.asdict(judged), default=str))
        data[SEAL] = self._seal(night, data)
        try:
            make_folder(path.parent)
        except OSError as err:
            raise UserError(f"{path}: cannot be written: {err.strerror}") from None
        if document:
            with whole(path.with_suffix(DOCUMENT)) as temporary:
                temporary.write_bytes(gzip.compress(content, mtime=0))
        with whole(path) as temporary:
            temporary.write_text(f"{json.dumps(data, indent=1)}\n", "utf-8")
        return attrs.evolve(judged, seal=data[SEAL])

    def document(self, night: str) -> dict[str, Any] | None:
        """The document of a night as its word names it; None: there is none such."""
        word = self.read(night)
        named = word.document if word else ""
        for path in self._paths(night) if named else ():
            with suppress(OSError, EOFError, ValueError, zlib.error):
                content = unpacked(regular_bytes(path.with_suffix(DOCUMENT)))
                if _digest(content) == named:
                    document: dict[str, Any] = decoded(content)
                    return document
        return None

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """The seals of the words that others name as the one before, by their nights."""
        words = filter(None, map(self.read, self.nights))
        seals = {night: seal for word in words for night, seal in word.before.items()}
        return {night: seal for night, seal in seals.items() if night >= self._since}

    def _seal_followed(self, night: str) -> str | None:
        """The seal of a night's word that a later one names; None: none names it."""
        later = filter(None, (self.read(other) for other in self.nights if other > night))
        return next((word.before[night] for word in later if night in word.before), None)

    @property
    def told_lost(self) -> set[str]:
        """The nights of which some night has said that they were lost."""
        words = filter(None, map(self.read, self.nights))
        return {lost for word in words for lost in word.lost}

    def last_checked(self, before: str) -> str:
        """The last night before this one that decoded the whole record; empty: none did."""
        nights = (night for night in reversed(self.nights) if night < before)
        words = ((night, self.read(night)) for night in nights)
        return next((night for night, word in words if word and word.is_checked), "")

    def damage(
        self, night: str, rows: Mapping[str, str], promised: Collection[str] = ()
    ) -> Iterator[str]:
        """Say what is on record of a night otherwise than it was, by the `rows` of its sessions and
        those among them that `iowatch run` has `promised`."""
        if not self._folders:
            return
        word, path = self.read(night), self._paths(night)[0]
        is_archived = day_of(night) <= self._archived
        if word is None:
            # Plain ReFrame gives none; whoever has left it for `iowatch run` does not go back.
            had_words = bool(self._every) and self._every[0] < night
            is_missed = promised or had_words or self._seal_followed(night) is not None
            if is_missed and not is_archived:
                yield (
                    f"{path}: is gone, or iowatch run has never written it, and nobody knows what "
                    f"was wrong with the night: {RESTORE}"
                )
            return
        if not word.seal:  # which is its problem
            return
        seal = self._seal_followed(night)
        if seal not in (None, word.seal, *word.was):
            yield f"{path}: is another one than the night after it followed: {RESTORE}"
        lost = [session for session in word.rows if session not in rows]
        if lost and not is_archived:
            were = counted(len(lost), "session", "are", total=len(word.rows))
            yield (
                f"{were} not on record any more as the night was judged by: they were taken out of "
                f"the results database, or changed there: {RESTORE}"
            )
        if new := [session for session in promised if session not in word.rows]:
            yield f"{path}: is older than {counted(len(new), 'session')} of the night: {RESTORE}"

    def _paths(self, night: str) -> list[Path]:
        return [folder / f"{self._system}-{night}.json" for folder in self._folders]

    def _seal(self, night: str, data: Mapping[str, Any]) -> str:
        content = {name: value for name, value in data.items() if name != SEAL}
        return _digest(json.dumps([self._system, night, content], sort_keys=True).encode())

    def _from(self, path: Path, night: str) -> GateRecord | None:
        try:
            data = json_of(path)
            word = GateRecord.read(str(path), data)
            if word.seal == self._seal(night, data):
                return word
            why = f"it was changed since it was written: {RESTORE}"
        except FileNotFoundError:
            return None
        except (OSError, ValueError, UserError) as err:
            why = reason_of(err).removeprefix(f"{path}: ")
        problem = f"{path}: what was said of the night cannot be believed: {why}"
        never = datetime.combine(day_of(night), datetime.min.time(), UTC)
        return GateRecord(
            time=never, colour="red", why=problem, promised=0, rows={}, problems=[problem]
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def judged_nights(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the system and the id of each night that has its word in this folder. UserError."""
    for file in listed(folder):
        system, night = file.stem[: -len(_NIGHT) - 1], file.stem[-len(_NIGHT) :]
        if file.suffix == ".json" and is_night_id(night):
            yield system, night


def judged_rows(
    databases: Sequence[Path], spans: Sequence[tuple[float, float]]
) -> Mapping[str, set[str]]:
    """The digests of the rows by which nights were judged, by session, as the words beside these
    databases have them; of the sessions that began in one of these spans of seconds since 1970.
    A word that cannot be read has none. UserError."""
    rows: dict[str, set[str]] = {}
    for folder in {database.absolute().parent / FOLDER for database in databases}:
        for path in listed(folder):
            night = path.stem[-len(_NIGHT) :]
            begin = began(night).timestamp() if is_night_id(night) else math.nan
            if not any(first - LASTS_S <= begin <= last + LASTS_S for first, last in spans):
                continue
            try:
                of_night = [*json_of(path)["rows"].items()]
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                continue
            for session, digest in of_night:
                if digest and isinstance(digest, str):
                    rows.setdefault(session, set()).add(digest)
    return rows
