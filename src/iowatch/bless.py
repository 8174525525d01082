"""Blessed baselines: what a case's nights were like when somebody said that all was well.

reference_values/baselines/<system>.yaml holds them; from it follow the coarse floors that stand,
between two comments, in each check's section of reference_values/<system>.yaml.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime, timezone
from datetime import time as clock
from pathlib import Path
from typing import Any

import yaml

from iowatch.case import Case
from iowatch.checks import CHECKS, check_of, flow, general_bounds
from iowatch.detector.baseline import Baseline, BaselineRefused, Job, Night, baseline_of
from iowatch.detector.settings import NORMAL, Settings
from iowatch.files import BadYaml, UserError, load_yaml, text_of, whole
from iowatch.history import Record
from iowatch.metrics import finish_fraction

HEADER = """\
# Baselines of system {system}, written by `iowatch bless`, never by hand. bandwidth: median of the
# nights' best, MiB/s; ratio: to MPI-IO in the same jobs; spread, ratio_spread: standard deviations
# of their logarithms; finish_fraction: median part of the time that finishes the file.
"""


class BlessError(UserError):
    """Nothing can be blessed, or written; one line says why."""


@dataclass(frozen=True)
class Blessed:
    """The baseline of one case, and who stands for it."""

    bandwidth: float
    spread: float
    ratio: float | None
    ratio_spread: float | None
    finish_fraction: float | None
    nights: int
    first: date
    last: date
    settings: str  # hash of the detector's thresholds that accepted the nights
    blessed: date
    who: str
    why: str

    @classmethod
    def of(cls, baseline: Baseline, settings: Settings, today: date, who: str, why: str) -> Blessed:
        """A baseline, rounded to what a diff should show."""
        return cls(
            bandwidth=float(f"{math.exp(baseline.m):.6g}"),
            spread=round(baseline.s, 4),
            ratio=None if baseline.m_r is None else round(math.exp(baseline.m_r), 4),
            ratio_spread=None if baseline.s_r is None else round(baseline.s_r, 4),
            finish_fraction=None if baseline.phi0 is None else round(baseline.phi0, 4),
            nights=baseline.nights,
            first=baseline.first.date(),
            last=baseline.last.date(),
            settings=settings_hash(settings),
            blessed=today,
            who=who,
            why=why,
        )

    @property
    def judged(self) -> set[str]:
        """The figures that it can judge: of imported nights only the bandwidth may be known."""
        ratio = {"ratio"} if self.ratio is not None else set()
        finish = (
            {"close_fraction", "finish_fraction"} if self.finish_fraction is not None else set()
        )
        return {"total_max"} | ratio | finish

    @property
    def baseline(self) -> Baseline:
        """What the detector compares with."""
        return Baseline(
            m=math.log(self.bandwidth),
            s=self.spread,
            m_r=None if self.ratio is None else math.log(self.ratio),
            s_r=self.ratio_spread,
            phi0=self.finish_fraction,
            nights=self.nights,
            first=datetime.combine(self.first, clock.min, timezone.utc),
            last=datetime.combine(self.last, clock.min, timezone.utc),
        )


def settings_hash(settings: Settings) -> str:
    """Eight hexadecimal digits that change when a threshold does."""
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:8]


def window(
    nights: Mapping[date, Sequence[Record]], count: int, first: date | None, last: date | None
) -> dict[date, Night]:
    """The last `count` nights with figures between two dates, both included.

    BaselineRefused if too many nights of that time have none.
    """
    dates = sorted(d for d in nights if (first or d) <= d <= (last or d))
    jobs = ((d, jobs_of(nights[d])) for d in dates)
    valid: dict[date, Night] = dict([(d, night) for d, night in jobs if night][-count:])
    since = min(valid, default=date.max)
    invalid = sum(d >= since and not jobs_of(nights[d]) for d in dates)
    if invalid > NORMAL.max_bad_nights * (len(valid) + invalid):
        raise BaselineRefused(f"{invalid} of {len(valid) + invalid} nights have no valid run")
    return valid


def jobs_of(records: Sequence[Record]) -> Night:
    """The valid runs of a night, for the detector."""
    return [
        job_of(record.time, record.figures) for record in records if record.figures.get("total_max")
    ]


def job_of(time: datetime, figures: Mapping[str, float]) -> Job:
    """The figures of one run, as the detector takes them."""
    return Job(time, figures["total_max"], figures.get("ratio"), finish_fraction(figures))


@dataclass(frozen=True)
class Blessing:
    """What came of it, case by case."""

    before: Mapping[Case, Blessed]
    blessed: Mapping[Case, Blessed]
    refused: Mapping[Case, str]  # and why
    files: Sequence[Path]  # written


def bless(
    system: str,
    folder: Path,
    cases: Mapping[Case, Mapping[date, Sequence[Record]]],
    count: int,
    first: date | None,
    last: date | None,
    who: str,
    why: str,
    dry_run: bool,
) -> Blessing:
    """Bless each case for which the nights allow it; a case that is refused keeps its baseline."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise BlessError(f"{folder}: no folder that can be read: give the one of {system}.yaml")
    blessed, refused = {}, {}
    for case, nights in cases.items():
        try:
            chosen = window(nights, count, first, last)
            entry = Blessed.of(baseline_of([*chosen.values()]), NORMAL, date.today(), who, why)
            # A night is not always called by the day of its first job.
            blessed[case] = replace(entry, first=min(chosen), last=max(chosen))
        except BaselineRefused as err:
            refused[case] = str(err)
    if dry_run or not blessed:
        return Blessing(_read(system, folder), blessed, refused, [])
    with locked(folder):
        before = _read(system, folder)  # what is lost may be blessed again
        files = write(system, folder, {**before, **blessed})
    return Blessing(before, blessed, refused, files)


