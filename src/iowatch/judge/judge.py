"""The verdict on a run: by the references in force, and by the case's own past."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from statistics import median

from iowatch.base.text import brief, brief_rate, counted
from iowatch.cases.case import Case, Check, Part
from iowatch.cases.metric import Reference
from iowatch.cases.run import Run, deciding, fastest
from iowatch.cases.verdict import (
    NO_REFERENCE,
    OK,
    SLOW_LIBRARY,
    TOO_FAST,
    Outcome,
    Reason,
    State,
    Verdict,
)
from iowatch.judge.baseline import Sample, estimate
from iowatch.judge.bless import Blessed, judged_by, sample_of, samples_of
from iowatch.judge.explain import is_defect, why_slow
from iowatch.judge.rules import Detector, Memory
from iowatch.judge.settings import NORMAL, R2, R3
from iowatch.judge.stored import JudgedPart, JudgedRun, gone_on, judged_of
from iowatch.measure.checks import METRICS, physical_rate, rate_name, rate_unit

COMPARED = 30  # good nights that stand in for a baseline

#: The metric that a rule of the detector judges, if it is not the bandwidth itself.
_METRIC = {R2: "ratio", R3: "overhead_fraction"}


@dataclass(frozen=True)
class Past:
    """The verdict of the past on tonight's run."""

    verdict: Verdict
    drift: float | None  # 0 to 1, an alarm; None: there is no baseline
    usual: Mapping[str, float]  # median of each metric over what it is compared with
    judged: JudgedRun | None = None  # to be stored with the run


def judge(
    case: Case,
    metrics: Mapping[str, float],
    references: Mapping[str, Reference],
    source: str,
    ceiling: float,
    past: Past,
    blessed: Blessed | None,
    control: Mapping[str, float],
    waited: str = "",
) -> Verdict:
    """The verdict on a verified run, and where it lost its time.

    `references` stand in the file `source`; `ceiling` is the filesystem's physical limit in MiB/s.
    `control` has the median seconds of MPI-IO's phases in the same rounds, if it is not the case's.
    `waited` says that its ranks had to wait for their processors: then a slow run says nothing.
    """
    present = by_references(metrics, in_force(references, blessed), source, ceiling)
    if not present.outcome.is_too_fast and not (blessed and "overhead_fraction" in blessed.judged):
        present = _with_defect(case, metrics, control, present)
    verdict = combine_with_past(metrics, present, past, blessed)
    if not verdict.outcome.is_slow:
        return verdict
    if waited:
        busy = Outcome(State.UNJUDGED, Reason.NODE_BUSY)
        return Verdict(busy, f"{waited}; as it was measured, {verdict.sentence}")
    slow = NORMAL.slow_part(blessed.spread if blessed else None)
    is_told = verdict.rule == R3 and not verdict.outcome.is_absolute
    why = why_slow(case, metrics, past.usual, slow, verdict.is_red, is_told)
    return replace(verdict, sentence=f"{verdict.sentence}; {why}") if why else verdict


def _with_defect(
    case: Case, metrics: Mapping[str, float], control: Mapping[str, float], present: Verdict
) -> Verdict:
    """The founding fault needs no bound and no past where it is unmistakable."""
    if not is_defect(metrics, control):
        return present
    fault = (
        f"{case.backend} has less than half of MPI-IO's bandwidth in the same rounds, and most of "
        "what it loses goes into opening, defining and closing its files"
    )
    if present.outcome.is_slow:
        fault = f"{present.sentence}; {fault}"
    failed = dict.fromkeys((*present.failed, "overhead_fraction"))
    return Verdict(SLOW_LIBRARY, fault, failed=tuple(failed))


def combine_with_past(
    metrics: Mapping[str, float], present: Verdict, past: Past, blessed: Blessed | None
) -> Verdict:
    """The verdict by the references, and by the past."""
    is_alarm = past.verdict.outcome.is_regression
    if present.outcome.is_too_fast or not (blessed or is_alarm):
        return present
    is_worse = present.outcome.is_suspect and not past.verdict.outcome.is_slow
    if not (present.outcome.is_regression or is_worse):
        rule = past.verdict.rule
        failed = past.verdict.failed
        if is_alarm and rule and not failed:
            failed = (_METRIC.get(rule, rate_name(metrics)),)
        return replace(past.verdict, failed=failed)
    if is_alarm:
        return replace(present, sentence=f"{present.sentence}; {past.verdict.sentence}")
    return present


def in_force(references: Mapping[str, Reference], blessed: Blessed | None) -> dict[str, Reference]:
    """The references that count for a case with this baseline.

    The baseline knows which nights of the case are noise. It takes the place of their bounds, but
    for the site's own on bandwidth.
    """
    judged = blessed.judged if blessed else ()
    return {name: entry for name, entry in references.items() if name not in judged}


