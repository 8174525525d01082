"""One case in the report of a night: what was usual, what has changed, and the one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import median

from iowatch.bless import Blessed, jobs_of
from iowatch.case import Case
from iowatch.detector.baseline import Baseline, BaselineRefused, change_point, estimate
from iowatch.detector.judgement import NOISY, OK, SEVERE, SUSPECT, TRANSIENT
from iowatch.detector.settings import NORMAL
from iowatch.history import Record
from iowatch.judge import usual as usual_of_blessed
from iowatch.metrics import OST, finish_fraction, slow_phase
from iowatch.references import ExpectedFailure, excuse
from iowatch.result import CONTROL
from iowatch.verdict import (
    DEFECT,
    IMPROVEMENT,
    INVALID,
    NO_BASELINE,
    REGRESSION,
    TOO_FAST,
    Reference,
)

GOOD = frozenset({OK, NOISY, TRANSIENT, IMPROVEMENT, NO_BASELINE})
COMPARED = 30  # good nights that stand in for a baseline
HOSTS_NAMED = 8  # hosts that are named at most

Nights = Mapping[date, Sequence[Record]]


@dataclass(frozen=True)
class Expected:
    """The bandwidth that a case should reach."""

    value: float  # MiB/s
    low: float | None  # of what is usual; None: too few nights to say
    high: float | None
    source: str  # where it comes from
    word: str  # expected (blessed), or only usual


@dataclass(frozen=True)
class Change:
    """A condition that is not what it was; empty: was not there."""

    what: str
    before: str
    now: str


@dataclass(frozen=True)
class Past:
    """One case: its last night, which the report is of, and those before."""

    nights: Nights
    blessed: Blessed | None
    tonight: Sequence[Record]
    best: Record | None  # tonight's fastest run, as for the detector; None: the last was invalid
    usual: Mapping[str, float]  # median of each figure
    expected: Expected | None
    good: Sequence[date]  # nights before tonight
    last_good: date | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_good", self.good[-1] if self.good else None)

    @classmethod
    def of(cls, nights: Nights, blessed: Blessed | None) -> Past:
        last = max(nights)
        earlier = {day: runs for day, runs in sorted(nights.items()) if day != last}
        good = [day for day, runs in earlier.items() if runs[-1].verdict in GOOD and best(runs)]
        compared = {day: earlier[day] for day in good[-COMPARED:]}
        usual = usual_of_blessed(earlier, blessed) if blessed else {}
        return cls(
            nights,
            blessed,
            nights[last],
            best(nights[last]) if nights[last][-1].figures else None,
            usual or _medians(compared),
            _expected(compared, blessed),
            good,
        )

    @property
    def figures(self) -> Mapping[str, float]:
        return self.best.figures if self.best else {}

    @property
    def osts(self) -> list[tuple[str, float, float]]:
        """Each OST's number, rate and part of the median of all, slowest first."""
        rates = {
            name.removeprefix(OST): rate
            for name, rate in self.figures.items()
            if name.removeprefix(OST).isdigit()
        }
        middle = median(rates.values()) if rates else 0
        ordered = sorted(rates.items(), key=lambda item: item[1])
        return [(ost, rate, rate / middle) for ost, rate in ordered]

    @property
    def changes(self) -> list[Change] | None:
        """The conditions that are not those of the last good night; None: not on record."""
        now = dict(self.tonight[-1].conditions)
        good = best(self.nights[self.last_good]) if self.last_good else None
        before = dict(good.conditions) if good else {}
        if not (now and before):
            return None
        return [
            _change(what, before.get(what, ""), now.get(what, ""))
            for what in {**now, **before}
            if before.get(what) != now.get(what)
        ]


def best(runs: Sequence[Record]) -> Record | None:
    """The fastest valid run of a night."""
    valid = [run for run in runs if run.figures.get("total_max")]
    return max(valid, key=lambda run: run.figures["total_max"], default=None)


def control_rate(figures: Mapping[str, float]) -> float | None:
    """MPI-IO's best in the same job, MiB/s; None: the case is MPI-IO's, or has no control."""
    ratio = figures.get("ratio")
    return figures["total_max"] / ratio if ratio else None


def _medians(nights: Nights) -> dict[str, float]:
    runs = [run.figures for runs in nights.values() if (run := best(runs))]
    names = {name for run in runs for name in run}
    return {name: median(run[name] for run in runs if name in run) for name in names}


def _expected(compared: Nights, blessed: Blessed | None) -> Expected | None:
    """From the baseline; without one from the good nights before."""
    if blessed:
        source = f"baseline of {blessed.first} to {blessed.last}: {blessed.why} ({blessed.who})"
        return _with_band(blessed.baseline, source, "expected")
    jobs = [jobs_of(runs) for runs in compared.values()]
    source = f"median of {len(jobs)} good night(s), not blessed"
    try:
        return _with_band(estimate(jobs), source, "usual")
    except BaselineRefused:
        rates = [night[0].best for night in jobs]
        return Expected(median(rates), None, None, source, "usual") if rates else None


