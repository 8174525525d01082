"""Names that have changed: what is on record of a partition or an environment follows its name.

ReFrame's database is never rewritten. `iowatch rename` writes down what was renamed and when, in
reference_values/renames/<system>.yaml, and whoever reads history goes by it:

    - from: archer:fs2  # a partition; archer:fs2/gnu: an environment there, archer/gnu: everywhere
      to: archer:scratch
      when: 2026-11-23 06:30:00+00:00
      who: jane
      why: it has a new name since the last maintenance
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import attrs

from iowatch.base.files import UserError, whole
from iowatch.base.locks import exclusive
from iowatch.base.records import INSTANT, TEXT, Record, Shape, append, key
from iowatch.base.yaml_text import load, text_of
from iowatch.cases.case import Case
from iowatch.cases.run import Run
from iowatch.judge import bless
from iowatch.site.expected import expected_path, read_expected
from iowatch.site.references import ReferenceFile

_NAME = r"[A-Za-z0-9_.-]+"
_PLACE = re.compile(
    rf"(?P<system>[\w-]+)(?::(?P<partition>{_NAME}))?(?:/(?P<environ>{_NAME}))?", re.ASCII
)
_HEADER = "# Names that have changed: `iowatch rename` adds to this list, and past runs go by it.\n"


@dataclass(frozen=True)
class Place:
    """A partition of a system, an environment of one, or an environment of all."""

    system: str
    partition: str  # empty: all
    environ: str  # likewise

    @classmethod
    def parse(cls, text: str) -> Place:
        match = _PLACE.fullmatch(text)
        if not match or not (match["partition"] or match["environ"]):
            raise ValueError
        return cls(match["system"], match["partition"] or "", match["environ"] or "")

    def __str__(self) -> str:
        partition = f":{self.partition}" if self.partition else ""
        return f"{self.system}{partition}" + (f"/{self.environ}" if self.environ else "")

    def has(self, case: Case) -> bool:
        return (
            case.system == self.system
            and self.partition in ("", case.partition)
            and self.environ in ("", case.environ)
        )

    def moved(self, case: Case) -> Case:
        partition, environ = self.partition or case.partition, self.environ or case.environ
        return replace(case, partition=partition, environ=environ)


_SHAPE = Shape(
    "SYSTEM:PARTITION, SYSTEM:PARTITION/ENVIRON, or SYSTEM/ENVIRON for that environment of all "
    "partitions",
    Place.parse,
)


@attrs.frozen(kw_only=True)
class Rename(Record):
    """A place that has another name since a time."""

    before: Place = key(_SHAPE, "The old name, which runs on record keep.", name="from")
    after: Place = key(_SHAPE, "The new name, with the same parts.", name="to")
    when: datetime = key(INSTANT, "Since when it has the new name.")
    who: str = key(TEXT, "Who renamed it.")
    why: str = key(TEXT, "Why it was renamed.")

    def contradiction(self) -> str:
        old, new = self.before, self.after
        parts = [(bool(place.partition), bool(place.environ)) for place in (old, new)]
        if old.system != new.system or parts[0] != parts[1]:
            return f"{old} and {new}: write both with the same system and parts"
        return f"{old} is no new name" if old == new else ""

    def in_pattern(self, text: str) -> str:
        """A regular expression for case ids, with the new names in it."""
        for old, new in (
            (self.before.partition, self.after.partition),
            (self.before.environ, self.after.environ),
        ):
            if old:
                word = re.escape(old).replace(r"\.", r"\\?\.").replace(r"\-", "-")
                in_place = new.replace(".", r"\.").replace("\\", r"\\")
                text = re.sub(rf"(?<![\w-]){word}(?![\w-])", in_place, text)
        return text


class Renames:
    """All names that have changed, in the order of time."""

    def __init__(self, renames: Iterable[Rename]) -> None:
        self._renames = sorted(renames, key=lambda change: change.when)
        self._known: dict[tuple[Case, int], Case] = {}

    def applied(self, run: Run) -> Run:
        """A run as if its case had always had its present name."""
        first = sum(change.when <= run.time for change in self._renames)
        if first == len(self._renames):
            return run
        case = self._known.get((run.case, first))
        if case is None:
            case = run.case
            for change in self._renames[first:]:
                case = change.after.moved(case) if change.before.has(case) else case
            self._known[run.case, first] = case
        return run if case == run.case else replace(run, case=case)

    def with_old_names(self, keep: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Give the days that a system's partition is kept to its old names too."""
        known = dict(keep)
        for change in reversed(self._renames):
            old, new = ((place.system, place.partition) for place in (change.before, change.after))
            if new in known:
                known.setdefault(old, known[new])
        return known


def read(folder: Path) -> Renames:
    """Renames on all systems; UserError."""
    files = sorted((folder / "renames").glob("*.yaml"))
    return Renames(change for file in files for change in Rename.read_list(file))


# The command


