"""Blessed baselines: what a case's nights were like when somebody said that all was well.

reference_values/baselines/<system>.yaml holds them.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from fasteners import InterProcessLock  # type: ignore[import-untyped]

from iowatch.case import Case
from iowatch.checks import rate_name
from iowatch.detector.baseline import (
    Baseline,
    BaselineRefused,
    Sample,
    baseline_of,
    estimate,
    largest_spread,
)
from iowatch.detector.settings import NORMAL, Settings
from iowatch.explain import finish_s, ratio_median
from iowatch.files import UserError, brief_rate, counted, whole
from iowatch.places import reference_folder, reference_values
from iowatch.run import Nights, Run, day_of, deciding, night_id
from iowatch.verdict import RED, Kind
from iowatch.yaml_text import BadYaml, load_yaml, text_of

HEADER = """\
# Baselines of system {system}, written by `iowatch bless`, never by hand. bandwidth: median of the
# nights' best, MiB/s, of writes with their sync; ratio: to MPI-IO in the same jobs; spread,
# ratio_spread: standard deviations of their logarithms; finish_fraction: median part of the time
# that finishes the file; first, last: the ids of the first and the last of the nights; runs: a
# digest of the runs that all this was computed from; digest: one of the entry itself.
"""
DIGEST = "digest"  # the key of an entry's own
_SPREAD = (NORMAL.min_spread, largest_spread())  # that the detector's thresholds can come to
_RANGES: Mapping[str, tuple[float, float]] = {
    "finish_fraction": (0, 1),
    "nights": (NORMAL.min_nights, math.inf),
    "spread": _SPREAD,
    "ratio_spread": _SPREAD,
}
_NIGHT = re.compile(r"\d{4}-\d\d-\d\d(T\d{6})?", re.ASCII)

#: What is measured of a case, by night, oldest first; no night is without.
Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class Blessed:
    """The baseline of one case, and who stands for it."""

    bandwidth: float
    spread: float
    ratio: float | None
    ratio_spread: float | None
    finish_fraction: float | None
    nights: int
    first: str  # ids of nights
    last: str
    runs: str  # digest of the runs that it was computed from
    settings: str  # hash of the detector's thresholds that accepted the nights
    blessed: date
    who: str
    why: str

    @classmethod
    def of(cls, baseline: Baseline, nights: Samples, today: date, who: str, why: str) -> Blessed:
        """A baseline of these nights, rounded to what a diff should show."""
        finish = baseline.finish_fraction
        return cls(
            bandwidth=float(f"{math.exp(baseline.m):.6g}"),
            spread=round(baseline.s, 4),
            ratio=None if baseline.m_r is None else round(math.exp(baseline.m_r), 4),
            ratio_spread=None if baseline.s_r is None else round(baseline.s_r, 4),
            finish_fraction=None if finish is None else round(finish, 4),
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
        """The metrics whose bounds it takes the place of; of imported nights none may be known.

        A bound on bandwidth is never among them: it finds the baseline that is itself too low.
        """
        ratio = {"ratio"} if self.ratio is not None else set()
        finish = {"finish_fraction"} if self.finish_fraction is not None else set()
        return ratio | finish

    @property
    def baseline(self) -> Baseline:
        """What the detector compares with."""
        return Baseline(
            m=math.log(self.bandwidth),
            s=self.spread,
            m_r=None if self.ratio is None else math.log(self.ratio),
            s_r=self.ratio_spread,
            finish_fraction=self.finish_fraction,
            nights=self.nights,
        )

    def covers(self, night: str) -> bool:
        """Is this one of the nights that were looked at?"""
        return self.first <= night and not self.is_before(night)

    def is_before(self, night: str) -> bool:
        """Did this night begin after all of them? The last may be named by its day alone."""
        return night[: len(self.last)] > self.last


def settings_hash(settings: Settings) -> str:
    """Eight hexadecimal digits that change when a threshold does."""
    return _digest(repr(settings))[:8]


def _runs_digest(nights: Samples) -> str:
    """Of the first run of each night, which a baseline is computed from."""
    first = [(night, samples[0]) for night, samples in nights.items()]
    return _digest(repr([(night, s.best, s.ratio, s.finish_fraction) for night, s in first]))


def _entry_digest(case: Case, entry: Blessed) -> str:
    return _digest(repr((str(case), entry)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spans(blessed: Iterable[Blessed]) -> list[tuple[datetime, datetime]]:
    """When the sessions of the blessed nights began, re-runs included."""

    def midnight(night: str) -> datetime:
        return datetime.combine(day_of(night), datetime.min.time(), UTC)

    ends = {(entry.first, entry.last) for entry in blessed}
    return [(midnight(first), midnight(last) + timedelta(days=3)) for first, last in ends]


def window(
    nights: Nights, count: int, first: date | None, last: date | None, takes_red: bool
) -> dict[str, list[Sample]]:
    """The last `count` nights with metrics between two days, both included.

    BaselineRefused if too many nights of that time have none, or if the case was red on some of
    them and `takes_red` does not say that red nights are meant.
    """
    days = [n for n in nights if (first or date.min) <= day_of(n) <= (last or date.max)]
    samples = {night: samples_of(nights[night]) for night in days}
    measured = [night for night, found in samples.items() if found][-count:]
    since = min(measured, default="")
    invalid = sum(night >= since and not found for night, found in samples.items())
    if measured and invalid > NORMAL.max_bad_nights * (len(measured) + invalid):
        raise BaselineRefused(f"{invalid} of {len(measured) + invalid} nights have no valid run")
    red = red_nights({night: nights[night] for night in measured})
    if red and not takes_red:
        raise BaselineRefused(
            f"it was red on {len(red)} of {counted(len(measured), 'night')} "
            f"({', '.join(red)}): choose others with --from and --to, or take these with --take-red"
        )
    return {night: samples[night] for night in measured}


def red_nights(nights: Nights) -> list[str]:
    """Those on which the case was red, or would have been if nobody had expected it, each with its
    verdict and rate. For want of a baseline is no reason: that is what a bless is for."""
    last = {night: deciding(runs) for night, runs in nights.items()}
    return [
        f"{day_of(night)} {run.kind}" + (f" {brief_rate(run.rate)}" if run.rate else "")
        for night, run in last.items()
        if run.kind in RED - {Kind.NO_BASELINE}
    ]


def samples_of(runs: Sequence[Run]) -> list[Sample]:
    """The runs of a night that count, for the detector."""
    return [sample_of(run.time, run.metrics, run.control) for run in runs if run.is_measured]


def sample_of(time: datetime, metrics: Mapping[str, float], control: Mapping[str, float]) -> Sample:
    """The metrics of one run, and MPI-IO's seconds in it, as the detector takes them."""
    return Sample(
        time,
        metrics[rate_name(metrics)],
        metrics.get("ratio"),
        metrics.get("finish_fraction"),
        finish_s(metrics),
        ratio_median(metrics, control),
    )


