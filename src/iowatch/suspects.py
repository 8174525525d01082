"""Tonight's suspicious cases, and how ReFrame runs just these again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime

from iowatch.detector_judgement import SUSPECT
from iowatch.detector_settings import NORMAL
from iowatch.history import Record, by_night, is_same_night
from iowatch.nightly import CHECKS


def suspects(records: Iterable[Record], now: datetime) -> list[Record]:
    """The last run tonight of each case that is suspicious and may still be run again."""
    found = []
    for nights in by_night(records).values():
        tonight = nights[max(nights)]
        is_open = is_same_night(tonight, now) and len(tonight) <= NORMAL.max_reruns
        if is_open and tonight[-1].verdict == SUSPECT:
            found.append(tonight[-1])
    return found


def rerun_script(records: Iterable[Record], now: datetime) -> Iterator[str]:
    """The lines of a shell script that runs again what is due; what is not yet, as comments."""
    due: dict[tuple[str, str], list[str]] = {}
    for record in suspects(records, now):
        from_ = record.time + NORMAL.rerun_after
        yield f"# {record.sentence}"
        if from_ > now:
            yield f"#   due from {from_:%H:%M} UTC"
        else:
            case = record.case
            due.setdefault((f"{case.system}:{case.partition}", case.environ), []).append(
                record.test
            )
    for (system, environ), tests in sorted(due.items()):
        selection = " ".join(f"-n /{test}" for test in tests)
        yield (
            f"reframe -c {shlex.quote(str(CHECKS))} -r --system {shlex.quote(system)}"
            f" -p {shlex.quote(environ)} {selection}"
        )
