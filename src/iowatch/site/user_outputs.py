"""Users' outputs: the site names what its users write, and a slow night says what that costs them.

They stand in reference_values/user_outputs/<system>.yaml; docs/howto/users.md shows the file.
"""

from __future__ import annotations

import math
from pathlib import Path

import attrs

from iowatch.base.records import COUNT, TEXT, Record, choice, key, list_of, number
from iowatch.cases.parameters import BACKENDS


@attrs.frozen(kw_only=True)
class UserOutput(Record):
    """An output that users know, of which pages say how much longer it takes on a slow night."""

    name: str = key(TEXT, "The output with its article, such as: a WRF output. Users read it.")
    size: float = key(
        number("a number above 0", math.ulp(0)), "The size of all its files.", unit="GiB"
    )
    library: str = key(choice(*BACKENDS), "The I/O library that the program uses.")
    files: str = key(
        choice("shared", "process", "gather"),
        "One file that all ranks write, one for each rank, or one that a single rank writes for "
        "all.",
        default="shared",
    )
    ranks: int = key(COUNT, "The number of ranks that write or read it.")
    operation: str = key(
        choice("write", "read"),
        "The operation of the program that users wait for.",
        default="write",
    )
    filesystems: tuple[str, ...] = key(
        list_of(TEXT, "a list of names in the site's configuration, such as [fs2, fs3]"),
        "The filesystems that users choose for it, as `filesystem` names them in the site's file. "
        "Without the key all filesystems count.",
        default=(),
    )

    def contradiction(self) -> str:
        if self.library == "posix" and self.files == "shared":
            return (
                "posix has no case with one file for all ranks: write library: mpiio, whose "
                "independent calls are POSIX's"
            )
        return ""


def outputs_path(system: str, folder: Path) -> Path:
    return folder / "user_outputs" / f"{system}.yaml"


def read_outputs(system: str, folder: Path) -> list[UserOutput]:
    """Read the users' outputs of a system; none without a file. UserError."""
    return UserOutput.read_list(outputs_path(system, folder))
