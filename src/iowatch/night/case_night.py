"""One case in one night: what the gate counts, and what tables, mail and page show of it.

Nothing is measured here, and verdicts are those that the checks stored. The comparison is with the
case's blessed baseline as it was in force then, else with its good nights so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from itertools import takewhile
from statistics import median
from typing import Any

from iowatch.base.text import brief_rate, counted
from iowatch.cases.case import Case
from iowatch.cases.metric import PHASES, Reference
from iowatch.cases.run import LOOK_BACK, Nights, Run, day_of, deciding, fastest
from iowatch.cases.verdict import OK, Outcome, Verdict
from iowatch.judge.baseline import Baseline, BaselineRefused, estimate
from iowatch.judge.bless import Blessed, samples_of
from iowatch.judge.explain import is_slow_to_finish
from iowatch.judge.judge import good_nights, medians, usual_runs
from iowatch.judge.settings import NORMAL, R1, R4
from iowatch.judge.stored import JudgedRun, judged_of
from iowatch.measure.checks import rate_name, rate_unit
from iowatch.measure.context import Compared, compare
from iowatch.night.trend import Change, Trend, differing
from iowatch.site.declared import ExpectedFailure

#: Runs of a night that may fail before a suspicious case is left alone. They are no re-runs: the
#: detector sees nothing of them.
MAX_INVALID = NORMAL.max_reruns


Phase = tuple[str, float, float | None]  # its name, seconds tonight, and usually


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The bandwidth that a case should reach."""

    value: float  # MiB/s
    low: float | None  # of what is usual; None: too few nights to say
    high: float | None
    source: str  # where it comes from
    word: str  # expected (blessed), or only usual


