"""The document of a night: what page, mail, chat, text, JSON, JUnit, export and index show.

It is made once, by iowatch.night.night, and kept beside the word of the gate. To show one that
was kept needs nothing of what made it: then each case is its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

import attrs

from iowatch.base.documents import Count
from iowatch.base.text import one_line
from iowatch.cases.case import Case
from iowatch.cases.run import day_of
from iowatch.cases.verdict import Flag, Outcome, Reason, State
from iowatch.past.words import COLOURS

MOST = 30  # nights that are listed or shown, if nobody asks for certain ones
SITE_DAYS = 30  # that the index of all systems shows
SILENT = timedelta(hours=36)  # after which a system without a new night is not green any more

Time = Annotated[datetime, {"format": "date-time"}]
Metrics = Annotated[
    Mapping[str, float],
    "Values of the best run by name; the page on metrics has their units.",
]


@attrs.frozen(kw_only=True)
class VerdictEntry:
    """A verdict."""

    state: Annotated[str, "The state of the verdict; the page on verdicts lists them."]
    reason: Annotated[str, "Why; empty: nothing is to be explained."]
    flags: Sequence[str]
    red: Annotated[bool, "Does it make its night red?"]

    @property
    def outcome(self) -> Outcome:
        reason = Reason(self.reason) if self.reason else None
        return Outcome(State(self.state), reason, frozenset(map(Flag, self.flags)))

    @property
    def is_recorded(self) -> bool:
        """Return whether it is only recorded, with nothing to compare it with."""
        return self.outcome.is_unreferenced and not self.red

    @property
    def is_open(self) -> bool:
        """Return whether nobody knows if it is well."""
        return self.outcome.is_amber or self.is_recorded


@attrs.frozen(kw_only=True)
class ExpectedRate:
    """What the rate is compared with."""

    value: float
    low: Annotated[float | None, "The usual range."]
    high: float | None
    blessed: Annotated[bool, "From a blessed baseline?"]
    word: Annotated[str, {"enum": ["expected", "usual"]}]
    source: str


@attrs.frozen(kw_only=True)
class CaseEntry(VerdictEntry):
    """A case in a night, with the fields of its verdict."""

    case: Annotated[Case, "The id of the case."]
    name: Annotated[str, "A short name, as on the page."]
    order: Annotated[Count, "The number of cases before it in a table of the night."]
    partition: str
    environ: str
    filesystem: str
    work: Annotated[str, "The operation and its files, and in which way."]
    backend: Annotated[str, "The library; empty: the check writes nothing."]
    striping: Annotated[str, "OSTs and MiB of a stripe, or the layout; - where there is none."]
    size: Annotated[str, "What a rank writes; empty: nothing."]
    ranks: Count
    quiet: Annotated[bool, "There is nothing to look into."]
    sentence: str
    last_sentence: Annotated[str, "What the check said."]
    in_brief: Annotated[str, "The name, the verdict and the loss."]
    known: Annotated[str, "Why the failure is expected; empty: it is not."]
    under: Annotated[str, "The subject of the red alarm that says why it is red; empty: none."]
    next_step: Annotated[str, "A command; empty: there is none."]
    rate: Annotated[float | None, "The rate of the best run, by which the case is judged."]
    unit: Annotated[str, {"enum": ["MiB/s", "items/s"]}]
    expected: ExpectedRate | None
    drop: Annotated[float | None, "Part of the expected rate that is lost; negative: gained."]
    metrics: Metrics
    runs: Annotated[Count, "Runs of the night."]
    failed_runs: Count
    folder: Annotated[str, "Where the raw results of the last run are; empty: nowhere."]

    @property
    def is_ok(self) -> bool:
        """Return whether there is nothing to say, either."""
        return self.quiet and not self.outcome.is_insensitive


@attrs.frozen(kw_only=True)
class RunsOfNight(VerdictEntry):
    """The runs of a case in one night."""

    night: str
    runs: Annotated[Count, "Runs of the night."]
    rate: Annotated[float | None, "Of the best run."]
    metrics: Metrics


@attrs.frozen(kw_only=True)
class UserCost:
    """How much longer a user's output takes tonight, by the rate of the case that stands for it."""

    output: Annotated[str, "The name that the site has given it."]
    case: Case
    filesystem: str
    worst: Annotated[bool, "No case on the filesystem costs this output more."]
    usual_s: Annotated[float, "Its seconds at the rate of the baseline."]
    tonight_s: float
    low_s: Annotated[float, "Seconds more than on a slow night of the baseline (95 %)."]
    high_s: Annotated[float, "Seconds more than on a fast night of the baseline (95 %)."]
    up_to: Annotated[
        bool,
        "Less may be lost: another layout is well, or the lost time need not grow with the size.",
    ]
    plain: Annotated[str, "In words for users."]
    sentence: Annotated[str, "The same with its interval and the case."]


