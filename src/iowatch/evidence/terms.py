"""The terms of a contract: rules of what counts, filesystems, and what both parties exclude."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import attrs

from iowatch.base.records import NAME, TEXT, Record, Shape, choice, key, list_of, number

COMMITTED = "The committed value, in the unit of the kind."

#: Bounds and peaks: no measured value is near a number outside of this range.
POSITIVE = number("a positive number from 1e-12 to 1e12", 1e-12, 1e12)

FAILED, NEVER = "failed", "none"  # the runs that a re-run replaces
_PARTIES = list_of(NAME, "a list of names such as [centre, supplier]")


def _moment(value: Any) -> datetime:
    """Take a day, or a time, in UTC unless the time has a zone."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ValueError
    if ".." in value.split("/"):
        raise ValueError
    return value


def _system(value: Any) -> str:
    if ":" in NAME.convert(value):
        raise ValueError
    return str(value)


def _filled(kind: type) -> Any:
    """Refuse a value of another type, or an empty one."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or not value:
            raise ValueError
        return value

    return convert


@attrs.frozen(kw_only=True)
class Rules(Record):
    """The rules of what counts, agreed before anything is measured."""

    begins: datetime = key(
        Shape("a day such as 2026-11-22, or a time, in UTC", _moment),
        "When the test begins: a session that began before is no part of it.",
    )
    sessions: int = key(
        number("a number of sessions, 1000 at most", 1, 1000, is_whole=True),
        "The first so many sessions that may count do.",
    )
    hours_apart: float = key(
        number("a number of hours", 0),
        "The least time from the beginning of a session that counts to that of the next.",
        unit="h",
    )
    reruns: str = key(choice(FAILED, NEVER), "The runs that a later session may replace.")
    least_nodes: int = key(
        number("a number of nodes", 1, is_whole=True), "Cases on fewer nodes count for nothing."
    )
    times_memory: float = key(
        number("a factor, or 0", 0), "So many times the servers' memory a file must be."
    )
    machine: str = key(
        choice("reserved", "shared"), "Whether other users are on the machine during the test."
    )
    may_exclude: tuple[str, ...] = key(
        list_of(NAME, "a list such as [centre, supplier]; [] if nobody may", may_be_empty=True),
        "The parties that may exclude a session, all of them together.",
    )

    @property
    def replaces_failed(self) -> bool:
        """Return whether a later session replaces failed runs of one that counts."""
        return self.reruns == FAILED


@attrs.frozen(kw_only=True)
class Storage(Record):
    """A filesystem, as the contract describes it."""

    path: str = key(
        Shape("an absolute path without ..", _path), "The directory that all files are below."
    )
    type: str = key(Shape("a name such as lustre", TEXT.convert), "The type that `statfs` names.")
    osts: int | None = key(
        number("a number of OSTs", 2, is_whole=True),
        "The number of OSTs; required where a criterion is about OSTs.",
        default=None,
    )
    peak: float | None = key(
        POSITIVE,
        "The peak that `peak` criteria are parts of; required for them.",
        unit="MiB/s",
        default=None,
    )
    peak_from: str = key(TEXT, "Where the peak is published; required beside a peak.", default="")
    servers_memory: float | None = key(
        POSITIVE,
        "The memory of all servers together; required where `times_memory` is above 0.",
        unit="GiB",
        default=None,
    )

    def contradiction(self) -> str:
        if self.peak is not None and not self.peak_from:
            return "has a peak without peak_from: say where it is published"
        return ""


@attrs.frozen(kw_only=True)
class Exclusion(Record):
    """A session that is left out because all who may say so did."""

    session: str = key(NAME, "The session's id, or the night of a session that is not on record.")
    by: tuple[str, ...] = key(
        Shape(_PARTIES.phrase, lambda value: tuple(sorted(_PARTIES.convert(value)))),
        "The parties that exclude it: all of the contract's `may_exclude`.",
    )
    why: str = key(TEXT, "Why it is excluded.")


@attrs.frozen(kw_only=True)
class Terms(Record):
    """The terms under which criteria are judged: the system, its filesystems, and the rules."""

    system: str = key(
        Shape("a whole system: name a filesystem in each criterion", _system),
        "The system, as its site's file names it.",
    )
    title: str = key(TEXT, "The title of the dossier.")
    confidence: float = key(
        number("a number from 0.5 to below 1", 0.5, math.nextafter(1, 0)),
        "The confidence of all intervals.",
        default=0.95,
    )
    rules: Rules = key(
        Shape("a mapping of rules", _filled(dict)), "What counts: all rules are required."
    )
    filesystems: Mapping[str, Storage] = key(
        Shape("a mapping of names such as fs3", _filled(dict)), "The filesystems of the criteria."
    )