@dataclass(frozen=True, kw_only=True)
class CaseNight:
    """A case, its runs of a night, and its nights before."""

    case: Case
    name: str  # short, but no two cases of a night share it
    night: str
    runs: Sequence[Run]  # of this night, in the order of time: one at least
    earlier: Nights
    blessed: Blessed | None
    excuse: ExpectedFailure | None = None  # that the site has for it on this day

    def runs_of(self, night: str) -> Sequence[Run]:
        """The runs of this night, or of one before; none if it has none."""
        return self.runs if night == self.night else self.earlier.get(night, ())

    # The verdict

    @property
    def last(self) -> Run:
        return deciding(self.runs)

    @property
    def outcome(self) -> Outcome:
        return self.last.outcome

    @property
    def known(self) -> str:
        """Why its failure is expected; empty: it does not fail, or is not expected to."""
        return str(self.excuse or "expected") if self.outcome.is_known else ""

    @property
    def is_red(self) -> bool:
        return self.last.is_red

    @property
    def is_amber(self) -> bool:
        return self.outcome.is_amber

    @cached_property
    def unguarded(self) -> int:
        """Nights in a row, this one included, on which it was not measured. Runs by hand of one day
        count as one."""
        return self._days_of(lambda runs: deciding(runs).outcome.is_amber)

    @cached_property
    def unguarded_osts(self) -> dict[str, int]:
        """Nights in a row without each OST that the last measured run had to leave out."""

        def lost(ost: str, runs: Sequence[Run]) -> bool:
            return not any(run.is_measured and ost not in run.lost_osts for run in runs)

        newest_first = (run for _, runs in self._newest_first for run in reversed(runs))
        last = next((run for run in newest_first if run.is_measured), None)
        return {ost: self._days_of(partial(lost, ost)) for ost in (last.lost_osts if last else ())}

    def _days_of(self, are: Callable[[Sequence[Run]], bool]) -> int:
        """The days of the nights that are so, from this one back."""
        nights = takewhile(lambda night: are(night[1]), self._newest_first)
        return len({day_of(night) for night, _ in nights})

    @property
    def _newest_first(self) -> list[tuple[str, Sequence[Run]]]:
        return [(self.night, self.runs), *sorted(self.earlier.items(), reverse=True)]

    @property
    def last_sentence(self) -> str:
        return self.last.sentence or "the job did not end well, and said nothing"

    @property
    def measured_runs(self) -> int:
        return sum(run.is_measured for run in self.runs)

    @property
    def failed_runs(self) -> int:
        return sum(run.outcome.is_failed for run in self.runs)

    @property
    def is_quiet(self) -> bool:
        """Return whether there is nothing to look into. A run that ReFrame failed is not quiet."""
        return self.outcome.is_well and not (self.is_red or self.failed_runs)

    @property
    def is_recorded(self) -> bool:
        """Return whether the case is only recorded, with nothing to compare it with."""
        return self.outcome.is_unreferenced and not self.is_red

    @property
    def is_ok(self) -> bool:
        """Return whether there is nothing to say, either."""
        return self.is_quiet and not self.outcome.is_insensitive

    @property
    def severity(self) -> tuple[Any, ...]:
        return not self.is_red, self.outcome.rank, -(self.drop or 0), str(self.case)

    @property
    def last_measured(self) -> Run | None:
        return next((run for run in reversed(self.runs) if run.is_measured), None)

    @cached_property
    def judged(self) -> JudgedRun | None:
        """What the detector made of the last measured run; None: there is no such run, or the
        detector was not asked."""
        run = self.last_measured
        return judged_of(run) if run else None

    @property
    def alone(self) -> Verdict:
        """The verdict of the detector on the case alone: of one that is well it need not be
        asked."""
        judged = self.judged if self.is_red or self.known else None
        return judged.verdict if judged else Verdict(self.outcome, self.last_sentence)

    @property
    def is_low(self) -> bool:
        """Is its bandwidth itself low, whatever the library?"""
        return self.is_suspect or (self.outcome.is_alarm and self.alone.rule in (R1, R4))

    @property
    def is_suspect(self) -> bool:
        return bool(self.last_measured and self.last_measured.outcome.is_suspect)

    @property
    def rerun_at(self) -> datetime | None:
        """The time when the case is to be run again; None: no more in this night."""
        if not self.judged or self.failed_runs > MAX_INVALID:
            return None
        verdict = self.judged.verdict
        is_open = self.outcome.is_regression and verdict.is_red  # an alarm may have gone
        return verdict.rerun_at if self.is_suspect or is_open else None

    # Tonight's numbers, and those to compare them with

    @cached_property
    def best(self) -> Run | None:
        return fastest(self.runs) if self.last.is_measured else None

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of the best run; none if the last failed."""
        return self.best.metrics if self.best else {}

    @property
    def rate(self) -> float | None:
        """MiB/s or items/s of the best run; None if the last failed."""
        return self.best.rate if self.best else None

    @property
    def unit(self) -> str:
        return rate_unit(dict.fromkeys(self.case.metrics, 0.0))

    @property
    def slowest(self) -> Mapping[str, str]:
        return self.best.slowest if self.best else {}

    @property
    def references(self) -> Mapping[str, Reference]:
        return self.last.references

    @cached_property
    def measured_nights(self) -> list[str]:
        """The nights before on which a run of it counts."""
        return [night for night, runs in self.earlier.items() if fastest(runs)]

    @cached_property
    def good(self) -> list[str]:
        nights = self.measured_nights
        return [night for night in nights if deciding(self.earlier[night]).outcome.is_good]

    @property
    def last_good(self) -> date | None:
        """The night that `changes` are since."""
        return day_of(self.good[-1]) if self.good else None

    @cached_property
    def usual(self) -> Mapping[str, float]:
        return medians([run.metrics for run in self._usual_runs])

    @cached_property
    def expected(self) -> Expected | None:
        """The usual values of the baseline, or else of the good nights before."""
        if blessed := self.blessed:
            first, last = day_of(blessed.first), day_of(blessed.last)
            source = f"baseline of {first} to {last}: {blessed.why} ({blessed.who})"
            return _with_band(blessed.baseline, source, "expected")
        samples = [samples_of(runs) for runs in good_nights(self.earlier.values())]
        source = f"median of {counted(len(samples), 'good night')}, not blessed"
        try:
            return _with_band(estimate(samples), source, "usual")
        except BaselineRefused:
            if not samples:
                return None
            rate = median(night[0].best for night in samples)
            return Expected(value=rate, low=None, high=None, source=source, word="usual")

    @cached_property
    def _usual_runs(self) -> list[Run]:
        return usual_runs(self.earlier.values(), self.blessed)

    @property
    def drop(self) -> float | None:
        """The part of the expected bandwidth that is lost; negative: gained."""
        if not (self.expected and self.rate):
            return None
        return 1 - self.rate / self.expected.value

    @property
    def in_brief(self) -> str:
        """`hdf5 on fs3, stripes -1: regression (own_past), 34 % below what is expected`."""
        if self.drop is None:
            return f"{self.name}: {self.outcome}"
        side = "below" if self.drop >= 0 else "above"
        return f"{self.name}: {self.outcome}, {abs(self.drop):.0%} {side} what is expected"

    @property
    def phases(self) -> list[Phase]:
        """The phases with their seconds tonight and usually, in the order of time."""
        return [
            (phase, self.metrics[f"{phase}_s"], self.usual.get(f"{phase}_s"))
            for phase in self.case.check.phases
            if f"{phase}_s" in self.metrics
        ]

    @cached_property
    def control_phases(self) -> list[Phase]:
        """The same of MPI-IO in the same jobs; nothing if the case is its own control."""
        tonight = self.best.control if self.best else {}
        usual = medians([dict(run.control) for run in self._usual_runs]) if tonight else {}
        return [(phase, tonight[phase], usual.get(phase)) for phase in PHASES if phase in tonight]

    @property
    def is_slow_to_finish(self) -> bool:
        """Return whether the sentence is about the time that finishes the file."""
        return bool(self.metrics) and is_slow_to_finish(self.metrics, self.usual)

    @property
    def changes(self) -> list[Change] | None:
        """The provenance that are not those of the last good night; None: not on record."""
        now = dict(self.last.provenance)
        good = fastest(self.earlier[self.good[-1]]) if self.good else None
        before = dict(good.provenance) if good else {}
        return differing(before, now) if now and before else None

    @cached_property
    def around(self) -> Compared | None:
        """The system context when it was slow, beside its good nights; None: it was not."""
        is_low = self.outcome.is_slow or self.outcome.is_insensitive or self.outcome.is_unverified
        if not (is_low and self.last.system_context):
            return None
        nights = good_nights(self.earlier.values())
        earlier = [run.system_context for runs in nights for run in runs]
        return compare(self.last.system_context, earlier)

    @cached_property
    def trend(self) -> Trend:
        first = f"{day_of(self.night) - LOOK_BACK + timedelta(days=1)}"
        nights = {night: runs for night, runs in self.earlier.items() if night >= first}
        return Trend.make(nights | {self.night: self.runs})

    # The sentence

    @cached_property
    def sentence(self) -> str:
        """The rate and the sentence of the check: `hdf5 on fs3, stripes -1: the stable rate is 2100
        of the expected 7700 MiB/s; overhead_fraction is 0.91, ...`."""
        return f"{self.name}: {self.remark}"

    @cached_property
    def remark(self) -> str:
        if not self.metrics:
            return self.last_sentence
        return self._reached() if self.outcome == OK else f"{self._reached()}; {self.last_sentence}"

    def _reached(self) -> str:
        name, expected = rate_name(self.metrics), self.expected
        rate = f"the {name.removesuffix('_max')} rate is {brief_rate(self.metrics[name])}"
        if not expected:
            return f"{rate} {self.unit}"
        return f"{rate} of the {expected.word} {brief_rate(expected.value)} {self.unit}"


def _with_band(baseline: Baseline, source: str, word: str) -> Expected:
    """Between the warn line and as far above."""
    line = NORMAL.warn_line(baseline.s, again=False)
    low, middle, high = (math.exp(baseline.m + offset) for offset in (line, 0, -line))
    return Expected(value=middle, low=low, high=high, source=source, word=word)
