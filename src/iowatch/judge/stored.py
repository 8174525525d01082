"""What the detector made of a run, in plain JSON, as the check stores it with the run.

The next night goes on from there: no replay recovers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from iowatch.cases.run import Run
from iowatch.cases.verdict import Verdict
from iowatch.judge.rules import Memory


@dataclass(frozen=True)
class JudgedPart:
    """One part of a case, judged by the nights."""

    usual: float  # as blessed
    tonight: float  # of its best run
    verdict: Verdict
    state: Memory  # that the night has left, if no further run comes


@dataclass(frozen=True)
class JudgedRun:
    """The verdict of the nights on a run, and the state that its night has left."""

    by: str  # digest of the baseline and the thresholds
    runs: int  # of the night that were judged together
    verdict: Verdict  # on the whole, or on its worst part; `failed` are the metrics of the run's
    state: Memory  # if no further run of the night comes
    before: str = ""  # the night that it goes on from; empty: none
    parts: Mapping[str, JudgedPart] = field(default_factory=dict)  # by their metrics

    def stored(self, verdict: Verdict) -> dict[str, Any]:
        """Return it in plain JSON, without what is as by default, for a run with this verdict;
        `judged_of` reads it."""
        of_nights = replace(self.verdict, failed=verdict.failed)
        plain: dict[str, Any] = _plain(replace(self, verdict=of_nights))
        return plain


def judged_of(run: Run) -> JudgedRun | None:
    """What the detector made of a run; None: it was not asked, or by an iowatch of old."""
    try:
        judged: JudgedRun = _read(JudgedRun, run.detector)
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
    return judged


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        given = [(entry, getattr(value, entry.name)) for entry in fields(value)]
        return {
            entry.name: _plain(inner)
            for entry, inner in given
            if entry.default is MISSING or inner != entry.default
        }
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | frozenset):
        return [_plain(entry) for entry in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _read(kind: Any, value: Any) -> Any:
    """Read what `_plain` made of a value of this kind."""
    origin, inner = get_origin(kind), get_args(kind)
    if NoneType in inner:
        return None if value is None else _read(inner[0], value)
    if origin is Mapping:
        return {key: _read(inner[1], entry) for key, entry in value.items()}
    if origin:
        return origin(_read(inner[0], entry) for entry in value)
    if hasattr(kind, "__dataclass_fields__"):
        kinds = _kinds(kind)
        return kind(**{name: _read(kinds[name], entry) for name, entry in value.items()})
    return datetime.fromisoformat(value) if kind is datetime else kind(value)


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
