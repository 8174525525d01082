"""The detector: what a night says of one case, given its baseline and the nights before.

    detector, state = Detector(baseline), State()
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
from statistics import median

from iowatch.detector.baseline import Baseline, Sample, visible_drops, what_shows
from iowatch.detector.settings import NORMAL, Settings
from iowatch.files import brief_rate
from iowatch.verdict import Kind, Verdict

_KEPT = 30  # nights: enough for the size of a change, however long nobody blesses it


#: The rules: bandwidth, ratio to MPI-IO, finishing the file, this night alone, R1 mirrored.
R1, R2, R3, R4, GAIN = "R1", "R2", "R3", "R4", "gain"


@dataclass(frozen=True, slots=True)
class Cusum:
    """The level of a one-sided CUSUM, and the values since it was 0."""

    level: float = 0.0
    values: tuple[float, ...] = ()
    since: datetime | None = None

    @property
    def drop(self) -> float:
        """The part of the baseline that is lost; less than 0: gained."""
        return 1 - math.exp(median(self.values))


REST = Cusum()


class Chart:
    """The rules for one metric. Values are logarithms relative to the baseline's median."""

    def __init__(self, centre: float, spread: float, settings: Settings) -> None:
        self.centre = centre
        self.spread = spread
        self.settings = settings
        self.warn = settings.warn_line(spread, again=False)
        self._warn_again = settings.warn_line(spread, again=True)

    def value(self, metric: float) -> float:
        return math.log(metric) - self.centre

    def is_low(self, value: float, cusum: Cusum) -> bool:
        """Is a re-run due?"""
        return value < (self._warn_again if cusum.level else self.warn)

    def floor(self, part: float) -> float:
        """Below this part of the baseline, and out of its reach: one night says enough."""
        return min(math.log(part), -self.settings.floor_spreads * self.spread)

    def fell(self, cusum: Cusum, value: float, reruns: int, time: datetime) -> Cusum:
        """The CUSUM of decreases after a night whose best run has this value."""
        limits = self.settings
        score = -value / self.spread
        if score < limits.reset:
            return REST
        confirmed = reruns / limits.max_reruns
        clip = limits.clip_unconfirmed + (limits.clip - limits.clip_unconfirmed) * confirmed
        score = min(score + limits.rerun_bonus * reruns, clip)
        return _add(cusum, score - limits.slack, value, time)

    def rose(self, cusum: Cusum, value: float, time: datetime) -> Cusum:
        """The CUSUM of increases. It stays near its limit, so that it falls when the gain ends."""
        limits = self.settings
        score = min(value / self.spread, limits.clip) - limits.slack
        if score <= 0 and not cusum.level:
            return REST
        return _add(cusum, min(score, limits.better_limit + 2 - cusum.level), value, time)


def _beside(value: float, usual: str) -> str:
    """Where a logarithm relative to what is usual is, such as `12% below its baseline`."""
    change = math.exp(value) - 1
    amount = f"{abs(change):.0%}"
    if amount == "0%":
        return f"at {usual}"
    return f"{amount} {'above' if change > 0 else 'below'} {usual}"


def _add(cusum: Cusum, score: float, value: float, time: datetime) -> Cusum:
    level = cusum.level + score
    if level <= 0:
        return REST
    return Cusum(level, (*cusum.values[1 - _KEPT :], value), cusum.since or time)


@dataclass(frozen=True, slots=True)
class State:
    """What the nights since the bless left behind: State() begins, and begins again at a bless."""

    slow: Cusum = REST
    ratio: Cusum = REST
    better: Cusum = REST
    finish: int = 0  # the last runs in a row that have R3's signature
    nights: int = 0
    suspicious: int = 0  # of these nights
    alarm: Verdict | None = None  # open
    recent: tuple[bool, ...] = ()  # the nights since the alarm: was all well?