def by_contract(metrics: Mapping[str, float], ceiling: float) -> Verdict:
    """The verdict on a verified run that is judged later: slow or fast, it is evidence."""
    sentence = "it is verified; a contract, or the next night, judges it"
    return _too_fast(metrics, ceiling) or Verdict(OK, sentence)


def _too_fast(metrics: Mapping[str, float], ceiling: float) -> Verdict | None:
    rate = rate_name(metrics)
    if (stored := physical_rate(metrics)) <= ceiling:
        return None
    sentence = (
        f"{rate} is {brief_rate(stored)} MiB/s, above the physical ceiling of "
        f"{brief_rate(ceiling)} MiB/s in the site's configuration: a cache or a bug was measured"
    )
    return Verdict(TOO_FAST, sentence, failed=(rate,))


def by_references(
    metrics: Mapping[str, float],
    references: Mapping[str, Reference],
    source: str,
    ceiling: float,
) -> Verdict:
    """The verdict on these metrics by what must hold on any night."""
    if too_fast := _too_fast(metrics, ceiling):
        return too_fast
    if not references:
        return Verdict(
            NO_REFERENCE,
            f"there is no reference value for it in {source}: until there is one, measure it with "
            "`iowatch run --record`, or `reframe --mode=record`",
        )

    worse, better = dict[str, str](), list[str]()
    for name, reference in references.items():
        value, low, high = metrics[name], reference.lower, reference.upper
        if low is not None and value < low:
            side, bound = "below", low
        elif high is not None and value > high:
            side, bound = "above", high
        else:
            continue
        unit = METRICS[name].unit.removeprefix("1")
        excess = f"{name} is {brief(value)} {unit}".rstrip()
        excess += f", {side} its bound of {brief(bound)} in {source}"
        if (side == "above") is METRICS[name].lower_is_better:
            worse[name] = excess
        else:
            better.append(excess)

    if worse:
        sentence = "; ".join(worse.values())
        binding = tuple(name for name in worse if not references[name].is_general)
        # An absolute bound needs no history: the fault may have been there from the first day.
        absolute = all(references[name].is_absolute for name in binding)
        reason = Reason.ABSOLUTE_BOUND if absolute else Reason.REFERENCE
        slow = Outcome(State.REGRESSION, reason)
        if not binding:
            slow = Outcome(State.SUSPECT, Reason.GENERAL_BOUND)
        return Verdict(slow, sentence, failed=binding or tuple(worse))
    if better:
        return Verdict(Outcome(State.IMPROVEMENT, Reason.REFERENCE), "; ".join(better))
    return Verdict(OK, f"{counted(len(references), 'metric', 'are')} within {source}")


def by_past(
    check: Check,
    earlier: Sequence[Sequence[Run]],
    tonight: Sequence[Run],
    blessed: Blessed | None,
    time: datetime,
    metrics: Mapping[str, float],
    control: Mapping[str, float],
) -> Past:
    """Ask the detector about a run that has just ended.

    `earlier` are the nights before, oldest first, and `tonight` the runs of this night so far. The
    night is not over: a suspicious run is only suspect while a re-run may come.
    """
    words = (check.rate_in_words, rate_unit(metrics)) if check.rate_in_words else ()
    detector = Detector(blessed.baseline if blessed else None, NORMAL, *words)
    by = judged_by(blessed)
    state, before, last = gone_on(
        _newest_first(earlier, blessed),
        lambda _, runs: judged_of(runs[-1]),
        by,
        lambda state, runs: detector.judge(state, samples_of(runs)),
    )
    now: list[Sample] = [*samples_of(tonight), sample_of(time, metrics, control)]
    verdict = detector.judge(state, now, final=False)[1]
    after, parts = detector.judge(state, now)[0], dict[Part, JudgedPart]()
    if blessed and check.parts(metrics):
        runs = [*_measured(tonight), (time, metrics)]
        parts = judge_parts(check, blessed, earlier, runs, last)
    if check.unit_of_parts:
        verdict = _with_worst_part(parts, verdict)
    of_parts = {part.metric: judged for part, judged in parts.items()}
    judged = JudgedRun(
        by=by, runs=len(now), state=after, before=before, verdict=verdict, parts=of_parts
    )
    usual = medians([run.metrics for run in usual_runs(earlier, blessed)])
    return Past(verdict, detector.drift(after), usual, judged)


def _newest_first(
    earlier: Sequence[Sequence[Run]], blessed: Blessed | None
) -> Iterator[tuple[str, int, Sequence[Run]]]:
    """The nights since a bless, each with its runs that count; none is without."""
    for night in reversed(earlier):
        if blessed and not blessed.is_before(night[0].night):
            continue
        if measured := [run for run in night if run.is_measured]:
            yield measured[0].night, len(measured), measured