@dataclass(frozen=True, kw_only=True)
class Done:
    baselines: int
    nights: int  # on record of the cases that follow
    cases: int
    files: Sequence[Path]


def rename(
    change: Rename, cases: Collection[Case], runs: Sequence[Run], folder: Path, values: Path
) -> Done:
    """Put on record that a place has a new name, and give it to baselines, expected failures and
    reference values. UserError before anything is written.

    `cases` are the site's now, and `runs` all on record. `values` are the reference values in
    force, which are written to `folder`.
    """
    system, old, new = change.before.system, change.before, change.after
    blessed, baselines = bless.read(system, folder), bless.path_of(system, folder)
    _require(change, cases, runs, blessed)
    moved = {case: new.moved(case) for case in blessed if old.has(case)}
    if both := [case for case in moved.values() if case in blessed]:
        raise UserError(
            f"{baselines}: {both[0]} has a baseline under its old name too: remove one of the two"
        )
    texts = dict(_with_patterns(change, cases, folder, values))
    record = folder / "renames" / f"{system}.yaml"
    Rename.read_list(record)  # nothing is appended to what cannot be read
    with exclusive(bless.lock_file(folder), f"{folder}: a bless is at work"):
        # The record last: whoever is interrupted before can do all of it once more.
        if moved:
            entries = {moved.get(case, case): entry for case, entry in blessed.items()}
            bless.write(system, folder, entries)
        for file, text in texts.items():
            with whole(file) as temporary:
                temporary.write_text(text, "utf-8")
        names = {"from": str(old), "to": str(new)}
        append(
            record,
            _HEADER,
            change,
            {**names, "when": change.when, "who": change.who, "why": change.why},
        )
    follow = [run for run in runs if old.has(run.case)]
    return Done(
        baselines=len(moved),
        nights=len({run.night for run in follow if run.night}),
        cases=len({run.case for run in follow}),
        files=[*([baselines] if moved else []), *texts, record],
    )


def _require(
    change: Rename, cases: Collection[Case], runs: Iterable[Run], blessed: Iterable[Case]
) -> None:
    """UserError if the site does not have the place under its new name alone, if the old one is
    unknown, or if both were measured side by side."""
    old, new = change.before, change.after
    places = sorted({case.place for case in cases})
    if any(old.has(case) for case in cases) or not any(new.has(case) for case in cases):
        raise UserError(
            f"{old} is not called {new} in the site's configuration, which has "
            f"{', '.join(places)}: rename it there first"
        )
    runs = [run for run in runs if run.case.system == old.system]
    if not any(old.has(case) for case in [*blessed, *(run.case for run in runs)]):
        raise UserError(
            f"{old}: nothing is on record of it, and no baseline: on record are "
            f"{', '.join(sorted({run.case.place for run in runs})) or 'no places'}"
        )
    before, after = (
        {run.night for run in runs if run.night and place.has(run.case)} for place in (old, new)
    )
    if both := before & after:
        raise UserError(
            f"{old} and {new} were both measured in the night {min(both)}: they are not the same"
        )


def _with_patterns(
    change: Rename, cases: Collection[Case], folder: Path, values: Path
) -> Iterator[tuple[Path, str]]:
    """The files whose regular expressions mean cases by their old ids, with the new names in them.

    UserError if one cannot be renamed.
    """
    file = expected_path(change.before.system, folder)
    failures = read_expected(change.before.system, folder)
    live = [failure.case.pattern for failure in failures if failure.until >= change.when.date()]
    if text := _renamed(change, cases, file, live):
        yield file, text
    if values.is_file():
        ReferenceFile(values)  # or nothing of it is what it seems
        sections = [section for section in load(values).values() if isinstance(section, dict)]
        if text := _renamed(change, cases, values, [key for names in sections for key in names]):
            yield folder / values.name, text


def _renamed(change: Rename, cases: Collection[Case], file: Path, patterns: Iterable[str]) -> str:
    """The text of a file with the new name in these patterns; empty: all of them may stay."""
    ids = {str(change.before.moved(c)): str(c) for c in cases if change.after.has(c)}
    others = [str(case) for case in cases if not change.after.has(case)]
    text = before = text_of(file) if patterns else ""
    for pattern in sorted({*patterns}, key=len, reverse=True):  # a part of another comes after it
        meant = [old for old in ids if re.fullmatch(pattern, old)]
        if all(re.fullmatch(pattern, ids[old]) for old in meant):
            continue
        renamed = change.in_pattern(pattern)
        is_same = all(
            bool(re.fullmatch(renamed, other)) == bool(re.fullmatch(pattern, other))
            for other in others
        )
        follows = all(re.fullmatch(renamed, ids[old]) for old in meant)
        if not (is_same and follows and pattern in text):
            raise UserError(
                f"{file}: {pattern} means {meant[0]}: write the new name into it, "
                f"{change.after}, and try again"
            )
        text = text.replace(pattern, renamed)
    return text if text != before else ""
