"""The variables that a job hands over to its ranks, and what these had of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from iowatch.job_folder import read_text
from iowatch.result import InvalidResult

#: The file in which a job notes what it has itself: a name, and the digest of its value, a line.
ASKED = "asked_environment"

_HASHED = "sha256:"
_DIGITS = 16


def require_variables(
    environment: Mapping[str, Any], variables: Mapping[str, str], folder: Path
) -> None:
    """Raise InvalidResult unless all ranks had these variables as their job had them.

    `environment` is that of a result, and `folder` the job's. The site's configuration has the text
    of each of the variables, or none.
    """
    if not variables:
        return
    file = folder / ASKED
    lines = read_text(file).splitlines() if file.exists() else []
    asked = {name: digest for name, _, digest in (line.partition(" ") for line in lines)}
    for name, text in variables.items():
        seen = environment["of_job"].get(name)
        if name not in asked or seen is None:
            where = file.name if name not in asked else "the result"
            raise InvalidResult(f"{where} says nothing of {name}, which the job hands over")
        for rank, had in _had(seen):
            if asked[name] not in _digests(had):
                value = had if seen["telling"] or had is None else "another value"
                wanted = text if seen["telling"] and text else "that of the job"
                raise InvalidResult(
                    f"{name}: {rank} had {'none' if value is None else value}, where "
                    f"{wanted if asked[name] else 'none'} was asked for: let the launcher pass it "
                    f"on, by SLURM_EXPORT_ENV=ALL in 'env_vars', `srun --export=ALL` or `mpirun -x "
                    f"{name}`"
                )


def _had(seen: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """What rank 0 had of a variable, and the first rank that had another value."""
    yield "rank 0", seen["value"]
    if seen["other_rank"] is not None:
        yield f"rank {seen['other_rank']} on {seen['other_host']}", seen["other_value"]


def _digests(value: str | None) -> list[str]:
    """The digests of a value, also without what a launcher has put before a list; "" if it is not
    set."""
    if value is None:
        return [""]
    if value.startswith(_HASHED):
        return [value.removeprefix(_HASHED)]
    parts = value.split(":")
    ends = (":".join(parts[first:]) for first in range(len(parts)))
    return [sha256(end.encode()).hexdigest()[:_DIGITS] for end in ends]
