"""Blessed baselines: what a case's nights were like when somebody said that all was well.

reference_values/baselines/<system>.yaml holds them.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import attrs
import yaml

from iowatch.base.files import UserError, whole
from iowatch.base.locks import exclusive
from iowatch.base.places import reference_folder, reference_values
from iowatch.base.records import DAY, Record, key, matching, number, optional
from iowatch.base.text import brief_rate, counted
from iowatch.base.yaml_text import load
from iowatch.cases.case import Case
from iowatch.cases.run import Nights, Run, day_of, deciding, night_id
from iowatch.judge.baseline import (
    Baseline,
    BaselineRefused,
    Sample,
    baseline_of,
    estimate,
    largest_spread,
)
from iowatch.judge.explain import finish_s, ratio_median
from iowatch.judge.settings import NORMAL, Settings
from iowatch.measure.case_ids import parse_case
from iowatch.measure.checks import rate_name

HEADER = """\
# Baselines of system {system}, written by `iowatch bless`, never by hand. bandwidth: median of the
# nights' best, MiB/s, of writes with their sync; ratio: to MPI-IO in the same jobs; spread,
# ratio_spread: standard deviations of their logarithms; overhead_fraction: median part of the time
# that finishes the file; first, last: the ids of the first and the last of the nights; runs: a
# digest of the runs that all this was computed from; digest: one of the entry itself.
"""
DIGEST = "digest"  # the key of an entry's own
_POSITIVE = number("a number above 0", math.ulp(0))
_SPREAD = number(  # that the detector's thresholds can come to
    f"a spread from {NORMAL.min_spread:g} to {largest_spread():.3g}",
    NORMAL.min_spread,
    largest_spread(),
)
_NIGHT = matching(r"\d{4}-\d\d-\d\d(T\d{6})?", "the id of a night")
_ANY_TEXT = matching(r"(?s:.*)", "a text")

#: Samples of a case by night, oldest first; no night is without.
Samples = Mapping[str, Sequence[Sample]]


@attrs.frozen(kw_only=True)
class Blessed(Record):
    """The baseline of one case, and who stands for it."""

    bandwidth: float = key(_POSITIVE)  # MiB/s
    spread: float = key(_SPREAD)
    ratio: float | None = key(optional(_POSITIVE))
    ratio_spread: float | None = key(optional(_SPREAD))
    overhead_fraction: float | None = key(optional(number("a number from 0 to 1", 0, 1)))
    nights: int = key(
        number(f"{NORMAL.min_nights} nights or more", NORMAL.min_nights, is_whole=True)
    )
    first: str = key(_NIGHT)
    last: str = key(_NIGHT)
    runs: str = key(_ANY_TEXT)  # digest of the runs that the baseline was computed from
    settings: str = key(_ANY_TEXT)  # hash of the detector's thresholds that accepted the nights
    blessed: date = key(DAY)
    who: str = key(_ANY_TEXT)
    why: str = key(_ANY_TEXT)

    def contradiction(self) -> str:
        if (self.ratio is None) != (self.ratio_spread is None):
            return "only one of ratio and ratio_spread is null"
        return "first is after last" if self.is_before(self.first) else ""

    @classmethod
    def make(cls, baseline: Baseline, nights: Samples, today: date, who: str, why: str) -> Blessed:
        """A baseline of these nights, rounded to what a diff should show."""
        finish = baseline.overhead_fraction
        return cls(
            bandwidth=float(f"{math.exp(baseline.m):.6g}"),
            spread=round(baseline.s, 4),
            ratio=None if baseline.m_r is None else round(math.exp(baseline.m_r), 4),
            ratio_spread=None if baseline.s_r is None else round(baseline.s_r, 4),
            overhead_fraction=None if finish is None else round(finish, 4),
            nights=baseline.nights,
            first=min(nights),
            last=max(nights),
            runs=_runs_digest(nights),
            settings=settings_hash(NORMAL),
            blessed=today,
            who=who,
            why=why,
        )

    @property
    def judged(self) -> set[str]:
        """The metrics whose bounds the baseline replaces.

        A bound on bandwidth is never replaced: it finds a baseline that is too low.
        """
        names = ("ratio", "overhead_fraction")
        return {name for name in names if getattr(self, name) is not None}

    @property
    def baseline(self) -> Baseline:
        return Baseline(
            m=math.log(self.bandwidth),
            s=self.spread,
            m_r=None if self.ratio is None else math.log(self.ratio),
            s_r=self.ratio_spread,
            overhead_fraction=self.overhead_fraction,
            nights=self.nights,
        )

    def covers(self, night: str) -> bool:
        """Return whether this is one of the nights that were looked at."""
        return self.first <= night and not self.is_before(night)

    def is_before(self, night: str) -> bool:
        """Did this night begin after all of them? The last may be named by its day alone."""
        return night[: len(self.last)] > self.last


def settings_hash(settings: Settings) -> str:
    """Eight hexadecimal digits that change when a threshold does."""
    return _digest(repr(settings))[:8]


def judged_by(*baselines: object) -> str:
    """A digest of what the nights are judged by: baselines, and the thresholds."""
    return _digest(repr((*baselines, settings_hash(NORMAL))))


def _runs_digest(nights: Samples) -> str:
    """A digest of the first run of each night, from which a baseline is computed."""
    first = {night: samples[0] for night, samples in nights.items()}
    runs = [(night, s.best, s.ratio, s.overhead_fraction) for night, s in first.items()]
    return _digest(repr(runs))


def _entry_digest(case: Case, entry: Blessed) -> str:
    return _digest(repr((str(case), entry)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spans(blessed: Iterable[Blessed]) -> list[tuple[datetime, datetime]]:
    """The times when the sessions of the blessed nights began, re-runs included."""

    def midnight(night: str) -> datetime:
        return datetime.combine(day_of(night), datetime.min.time(), UTC)

    ends = {(entry.first, entry.last) for entry in blessed}
    return [(midnight(first), midnight(last) + timedelta(days=3)) for first, last in ends]


def window(
    nights: Nights, count: int, first: date | None, last: date | None, takes_red: bool
) -> dict[str, list[Sample]]:
    """The last `count` nights with metrics between two days, both included.

    BaselineRefused if too many nights of that time have none, or if the case was red on some and
    `takes_red` is not set.
    """
    days = [n for n in nights if (first or date.min) <= day_of(n) <= (last or date.max)]
    samples = {night: samples_of(nights[night]) for night in days}
    measured = [night for night, of_night in samples.items() if of_night][-count:]
    since = min(measured, default="")
    failed = sum(night >= since and not of_night for night, of_night in samples.items())
    if measured and failed > NORMAL.max_bad_nights * (len(measured) + failed):
        raise BaselineRefused(f"{failed} of {len(measured) + failed} nights have no valid run")
    red = red_nights({night: nights[night] for night in measured})
    if red and not takes_red:
        raise BaselineRefused(
            f"it was red on {len(red)} of {counted(len(measured), 'night')} "
            f"({', '.join(red)}): choose others by --since and --until, or add --take-red"
        )
    return {night: samples[night] for night in measured}


def red_nights(nights: Nights) -> list[str]:
    """The nights on which the case was red, or would have been if nobody had expected it, each with
    verdict and rate. Red for want of a baseline does not count: a bless mends that."""
    last = {night: deciding(runs) for night, runs in nights.items()}
    return [
        f"{day_of(night)} {run.outcome}" + (f" {brief_rate(run.rate)}" if run.rate else "")
        for night, run in last.items()
        if run.outcome.is_fault
    ]


def samples_of(runs: Sequence[Run]) -> list[Sample]:
    """The runs of a night that count, for the detector."""
    return [_sample(run) for run in runs if run.is_measured]


@lru_cache(2**18)  # every later night, and all that the case shares, ask again
def _sample(run: Run) -> Sample:
    return sample_of(run.time, run.metrics, run.control)


def sample_of(time: datetime, metrics: Mapping[str, float], control: Mapping[str, float]) -> Sample:
    """The metrics of one run, and MPI-IO's seconds in it, as the detector takes them."""
    return Sample(
        time,
        metrics[rate_name(metrics)],
        metrics.get("ratio"),
        metrics.get("overhead_fraction"),
        finish_s(metrics),
        ratio_median(metrics, control),
    )


