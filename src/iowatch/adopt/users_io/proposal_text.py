"""A proposed suite for people: a table, and Python for a site's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import attrs
from rich.console import Console
from rich.progress import Progress

from iowatch.adopt.site_new import literal, wrapped
from iowatch.adopt.users_io.file_classes import MAPPED, NO_LIBRARY, Usage
from iowatch.adopt.users_io.log_archive import read_archive, require_logs
from iowatch.adopt.users_io.stand_in import OperationEntry, Proposal, propose
from iowatch.base.documents import document, filled
from iowatch.base.files import UserError, whole
from iowatch.base.text import brief_bytes, counted, one_line
from iowatch.cases.filesystem import NIGHTLY
from iowatch.measure.darshan_counts import PARTIAL, Operation
from iowatch.past import history
from iowatch.past.cost import Cost, costs
from iowatch.site.site import read_site

_TITLES: dict[Operation, str] = {
    "write": "bytes written",
    "read": "bytes read",
    "metadata": "metadata operations",
}
_NOTES = {
    PARTIAL: "incomplete logs, for which Darshan had too little memory: {}; what they have counts",
    NO_LIBRARY: "logs without counts of HDF5, NetCDF and PnetCDF: {}; the names of files tell the "
    "library, and small pieces may be parts of larger calls",
    MAPPED: "logs of programs that map files into memory: {}; Darshan does not see those bytes",
}


def table_lines(proposal: Proposal) -> Iterator[str]:
    """Write the cases, what each stands for, and what no case stands for."""
    usage, place = proposal.usage, proposal.place
    yield f"{counted(usage.logs, 'log')}; cases for {place.system}:{place.partition}"
    for operation, entry in proposal.operations.items():
        yield ""
        amount = f"{entry.total}" if operation == "metadata" else brief_bytes(entry.total)
        yield f"{_TITLES[operation]}: {amount}"
        if not entry.total:
            continue
        yield "   part  in all  case"
        for case in entry.cases:
            yield f"{_percent(case.part)} {case.in_all:>7.1%}  {case.case}"
            if case.differences:
                yield f"{'':17}users differ: {'; '.join(case.differences)}"
        for why, part in sorted(entry.without_case.items(), key=lambda pair: -pair[1]):
            yield f"{_percent(part)}          no case: {why}"
        rest = 1 - entry.stood_for - sum(entry.without_case.values())
        if rest > 0.0005:
            yield f"{_percent(rest)}          the rest: a larger --cover adds cases for it"
    if usage.notes or usage.unread:
        yield ""
    for note, count in sorted(usage.notes.items()):
        yield f"note: {_NOTES[note].format(f'{count} of {usage.logs}')}"
    for why, count in usage.unread.most_common():
        yield f"note: {count} not read: {why}"


def _percent(part: float) -> str:
    return f"{part:>7.1%}" if part >= 0.0005 else " < 0.1%"


def suite_text(proposal: Proposal) -> str:
    """Write the cases as Python for `suites` of a site's file."""
    covered = ", ".join(
        f"{entry.stood_for:.0%} of {_TITLES[operation]}"
        for operation, entry in proposal.operations.items()
        if entry.total
    )
    lines = [
        f"# {counted(proposal.usage.logs, 'Darshan log')}: {covered}.",
        "# Paste the cases into the suite `nightly` of a partition in the site's file.",
        "FROM_DARSHAN = {",
    ]
    for check in proposal.suite:
        lines.append(f'    "{check}": [')
        for operation, entry in proposal.operations.items():
            for case in (case for case in entry.cases if case.check == check):
                lines.append(f"        # {case.part:.1%} of {_TITLES[operation]}")
                lines.append(wrapped(f"        {literal({**case.values})},\n").rstrip())
        lines.append("    ],")
    return "\n".join([*lines, "}", ""])


@attrs.frozen(kw_only=True)
class SuiteProposal:
    """The cases that stand for what users do, without a name of theirs."""

    system: str
    partition: str
    cover: Annotated[float, "The part that was asked for."]
    logs: Annotated[int, "Logs that were read.", {"minimum": 1}]
    not_read: Annotated[
        Mapping[str, int], "How many logs and folders could not be read, by reason."
    ]
    operations: Annotated[Mapping[Operation, OperationEntry], "write, read and metadata."]
    suite: Annotated[
        Mapping[str, Sequence[Mapping[str, Any]]],
        "The cases as a site's file has them, by check.",
    ]
    cost: Cost

    @classmethod
    def document(cls, proposal: Proposal, parts: Mapping[str, Cost]) -> str:
        """Write the cases, and what they cost on all partitions."""
        cost, usage = sum(parts.values(), Cost()), proposal.usage
        filled_in = filled(cls, proposal, proposal.place, usage, not_read=usage.unread, cost=cost)
        return document(suite_proposal=filled_in)


_NAMED = 20  # logs that could not be read: more are only counted


def proposed(
    logs: Sequence[Path], cover: str, system: str, file: Path | None
) -> tuple[Proposal, dict[str, Cost], str]:
    """Return what an archive of logs proposes, its cost on each partition, and the suite as Python,
    which is also written to the file. UserError."""
    part = _part(cover)
    if find_spec("darshan") is None:
        raise UserError("PyDarshan is missing: pip install 'darshan>=3.5,<3.6' where iowatch is")
    site = read_site(system)
    with whole(file) if file else nullcontext() as temporary:  # not after hours of reading
        proposal = propose(_read(logs), site.filesystems[0], part)
        suite = suite_text(proposal)
        if temporary:
            temporary.write_text(suite, "utf-8")
    known = replace(site, filesystems=(proposal.filesystem,))
    runs = []
    if site.database.is_file():
        runs = history.read([site.database], history.year_before(datetime.now(UTC)))
    return proposal, costs(known, NIGHTLY, runs), suite


def _part(cover: str) -> float:
    """Read a part such as `90%`; UserError."""
    try:
        percent = float(cover.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise UserError(f"--cover {cover}: give a percentage above 0 and up to 100, such as 90%")
    return percent / 100


def _read(logs: Sequence[Path]) -> Usage:
    """Read an archive with a bar that shows how far it is, and name what cannot be read."""
    errors = Console(stderr=True, highlight=False)
    total, named = require_logs(logs), 0
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("reading logs", total=total)

        def name(path: str, why: str) -> None:
            nonlocal named
            named += 1
            if named <= _NAMED:
                text = one_line(f"not read: {path}: {why}")
                errors.print(text, soft_wrap=True, markup=False)

        usage = read_archive(logs, lambda: bar.advance(task), name)
    if named > _NAMED:
        errors.print(f"not read: {named - _NAMED} more")
    if not usage.logs:
        why = usage.unread.most_common(1)[0][0]
        raise UserError(f"no log can be read: {why}")
    if not usage.classes:
        raise UserError("the logs have no reads, no writes and no metadata operations")
    return usage
