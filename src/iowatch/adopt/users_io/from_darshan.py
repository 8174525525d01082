"""`iowatch suite from-darshan`: from a site's archive of logs to a suite and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from iowatch.adopt.users_io.access_class import Usage
from iowatch.adopt.users_io.log_archive import read_archive, require_logs
from iowatch.adopt.users_io.proposal_text import suite_text
from iowatch.adopt.users_io.stand_in import Proposal, propose
from iowatch.base.files import UserError, whole
from iowatch.base.text import one_line
from iowatch.cases.suite import NIGHTLY
from iowatch.past import history
from iowatch.past.cost import Cost, costs
from iowatch.site.configuration import read_site

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
