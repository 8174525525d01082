"""Tonight's job of a case against the case's own past."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from statistics import median
from typing import TextIO

from iowatch.bless import Blessed, job_of, jobs_of
from iowatch.detector.baseline import Night
from iowatch.detector.judgement import Judgement
from iowatch.detector.rules import Detector, State
from iowatch.history import Record, by_night, is_same_night


@dataclass(frozen=True)
class Trend:
    """What the past says of tonight's job."""

    judgement: Judgement
    drift: float | None  # 0 to 1, an alarm; None: there is no baseline
    usual: Mapping[str, float]  # median of each figure over the blessed nights that are on record


def judge_tonight(
    nights: Mapping[date, Sequence[Record]],
    blessed: Blessed | None,
    time: datetime,
    figures: Mapping[str, float],
) -> Trend:
    """What the detector says of a job that has just ended, after the nights since the bless.

    The night is not over: a suspicious job is only suspect while a re-run may come. Runs that a
    wrong clock has dated later than this one are no past of it.
    """
    detector, state = Detector(blessed.baseline if blessed else None), State()
    earlier: Night = []
    for night in sorted(nights):
        runs = [record for record in nights[night] if record.time <= time]
        jobs = jobs_of(runs)
        if runs and is_same_night(runs, time):
            earlier = jobs
        elif jobs and (blessed is None or night > blessed.last):
            state, _ = detector.judge(state, jobs)
    tonight = [*earlier, job_of(time, figures)]
    judgement = detector.judge(state, tonight, final=False)[1]
    drift = detector.drift(detector.judge(state, tonight)[0])
    return Trend(judgement, drift, usual(nights, blessed) if blessed else {})


def usual(nights: Mapping[date, Sequence[Record]], blessed: Blessed) -> dict[str, float]:
    """The median of each figure over the runs of the blessed nights."""
    runs = [
        record.figures
        for night, records in nights.items()
        if blessed.first <= night <= blessed.last
        for record in records
    ]
    names = {name for run in runs for name in run}
    return {name: median(run[name] for run in runs if name in run) for name in names}


COLUMNS = ("case", "night", "job", "max_mib_s", "control_max_mib_s", "close_fraction")


def write_table(records: Iterable[Record], file: TextIO) -> int:
    """Write the valid runs, and return their number.

    A night is a number of days since the first of all nights; its first valid run is job 0, and
    those after it are its re-runs, as the detector has them.
    """
    cases = by_night(records)
    first = min((night for nights in cases.values() for night in nights), default=date.min)
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    count = 0
    for case, nights in sorted(cases.items(), key=lambda item: str(item[0])):
        for night, runs in sorted(nights.items()):
            for number, job in enumerate(jobs_of(runs)):
                control = job.best / job.ratio if job.ratio else None
                table.writerow((case, (night - first).days, number, job.best, control, job.close))
                count += 1
    return count