def _contradiction(entry: Blessed, nights: Nights) -> str:
    """What a baseline says of its nights that these, on record, do not; empty if they agree, or if
    they are not all on record."""
    found = {
        night: samples
        for night, runs in nights.items()
        if entry.first <= night <= entry.last and (samples := samples_of(runs))
    }
    if len(found) < entry.nights:
        return ""
    if len(found) > entry.nights:
        return f"it is of {entry.nights} nights, and {len(found)} are on record"
    baseline = estimate([*found.values()])
    computed = Blessed.of(baseline, found, entry.blessed, entry.who, entry.why)
    names = ["bandwidth", "ratio", "finish_fraction"]
    if entry.settings == computed.settings:
        names += ["spread", "ratio_spread"]
    for name in names:
        said, value = getattr(entry, name), getattr(computed, name)
        if said != value:
            return f"its {name} is {said}, and that of the nights on record is {value}"
    return "" if entry.runs == computed.runs else "the runs on record are not those of its nights"


def objection(system: str, folder: Path, case: Case, entry: Blessed, nights: Nights) -> str:
    """Why the baseline of a case must not be judged by, and what to do; empty if it may."""
    if why := _contradiction(entry, nights):
        return (
            f"{path_of(system, folder)}: the baseline of {case} does not follow from the nights of "
            f"{entry.first} to {entry.last}: {why}: restore the file or the results database, or "
            "bless again"
        )
    return ""


