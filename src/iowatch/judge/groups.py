"""Cases that share a filesystem or a library, judged together like one case.

    group, state = Group(Common.FILESYSTEM, baselines, blessed), Memory()
    for runs in nights:
        state, verdict = group.judge(state, runs)

Each case says which part of its own baseline it reached. Two thirds of these parts do not exceed
the group's value, so a few slow cases leave it as it is. Quiet cases weigh more. This value varies
less than that of any case, since cases share only a part of their contention: it has a baseline of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from statistics import median

from iowatch.cases.verdict import NO_REFERENCE, SLOWER, Verdict
from iowatch.judge.baseline import Baseline, BaselineRefused, Sample, estimate
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import NORMAL, R1, R2, R3, R4, Settings

Runs = Mapping[str, Sequence[Sample]]  # of one night: by case, each in the order of time


class Common(Enum):
    """A thing that cases may share: it decides which of their figures tell of it."""

    FILESYSTEM = auto()  # the bandwidth, but not what a library alone has lost
    LIBRARY = auto()  # the ratio to MPI-IO in the same job

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules whose alarms on single cases tell of it."""
        return (R1, R4) if self is Common.FILESYSTEM else (R2, R3)

    def spread(self, baseline: Baseline) -> float | None:
        """The spread of a case's figure; None: the case has none."""
        return baseline.s if self is Common.FILESYSTEM else baseline.s_r

    def part(self, baseline: Baseline, run: Sample) -> float | None:
        """The logarithm of the part of its baseline that a run has reached; None: it cannot say."""
        ratio = None
        if baseline.m_r is not None and run.ratio is not None:
            ratio = math.log(run.ratio) - baseline.m_r
        if self is Common.LIBRARY:
            return ratio
        return math.log(run.best) - baseline.m - min(ratio or 0.0, 0.0)


