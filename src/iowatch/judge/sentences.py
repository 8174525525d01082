"""The sentences of the detector: what is judged, and what it is compared with."""

from __future__ import annotations

import math
from datetime import datetime

from iowatch.base.text import brief_rate
from iowatch.cases.verdict import Verdict
from iowatch.judge.baseline import Baseline, Sample
from iowatch.judge.charts import Cusum
from iowatch.judge.settings import R2, R3


class Sentences:
    """The sentences on one case. `y` and `r` are its bandwidth and its ratio to MPI-IO, as
    logarithms relative to a baseline, or to the level of the alarm that `alarm_of` names."""

    def __init__(self, baseline: Baseline | None, quantity: str, unit: str, alarm_of: str) -> None:
        self._quantity, at = quantity, f"at {alarm_of}"
        self._part = baseline.overhead_fraction if baseline else None
        rate = f"{brief_rate(math.exp(baseline.m))} {unit}" if baseline else ""
        ratio = f"{math.exp(baseline.m_r or 0):.2f} of MPI-IO's" if baseline else ""
        self._usual, self._usual_ratio, self._level, self._level_ratio, self._then = (
            (f"its {rate} {at}", f"its {ratio} {at}", f"its level {at}", f"its level {at}", at)
            if alarm_of
            else (
                f"its baseline of {rate}",
                f"its usual {ratio} in the same jobs",
                "its baseline",
                "its usual value",
                "in its baseline",
            )
        )

    def drop(self, rule: str, cusum: Cusum) -> str:
        usual = self._usual_ratio if rule == R2 else self._usual
        return f"{self._quantity} is {cusum.drop:.0%} below {usual} since {cusum.since:%Y-%m-%d}"

    def gain(self, cusum: Cusum) -> str:
        above = f"{-cusum.drop:.0%} above {self._usual} since {cusum.since:%Y-%m-%d}"
        return f"{self._quantity} is {above}: bless it if it is to stay"

    def severe(self, runs: int, drop: float) -> str:
        return f"all {runs} runs of the night are {drop:.0%} or more below {self._usual}"

    def defect(self, ratio: float) -> str:
        return (
            f"bandwidth is {ratio:.2f} of MPI-IO's, and the time goes into finishing the file: "
            "that is a fault, whatever the past was"
        )

    def suspect(self, run: Sample, y: float, r: float, count: int, due: datetime | None) -> str:
        signs = []
        if y > -math.inf:
            signs.append(f"{self._quantity} is {_beside(y, self._level)}")
        if r > -math.inf:
            signs.append(f"its ratio to MPI-IO is {_beside(r, self._level_ratio)}")
        if run.overhead_fraction is not None:
            signs.append(_finish_part(run))
        runs = "its only run" if count == 1 else f"the best of {count} runs"
        again = f": a re-run is due from {due:%Y-%m-%d %H:%M}" if due else ""
        return f"{', '.join(signs)}, in {runs}{again}"

    def finish(self, run: Sample, y: float, r: float) -> str:
        """Say what finishing the file takes, and what that has cost: bandwidth and ratio."""
        part = _finish_part(run)
        if self._part is not None:
            part += f", and {self._part:.0%} {self._then}"
        signs = [f"{self._quantity} is {_beside(y, self._usual)}"] if y > -math.inf else []
        if r > -math.inf:
            signs.append(_beside(r, self._usual_ratio))
        return "; ".join([part, " and ".join(signs)] if signs else [part])

    def open(self, alarm: Verdict, run: Sample, ratio: float, y: float, r: float, well: int) -> str:
        """Say of an open alarm where the night is; `well` of the nights since were well."""
        if alarm.outcome.is_absolute:
            sentence = f"bandwidth is {ratio:.2f} of MPI-IO's"
            if run.overhead_fraction is not None:
                sentence += f", and {_finish_part(run)}"
        elif alarm.rule == R3:
            sentence = self.finish(run, y, r)
        elif alarm.rule == R2 and r == -math.inf:
            sentence = f"{self._quantity} is not compared with MPI-IO"
        else:
            now = (r, self._usual_ratio) if alarm.rule == R2 else (y, self._usual)
            sentence = f"{self._quantity} is {_beside(*now)}"
        since = f", slow since {alarm.since:%Y-%m-%d}" if alarm.since else ""
        raised = f"alarm of {alarm.raised:%Y-%m-%d}{since}"
        return f"{sentence} tonight ({raised}, nights that were well since: {well})"


def _beside(value: float, usual: str) -> str:
    """Say where a logarithm relative to what is usual is, such as `12% below its baseline`."""
    change = math.exp(value) - 1
    amount = f"{abs(change):.0%}"
    if amount == "0%":
        return f"at {usual}"
    return f"{amount} {'above' if change > 0 else 'below'} {usual}"


def _finish_part(run: Sample) -> str:
    return f"finishing the file takes {run.overhead_fraction or 0:.0%} of the time"
