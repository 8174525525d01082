"""Tonight's job of a case against the case's own past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from iowatch.baselines import Blessed, jobs_of
from iowatch.detector import Detector, State
from iowatch.detector_baseline import Job, Night
from iowatch.detector_judgement import Judgement
from iowatch.history import Record, is_same_night


def judge_tonight(
    nights: Mapping[date, Sequence[Record]], blessed: Blessed | None, job: Job
) -> Judgement:
    """What the detector says of a job that has just ended, after the nights since the bless.

    The night is not over: a suspicious job is only suspect while a re-run may come.
    """
    detector, state = Detector(blessed.baseline if blessed else None), State()
    earlier: Night = []
    for night in sorted(nights):
        jobs = jobs_of(nights[night])
        if is_same_night(nights[night], job.time):
            earlier = jobs
        elif jobs and (blessed is None or night > blessed.last):
            state, _ = detector.judge(state, jobs)
    return detector.judge(state, [*earlier, job], final=False)[1]