class Group:
    """The rules for cases that share something. A Group remembers nothing: the Memory does.

    `blessed` are the nights that its own spread comes from. If they are too few, the group is taken
    to vary as one case. Cases without the figure in question are left out.
    """

    def __init__(
        self,
        common: Common,
        baselines: Mapping[str, Baseline],
        blessed: Iterable[Runs],
        settings: Settings = NORMAL,
    ) -> None:
        self.common = common
        self.settings = settings
        spreads = {name: common.spread(baseline) for name, baseline in baselines.items()}
        self._spreads = {name: spread for name, spread in spreads.items() if spread is not None}
        self._baselines = baselines
        weights = {name: 1 / spread for name, spread in self._spreads.items()}
        most = settings.common_weight * median(weights.values()) if weights else 0.0
        self._weights = {name: min(weight, most) for name, weight in weights.items()}
        #: The cases that are run again if the group is suspicious: the quietest. The slowest
        #: tonight are mostly unlucky.
        quietest = sorted(self._spreads, key=lambda name: (self._spreads[name], name))
        self.panel = quietest[: settings.common_panel]
        self.baseline: Baseline | None = None
        if len(self._spreads) < settings.common_cases:
            return
        nights = [runs for runs in blessed if self._is_measured(runs)]
        if common is Common.LIBRARY:
            settings = replace(settings, slow_limit=settings.ratio_limit)
        self.baseline = self._baseline_of(nights, self._spreads)
        self._of_panel = self._baseline_of(nights, self.panel)
        self._detector = Detector(self.baseline, settings)

    def judge(self, state: Memory, runs: Runs, final: bool = True) -> tuple[Memory, Verdict]:
        """Return the state after this night, and the verdict on it, as of one case.

        The verdict's sentence is not for a reader, who is told what the cases have in common.
        """
        if not self.baseline:
            return state, Verdict(NO_REFERENCE, "too few of the cases have a baseline")
        if not self._is_measured(runs):
            return state, Verdict(NO_REFERENCE, "fewer than half of the cases were measured")
        night = self._as_one(runs)
        after, verdict = self._detector.judge(state, night, final)
        if len(night) <= self.settings.max_reruns or verdict.is_red or not self.is_far_below(runs):
            return after, verdict
        drop, time = 1 - self.reached(runs), night[0].time
        sentence = "every case is far below its baseline"
        return after, Verdict(
            SLOWER, sentence, runs=verdict.runs, rule=R4, drop=drop, since=time, raised=time
        )

    def is_far_below(self, runs: Runs) -> bool:
        """Return whether every case is so low that the night itself is worth a word."""
        bests = self._bests(runs, self._spreads, None).values()
        return self._is_measured(runs) and max(bests) < math.log(self.settings.common_severe)

    def value(self, runs: Runs, count: int | None = 1) -> float:
        """The part of its baseline that the best of each case's first so many runs amount to, as a
        logarithm."""
        value = self._most(runs, self._spreads, count)
        return value - (self.baseline.m if self.baseline else 0.0)

    def reached(self, runs: Runs) -> float:
        """The part of its baseline that the best of the night amounts to."""
        return math.exp(self.value(runs, None))

    def slow(self, runs: Runs) -> list[str]:
        """The cases whose best run of the night is below their own warn line, by name."""
        return [
            name
            for name, best in sorted(self._bests(runs, self._spreads, None).items())
            if best < self.settings.warn_line(self._spreads[name], again=True)
        ]

    def says_no_more(self, name: str, runs: Runs) -> bool:
        """Is a case no lower than the group as a whole, so that running it again would say nothing
        of the case itself?"""
        baseline, limits = self._baselines[name], self.settings
        bests = [math.log(run.best) - baseline.m for run in runs[name]]
        ratios = [Common.LIBRARY.part(baseline, run) for run in runs[name]]
        ratio = max((ratio for ratio in ratios if ratio is not None), default=0.0)
        beside = max(bests) - math.log(self.reached(runs))
        low = ratio < limits.warn_line(baseline.s_r or 0.0, again=True)
        return not low and beside >= limits.warn_line(baseline.s, again=True)

    def _is_measured(self, runs: Runs) -> bool:
        """Do enough cases say something, and at least one of those that would run again?"""
        measured = self._bests(runs, self._spreads, 1)
        enough = 2 * len(measured) >= len(self._spreads)
        return enough and not measured.keys().isdisjoint(self.panel)

    def _baseline_of(self, nights: Sequence[Runs], names: Collection[str]) -> Baseline:
        """The baseline of what most of these cases do not exceed."""
        measured = [runs for runs in nights if self._bests(runs, names, 1)]
        values = [math.exp(self._most(runs, names, 1)) for runs in measured]
        try:
            return estimate([[Sample(datetime.min, value)] for value in values], self.settings)
        except BaselineRefused:
            spread = median(self._spreads[name] for name in names)
            return Baseline(0.0, spread, None, None, None, 0)

    def _as_one(self, runs: Runs) -> list[Sample]:
        """The night as if it were one case's: first all cases, then what runs again of the panel.

        The best run of each case so far counts. A round of re-runs counts once most of the panel
        has had it.
        """
        assert self.baseline
        first = math.exp(self._most(runs, self._spreads, 1))
        night = [Sample(self._time(runs, 1), first)]
        panel, scale = self._of_panel, self.baseline.s / self._of_panel.s
        for number in range(2, self.settings.max_reruns + 2):
            had = sum(len(runs.get(name, ())) >= number for name in self.panel)
            if 2 * had <= len(self.panel):
                break
            value = (self._most(runs, self.panel, number) - panel.m) * scale + self.baseline.m
            night.append(Sample(self._time(runs, number), math.exp(value)))
        return night

    def _time(self, runs: Runs, number: int) -> datetime:
        """The time at which the last of the panel has run so many times."""
        return max(samples[number - 1].time for name in self.panel
                   if len(samples := runs.get(name, ())) >= number)  # fmt: skip

    def _bests(self, runs: Runs, names: Collection[str], count: int | None) -> dict[str, float]:
        """The part that the best of the first so many runs has reached, by case; only of cases that
        have it."""
        bests = {}
        for name in names:
            of_case = runs.get(name, ())[:count]
            parts = [self.common.part(self._baselines[name], run) for run in of_case]
            known = [part for part in parts if part is not None]
            if known:
                bests[name] = max(known)
        return bests

    def _most(self, runs: Runs, names: Collection[str], count: int | None) -> float:
        """The least part that enough of these cases, by weight, have not exceeded."""
        bests = self._bests(runs, names, count)
        enough = self.settings.common_part * sum(self._weights[name] for name in bests)
        weight = 0.0
        for best, name_weight in sorted(
            (best, self._weights[name]) for name, best in bests.items()
        ):
            weight += name_weight
            if weight >= enough:
                return best
        return max(bests.values())


def have_alarms(
    common: Common, verdicts: Mapping[str, Verdict], night: datetime, settings: Settings = NORMAL
) -> list[str]:
    """The cases with alarms of late that tell of the shared thing, if they are half of all cases or
    more. The alarm is then this, whatever the chart says. Else nothing."""
    oldest = night - timedelta(days=settings.common_nights)
    slow = sorted(
        name
        for name, verdict in verdicts.items()
        if verdict.outcome.is_regression
        and verdict.rule in common.rules
        and verdict.raised
        and verdict.raised > oldest
    )
    return slow if len(slow) >= max(2, settings.common_share * len(verdicts)) else []