@dataclass(slots=True)
class _Tonight:
    """The runs of a night taken together: the best of them counts."""

    last: Sample
    runs: int = 0
    reruns: int = 0  # far enough apart to count
    y: float = -math.inf  # bandwidth relative to the baseline; without one it stays so
    r: float = -math.inf  # ratio to MPI-IO, likewise
    low: bool = False  # a re-run is due
    finish: int = 0  # runs with R3's signature, with those that the night before ended with


class Detector:
    """The rules for one case. It remembers nothing: that is the State."""

    def __init__(
        self,
        baseline: Baseline | None,
        settings: Settings = NORMAL,
        what: str = "bandwidth",
        unit: str = "MiB/s",
    ) -> None:
        """`what` is judged, in sentences, and `unit` that of its baseline."""
        self.settings = settings
        self.baseline = baseline
        self.what, self.unit = what, unit
        self._speed: Chart | None = None
        self._ratio: Chart | None = None
        self._finish_limit = math.inf
        self._may_be_defect = True
        self._passed = Verdict(Kind.NO_BASELINE, "there is no baseline yet")
        if baseline is None:
            return
        self._speed = Chart(baseline.m, baseline.s, settings)
        if baseline.m_r is not None and baseline.s_r is not None:
            self._ratio = Chart(baseline.m_r, baseline.s_r, settings)
        if baseline.finish_fraction is not None:
            self._finish_limit = settings.finish_limit(baseline.finish_fraction)
            if baseline.m_r is not None:
                # A run may look so by chance; the median of the blessed nights does not.
                self._may_be_defect = settings.is_defect(
                    baseline.finish_fraction, math.exp(baseline.m_r)
                )
        noisy = min(visible_drops(baseline, settings)) > settings.wanted_drop
        self._passed = Verdict(Kind.NOISY if noisy else Kind.OK, what_shows(baseline, settings))

    def judge(
        self, state: State, night: Sequence[Sample], final: bool = True
    ) -> tuple[State, Verdict]:
        """The state after this night, and the verdict on it.

        `final` means that no more runs will come. Until then a suspicious night is only suspect,
        and leaves the state as it was.
        """
        if state.alarm:
            return self._watch(state, state.alarm, night)
        limits = self.settings
        tonight = self._gather(state, night)
        undecided = tonight.finish < limits.finish_runs and tonight.reruns < limits.max_reruns
        if not final and tonight.low and undecided:
            return state, self._suspect(tonight, tonight.last.time + limits.rerun_after)
        time, speed, ratio = night[0].time, self._speed, self._ratio
        slow, relative, better = state.slow, state.ratio, state.better
        if speed:
            slow = speed.fell(slow, tonight.y, tonight.reruns, time)
            better = speed.rose(better, speed.value(night[0].best), time)
        if ratio and tonight.r > -math.inf:
            relative = ratio.fell(relative, tonight.r, tonight.reruns, time)
        after = State(
            slow,
            relative,
            better,
            tonight.finish if self._finish_excess(tonight.last) > 0 else 0,
            state.nights + 1,
            state.suspicious + (tonight.low or tonight.runs > 1),
        )
        alarm = self._alarm(after, tonight, time)
        if alarm:
            return State(nights=after.nights, suspicious=after.suspicious, alarm=alarm), alarm
        return after, self._no_alarm(after, tonight, time)

    def value(self, night: Sequence[Sample]) -> float:
        """The bandwidth of the night's first run relative to the baseline, as a logarithm."""
        return self._speed.value(night[0].best) if self._speed else 0.0

    def drift(self, state: State) -> float | None:
        """How near the nights so far are to an alarm on bandwidth or ratio: 0 to 1, an alarm."""
        if not self.baseline:
            return None
        if state.alarm:
            return 1.0
        limits = self.settings
        levels = (state.slow.level / limits.slow_limit, state.ratio.level / limits.ratio_limit)
        return max(levels)

    def _gather(self, state: State, night: Sequence[Sample]) -> _Tonight:
        """The runs that the rules ask for: as long as the night is suspicious, the next one."""
        limits, speed, ratio = self.settings, self._speed, self._ratio
        tonight = _Tonight(night[0], finish=state.finish)
        for run in night:
            counts = not tonight.runs
            if tonight.runs and run.time - tonight.last.time >= limits.rerun_after:
                tonight.reruns += 1
                counts = True
            tonight.runs += 1
            excess = self._finish_excess(run)
            tonight.low = excess > 0
            if counts:
                tonight.last = run
                tonight.finish += tonight.low
            if excess > limits.finish_sure and not self._is_mpiio_low(run):
                tonight.last = run
                tonight.finish = max(tonight.finish, limits.finish_runs)
            if speed:
                tonight.y = max(tonight.y, speed.value(run.best))
                tonight.low |= speed.is_low(tonight.y, state.slow)
            if ratio and run.ratio is not None:
                tonight.r = max(tonight.r, ratio.value(run.ratio))
                tonight.low |= ratio.is_low(tonight.r, state.ratio)
            enough = tonight.finish >= limits.finish_runs or tonight.reruns >= limits.max_reruns
            if enough or not tonight.low:
                break
        return tonight

    def _finish_excess(self, run: Sample) -> float:
        """By how much the part of the time that finishes the file is above R3's limit; more than 0
        is its signature."""
        part, limits = run.finish_fraction, []
        if part is None or run.finish_s < self.settings.noticed_s:
            return -math.inf
        # A write phase that has become faster raises the fraction as well.
        if self._speed and self._speed.value(run.best) < -self._speed.warn:
            limits.append(self._finish_limit)
        if self._may_be_defect and run.ratio is not None:
            limits.append(self.settings.defect_limit(max(run.ratio, run.ratio_median)))
        return part - min(limits, default=math.inf)

    def _is_mpiio_low(self, run: Sample) -> bool:
        """Is MPI-IO slow in the same job, as far as there is a baseline to tell?"""
        if not (self._speed and self._ratio and run.ratio is not None):
            return False
        own = self._speed.value(run.best)
        control = own - self._ratio.value(run.ratio)
        return self._speed.is_low(control, REST) and control < self.settings.shared_loss * own

    def _alarm(self, after: State, tonight: _Tonight, time: datetime) -> Verdict | None:
        """The alarm that this night raises; the rule that says most of the cause comes first."""
        limits = self.settings
        if tonight.finish >= limits.finish_runs:
            return self._finish_alarm(tonight, time)
        if self._ratio and after.ratio.level:
            confirmed = tonight.reruns >= limits.max_reruns
            at_once = confirmed and tonight.r < self._ratio.floor(limits.ratio_floor)
            if at_once or after.ratio.level > limits.ratio_limit:
                usual = f"its usual {math.exp(self._ratio.centre):.2f} of MPI-IO's in the same jobs"
                return self._drop_alarm(R2, after.ratio, usual, tonight, time)
        if after.slow.level > limits.slow_limit:
            return self._drop_alarm(R1, after.slow, self._usual(), tonight, time)
        return None

    def _usual(self) -> str:
        if not self.baseline:
            return ""
        return f"its baseline of {brief_rate(math.exp(self.baseline.m))} {self.unit}"

    def _finish_alarm(self, tonight: _Tonight, time: datetime) -> Verdict:
        part, ratio = tonight.last.finish_fraction or 0, tonight.last.ratio or 0
        if part > self._finish_limit and self.baseline:
            drop = 1 - math.exp(tonight.y if tonight.r == -math.inf else tonight.r)
            sentence = "finishing the file takes more of the time than in its baseline"
            sentence += f", and bandwidth is {drop:.0%} lower" if drop > 0 else ""
            return Verdict(Kind.REGRESSION, sentence, (), tonight.runs, R3, drop, time, raised=time)
        sentence = (
            f"bandwidth is {ratio:.2f} of MPI-IO's, and the time goes into finishing the file: "
            "that is a fault, whatever the past was"
        )
        return Verdict(Kind.DEFECT, sentence, (), tonight.runs, R3, 1 - ratio, time, raised=time)

    def _drop_alarm(
        self, rule: str, cusum: Cusum, usual: str, tonight: _Tonight, time: datetime
    ) -> Verdict:
        drop, since = cusum.drop, cusum.since
        sentence = f"{self.what} is {drop:.0%} below {usual} since {since:%Y-%m-%d}"
        return Verdict(Kind.REGRESSION, sentence, (), tonight.runs, rule, drop, since, raised=time)

    def _no_alarm(self, after: State, tonight: _Tonight, time: datetime) -> Verdict:
        limits, runs = self.settings, tonight.runs
        confirmed = tonight.reruns >= limits.max_reruns
        if confirmed and self._speed and tonight.y < self._speed.floor(limits.severe):
            drop = 1 - math.exp(tonight.y)
            sentence = f"all {runs} runs of the night are {drop:.0%} or more below {self._usual()}"
            return Verdict(Kind.SEVERE, sentence, (), runs, R4, drop, time, raised=time)
        if tonight.low:
            return self._suspect(tonight, None)
        if after.better.level > limits.better_limit:
            drop, since = after.better.drop, after.better.since
            sentence = f"{self.what} is {-drop:.0%} above {self._usual()} since {since:%Y-%m-%d}"
            sentence += ": bless it if it is to stay"
            return Verdict(Kind.IMPROVEMENT, sentence, (), runs, GAIN, drop, since)
        passed = self._passed
        often = after.suspicious > limits.max_suspect * after.nights
        if often and after.nights >= limits.min_nights:
            sentence = f"{after.suspicious} of {after.nights} nights were suspicious"
            passed = replace(passed, kind=Kind.NOISY, sentence=f"{sentence}; {passed.sentence}")
        return passed if runs == 1 else replace(passed, runs=runs)

    def _suspect(self, tonight: _Tonight, rerun_at: datetime | None) -> Verdict:
        signs = []
        if tonight.y > -math.inf:
            signs.append(f"{self.what} is {_beside(tonight.y, 'its baseline')}")
        if tonight.r > -math.inf:
            signs.append(f"its ratio to MPI-IO is {_beside(tonight.r, 'its usual value')}")
        if tonight.last.finish_fraction is not None:
            part = f"{tonight.last.finish_fraction:.0%}"
            signs.append(f"finishing the file takes {part} of the time")
        runs = "its only run" if tonight.runs == 1 else f"the best of {tonight.runs} runs"
        sentence = f"{', '.join(signs)}, in {runs}"
        if rerun_at:
            sentence += f": a re-run is due from {rerun_at:%Y-%m-%d %H:%M}"
        return Verdict(Kind.SUSPECT, sentence, (), tonight.runs, rerun_at=rerun_at)

    def _watch(
        self, state: State, alarm: Verdict, night: Sequence[Sample]
    ) -> tuple[State, Verdict]:
        """A night while an alarm is open: only its end is looked for, and no re-run asked for."""
        limits, run = self.settings, night[0]
        well = self._finish_excess(run) <= 0
        if self._speed:
            well &= not self._speed.is_low(self._speed.value(run.best), REST)
        if self._ratio and run.ratio is not None:
            well &= not self._ratio.is_low(self._ratio.value(run.ratio), REST)
        recent = (*state.recent, well)[-limits.recovered_of :]
        raised = f"{alarm.raised:%Y-%m-%d}"
        if sum(recent) < limits.recovered:
            sentence = (
                f"{alarm.sentence} (alarm of {raised}, nights that were well since: {sum(recent)})"
            )
            return replace(state, recent=recent), replace(alarm, sentence=sentence, runs=1)
        sentence = (
            f"the alarm of {raised} has gone: {sum(recent)} of {len(recent)} nights were well"
        )
        over = Verdict(
            Kind.TRANSIENT, sentence, (), 1, alarm.rule, alarm.drop, alarm.since, alarm.raised
        )
        return State(nights=state.nights, suspicious=state.suspicious), over