def _with_band(baseline: Baseline, source: str, word: str) -> Expected:
    """Between the warn line and as far above."""
    line = NORMAL.warn_line(baseline.s, again=False)
    low, middle, high = (math.exp(baseline.m + offset) for offset in (line, 0, -line))
    return Expected(middle, low, high, source, word)


def _change(what: str, before: str, now: str) -> Change:
    if what != "hosts":
        return Change(what, before, now)
    old, new = before.split(), now.split()
    return Change(
        "hosts",
        _some([host for host in old if host not in new]),
        _some([host for host in new if host not in old]),
    )


def _some(hosts: Sequence[str]) -> str:
    rest = len(hosts) - HOSTS_NAMED
    return " ".join(hosts[:HOSTS_NAMED]) + (f" and {rest} more" if rest > 0 else "")


#: Verdicts, worst first.
ORDER = (
    *(INVALID, TOO_FAST, SEVERE, DEFECT, REGRESSION, NO_BASELINE),
    *(SUSPECT, TRANSIENT, IMPROVEMENT, NOISY, OK),
)
QUIET = frozenset({OK, NOISY})


@dataclass(frozen=True)
class Row:
    """One case tonight."""

    case: Case
    name: str  # short, but no two cases of a night share it
    verdict: str
    red: bool
    known: str  # why the failure is expected; empty: it is not
    sentence: str  # the one that matters
    said: str  # the check's own
    runs: int
    invalid_runs: int
    figures: Mapping[str, float]  # of the best run; empty if the last was invalid
    usual: Mapping[str, float]  # median of each on the nights compared with
    expected: Expected | None
    slowest: Mapping[str, str]  # the slowest rank in each phase, in words
    osts: Sequence[tuple[str, float, float]]  # number, MiB/s, of the median; slowest first
    references: Mapping[str, Reference]  # the bounds that the checks judged by
    last_good: date | None  # the night that `changes` are since
    changes: Sequence[Change] | None  # None: tonight's conditions are not on record
    trend: Trend

    @property
    def label(self) -> str:
        """The verdict in words."""
        return f"{self.verdict} (known)" if self.known else self.verdict

    @property
    def remark(self) -> str:
        """The sentence without the name."""
        return self.sentence.removeprefix(f"{self.name}: ")

    @property
    def drop(self) -> float | None:
        """The part of the expected bandwidth that is lost; negative: gained."""
        if not (self.expected and self.figures):
            return None
        return 1 - self.figures["total_max"] / self.expected.value

    @property
    def is_quiet(self) -> bool:
        """Nothing to look into; what ReFrame failed is not quiet, whatever its verdict."""
        return self.verdict in QUIET and not (self.red or self.known or self.invalid_runs)

    @property
    def is_ok(self) -> bool:
        """Nothing to say either."""
        return self.is_quiet and self.verdict == OK

    @property
    def phases(self) -> list[tuple[str, float, float | None]]:
        """Each phase with its seconds tonight and usually, in the order of time."""
        return [
            (phase, self.figures[f"{phase}_s"], self.usual.get(f"{phase}_s"))
            for phase in ("open", "define", "write", "read", "sync", "close")
            if f"{phase}_s" in self.figures
        ]


def row_of(
    case: Case,
    name: str,
    past: Past,
    excuses: Sequence[ExpectedFailure],
    night: date,
    first: date,
) -> Row:
    """The row of a case: its trend begins with `first`."""
    last = past.tonight[-1]
    known = excuse(excuses, str(case), night) if last.result == "xfail" else None
    return Row(
        case=case,
        name=name,
        verdict=last.verdict,
        red=last.result not in ("pass", "xfail"),
        known=str(known or "expected") if last.result == "xfail" else "",
        sentence=sentence_of(case, name, past),
        said=last.sentence,
        runs=len(past.tonight),
        invalid_runs=sum(not run.figures for run in past.tonight),
        figures=past.figures,
        usual=past.usual,
        expected=past.expected,
        slowest=past.best.slowest if past.best else {},
        osts=past.osts,
        references=last.references,
        last_good=past.last_good,
        changes=past.changes,
        trend=trend_of(past, first),
    )


def severity(row: Row) -> tuple[bool, int, float, str]:
    """Sorts the worst first."""
    rank = ORDER.index(row.verdict) if row.verdict in ORDER else len(ORDER)
    return not row.red, rank, -(row.drop or 0), str(row.case)


#: A bless refuses only what lasts; a reader wants to see what has just begun, at its right place.
_NEW = replace(NORMAL, change_nights=3, clip=10.0)


@dataclass(frozen=True)
class Level:
    """A change that lasts."""

    night: date  # the first of the new level
    before: float  # median MiB/s of the nights on either side, back or on to the next change
    after: float


@dataclass(frozen=True)
class Trend:
    """The nights of a plot, oldest first."""

    nights: Sequence[date]
    rates: Sequence[float | None]  # MiB/s of the best run; None: no valid run
    red: Sequence[date]
    levels: Sequence[Level]

    @property
    def is_empty(self) -> bool:
        """No night has a valid run."""
        return not any(self.rates)


