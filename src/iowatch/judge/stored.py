"""What the detector made of a night, in plain JSON: a check stores it with its run, and the gate,
for the cases that share something, with its word.

The next night goes on from there: no replay recovers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from itertools import islice
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

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


@dataclass(frozen=True, kw_only=True)
class LeftState:
    """The state that a night has left."""

    by: str  # digest of the baseline and the thresholds
    runs: int  # of the night that were judged together
    state: Memory  # if no further run of the night comes
    before: str = ""  # the night that it goes on from; empty: none

    @property
    def plain(self) -> dict[str, Any]:
        """The same in plain JSON, without what is as by default; `restored` reads it."""
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True, kw_only=True)
class JudgedRun(LeftState):
    """The verdict of the nights on a run, and the state that its night has left."""

    verdict: Verdict  # on the whole, or on its worst part; `failed` are the metrics of the run's
    parts: Mapping[str, JudgedPart] = field(default_factory=dict)  # by their metrics

    def stored(self, verdict: Verdict) -> dict[str, Any]:
        """Return it in plain JSON for a run with this verdict."""
        return replace(self, verdict=replace(self.verdict, failed=verdict.failed)).plain


L = TypeVar("L", bound=LeftState)
R = TypeVar("R")  # the runs of a night


def restored(kind: type[L], plain: Mapping[str, Any]) -> L | None:
    """What is stored; None: nothing, or it is of an iowatch of old."""
    try:
        left: L = _read(kind, plain)
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
    return left


def judged_of(run: Run) -> JudgedRun | None:
    """What the detector made of a run; None: it was not asked, or by an iowatch of old."""
    return restored(JudgedRun, run.detector)


def gone_on(
    newest_first: Iterator[tuple[str, int, R]],
    stored: Callable[[str, R], L | None],
    by: str,
    judge: Callable[[Memory, R], tuple[Memory, Verdict]],
) -> tuple[Memory, str, L | None]:
    """Return the state that the nights since a bless have left, the last of them, and what that
    stored. None: it is not as it would be now, and all nights are judged again.

    A night comes with the number of its runs that count, and is one of those with any.
    """
    last_two = [*islice(newest_first, 2)]
    if not last_two:
        return Memory(), "", None
    last, count, of_last = last_two[0]
    before, left = "".join(night for night, *_ in last_two[1:]), stored(last, of_last)
    if left and (left.by, left.before, left.runs) == (by, before, count):
        return left.state, last, left
    state = Memory()
    # Blessed anew, other thresholds or cases; a night was taken out, or has come later: once.
    for _, _, runs in reversed([*last_two, *newest_first]):
        state, _ = judge(state, runs)
    return state, last, None


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
