"""The terms of an acceptance test: what both sides agree on beside the criteria."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import attrs

from iowatch.records import NAME, TEXT, Record, Shape, choice, key, list_of, number

#: Bounds and peaks: no measured value is near a number outside of this range.
POSITIVE = number("a positive number from 1e-12 to 1e12", 1e-12, 1e12)


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


_MOMENT = Shape("a day such as 2026-11-22, or a time, in UTC", _moment)
_PATH = Shape("an absolute path without ..", _path)
FAILED, NEVER = "failed", "none"  # the runs that a re-run replaces


@attrs.frozen(kw_only=True)
class Rules(Record):
    """What counts, agreed before anything is measured."""

    begins: datetime = key(_MOMENT)  # UTC; a session that began before is no part of the test
    #: The first so many sessions that may count do.
    sessions: int = key(number("a number of sessions, 1000 at most", 1, 1000, is_whole=True))
    #: Least time from the beginning of a session that counts to that of the next.
    hours_apart: float = key(number("a number of hours", 0))
    reruns: str = key(choice(FAILED, NEVER))  # a later session replaces such runs
    #: Cases on fewer nodes count for nothing.
    least_nodes: int = key(number("a number of nodes", 1, is_whole=True))
    #: Least size of a file, in parts of the servers' memory.
    times_memory: float = key(number("a factor, or 0", 0))
    machine: str = key(choice("reserved", "shared"))
    #: All of these parties together may exclude a session; nobody may if there are none.
    may_exclude: tuple[str, ...] = key(
        list_of(NAME, "a list such as [centre, supplier]; [] if nobody may", may_be_empty=True)
    )

    @property
    def replaces_failed(self) -> bool:
        """Does a later session replace failed runs of one that counts?"""
        return self.reruns == FAILED


@attrs.frozen(kw_only=True)
class Storage(Record):
    """A filesystem, as the contract describes it."""

    path: str = key(_PATH)  # files must be at or below it
    type: str = key(Shape("a name such as lustre", TEXT.convert))  # as statfs names it
    osts: int | None = key(number("a number of OSTs", 2, is_whole=True), default=None)
    peak: float | None = key(POSITIVE, default=None)  # MiB/s
    peak_from: str = key(TEXT, default="")  # where the peak is published
    #: Memory of all servers of the filesystem.
    servers_memory: float | None = key(POSITIVE, default=None)  # GiB

    def contradiction(self) -> str:
        if self.peak is not None and not self.peak_from:
            return "has a peak without peak_from: say where it is published"
        return ""


@attrs.frozen(kw_only=True)
class Exclusion(Record):
    """A session that is left out because all who may say so did."""

    session: str = key(NAME)  # its id, or the night of a session that is not on record
    by: tuple[str, ...] = key(
        Shape(
            "a list of names such as [centre, supplier]",
            lambda value: tuple(
                sorted(map(NAME.convert, value if isinstance(value, list) else [value]))
            ),
        )
    )
    why: str = key(TEXT)


@attrs.frozen(kw_only=True)
class Terms:
    """What both sides agree on beside the criteria."""

    system: str
    title: str
    confidence: float  # of all intervals
    rules: Rules
    filesystems: Mapping[str, Storage]  # by name
