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
from iowatch.detector.baseline import Baseline, BaselineRefused, Sample, baseline_of
from iowatch.detector.settings import NORMAL, Settings
from iowatch.files import BadYaml, UserError, load_yaml, text_of, whole
from iowatch.metrics import finish_fraction
from iowatch.run import Nights, Run, day_of

HEADER = """\
# Baselines of system {system}, written by `iowatch bless`, never by hand. bandwidth: median of the
# nights' best, MiB/s, of writes with their sync; ratio: to MPI-IO in the same jobs; spread,
# ratio_spread: standard deviations of their logarithms; finish_fraction: median part of the time
# that finishes the file; first, last: the ids of the first and the last of the nights.
"""
_NIGHT = re.compile(r"\d{4}-\d\d-\d\d(T\d{6})?", re.ASCII)


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
    settings: str  # hash of the detector's thresholds that accepted the nights
    blessed: date
    who: str
    why: str

    @classmethod
    def of(
        cls, baseline: Baseline, nights: Sequence[str], today: date, who: str, why: str
    ) -> Blessed:
        """A baseline of these nights, rounded to what a diff should show."""
        finish = baseline.finish_fraction
        return cls(
            bandwidth=float(f"{math.exp(baseline.m):.6g}"),
            spread=round(baseline.s, 4),
            ratio=None if baseline.m_r is None else round(math.exp(baseline.m_r), 4),
            ratio_spread=None if baseline.s_r is None else round(baseline.s_r, 4),
            finish_fraction=None if finish is None else round(finish, 4),
            nights=baseline.nights,
            first=nights[0],
            last=nights[-1],
            settings=settings_hash(NORMAL),
            blessed=today,
            who=who,
            why=why,
        )

    @property
    def judged(self) -> set[str]:
        """The metrics that it can judge: of imported nights only the bandwidth may be known.

        What is slower from opening to closing is slower with its sync as well.
        """
        ratio = {"ratio"} if self.ratio is not None else set()
        finish = (
            {"close_fraction", "finish_fraction"} if self.finish_fraction is not None else set()
        )
        return {"total_max", "stable_max"} | ratio | finish

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
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:8]


def spans(blessed: Iterable[Blessed]) -> list[tuple[datetime, datetime]]:
    """When the sessions of the blessed nights began, re-runs included."""

    def midnight(night: str) -> datetime:
        return datetime.combine(day_of(night), datetime.min.time(), UTC)

    ends = {(entry.first, entry.last) for entry in blessed}
    return [(midnight(first), midnight(last) + timedelta(days=3)) for first, last in ends]


def window(
    nights: Nights, count: int, first: date | None, last: date | None
) -> dict[str, list[Sample]]:
    """The last `count` nights with metrics between two days, both included.

    BaselineRefused if too many nights of that time have none.
    """
    days = [n for n in nights if (first or date.min) <= day_of(n) <= (last or date.max)]
    samples = {night: samples_of(nights[night]) for night in days}
    measured = [night for night, found in samples.items() if found][-count:]
    since = min(measured, default="")
    invalid = sum(night >= since and not found for night, found in samples.items())
    if measured and invalid > NORMAL.max_bad_nights * (len(measured) + invalid):
        raise BaselineRefused(f"{invalid} of {len(measured) + invalid} nights have no valid run")
    return {night: samples[night] for night in measured}


def samples_of(runs: Sequence[Run]) -> list[Sample]:
    """The runs of a night that count, for the detector."""
    return [sample_of(run.time, run.metrics) for run in runs if run.is_measured]


def sample_of(time: datetime, metrics: Mapping[str, float]) -> Sample:
    """The metrics of one run, as the detector takes them."""
    best = metrics[rate_name(metrics)]
    return Sample(time, best, metrics.get("ratio"), finish_fraction(metrics))


@dataclass(frozen=True)
class Blessing:
    """What came of it, case by case."""

    before: Mapping[Case, Blessed]
    blessed: Mapping[Case, Blessed]
    refused: Mapping[Case, str]  # and why
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
) -> Blessing:
    """Bless each case for which the nights allow it; a case that is refused keeps its baseline."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UserError(f"{folder}: no folder that can be read: give the one of {system}.yaml")
    if not (folder / f"{system}.yaml").is_file():
        raise UserError(f"{folder / system}.yaml: there is no such file: --folder names its folder")
    blessed, refused = {}, {}
    for case, nights in cases.items():
        try:
            chosen = window(nights, count, first, last)
            baseline = baseline_of([*chosen.values()])
            blessed[case] = Blessed.of(baseline, [*chosen], date.today(), who, why)
        except BaselineRefused as err:
            refused[case] = str(err)
    if dry_run or not blessed:
        return Blessing(read(system, folder), blessed, refused, None)
    path = path_of(system, folder)
    try:
        path.parent.mkdir(exist_ok=True)
        with process_lock(path.parent / ".lock") as is_held:
            if not is_held:
                raise UserError(f"{folder}: another bless is at work: try again")
            before = read(system, folder)
            write(system, folder, {**before, **blessed})
    except OSError as err:
        raise UserError(f"{path.parent} cannot be written: {err.strerror}") from None
    return Blessing(before, blessed, refused, path)


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
        return {Case.parse(str(case)): _entry(case, entry) for case, entry in entries.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, BadYaml) as err:
        raise UserError(
            f"{path}: not the baselines that `iowatch bless` writes: {err}: restore the file, or "
            "remove it and bless again"
        ) from None


def _entry(case: str, entry: Any) -> Blessed:
    """ValueError if it is none that could have been blessed: it would fail later, or never."""
    keys = [field.name for field in fields(Blessed)]
    if not isinstance(entry, dict) or {*entry} != {*keys}:
        raise ValueError(f"{case}: needs {', '.join(keys)}, and nothing else")
    if wrong := [key for key in keys if not _is_valid(key, entry[key])]:
        raise ValueError(f"{case}: {wrong[0]} is {entry[wrong[0]]!r}")
    if (entry["ratio"] is None) != (entry["ratio_spread"] is None):
        raise ValueError(f"{case}: only one of ratio and ratio_spread is null")
    if entry["first"][: len(entry["last"])] > entry["last"]:
        raise ValueError(f"{case}: first is after last")
    return Blessed(**entry)


def _is_valid(key: str, value: Any) -> bool:
    if key == "blessed":
        return type(value) is date  # a time of the day is none
    if key in ("first", "last"):
        return isinstance(value, str) and bool(_NIGHT.fullmatch(value))
    if key in ("settings", "who", "why"):
        return isinstance(value, str)
    if key in ("ratio", "ratio_spread", "finish_fraction") and value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int if key == "nights" else int | float):
        return False
    return 0 <= value <= 1 if key == "finish_fraction" else 0 < value < 1e300  # nor nan


def write(system: str, folder: Path, blessed: Mapping[Case, Blessed]) -> None:
    """Write the baselines, whole or not at all; UserError."""
    ordered = {str(case): asdict(blessed[case]) for case in sorted(blessed, key=str)}
    text = HEADER.format(system=system) + yaml.safe_dump(ordered, sort_keys=False, width=100)
    with whole(path_of(system, folder)) as temporary:
        temporary.write_text(text, "utf-8")


def path_of(system: str, folder: Path) -> Path:
    return folder / "baselines" / f"{system}.yaml"
