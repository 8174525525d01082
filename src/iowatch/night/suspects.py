"""Tonight's suspicious cases, and how ReFrame runs just these again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from iowatch.case import Case
from iowatch.night.tonight import Tonight
from iowatch.reframe_site import CHECKS


@dataclass(frozen=True)
class Rerun:
    """A selection of ReFrame's; its hashes know neither partition nor environment."""

    partition: str  # system:partition
    environ: str
    tests: Mapping[Case, str]  # the hash of each

    @property
    def cases(self) -> set[Case]:
        return set(self.tests)

    @property
    def options(self) -> list[str]:
        """ReFrame's options that select these cases."""
        names = [f"--name=/{test}" for test in sorted(self.tests.values())]
        # ReFrame's -p searches: gnu would find gnu-debug as well.
        return ["--system", self.partition, "-p", f"^{re.escape(self.environ)}$", *names]


def due(cases: Mapping[Case, Tonight], now: datetime) -> list[Rerun]:
    """The re-runs that are due."""
    groups: dict[tuple[str, str], dict[Case, str]] = {}
    for case, night in cases.items():
        if night.rerun_at and night.rerun_at <= now:
            place = (f"{case.system}:{case.partition}", case.environ)
            groups.setdefault(place, {})[case] = night.valid[-1].test
    return [Rerun(*place, tests) for place, tests in sorted(groups.items())]


def rerun_script(cases: Mapping[Case, Tonight], now: datetime) -> Iterator[str]:
    """The lines of a shell script that runs again what is due; what is not yet, as comments."""
    for night in cases.values():
        if night.rerun_at:
            yield f"# {night.valid[-1].sentence}"
            if night.rerun_at > now:
                yield f"#   due from {night.rerun_at:%H:%M} UTC"
    for rerun in due(cases, now):
        yield shlex.join(["reframe", "-c", str(CHECKS), "-r", *rerun.options])