def read(system: str, folder: Path) -> dict[Case, Blessed]:
    """The baselines of a system; none if it has no file.

    BlessError if the file is broken, or has lost a case, or the reference file has lost its floor.
    """
    blessed, references = _read(system, folder), folder / f"{system}.yaml"
    try:
        floors = floors_of(text_of(references))
    except FileNotFoundError:
        return blessed
    except BadYaml as err:
        raise BlessError(f"{references}: {err}") from None
    _require_both(floors ^ {*map(str, blessed)}, system, folder)
    return blessed


def _read(system: str, folder: Path) -> dict[Case, Blessed]:
    path = _path(system, folder)
    try:
        entries = load_yaml(text_of(path))
        if not isinstance(entries, dict):
            raise ValueError("it has no cases")
        return {Case.parse(str(case)): _entry(case, entry) for case, entry in entries.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, BadYaml) as err:
        raise BlessError(
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
    if entry["first"] > entry["last"]:
        raise ValueError(f"{case}: first is after last")
    return Blessed(**entry)


def _is_valid(key: str, value: Any) -> bool:
    if key in ("first", "last", "blessed"):
        return type(value) is date  # a time of the day is none
    if key in ("settings", "who", "why"):
        return isinstance(value, str)
    if key in ("ratio", "ratio_spread", "finish_fraction") and value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int if key == "nights" else int | float):
        return False
    return 0 <= value <= 1 if key == "finish_fraction" else 0 < value < 1e300  # nor nan