def _contradiction(entry: Blessed, nights: Nights) -> str:
    """Say how a baseline differs from its nights on record; empty if it does not, or if they are
    not all on record."""
    covered = {n: samples_of(nights[n]) for n in nights if entry.first <= n <= entry.last}
    by_night = {night: samples for night, samples in covered.items() if samples}
    if len(by_night) < entry.nights:
        return ""
    if len(by_night) > entry.nights:
        return f"it is of {entry.nights} nights, and {len(by_night)} are on record"
    baseline = estimate([*by_night.values()])
    computed = Blessed.make(baseline, by_night, entry.blessed, entry.who, entry.why)
    names = ["bandwidth", "ratio", "overhead_fraction"]
    if entry.settings == computed.settings:
        names += ["spread", "ratio_spread"]
    for name in names:
        blessed, value = getattr(entry, name), getattr(computed, name)
        if blessed != value:
            return f"its {name} is {blessed}, and that of the nights on record is {value}"
    return "" if entry.runs == computed.runs else "the runs on record are not those of its nights"


def objection(system: str, folder: Path, case: Case, entry: Blessed, nights: Nights) -> str:
    """Say why a case must not be judged by its baseline, and what to do; empty if it may."""
    if why := _contradiction(entry, nights):
        return (
            f"{path_of(system, folder)}: the baseline of {case} does not follow from the nights of "
            f"{entry.first} to {entry.last}: {why}: restore the file or the results database, or "
            "bless again"
        )
    return ""