@attrs.frozen(kw_only=True)
class CaseDocument(CaseEntry):
    """A case in its last night, and its nights."""

    night: str
    user_costs: Sequence[UserCost]
    nights: Annotated[Sequence[RunsOfNight], "The last first."]


@attrs.frozen(kw_only=True)
class AlarmEntry(VerdictEntry):
    """What is slow as a whole."""

    subject: str
    sentence: str
    cases: Sequence[Case]
    in_brief: Annotated[Sequence[str], "A line on each of them."]


@attrs.frozen(kw_only=True)
class Headline:
    """What the page of a night says first: the worst of it, in texts that may be empty."""

    status: Annotated[str, "The colour, and what is special."]
    where: str = ""
    subject: Annotated[str, "Such as HDF5 writes."] = ""
    extent: Annotated[str, "How much is lost, or why nothing is known."] = ""
    since: Annotated[date | None, "The day on which the worst began."] = None
    number: Annotated[int, "Nights since then, this one included."] = 0
    layer: Annotated[str, "The likely layer; empty: nobody can tell."] = ""
    control: Annotated[str, "How MPI-IO is beside it."] = ""
    sentence: str = attrs.field(default="", converter=one_line)
    next_step: Annotated[str, "A command; empty: there is none."] = ""
    reason: Annotated[str, "The section of the runbook that says more."] = ""
    case: Annotated[Case | None, "The worst."] = None
    banner: Annotated[str, "The night in a line."] = attrs.field(init=False)

    @banner.default
    def _in_a_line(self) -> str:
        """`HDF5 writes -68 % since 19 Nov (night 3)`, and what stands before and after it."""
        number = f" (night {self.number})" if self.number else ""
        begun = f"since {in_days(self.since)}{number}" if self.since else ""
        blame = f"{self.control} → {self.layer}" if self.control else self.layer
        subject = " ".join(filter(None, [self.subject, self.extent, begun]))
        return one_line(" · ".join(filter(None, [self.status, self.where, subject, blame])))


def in_days(day: date) -> str:
    """Write a day as people say it."""
    return f"{day.day} {day:%b}"


@attrs.frozen(kw_only=True)
class NightEntry:
    """A night without its cases."""

    system: str
    id: Annotated[str, "The night, or of a hand run the name under which its raw results are kept."]
    began: Time
    ended: Time
    colour: Annotated[str, {"enum": [*COLOURS]}]
    why: Annotated[str, "The sentence that comes first."]
    by_hand: Annotated[bool, "A session that was run by hand, which is no night."]
    sessions: Annotated[Sequence[str], "UUIDs of ReFrame's sessions."]
    measured: Annotated[Count, "Cases that were measured."]
    red: Annotated[Count, "Cases that make the night red."]
    amber: Annotated[Count, "Cases that were not measured, for a known reason."]
    promised: Annotated[int | None, "Cases that the site's file promises; null: nobody knows."]
    problems: Annotated[Sequence[str], "What is wrong with the night as a whole."]

    @property
    def day(self) -> date:
        return day_of(self.id)


@attrs.frozen(kw_only=True)
class NightSummary(NightEntry):
    """A night as an index shows it."""

    headline: Headline
    user_costs: Annotated[Sequence[UserCost], "The most first."]

    @property
    def worst_costs(self) -> list[UserCost]:
        return [cost for cost in self.user_costs if cost.worst]


@attrs.frozen(kw_only=True)
class SystemEntry(NightSummary):
    """The last night of a system."""

    age_s: Annotated[Count, "Seconds since the last night ended."]
    late: Annotated[bool, "No night has come for 36 hours."]

    @property
    def shown_colour(self) -> str:
        """The colour of the night; red if a night must have been missed."""
        return "red" if self.late else self.colour


@attrs.frozen(kw_only=True)
class CallLatency:
    """How long single calls of a case took in the hours of the last month."""

    case: Case
    filesystem: str
    operation: Annotated[str, "The call."]
    buckets: Annotated[Mapping[float, int], "By a number of seconds, the calls that took no more."]
    calls: Count
    seconds: Annotated[float, "Of all calls together."]


@attrs.frozen
class SkippedCase:
    """A case that could not be measured, for what it needs has never been there."""

    case: Case
    why: str
    last: Annotated[str, "The last night before that ran it; empty: none."]


@attrs.frozen(kw_only=True)
class NightDocument(NightSummary):
    """A night with its cases."""

    first_ended: Annotated[
        datetime | None, "The end of the first run; null: nothing ran.", {"format": "date-time"}
    ]
    notes: Sequence[str]
    alarms: Annotated[Sequence[AlarmEntry], "The worst first."]
    cases: Annotated[Sequence[CaseEntry], "The worst first."]
    skipped: Annotated[Sequence[SkippedCase], "Cases that need what has never been there."]
    latencies: Annotated[Sequence[CallLatency], "Of the hours before the end of the night."]
    page: Annotated[str, "The file of its page; empty: none was written with this document."]

    @property
    def red_alarms(self) -> list[AlarmEntry]:
        return [alarm for alarm in self.alarms if alarm.red]
