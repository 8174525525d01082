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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timezone
from datetime import time as clock
from pathlib import Path
from typing import Any

import yaml

from iowatch.bounds import flow, general
from iowatch.case import Case
from iowatch.detector.baseline import Baseline, BaselineRefused, Job, Night, baseline_of
from iowatch.detector.settings import NORMAL, Settings
from iowatch.errors import UserError
from iowatch.figures import finish_fraction
from iowatch.past.history import Record
from iowatch.sweep import CHECKS, check_of

FLOOR = -0.5  # of the baseline's median: ReFrame's own check is coarse, the detector is not
BEGIN, END = "  # blessed: `iowatch bless` writes these", "  # blessed: end"

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
) -> list[Night]:
    """The last `count` nights with figures between two dates, both included.

    BaselineRefused if too many nights of that time have none.
    """
    dates = sorted(d for d in nights if (first or d) <= d <= (last or d))
    valid: list[Night] = [night for d in dates if (night := jobs_of(nights[d]))][-count:]
    since = valid[0][0].time.date() if valid else date.max
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
    blessed, refused = {}, {}
    for case, nights in cases.items():
        try:
            baseline = baseline_of(window(nights, count, first, last))
            blessed[case] = Blessed.of(baseline, NORMAL, date.today(), who, why)
        except BaselineRefused as err:
            refused[case] = str(err)
    if dry_run or not blessed:
        return Blessing(read(system, folder), blessed, refused, [])
    with locked(folder):
        before = read(system, folder)
        files = write(system, folder, {**before, **blessed})
    return Blessing(before, blessed, refused, files)


def read(system: str, folder: Path) -> dict[Case, Blessed]:
    """The baselines of a system; none if it has no file. BlessError if the file is broken."""
    path = _path(system, folder)
    if not path.exists():
        return {}
    try:
        entries = yaml.safe_load(path.read_text("utf-8")) or {}
        return {Case.parse(case): Blessed(**entry) for case, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as err:
        reason = " ".join(str(err).split())
        raise BlessError(
            f"{path}: not the baselines that `iowatch bless` writes: {reason}"
        ) from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One bless at a time."""
    (folder / "baselines").mkdir(exist_ok=True)
    handle = os.open(folder / "baselines", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BlessError(f"{folder}: another bless is at work: try again") from None
    finally:
        os.close(handle)


def write(system: str, folder: Path, blessed: Mapping[Case, Blessed]) -> list[Path]:
    """Write both files, each whole or not at all; their paths."""
    references = folder / f"{system}.yaml"
    try:
        text = references.read_text("utf-8")
    except OSError as err:
        raise BlessError(f"{references} cannot be read: {err.strerror}") from None
    ordered = {str(case): asdict(blessed[case]) for case in sorted(blessed, key=str)}
    baselines = HEADER.format(system=system) + yaml.safe_dump(ordered, sort_keys=False, width=100)
    texts = {_path(system, folder): baselines, references: with_blessed(text, blessed)}
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in texts}
    try:
        for path, content in texts.items():
            temporary[path].write_text(content, "utf-8")
        for path in texts:
            temporary[path].replace(path)
    except OSError as err:
        raise BlessError(f"{err.filename} cannot be written: {err.strerror}") from None
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    return list(texts)


def with_blessed(text: str, blessed: Mapping[Case, Blessed]) -> str:
    """A reference file with the floors of these baselines, first in each check's section, instead
    of those that it had. BlessError if a section is not of the form that the README shows."""
    text = re.sub(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n", "", text, flags=re.M | re.S)
    before: dict[str, Any] = yaml.safe_load(text) or {}
    for check in CHECKS:
        section = before.get(check)
        entries = section if isinstance(section, dict) else {}
        floors = "".join(
            f"  {_key(case)}: {flow(_floor(case, entry, entries))}\n"
            for case, entry in sorted(blessed.items(), key=lambda item: str(item[0]))
            if check_of(case) == check
        )
        if floors:
            head = rf"^{check}:(\n  \$index: \[case_id\]| \{{\$index: \[case_id\]\}})[^\n]*\n"
            block = f"{check}:\n  $index: [case_id]\n{BEGIN}\n{floors}{END}\n"
            # A backslash in a replacement must be doubled.
            text, count = re.subn(head, block.replace("\\", r"\\"), text, flags=re.M)
            if count == 0 and check in before:
                raise BlessError(
                    f"section {check} of the reference file cannot be added to: begin it with the "
                    f"lines `{check}:` and `  $index: [case_id]`"
                )
            text += "" if count else f"\n{block}"
    return text


def _floor(case: Case, entry: Blessed, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds that the case had so far, for its floor will hide their entry; and the floor."""
    matching = (entries[key] for key in entries if re.fullmatch(key, str(case)))
    try:
        bounds = next(matching, general(case))
        return {**bounds, "total_max": [entry.bandwidth, FLOOR, None, "MiB/s"]}
    except (re.error, TypeError) as err:
        raise BlessError(f"{case}: the reference file's entry cannot be used: {err}") from None


def _key(case: Case) -> str:
    """The regular expression that only this case matches."""
    return str(case).replace(".", r"\.")


def _path(system: str, folder: Path) -> Path:
    return folder / "baselines" / f"{system}.yaml"