def _require_both(lost: Collection[str], system: str, folder: Path) -> None:
    """BlessError if there are cases of which either the baseline or the floor is lost."""
    if lost:
        more = f" and {len(lost) - 1} more case(s)" if len(lost) > 1 else ""
        raise BlessError(
            f"{_path(system, folder)}: either it or the blessed block of {folder / system}.yaml "
            f"has lost {min(lost)}{more}: restore the files, bless again, or remove the case"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One bless at a time."""
    path = folder / "baselines"
    try:
        path.mkdir(exist_ok=True)
        handle = os.open(path, os.O_RDONLY)
    except OSError as err:
        raise BlessError(f"{path} cannot be made, or read: {err.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BlessError(f"{folder}: another bless is at work: try again") from None
    finally:
        os.close(handle)


def write(system: str, folder: Path, blessed: Mapping[Case, Blessed]) -> list[Path]:
    """Write both files, whole or not at all; their paths. BlessError, UserError."""
    references = folder / f"{system}.yaml"
    try:
        text = text_of(references)
        if not isinstance(load_yaml(text), dict | None):
            raise BadYaml("has no sections, one for each check")
    except FileNotFoundError:
        raise BlessError(
            f"{references}: there is no such file: --folder names its folder"
        ) from None
    except BadYaml as err:
        raise BlessError(f"{references}: {err}") from None
    _require_both(floors_of(text) - {*map(str, blessed)}, system, folder)
    ordered = {str(case): asdict(blessed[case]) for case in sorted(blessed, key=str)}
    baselines = HEADER.format(system=system) + yaml.safe_dump(ordered, sort_keys=False, width=100)
    texts = {_path(system, folder): baselines, references: with_floors(text, bandwidths(blessed))}
    with contextlib.ExitStack() as files:
        for path, content in texts.items():
            files.enter_context(whole(path)).write_text(content, "utf-8")
    return list(texts)


def _path(system: str, folder: Path) -> Path:
    return folder / "baselines" / f"{system}.yaml"


def bandwidths(blessed: Mapping[Case, Blessed]) -> dict[Case, float]:
    """MiB/s: what the floors of these are measured by."""
    return {case: entry.bandwidth for case, entry in blessed.items()}


FLOOR = -0.5  # of the baseline's median: ReFrame's own check is coarse, the detector is not
BEGIN, END = "  # blessed: `iowatch bless` writes these", "  # blessed: end"
_BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n", re.M | re.S)


class FloorError(UserError):
    """A reference file has no room for floors; one line says where."""


def floors_of(text: str) -> set[str]:
    """The cases with a floor in a reference file."""
    keys = re.findall(r"^  (\S+): ", "".join(_BLOCK.findall(text)), re.M)
    return {key.removeprefix("(?:").removesuffix(")").replace(r"\.", ".") for key in keys}


def with_floors(text: str, bandwidths: Mapping[Case, float]) -> str:
    """A reference file with a floor for each of these cases, by its baseline's MiB/s, first in each
    check's section, instead of those that it had.

    FloorError if a section is not of the form that the README shows.
    """
    text = _BLOCK.sub("", text)
    before: dict[str, Any] = yaml.safe_load(text) or {}
    for check in CHECKS:
        section = before.get(check)
        entries = section if isinstance(section, dict) else {}
        floors = "".join(
            f"  {_key(case, entries)}: {flow(_floor(case, rate, entries))}\n"
            for case, rate in sorted(bandwidths.items(), key=lambda item: str(item[0]))
            if check_of(case) == check
        )
        if floors:
            head = rf"^{check}:(\n  \$index: \[case_id\]| \{{\$index: \[case_id\]\}})[^\n]*\n"
            block = f"{check}:\n  $index: [case_id]\n{BEGIN}\n{floors}{END}\n"
            # A backslash in a replacement must be doubled.
            text, count = re.subn(head, block.replace("\\", r"\\"), text, flags=re.M)
            if count == 0 and check in before:
                raise FloorError(
                    f"section {check} of the reference file cannot be added to: begin it with the "
                    f"lines `{check}:` and `  $index: [case_id]`"
                )
            text += "" if count else f"\n{block}"
    return text


def _floor(case: Case, bandwidth: float, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds that the case had so far, for its floor will hide their entry; and the floor."""
    matching = (entries[key] for key in entries if re.fullmatch(key, str(case)))
    try:
        bounds = next(matching, general_bounds(case))
        return {**bounds, "total_max": [bandwidth, FLOOR, None, "MiB/s"]}
    except (re.error, TypeError) as err:
        raise FloorError(f"{case}: the reference file's entry cannot be used: {err}") from None


def _key(case: Case, entries: Collection[str]) -> str:
    """A regular expression that only this case matches, and that is no key yet."""
    key = str(case).replace(".", r"\.")
    return f"(?:{key})" if key in entries else key
