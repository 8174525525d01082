"""The verdict on a case: a state, a reason, flags, one sentence.

Everything that other modules ask of a verdict is a property here. This module alone decides which
states are red, excusable, evidence or past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import count
from typing import Any, Self


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
_NO_FLAGS = frozenset[Flag]()
_STATES = {state: number for number, state in enumerate(State)}
_REASONS = dict[Reason | None, int](zip([*Reason, None], count()))


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

    @property
    def is_failed(self) -> bool:
        return self.state is State.FAILED

    @property
    def is_corrupt(self) -> bool:
        return self.is_failed and self.reason is Reason.CORRUPT

    @property
    def is_too_fast(self) -> bool:
        return self.reason is Reason.ABOVE_CEILING

    @property
    def is_unverified(self) -> bool:
        """Failed before there was a rate to be judged."""
        return self.is_failed and not self.is_too_fast

    @property
    def is_regression(self) -> bool:
        """Slower than it has to be. Nothing else is ever excused: what failed is not verified."""
        return self.state is State.REGRESSION

    @property
    def is_absolute(self) -> bool:
        """A regression that needs no past: the fault may have been there from the first day."""
        return self.is_regression and self.reason not in _RELATIVE

    @property
    def is_known(self) -> bool:
        """A regression that the site expects."""
        return self.is_regression and Flag.KNOWN in self.flags

    @property
    def is_alarm(self) -> bool:
        """A regression that the site does not expect."""
        return self.is_regression and not self.is_known

    @property
    def is_fault(self) -> bool:
        """Something is wrong, whether or not the site expects it."""
        return self.is_failed or self.is_regression

    @property
    def is_red(self) -> bool:
        """Red, but for a missing reference in record mode."""
        return self.is_failed or self.is_alarm or self.is_unreferenced

    @property
    def is_unreferenced(self) -> bool:
        """Measured, and there is nothing to compare with."""
        return self.state is State.UNJUDGED and self.reason is Reason.NO_REFERENCE

    @property
    def is_amber(self) -> bool:
        """Nobody knows how the case is, and nothing that was tried has failed."""
        return self.state is State.UNJUDGED and not self.is_unreferenced

    @property
    def is_skipped(self) -> bool:
        return self.state is State.SKIPPED

    @property
    def is_untried(self) -> bool:
        """Return whether nothing was run that says anything of the case."""
        return self.is_amber or self.is_skipped

    @property
    def counts(self) -> bool:
        """Return whether the metrics may be past, evidence or baseline."""
        return not (self.is_failed or self.is_untried)

    @property
    def is_suspect(self) -> bool:
        return self.state is State.SUSPECT

    @property
    def is_slow(self) -> bool:
        return self.is_regression or self.is_suspect

    @property
    def is_resolved(self) -> bool:
        return Flag.RESOLVED in self.flags

    @property
    def is_insensitive(self) -> bool:
        return Flag.LOW_SENSITIVITY in self.flags

    @property
    def is_well(self) -> bool:
        """Return whether the case is as usual, and no alarm has just gone."""
        return self.state is State.OK and not self.is_resolved

    @property
    def is_good(self) -> bool:
        """Return whether the night may stand for how the case usually is."""
        return self.state in (State.OK, State.IMPROVEMENT) or self.is_unreferenced


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