def judge_parts(
    check: Check,
    blessed: Blessed,
    earlier: Iterable[Sequence[Run]],
    tonight: Sequence[tuple[datetime, Mapping[str, float]]],
    last: JudgedRun | None = None,
) -> dict[Part, JudgedPart]:
    """Judge each part of a case, such as an OST, against its own baseline; `last`: what the last
    night has left.

    A part that comes or goes changes the peers of the others. Peers are the parts that are there
    tonight and on enough of the blessed nights.
    """

    def samples(
        runs: Iterable[tuple[datetime, Mapping[str, float]]], among: Collection[Part] | None
    ) -> dict[Part, list[Sample]]:
        of_parts: dict[Part, list[Sample]] = {}
        for time, metrics in runs:
            for part, value in check.parts(metrics, among).items():
                of_parts.setdefault(part, []).append(Sample(time, value))
        return of_parts

    nights = [runs for runs in earlier if runs]
    covered = [_measured(runs) for runs in nights if blessed.covers(runs[0].night)]
    times = Counter(part for runs in covered for part in samples(runs, None))
    known = [part for part in samples(tonight, None) if times[part] >= NORMAL.min_nights]
    then = [samples(runs, known) for runs in covered]
    now = samples(tonight, known)
    past = {part: [runs[part] for runs in then if part in runs] for part in now}
    past = {part: nights for part, nights in past.items() if len(nights) >= NORMAL.min_nights}
    left, since = last.parts if last else {}, list[dict[Part, list[Sample]]]()
    if left.keys() != {part.metric for part in past}:  # other peers: once
        later = [runs for runs in nights if blessed.is_before(runs[0].night)]
        left, since = {}, [samples(_measured(runs), known) for runs in later]
    judged, settings = {}, NORMAL.for_one_of(max(len(past), 1))
    unit = check.unit_of_parts
    for part, blessed_nights in past.items():
        baseline = estimate(blessed_nights, settings)
        state = left[part.metric].state if left else Memory()
        detector = Detector(baseline, settings, *((str(part), unit) if unit else ()))
        for runs in since:
            if part in runs:
                state, _ = detector.judge(state, runs[part])
        verdict = detector.judge(state, now[part], final=False)[1]
        after, best = detector.judge(state, now[part])[0], max(run.best for run in now[part])
        judged[part] = JudgedPart(math.exp(baseline.m), best, verdict, after)
    return judged


def _measured(runs: Iterable[Run]) -> list[tuple[datetime, Mapping[str, float]]]:
    """When the runs that count ended, and their metrics."""
    return [(run.time, run.metrics) for run in runs if run.is_measured]


def _with_worst_part(judged: Mapping[Part, JudgedPart], whole: Verdict) -> Verdict:
    """The verdict on a case as a whole, or on the part that is worse; the other parts are named."""
    slow = {
        part: of_part.verdict
        for part, of_part in judged.items()
        if of_part.verdict.outcome.is_slow or of_part.verdict.outcome.is_resolved
    }
    first = min(slow, key=lambda part: slow[part].outcome.rank, default=None)
    if first is None:
        return whole
    worst, others = whole, [*slow]
    if slow[first].outcome.rank < whole.outcome.rank:
        worst, others = slow[first], [part for part in slow if part != first]
        if not worst.sentence.startswith(str(first)):
            worst = replace(worst, sentence=f"{first}: {worst.sentence}")
        if worst.outcome.is_regression:
            worst = replace(worst, failed=(first.metric,))
    names = [part.name for part in others if slow[part].outcome.is_slow]
    if not names:
        return worst
    named = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    so = f"so are those of {named}" if len(names) > 1 else f"so is that of {named}"
    return replace(worst, sentence=f"{worst.sentence}; {so}")


def usual_runs(nights: Iterable[Sequence[Run]], blessed: Blessed | None) -> list[Run]:
    """Return the runs to compare a run with: those of the blessed nights on record, or else the
    fastest of each of the last good nights."""
    nights = list(nights)
    of_blessed = (night for night in nights if blessed and blessed.covers(night[0].night))
    measured = [run for night in of_blessed for run in night if run.is_measured]
    return measured or [run for night in good_nights(nights) if (run := fastest(night))]


def good_nights(nights: Iterable[Sequence[Run]]) -> list[Sequence[Run]]:
    """The last of these nights that were well."""
    newest_first = reversed([*nights])
    good = (night for night in newest_first if deciding(night).outcome.is_good and fastest(night))
    return [*islice(good, COMPARED)][::-1]


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each metric over these runs."""
    names = {name for run in runs for name in run}
    return {name: median(run[name] for run in runs if name in run) for name in names}
