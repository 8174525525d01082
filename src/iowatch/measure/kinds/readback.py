"""Reads of what an earlier night has kept; the same job keeps files for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from iowatch.base.bounded import regular_text
from iowatch.cases.case import Case
from iowatch.cases.metric import RATE_BOUND
from iowatch.cases.parameters import READ_EXISTING, SHARING, WRITE_KEEP
from iowatch.measure.kinds.array import READ, ControlledArrayKind
from iowatch.measure.kinds.kind import KeptFiles
from iowatch.measure.law import Job, verified
from iowatch.measure.result import InvalidResult, read_result

#: Files that a job leaves: the result of its read, the result of the files that it keeps, the
#: directory that it read (empty: nothing was there), and the exit code of the reader.
RESULT, KEPT, LAST, READ_CODE = "result.json", "kept.json", "last", "read_code"
#: benchio's exit codes where files are gone or too short, or not what was written.
_LOST = ("3", "4")


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadBackKind(ControlledArrayKind):
    """benchio reads what is there, and then writes what stays."""

    starts_once: ClassVar[bool] = False
    evidence_of: ClassVar[str] = "kept files"

    @property
    def operations(self) -> list[str]:
        return [READ_EXISTING]

    def command_line(self, case: Case) -> list[str]:
        """Return the options of the start that keeps files."""
        reading, keeping = (f"--operation {name}" for name in (READ_EXISTING, WRITE_KEEP))
        return [keeping if option == reading else option for option in super().command_line(case)]

    def room_kib(self, case: Case, repeats: int) -> int:
        """The files of all rounds stay."""
        return repeats * super().room_kib(case, repeats)

    def names(self, case: Case, repeats: int) -> int:
        return repeats * super().names(case, repeats)

    def kept_files(self, job: Job) -> KeptFiles:
        """Read the folder of a job, whether its reads satisfy the law or not."""
        last, code = job.folder / LAST, job.folder / READ_CODE
        read = Path(regular_text(last).strip()).parent.name if last.is_file() else None
        why = _broken(job, RESULT, [READ_EXISTING]) if read else ""
        return KeptFiles(
            has_kept=not _broken(job, KEPT, [WRITE_KEEP]),
            read=read,
            why_not=why,
            is_lost=bool(why) and code.is_file() and regular_text(code).strip() in _LOST,
            read_id=read_result(job.folder / RESULT).existing if read and not why else "",
        )


def _broken(job: Job, name: str, operations: Sequence[str]) -> str:
    """Why a result does not satisfy the law; empty if it does."""
    try:
        verified(job, name, job.case.check.repeats, operations=operations)
    except InvalidResult as err:
        return str(err)
    return ""


READ_BACK = ReadBackKind(
    name="ReadBack",
    short="read back",
    operation="read",
    backends=SHARING,
    repeats=3,  # as many files of each backend are kept, and each is read once
    metrics=READ,
    bounds=RATE_BOUND,
    bounds_comment="Only that something moved: of few reads, each of another file, no ratio holds "
    "on any machine.",
)