@dataclass(frozen=True, kw_only=True)
class Blessing:
    before: Mapping[Case, Blessed]
    blessed: Mapping[Case, Blessed]
    refused: Mapping[Case, str]  # and why
    red: Mapping[Case, Sequence[str]]  # of those that are blessed, the nights that were red
    file: Path | None = None  # written


def bless(
    system: str,
    folder: Path,
    cases: Mapping[Case, Nights],
    count: int,
    first: date | None,
    last: date | None,
    who: str,
    why: str,
    dry_run: bool,
    takes_red: bool = False,
) -> Blessing:
    """Bless each case for which the nights allow it; a case that is refused keeps its baseline."""
    values = folder / f"{system}.yaml"
    # Where those that are shipped are in force, the site's own folder may begin with a baseline.
    if not (folder == reference_folder() and reference_values(system) != values):
        if not os.access(folder, os.R_OK | os.X_OK):
            raise UserError(f"{folder}: no folder that can be read: give the one of {system}.yaml")
        if not values.is_file():
            raise UserError(f"{values}: there is no such file: --folder names its folder")
    blessed, refused, red = {}, {}, {}
    for case, nights in cases.items():
        try:
            chosen = window(nights, count, first, last, takes_red)
            baseline = baseline_of([*chosen.values()])
            blessed[case] = Blessed.make(baseline, chosen, datetime.now(UTC).date(), who, why)
            red[case] = red_nights({night: nights[night] for night in chosen})
        except BaselineRefused as err:
            refused[case] = str(err)
    told = partial(Blessing, blessed=blessed, refused=refused, red=red)
    if dry_run or not blessed:
        return told(before=baselines_of(system, folder))
    with exclusive(lock_file(folder), f"{folder}: another bless is at work"):
        before = baselines_of(system, folder)
        write(system, folder, {**before, **blessed})
    return told(before=before, file=path_of(system, folder))


def baselines_of(system: str, folder: Path) -> dict[Case, Blessed]:
    """The baselines of a system; none if it has no file. UserError if the file is broken."""
    path = path_of(system, folder)
    try:
        entries = load(path)
        if not isinstance(entries, dict):
            raise UserError("has no cases")
        cases = {parse_case(str(name)): entry for name, entry in entries.items()}
        return {case: _entry(str(case), system, case, entry) for case, entry in cases.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, UserError) as err:
        why = str(err).removeprefix(f"{path}: ")
        raise UserError(
            f"{path}: not the baselines that `iowatch bless` writes: {why}: restore the file, or "
            "remove it and bless again"
        ) from None


def _entry(where: str, system: str, case: Case, entry: Any) -> Blessed:
    """UserError unless it could have been blessed: it would fail later, or never."""
    now = datetime.now(UTC)
    if case.system != system:
        raise UserError(f"{where} is a case of another system")
    digest = entry.get(DIGEST) if isinstance(entry, dict) else None
    if digest:
        entry = {name: value for name, value in entry.items() if name != DIGEST}
    blessed = Blessed.read(where, entry)
    for name, latest in (("last", night_id(now)), ("blessed", now.date())):
        if (value := getattr(blessed, name)) > latest:
            raise UserError(f"{where}: {name} is {value}, which is yet to come")
    if digest != _entry_digest(case, blessed):
        raise UserError(f"{where}: was changed since it was blessed, by hand or in a merge")
    return blessed


def write(system: str, folder: Path, blessed: Mapping[Case, Blessed]) -> None:
    """Write the baselines, whole or not at all; UserError."""
    ordered = {
        str(case): attrs.asdict(blessed[case]) | {DIGEST: _entry_digest(case, blessed[case])}
        for case in sorted(blessed, key=str)
    }
    text = HEADER.format(system=system) + yaml.safe_dump(ordered, sort_keys=False, width=100)
    with whole(path_of(system, folder)) as temporary:
        temporary.write_text(text, "utf-8")


def lock_file(folder: Path) -> Path:
    """The lock of whoever writes baselines in a folder of reference values."""
    return folder / "baselines" / ".lock"


def path_of(system: str, folder: Path) -> Path:
    return folder / "baselines" / f"{system}.yaml"
