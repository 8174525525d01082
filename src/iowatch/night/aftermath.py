"""The record when a night's sessions have ended: what is gone, lost or damaged, or idle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.places import reference_folder, reference_values
from iowatch.base.text import counted
from iowatch.cases.case import Case, shown
from iowatch.cases.filesystem import NIGHTLY, SUITES
from iowatch.cases.run import began
from iowatch.night.record import SystemRecord
from iowatch.night.user_cost import idle_outputs
from iowatch.night.wanted import Wanted
from iowatch.past import raw_results
from iowatch.past.reframe_database import starts
from iowatch.site import references
from iowatch.site.declared import expected_path, maintenance_path, read_maintenance
from iowatch.site.formerly import former_names, is_meant
from iowatch.site.site import Site

#: Earlier nights that are looked for.
OF_LATE = timedelta(days=30)
#: How often a night decodes the whole record anew, and believes no cache.
CHECKED_EVERY = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """The record when the sessions of a night have ended, and its problems."""

    record: SystemRecord
    stored: Collection[str]  # the sessions in ReFrame's database
    lost: Sequence[str]  # earlier nights that no night has said to be lost
    problems: Sequence[str]
    notes: Sequence[str]  # that only who ran the night can make
    is_checked: bool  # the record was decoded anew


def load_aftermath(
    wanted: Wanted, site: Site, night: str, before: Mapping[str, float], notes: Sequence[str]
) -> Aftermath:
    """Load the record; `before` are the sessions that were stored as the night began."""
    record = SystemRecord(system=site.system, databases=[site.database])
    problems, own_notes, lost, is_checked = list[str](), [*notes], list[str](), False
    archived = max(site.archived.values(), default=date.min)
    stored: Collection[str] = ()
    if site.database.is_file():
        try:
            stored = starts(site.database)
            problems += _gone(site.database, archived, before, stored)
            again = "" if wanted.is_part(site) else wanted.rerun_command
            anew = not wanted.is_part(site) and _is_check_due(record, night)
            record = SystemRecord.load(site.system, [site.database], None, site, again, anew)
            problems += record.differing
            is_checked = anew
            if not wanted.is_part(site):
                lost = _lost(site.prefix, archived, night, record)
                problems += [_told_lost(site.prefix, earlier) for earlier in lost]
                told = record.words.told_lost.union(lost)
                damaged = {n: why for n, why in record.damaged(night).items() if n not in told}
                problems += _told_damaged(damaged)
                lost += damaged
            record = record.for_pages()
            if site.is_whole:
                suites = {suite: site.cases(suite) for suite in SUITES}
                own_notes += idle_entries(suites, {p.name for p in site.filesystems}, record)
                own_notes += [*idle_outputs(site, record.outputs), *site.doubts]
        except UserError as err:
            problems.append(str(err))
    return Aftermath(
        record=record,
        stored=stored,
        lost=lost,
        problems=problems,
        notes=own_notes,
        is_checked=is_checked,
    )


def _is_check_due(record: SystemRecord, night: str) -> bool:
    """Return whether no night of the week before has decoded the whole record anew."""
    last = record.words.last_checked(night)
    return not last or began(night) - began(last) >= CHECKED_EVERY


def _told_damaged(damaged: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence on the earlier nights that are not on record as they were."""
    for first, *_ in [*damaged.values()][:1]:
        are = counted(len(damaged), "earlier night", "are")
        yield f"{are} not on record as judged, {shown(damaged)}: {first}"


def _gone(
    database: Path, archived: date, before: Mapping[str, float], stored: Collection[str]
) -> Iterator[str]:
    """Tell of sessions that were stored when the night began, and are not now; a site may archive
    some meanwhile."""
    gone = [
        session
        for session, start in before.items()
        if session not in stored and datetime.fromtimestamp(start, UTC).date() > archived
    ]
    if gone:
        are = counted(len(gone), "session", "are", total=len(before))
        yield f"{database}: {are} gone since the night began: restore it from a backup"


def _lost(prefix: Path, archived: date, night: str, record: SystemRecord) -> list[str]:
    """Earlier nights that nobody has on record but by their raw results, and of which no night has
    said so yet."""
    since = max((record.now - OF_LATE).date(), archived + timedelta(days=1))
    # Of a night that was ended before it had measured anything, its own word says so.
    stored = {*(run.night for run in record.of_system), *record.words.nights}
    nights = raw_results.nights(prefix, record.system, since)
    lost = [earlier for earlier in nights if earlier < night and earlier not in stored]
    told = record.words.told_lost if lost else set()
    return [earlier for earlier in lost if earlier not in told]


def _told_lost(prefix: Path, night: str) -> str:
    return (
        f"the night {night} is not in the results database: its session was killed, or taken out: "
        f"look at its raw results, {prefix / raw_results.FOLDER / night}, or restore the "
        "database from a backup"
    )


def tidied(site: Site, today: date) -> Iterator[str]:
    keep = {(place.system, place.partition): place.keep_days for place in site.filesystems}
    try:
        raw_results.tidy(site.prefix, former_names().kept(keep), today)
    except UserError as err:
        yield str(err)


def idle_entries(
    suites: Mapping[str, Set[Case]], filesystems: Set[str], record: SystemRecord
) -> Iterator[str]:
    """Entries in the site's files that are of none of its cases: somebody took them for a bound.

    `filesystems` are their names. UserError.
    """
    every = {case for cases in suites.values() for case in cases}
    system, folder = record.system, reference_folder()
    values = reference_values(system)
    file = references.ReferenceFile(values) if values.is_file() else None
    yield from _dropped(suites[NIGHTLY], record.blessed, values, file.retired if file else {})
    expected = [
        entry.case.pattern
        for entry in record.expected
        if not any(is_meant(entry.case, str(case)) for case in every)
    ]
    announced = read_maintenance(system, folder)
    unknown = sorted({name for entry in announced for name in entry.filesystems} - filesystems)
    if unknown:
        yield (
            f"{maintenance_path(system, folder)}: names no filesystem of the site: "
            f"{', '.join(unknown)}: write their names as `filesystem` has them in the site's file"
        )
    for path, entries in (
        (values, file.idle(every) if file else []),
        (expected_path(system, folder), expected),
    ):
        if entries:
            yield (
                f"{path}: {len(entries)} of its entries match no case of the site and count for "
                f"nothing: {shown(entries)}: mend or remove them; a place that has a new name "
                "names the old one under `formerly` in the site's file"
            )


def _dropped(
    nightly: Set[Case],
    blessed: Iterable[Case],
    values: Path,
    retired: Mapping[re.Pattern[str], str],
) -> Iterator[str]:
    """Blessed cases that have left the nightly suite, until somebody has said why."""
    # An entry for cases that are measured would hide the next case that is dropped.
    broad = [key for key in retired if any(is_meant(key, str(case)) for case in nightly)]
    if broad:
        yield (
            f"{values}: `{references.RETIRED}` names cases of the nightly suite and counts for "
            f"nothing: {shown(key.pattern for key in broad)}: name only what is not measured"
        )
    explained = [key for key in retired if key not in broad]
    dropped = [
        case
        for case in blessed
        if case not in nightly and not any(is_meant(key, str(case)) for key in explained)
    ]
    if dropped:
        yield (
            f"nobody guards {counted(len(dropped), 'blessed case')}, not in the nightly suite any "
            f"more: {shown(dropped)}: put it back, or say why under `{references.RETIRED}` in "
            f"{values}"
        )
