"""The detector: what a night says of one case, given its baseline and the nights before.

    detector, state = Detector(baseline), Memory()
    for night in nights:
        state, verdict = detector.judge(state, night)

Judging night by night and replaying all of them are the same thing. While tonight's re-runs may
still come, `judge(state, runs_so_far, final=False)` says when the next is due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from iowatch.cases.verdict import (
    LOW_SENSITIVITY,
    NO_REFERENCE,
    OK,
    RESOLVED,
    SLOW_LIBRARY,
    SLOWER,
    SUSPECT,
    Outcome,
    Reason,
    State,
    Verdict,
)
from iowatch.judge.baseline import Baseline, Sample, visible_drops, what_shows
from iowatch.judge.charts import REST, Chart, Cusum
from iowatch.judge.sentences import Sentences
from iowatch.judge.settings import GAIN, NORMAL, R1, R2, R3, R4, Settings

_GAINED = Outcome(State.IMPROVEMENT, Reason.OWN_PAST)


@dataclass(frozen=True, slots=True)
class Memory:
    """The state that the nights since the bless left; Memory() begins anew, as at a bless."""

    slow: Cusum = REST
    ratio: Cusum = REST
    better: Cusum = REST
    finish: int = 0  # the last runs in a row that have R3's signature
    lost: float = 0.0  # what they have lost against MPI-IO: a CUSUM of runs
    nights: int = 0
    suspicious: int = 0  # of these nights
    alarm: Verdict | None = None  # open
    recent: tuple[bool, ...] = ()  # the nights since the alarm: was all well?
    level: Baseline | None = None  # the worst of the alarm's night: what is lower is a new fault
    beyond: Memory | None = None  # what the nights since say of such a fault


@dataclass(slots=True)
class _Tonight:
    """The runs of a night taken together: the best of them counts."""

    last: Sample
    began: datetime
    runs: int = 0
    reruns: int = 0  # far enough apart to count
    y: float = -math.inf  # bandwidth relative to the baseline; without one it stays so
    r: float = -math.inf  # ratio to MPI-IO, likewise
    low: bool = False  # a re-run is due
    finish: int = 0  # runs with R3's signature, with those that the night before ended with
    lost: float = 0.0  # likewise
    is_finish: bool = False  # R3 has seen enough

    def raised(self, rule: str, words: str, drop: float, since: datetime | None = None,
               outcome: Outcome = SLOWER) -> Verdict:  # fmt: skip
        """The alarm that a night raises."""
        first, runs = self.began, self.runs
        return Verdict(outcome, words, runs=runs, rule=rule, drop=drop, since=since or first,
                       raised=first)  # fmt: skip


class Detector:
    """The rules for one case. A Detector remembers nothing: the Memory does.

    `quantity` names in sentences what is judged, and `unit` is that of its baseline. If `alarm_of`
    names an alarm, the baseline is the level of that alarm.
    """

    def __init__(
        self,
        baseline: Baseline | None,
        settings: Settings = NORMAL,
        quantity: str = "bandwidth",
        unit: str = "MiB/s",
        alarm_of: str = "",
    ) -> None:
        self.settings = settings
        self.baseline = baseline
        self._named = quantity, unit
        self._words = Sentences(baseline, quantity, unit, alarm_of)
        self._speed: Chart | None = None
        self._ratio: Chart | None = None
        self._finish_limit = math.inf
        self._may_be_defect = not alarm_of  # what it was at the alarm is known
        self._passed = Verdict(NO_REFERENCE, "there is no baseline yet")
        if baseline is None:
            return
        self._speed = Chart(baseline.m, baseline.s, settings)
        if baseline.m_r is not None and baseline.s_r is not None:
            self._ratio = Chart(baseline.m_r, baseline.s_r, settings)
        if baseline.overhead_fraction is not None:
            self._finish_limit = settings.finish_limit(baseline.overhead_fraction)
            if baseline.m_r is not None:
                # A run may look so by chance; the median of the blessed nights does not.
                self._may_be_defect &= settings.is_defect(
                    baseline.overhead_fraction, math.exp(baseline.m_r)
                )
        noisy = min(visible_drops(baseline, settings)) > settings.wanted_drop
        self._passed = Verdict(LOW_SENSITIVITY if noisy else OK, what_shows(baseline, settings))

    def judge(
        self, state: Memory, night: Sequence[Sample], final: bool = True
    ) -> tuple[Memory, Verdict]:
        """Return the state after this night, and the verdict on it.

        `final` means that no more runs will come. Until then a suspicious night is only suspect,
        and leaves the state as it was.
        """
        if state.alarm:
            return self._watch(state, state.alarm, night, final)
        tonight = self._gather(state, night)
        if not final and tonight.low and not self._is_decided(tonight):
            return state, self._suspect(tonight, tonight.last.time + self.settings.rerun_after)
        time, speed, ratio = night[0].time, self._speed, self._ratio
        slow, relative, better = state.slow, state.ratio, state.better
        if speed:
            slow = speed.fell(slow, tonight.y, tonight.reruns, time)
            better = speed.rose(better, speed.value(night[0].best), time)
        if ratio and tonight.r > -math.inf:
            relative = ratio.fell(relative, tonight.r, tonight.reruns, time)
        is_late = self._finish_excess(tonight.last) > 0
        after = Memory(
            slow,
            relative,
            better,
            tonight.finish if is_late else 0,
            tonight.lost if is_late else 0.0,
            state.nights + 1,
            state.suspicious + (tonight.low or tonight.runs > 1),
        )
        if alarm := self._alarm(after, tonight):
            level = self._worst(night[: tonight.runs])
            opened = Memory(nights=after.nights, suspicious=after.suspicious, alarm=alarm)
            return replace(opened, level=level, beyond=Memory() if level else None), alarm
        return after, self._no_alarm(after, tonight)

    def value(self, night: Sequence[Sample]) -> float:
        """The bandwidth of the night's first run relative to the baseline, as a logarithm."""
        return self._speed.value(night[0].best) if self._speed else 0.0

    def drift(self, state: Memory) -> float | None:
        """Return how near the nights are to an alarm on bandwidth or ratio: 1 is an alarm."""
        if not self.baseline:
            return None
        if state.alarm:
            return 1.0
        limits = self.settings
        return max(state.slow.level / limits.slow_limit, state.ratio.level / limits.ratio_limit)

    def _is_decided(self, tonight: _Tonight) -> bool:
        """Would a further re-run say no more?"""
        return tonight.is_finish or tonight.reruns >= self.settings.max_reruns

    def _gather(self, state: Memory, night: Sequence[Sample]) -> _Tonight:
        """Take the runs that the rules ask for: as long as the night is suspicious, the next."""
        limits = self.settings
        tonight = _Tonight(night[0], night[0].time, finish=state.finish, lost=state.lost)
        for run in night:
            counts = not tonight.runs
            if tonight.runs and run.time - tonight.last.time >= limits.rerun_after:
                tonight.reruns += 1
                counts = True
            tonight.runs += 1
            excess, fell = self._finish_excess(run), self._fell_alone(run)
            if counts:
                tonight.last = run
                tonight.finish += excess > 0
                tonight.lost = max(0.0, tonight.lost + min(fell, limits.clip) - limits.slack)
            if excess > limits.finish_sure and fell > limits.floor_spreads:
                tonight.last, tonight.is_finish = run, True
            often = tonight.finish >= limits.finish_runs and tonight.lost > limits.ratio_limit
            tonight.is_finish |= often
            y, r = self._values(run)
            tonight.y, tonight.r = max(tonight.y, y), max(tonight.r, r)
            tonight.low = excess > 0 and tonight.lost > 0
            if self._speed:
                tonight.low |= self._speed.is_low(tonight.y, state.slow)
            if self._ratio and run.ratio is not None:
                tonight.low |= self._ratio.is_low(tonight.r, state.ratio)
            if not tonight.low or self._is_decided(tonight):
                break
        return tonight

    def _values(self, run: Sample) -> tuple[float, float]:
        """Bandwidth and ratio, as in _Tonight."""
        speed, ratio = self._speed, self._ratio
        y = speed.value(run.best) if speed else -math.inf
        return y, ratio.value(run.ratio) if ratio and run.ratio is not None else -math.inf

    def _finish_excess(self, run: Sample) -> float:
        """Return by how much the part of the time that finishes the file is above R3's limit; more
        than 0 is R3's signature."""
        part, limits = run.overhead_fraction, []
        if part is None or run.finish_s < self.settings.noticed_s:
            return -math.inf
        # A write phase that has become faster raises the fraction as well.
        if self._speed and self._speed.value(run.best) < -self._speed.warn:
            limits.append(self._finish_limit)
        if self._may_be_defect and run.ratio is not None:
            limits.append(self.settings.defect_limit(max(run.ratio, run.ratio_median)))
        return part - min(limits, default=math.inf)

    def _fell_alone(self, run: Sample) -> float:
        """Return how many spreads the ratio to MPI-IO is below its usual. It is 0 if MPI-IO has
        lost as much in the same job, and infinite if the ratio is a fault by itself, or nobody can
        tell."""
        if not (self._speed and self._ratio and run.ratio is not None) or self._is_defect(run):
            return math.inf
        ratio = self._ratio.value(run.ratio)
        is_shared = ratio >= self.settings.shared_loss * self._speed.value(run.best)
        return 0.0 if is_shared else -ratio / self._ratio.spread

    def _is_defect(self, run: Sample) -> bool:
        """Is it R3's fault that needs no past?"""
        part, ratio = run.overhead_fraction, run.ratio
        if part is None or ratio is None or not self._may_be_defect:
            return False
        return self.settings.is_defect(part, max(ratio, run.ratio_median))

    # Alarms

    def _alarm(self, after: Memory, tonight: _Tonight) -> Verdict | None:
        """The alarm that this night raises; the rule that says most of the cause comes first."""
        limits, words = self.settings, self._words
        if tonight.is_finish:
            run, y, r = tonight.last, tonight.y, tonight.r
            if self.baseline and (run.overhead_fraction or 0) > self._finish_limit:
                return tonight.raised(R3, words.finish(run, y, r), self._lost(R3, y, r))
            part = run.ratio or 0
            return tonight.raised(R3, words.defect(part), 1 - part, outcome=SLOW_LIBRARY)
        if self._ratio and (ratio := after.ratio).level:
            confirmed = tonight.reruns >= limits.max_reruns
            at_once = confirmed and tonight.r < self._ratio.floor(limits.ratio_floor)
            if at_once or ratio.level > limits.ratio_limit:
                return tonight.raised(R2, words.drop(R2, ratio), ratio.drop, ratio.since)
        if (slow := after.slow).level > limits.slow_limit:
            return tonight.raised(R1, words.drop(R1, slow), slow.drop, slow.since)
        return None

    def _no_alarm(self, after: Memory, tonight: _Tonight) -> Verdict:
        limits, runs = self.settings, tonight.runs
        confirmed = tonight.reruns >= limits.max_reruns
        if confirmed and self._speed and tonight.y < self._speed.floor(limits.severe):
            drop = 1 - math.exp(tonight.y)
            return tonight.raised(R4, self._words.severe(runs, drop), drop)
        if tonight.low:
            return self._suspect(tonight, None)
        if (gain := after.better).level > limits.better_limit:
            words, drop = self._words.gain(gain), gain.drop
            return Verdict(_GAINED, words, runs=runs, rule=GAIN, drop=drop, since=gain.since)
        passed = replace(self._passed, runs=runs)
        often = after.suspicious > limits.max_suspect * after.nights
        if often and after.nights >= limits.min_nights:
            many = f"{after.suspicious} of {after.nights} nights were suspicious"
            words = f"{many}; {passed.sentence}"
            return replace(passed, outcome=LOW_SENSITIVITY, sentence=words)
        return passed

    def _suspect(self, tonight: _Tonight, rerun_at: datetime | None) -> Verdict:
        last, runs = tonight.last, tonight.runs
        sentence = self._words.suspect(last, tonight.y, tonight.r, runs, rerun_at)
        return Verdict(SUSPECT, sentence, runs=runs, rerun_at=rerun_at)

    def _lost(self, rule: str | None, y: float, r: float) -> float:
        """The part that is lost of what the rule judges."""
        return 1 - math.exp(r if rule in (R2, R3) and r > -math.inf else y)

    # While an alarm is open

    def _watch(
        self, state: Memory, alarm: Verdict, night: Sequence[Sample], final: bool
    ) -> tuple[Memory, Verdict]:
        """A night while an alarm is open: has it gone, and is there more than the alarm says?"""
        limits, back = self.settings, self._back(alarm, night)
        beyond, more = self._beyond(state, alarm, night, final)
        looked = night[: max(len(back), more.runs)]
        reruns = _reruns(back, limits)
        is_back = all(self._is_back(alarm, run) for run in back)
        rerun_at = more.rerun_at
        if is_back and reruns < limits.recovered_reruns and len(back) == len(night):
            rerun_at = back[-1].time + limits.rerun_after
        if not final and rerun_at:
            return state, replace(self._open(state, alarm, looked, more), rerun_at=rerun_at)
        recent = (*state.recent, all(self._is_well(alarm, run) for run in looked))
        after = replace(state, recent=recent[-limits.recovered_of :], beyond=beyond)
        why = f"{sum(after.recent)} of {len(after.recent)} nights were well"
        if is_back and reruns >= limits.recovered_reruns:
            why = f"all {len(back)} runs of the night are as they were before it"
        elif sum(after.recent) < limits.recovered:
            return after, self._open(after, alarm, looked, more)
        sentence = f"the alarm of {alarm.raised:%Y-%m-%d} has gone: {why}"
        over = replace(alarm, outcome=RESOLVED, sentence=sentence, runs=len(looked))
        return Memory(nights=state.nights, suspicious=state.suspicious), over

    def _worst(self, runs: Sequence[Sample]) -> Baseline | None:
        """The worst of some runs, as a baseline; None: there was none before."""
        usual = self.baseline
        if not (usual and self._speed):
            return None
        values = [self._values(run) for run in runs]
        level = replace(usual, m=usual.m + min([0.0, *(y for y, _ in values)]))
        if usual.m_r is not None:
            ratios = [r for _, r in values if r > -math.inf]
            level = replace(level, m_r=usual.m_r + min([0.0, *ratios]))
        if usual.overhead_fraction is not None:
            parts = [run.overhead_fraction or 0.0 for run in runs]
            level = replace(level, overhead_fraction=max([usual.overhead_fraction, *parts]))
        return level

    def _beyond(
        self, state: Memory, alarm: Verdict, night: Sequence[Sample], final: bool
    ) -> tuple[Memory | None, Verdict]:
        """Judge a night beside the worst run of the alarm's night."""
        if state.level is None or state.beyond is None:
            return None, Verdict(OK, "")
        level_of = f"the alarm of {alarm.raised:%Y-%m-%d}"
        worse = Detector(state.level, self.settings, *self._named, level_of)
        return worse.judge(state.beyond, night, final)

    def _back(self, alarm: Verdict, night: Sequence[Sample]) -> Sequence[Sample]:
        """The runs that tell whether all is as before the alarm: up to the first that is not."""
        limits = self.settings
        for count, run in enumerate(night, 1):
            told = night[:count]
            if not self._is_back(alarm, run) or _reruns(told, limits) >= limits.recovered_reruns:
                return told
        return night

    def _is_well(self, alarm: Verdict, run: Sample) -> bool:
        """Would no rule ask for a re-run? What the alarm is about must have been measured."""
        compares = bool(self._ratio) or alarm.outcome.is_absolute
        if alarm.rule in (R2, R3) and compares and run.ratio is None:
            return False
        if alarm.rule == R3 and run.overhead_fraction is None:
            return False
        well = self._finish_excess(run) <= 0 or self._fell_alone(run) <= self.settings.slack
        if self._speed:
            well &= not self._speed.is_low(self._speed.value(run.best), REST)
        if self._ratio and run.ratio is not None:
            well &= not self._ratio.is_low(self._ratio.value(run.ratio), REST)
        return well

    def _is_back(self, alarm: Verdict, run: Sample) -> bool:
        """Is it well, and nearer to its baseline than to the alarm?"""
        if not self._is_well(alarm, run):
            return False
        if alarm.rule == R3:
            return self._finish_excess(run) <= 0
        left = 1 - self._lost(alarm.rule, *self._values(run))
        return left > math.sqrt(1 - (alarm.drop or 0))

    def _open(
        self, state: Memory, alarm: Verdict, looked: Sequence[Sample], more: Verdict
    ) -> Verdict:
        """The alarm with the figures of this night, and what there is beside it."""
        values = [self._values(run) for run in looked]
        y, r = (max(column) for column in zip(*values, strict=True))
        ratio, well = max(run.ratio or 0 for run in looked), sum(state.recent)
        sentence = self._words.open(alarm, looked[0], ratio, y, r, well)
        drop = 1 - ratio if alarm.outcome.is_absolute else self._lost(alarm.rule, y, r)
        now = replace(alarm, sentence=sentence, runs=len(looked), drop=drop)
        if more.outcome.is_suspect:
            return replace(now, sentence=f"{sentence}; {more.sentence}")
        if not more.is_red:
            return now
        worst = min(alarm.outcome, more.outcome, key=lambda outcome: outcome.rank)
        drop = self._lost(more.rule, y, r)
        return replace(more, outcome=worst, sentence=f"{more.sentence}; {sentence}", drop=drop)


def _reruns(runs: Sequence[Sample], limits: Settings) -> int:
    """Count the runs that are far enough from the run before."""
    count, last = 0, runs[0]
    for run in runs[1:]:
        if run.time - last.time >= limits.rerun_after:
            count, last = count + 1, run
    return count