def trend_of(past: Past, first: date) -> Trend:
    """The nights from `first` on."""
    shown = {day: runs for day, runs in sorted(past.nights.items()) if day >= first}
    fastest = {day: best(runs) for day, runs in shown.items()}
    rates = {day: run.figures["total_max"] if run else None for day, run in fastest.items()}
    return Trend(
        list(rates),
        list(rates.values()),
        [day for day, runs in shown.items() if runs[-1].result not in ("pass", "xfail")],
        list(_levels([(day, rate) for day, rate in rates.items() if rate])),
    )


def _levels(series: Sequence[tuple[date, float]]) -> Iterator[Level]:
    """What the test that guards a bless finds, in the whole and again on both sides."""
    splits = sorted(_splits([math.log(rate) for _, rate in series]))
    for start, split, end in zip([0, *splits], splits, [*splits[1:], len(series)], strict=False):
        before, after = series[start:split], series[split:end]
        yield Level(after[0][0], *(median(rate for _, rate in part) for part in (before, after)))


def _splits(values: Sequence[float]) -> Iterator[int]:
    split = change_point(values, _NEW) if values else None
    if split is not None:
        yield split
        yield from _splits(values[:split])
        yield from (split + later for later in _splits(values[split:]))


#: Verdicts whose own sentence says what matters.
_SAY_IT_ALL = frozenset({NO_BASELINE, NOISY, TRANSIENT, IMPROVEMENT, TOO_FAST})


def sentence_of(case: Case, name: str, past: Past) -> str:
    """Such as `hdf5 on fs3, stripes -1: total 2100 of expected 7700 MiB/s; 91 % of the time in
    close; control mpiio normal: the library's close path, not the filesystem`."""
    last = past.tonight[-1]
    said = last.sentence.removeprefix(f"{case}: ") or "the job did not end well, and said nothing"
    if not past.figures:
        return f"{name}: {said}"
    total = f"{name}: {_total(past)}"
    if last.verdict in _SAY_IT_ALL:
        return f"{total}; {said}"
    end, slow = _slow_end(past), _is_slow(past)
    if not (end or slow):
        return total if last.verdict == OK else f"{total}; {said}"
    phase = _part(end, past) if end else slow_phase(past.figures, past.usual)
    control = _control(past, end, is_sure=last.result != "pass")
    return "; ".join(filter(None, [total, phase, control]))


def _total(past: Past) -> str:
    rate = past.figures["total_max"]
    if not past.expected:
        return f"total {rate:.0f} MiB/s"
    return f"total {rate:.0f} of {past.expected.word} {past.expected.value:.0f} MiB/s"


def _is_slow(past: Past) -> bool:
    expected = past.expected
    return bool(expected and past.figures["total_max"] < _floor(past) * expected.value)


def _floor(past: Past) -> float:
    """Below this part of what is expected, a rate is low."""
    expected = past.expected
    if expected and expected.low:
        return expected.low / expected.value
    return 1 - NORMAL.wanted_drop


def _slow_end(past: Past) -> str:
    """`close` or `flush`, if finishing the file takes what the detector calls a signature."""
    finish, usual = finish_fraction(past.figures), finish_fraction(past.usual)
    if finish is None or finish <= NORMAL.close_fraction:
        return ""
    if usual is not None and finish <= max(usual + NORMAL.close_rise, NORMAL.close_fraction):
        ratio = past.figures.get("ratio")
        if ratio is None or not NORMAL.is_defect(finish, ratio):
            return ""
    return "close" if past.figures["close_fraction"] >= finish / 2 else "flush"


def _part(end: str, past: Past) -> str:
    finish, usual = finish_fraction(past.figures), finish_fraction(past.usual)
    text = f"{100 * (finish or 0):.0f} % of the time in {end}"
    return text if usual is None else f"{text}, usually {100 * usual:.0f} %"


def _control(past: Past, end: str, is_sure: bool) -> str:
    """MPI-IO in the same job, and what follows from it; nothing follows from one slow night."""
    rate, usual = control_rate(past.figures), control_rate(past.usual)
    if rate is None:
        return ""
    path = f"the library's {end} path" if end else "the library's path"
    if NORMAL.is_defect(finish_fraction(past.figures) or 0, past.figures["ratio"]):
        is_fault, state = True, "normal" if usual else f"at {rate:.0f} MiB/s in the same job"
    elif usual is None:
        return f"control {CONTROL} at {rate:.0f} MiB/s in the same job"
    else:
        is_fault, state = past.figures["ratio"] < _floor(past) * past.usual["ratio"], "normal"
    if usual is not None and rate < _floor(past) * usual:
        state = f"slow too, {rate:.0f} of usual {usual:.0f} MiB/s"
        blame = f"{path} and the filesystem" if is_fault else "the filesystem, not the library"
        return f"control {CONTROL} {state}" + (f": {blame}" if is_sure else "")
    if not (is_fault and is_sure):
        return f"control {CONTROL} {state}"
    return f"control {CONTROL} {state}: {path}, not the filesystem"
