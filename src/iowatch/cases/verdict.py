"""The verdict on a case: a state, a reason, flags, one sentence.

Everything that other modules ask of a verdict is a property here. This module alone decides which
states are red, excusable, evidence or past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import count
from typing import Any, Self, cast


class State(StrEnum):
    """The states of a case, worst first."""

    #: The run is not verified, so it has no rate.
    FAILED = "failed"
    #: The run is verified, and slower than it should be.
    REGRESSION = "regression"
    #: iowatch cannot judge the case tonight. The night is no part of its past or of its baseline.
    UNJUDGED = "unjudged"
    #: The site never had what the case needs. A note of the night says how to get it.
    SKIPPED = "skipped"
    #: The case is slow tonight. A re-run some hours later must confirm it.
    SUSPECT = "suspect"
    #: The case is faster than its bound or its baseline.
    IMPROVEMENT = "improvement"
    #: The case meets its references and its baseline. In an acceptance test, it is verified.
    OK = "ok"


class Reason(StrEnum):
    """Why a case has its state, worst first; docs/howto/runbook.md has a section on each.

    Beside each stands where to look first, unless the rates must tell it.
    """

    place: str

    def __new__(cls, value: str, place: str = "") -> Self:
        reason = str.__new__(cls, value)
        reason._value_, reason.place = value, place
        return reason

    CORRUPT = "corrupt", "storage or library"  # other bytes than were written: outranks everything
    IO_ERROR = "io_error", "storage"
    NOT_SYNCED = "not_synced", "storage"
    WRONG_FILESYSTEM = "wrong_filesystem", "mount of the node"
    WRONG_LAYOUT = "wrong_layout", "storage"
    NOT_AS_ASKED = "not_as_asked", "job"
    CACHED_READ = "cached_read", "job"
    TIME_LIMIT = "time_limit", "storage"
    PROGRAM_FAILED = "program_failed", "job"  # a program beside benchio
    ENVIRONMENT = "environment", "modules of the job"
    NO_OUTPUT = "no_output", "job"
    LAUNCHER = "launcher", "job"
    JOB_FAILED = "job_failed", "job"
    CONFIGURATION = "configuration", "site's file"
    FILES_GONE = "files_gone", "storage"  # those that an earlier night has kept
    ABOVE_CEILING = "above_ceiling", "cache, or the site's file"

    ABSOLUTE_BOUND = "absolute_bound"
    SLOW_LIBRARY = "slow_library", "library"
    SLOW_VERSION = "slow_version", "library"
    SLOW_NODE = "slow_node", "node"
    NOT_COLLECTIVE = "not_collective", "library"
    REFERENCE = "reference"
    OWN_PAST = "own_past"
    GENERAL_BOUND = "general_bound"
    SLOW_HOURS = "slow_hours", "storage"  # of single calls, beside the night

    NO_REFERENCE = "no_reference", "site's file"
    NO_HOURS = "no_hours", "cron"  # of single calls, any more
    MAINTENANCE = "maintenance", "storage"
    QUEUED = "queued", "scheduler"
    SCHEDULER = "scheduler", "scheduler"  # has ended the job, or does not answer
    NO_TIME_LEFT = "no_time_left", "scheduler"  # in the allocation of all cases
    PLACE_BUSY = "place_busy", "storage"
    QUOTA = "quota", "storage"
    NODE_BUSY = "node_busy", "node"
    WRONG_CLOCK = "wrong_clock", "node"
    NOT_INSTALLED = "not_installed"
    NOTHING_KEPT = "nothing_kept"


class Flag(StrEnum):
    """A remark on a verdict."""

    #: Somebody accepted the fault, so the night stays green.
    KNOWN = "known"
    #: The case varies too much to show a loss that matters. The sentence says how much.
    LOW_SENSITIVITY = "low_sensitivity"
    #: An alarm of the case has ended.
    RESOLVED = "resolved"


#: The alarms of a case's past; those of any other reason need no past.
_RELATIVE = frozenset({Reason.REFERENCE, Reason.OWN_PAST})
_GOOD = frozenset({State.OK, State.IMPROVEMENT})
_NO_FLAGS = frozenset[Flag]()
_STATES = {state: number for number, state in enumerate(State)}
_REASONS = dict[Reason | None, int](zip([*Reason, None], count()))


def _if(holds: Callable[[Any], bool]) -> bool:
    """A predicate: a property that is true if this holds of its outcome."""
    return cast(bool, property(holds))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict without its sentence; `str` gives `regression (own_past, known)`."""

    state: State
    reason: Reason | None = None  # None: nothing is to be explained
    flags: frozenset[Flag] = _NO_FLAGS

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Outcome | None:
        """Read a record with `state`, `reason` and `flags`; None: it has no verdict."""
        return _read(stored.get("state"), stored.get("reason"), tuple(stored.get("flags") or ()))

    @property
    def fields(self) -> dict[str, Any]:
        """The record that `read` reads: two texts, of which that of no reason is empty, a list."""
        flags = sorted(map(str, self.flags))
        return {"state": str(self.state), "reason": str(self.reason or ""), "flags": flags}

    def __str__(self) -> str:
        remarks = ", ".join([*filter(None, [self.reason]), *sorted(self.flags)])
        return f"{self.state} ({remarks})" if remarks else str(self.state)

    def flagged(self, flag: Flag) -> Outcome:
        return replace(self, flags=self.flags | {flag})

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sorts the worst first; an alarm that has gone stands before what is well."""
        state = State.SUSPECT if self.is_resolved else self.state
        return not self.is_corrupt, _STATES[state], 2 * _REASONS[self.reason] - bool(self.flags)

    is_failed = _if(lambda it: it.state is State.FAILED)
    is_corrupt = _if(lambda it: it.is_failed and it.reason is Reason.CORRUPT)
    is_too_fast = _if(lambda it: it.reason is Reason.ABOVE_CEILING)
    #: Failed before there was a rate to be judged.
    is_unverified = _if(lambda it: it.is_failed and not it.is_too_fast)
    #: Slower than it has to be. Nothing else is ever excused: what failed is not verified.
    is_regression = _if(lambda it: it.state is State.REGRESSION)
    #: A regression that needs no past: the fault may have been there from the first day.
    is_absolute = _if(lambda it: it.is_regression and it.reason not in _RELATIVE)
    #: A regression that the site expects, or does not expect.
    is_known = _if(lambda it: it.is_regression and Flag.KNOWN in it.flags)
    is_alarm = _if(lambda it: it.is_regression and not it.is_known)
    #: Something is wrong, whether or not the site expects it.
    is_fault = _if(lambda it: it.is_failed or it.is_regression)
    #: Red, but for a missing reference in record mode.
    is_red = _if(lambda it: it.is_failed or it.is_alarm or it.is_unreferenced)
    #: Measured, and there is nothing to compare with.
    is_unreferenced = _if(
        lambda it: it.state is State.UNJUDGED and it.reason is Reason.NO_REFERENCE
    )
    #: Nobody knows how the case is, and nothing that was tried has failed.
    is_amber = _if(lambda it: it.state is State.UNJUDGED and not it.is_unreferenced)
    is_skipped = _if(lambda it: it.state is State.SKIPPED)
    #: Nothing was run that says anything of the case.
    is_untried = _if(lambda it: it.is_amber or it.is_skipped)
    #: The metrics may be past, evidence or baseline.
    counts = _if(lambda it: not (it.is_failed or it.is_untried))
    is_suspect = _if(lambda it: it.state is State.SUSPECT)
    is_slow = _if(lambda it: it.is_regression or it.is_suspect)
    is_resolved = _if(lambda it: Flag.RESOLVED in it.flags)
    is_insensitive = _if(lambda it: Flag.LOW_SENSITIVITY in it.flags)
    #: As usual, and no alarm has just gone.
    is_well = _if(lambda it: it.state is State.OK and not it.is_resolved)
    #: The night may stand for how the case usually is.
    is_good = _if(lambda it: it.state in _GOOD or it.is_unreferenced)


@cache
def _read(state: str | None, reason: str | None, flags: Iterable[str]) -> Outcome | None:
    try:
        return Outcome(
            State(state or ""), Reason(reason) if reason else None, frozenset(map(Flag, flags))
        )
    except ValueError:
        return None


OK = Outcome(State.OK)
RESOLVED = OK.flagged(Flag.RESOLVED)
LOW_SENSITIVITY = OK.flagged(Flag.LOW_SENSITIVITY)
NO_REFERENCE = Outcome(State.UNJUDGED, Reason.NO_REFERENCE)
SUSPECT = Outcome(State.SUSPECT, Reason.OWN_PAST)
SLOWER = Outcome(State.REGRESSION, Reason.OWN_PAST)
SLOW_LIBRARY = Outcome(State.REGRESSION, Reason.SLOW_LIBRARY)
JOB_FAILED = Outcome(State.FAILED, Reason.JOB_FAILED)
TOO_FAST = Outcome(State.FAILED, Reason.ABOVE_CEILING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a night on a case."""

    outcome: Outcome
    sentence: str
    _: KW_ONLY
    failed: tuple[str, ...] = ()  # the metrics beyond their bounds that made it what it is
    # Of the detector:
    runs: int = 1  # of the night that were looked at
    rule: str | None = None
    drop: float | None = None  # part of the usual bandwidth or ratio that is lost; < 0: gained
    since: datetime | None = None
    raised: datetime | None = None  # the night that raised the alarm
    rerun_at: datetime | None = None  # a re-run is due, not before this

    @property
    def is_red(self) -> bool:
        return self.outcome.is_red