@dataclass(frozen=True)
class Blessing:
    """What came of it, case by case."""

    before: Mapping[Case, Blessed]
    blessed: Mapping[Case, Blessed]
    refused: Mapping[Case, str]  # and why
    red: Mapping[Case, Sequence[str]]  # of those that are blessed, the nights that were red
    file: Path | None  # written


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
    if folder == reference_folder() and reference_values(system) != values:
        pass  # those that are shipped: the site's own folder may begin with this baseline
    elif not os.access(folder, os.R_OK | os.X_OK):
        raise UserError(f"{folder}: no folder that can be read: give the one of {system}.yaml")
    elif not values.is_file():
        raise UserError(f"{values}: there is no such file: --folder names its folder")
    blessed, refused, red = {}, {}, {}
    for case, nights in cases.items():
        try:
            chosen = window(nights, count, first, last, takes_red)
            baseline = baseline_of([*chosen.values()])
            blessed[case] = Blessed.of(baseline, chosen, datetime.now(UTC).date(), who, why)
            red[case] = red_nights({night: nights[night] for night in chosen})
        except BaselineRefused as err:
            refused[case] = str(err)
    if dry_run or not blessed:
        return Blessing(read(system, folder), blessed, refused, red, None)
    path = path_of(system, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with process_lock(path.parent / ".lock") as is_held:
            if not is_held:
                raise UserError(f"{folder}: another bless is at work: try again")
            before = read(system, folder)
            write(system, folder, {**before, **blessed})
    except OSError as err:
        raise UserError(f"{path.parent} cannot be written: {err.strerror}") from None
    return Blessing(before, blessed, refused, red, path)


@contextmanager
def process_lock(file: Path) -> Iterator[bool]:
    """Is it our turn? For the time of the block, then."""
    lock = InterProcessLock(file)
    is_held = lock.acquire(blocking=False)
    try:
        yield is_held
    finally:
        if is_held:
            lock.release()


def read(system: str, folder: Path) -> dict[Case, Blessed]:
    """The baselines of a system; none if it has no file. UserError if the file is broken."""
    path = path_of(system, folder)
    try:
        entries = load_yaml(text_of(path))
        if not isinstance(entries, dict):
            raise ValueError("it has no cases")
        now = datetime.now(UTC)
        return {
            (of := Case.parse(str(case))): _entry(system, of, entry, now)
            for case, entry in entries.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, BadYaml) as err:
        raise UserError(
            f"{path}: not the baselines that `iowatch bless` writes: {err}: restore the file, or "
            "remove it and bless again"
        ) from None


def _entry(system: str, case: Case, entry: Any, now: datetime) -> Blessed:
    """ValueError if it is none that could have been blessed: it would fail later, or never."""
    if case.system != system:
        raise ValueError(f"{case} is a case of another system")
    keys = [field.name for field in fields(Blessed)]
    if not isinstance(entry, dict) or {*entry} != {*keys, DIGEST}:
        raise ValueError(f"{case}: needs {', '.join([*keys, DIGEST])}, and nothing else")
    if wrong := [key for key in keys if not _is_valid(key, entry[key])]:
        raise ValueError(f"{case}: {wrong[0]} is {entry[wrong[0]]!r}")
    if (entry["ratio"] is None) != (entry["ratio_spread"] is None):
        raise ValueError(f"{case}: only one of ratio and ratio_spread is null")
    if entry["first"][: len(entry["last"])] > entry["last"]:
        raise ValueError(f"{case}: first is after last")
    for key, latest in (("last", night_id(now)), ("blessed", now.date())):
        if entry[key] > latest:
            raise ValueError(f"{case}: {key} is {entry[key]}, which is yet to come")
    blessed = Blessed(**{key: entry[key] for key in keys})
    if entry[DIGEST] != _entry_digest(case, blessed):
        raise ValueError(f"{case}: was changed since it was blessed, by hand or in a merge")
    return blessed


def _is_valid(key: str, value: Any) -> bool:
    if key == "blessed":
        return type(value) is date  # a time of the day is none
    if key in ("first", "last"):
        return isinstance(value, str) and bool(_NIGHT.fullmatch(value))
    if key in ("runs", "settings", "who", "why"):
        return isinstance(value, str)
    if key in ("ratio", "ratio_spread", "finish_fraction") and value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int if key == "nights" else int | float):
        return False
    least, largest = _RANGES.get(key, (math.ulp(0), 1e300))
    return bool(least <= value <= largest)  # nor nan


def write(system: str, folder: Path, blessed: Mapping[Case, Blessed]) -> None:
    """Write the baselines, whole or not at all; UserError."""
    ordered = {
        str(case): asdict(blessed[case]) | {DIGEST: _entry_digest(case, blessed[case])}
        for case in sorted(blessed, key=str)
    }
    text = HEADER.format(system=system) + yaml.safe_dump(ordered, sort_keys=False, width=100)
    with whole(path_of(system, folder)) as temporary:
        temporary.write_text(text, "utf-8")


def path_of(system: str, folder: Path) -> Path:
    return folder / "baselines" / f"{system}.yaml"
