"""What a slow case costs users: how much longer an output that the site has named takes tonight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from iowatch.base.places import reference_folder
from iowatch.cases.case import Case
from iowatch.cases.filesystem import NIGHTLY
from iowatch.cases.parameters import DEFAULT
from iowatch.night.case_night import CaseNight
from iowatch.night.verdicts import NightVerdicts
from iowatch.site.site import Site
from iowatch.site.user_outputs import UserOutput, outputs_path

LEAST_S = 60.0  # less is not worth a sentence
NORMAL_95 = 1.96  # standard deviations on either side that hold 95 % of a normal sample
_GIB = 2**30
_MIB_A_GIB = 1024
_SMALL = 120  # so many seconds, or minutes, are said in the next larger unit


@dataclass(frozen=True, kw_only=True)
class UserCost:
    """How much longer a user's output takes tonight, by the rate of the case that stands for it."""

    output: UserOutput
    row: CaseNight
    usual: float  # s, at the rate of the baseline
    tonight: float  # s
    low: float  # s that it takes longer: beside a slow and a fast night of the baseline, 95 %
    high: float
    #: Less may be lost: another layout is well, or the lost time need not grow with the size.
    is_most: bool

    @cached_property
    def extra(self) -> str:
        """`+12 min`, or `up to +12 min`."""
        return f"{'up to ' if self.is_most else ''}+{self._words(self._more)}"

    @cached_property
    def plain(self) -> str:
        """`+12 min: a WRF output takes about 32 min instead of 20 min`, for users, too."""
        subject = f"{'reading ' if self.output.operation == 'read' else ''}{self.output.name}"
        about = "up to " if self.is_most else "" if self._is_measured else "about "
        now = self._words(self._before + self._more)
        before = f"{self.usual:.0f} s" if self.usual < _SMALL else self._words(self._before)
        return f"{self.extra}: {subject} takes {about}{now} instead of {before}"

    @cached_property
    def sentence(self) -> str:
        """The same with its interval, and with the case that stands for the output."""
        ends = [round(end / self._unit) for end in (self.low, self.high)]
        low, high = map(self._words, ends)
        if max(ends) < _SMALL:  # in one unit
            low = str(ends[0])
        return f"{self.plain} (+{low} to {high}; by {self.row.name})"

    @property
    def _is_measured(self) -> bool:
        """Has the case the size and the ranks of the output? Else it is extrapolated."""
        case = self.row.case
        same_size = math.isclose(case.bytes, self.output.size * _GIB, rel_tol=0.01)
        return same_size and case.ranks == self.output.ranks

    # Sums that a reader makes must come out: what is said is counted in whole units.

    @property
    def _unit(self) -> int:
        return 1 if self.tonight < _SMALL else 60

    @property
    def _before(self) -> int:
        return round(self.usual / self._unit)

    @property
    def _more(self) -> int:
        return round((self.tonight - self.usual) / self._unit)

    def _words(self, count: int) -> str:
        """Write so many units: `95 s`, `32 min`, `2 h 5 min`."""
        if self._unit == 1:
            return f"{count} s"
        hours, minutes = divmod(count, 60)
        if count < _SMALL:
            return f"{count} min"
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def user_costs(night: NightVerdicts) -> list[UserCost]:
    """List what the slow cases of a night cost users, the most first; of an output that several
    cases stand for, each of them."""
    costs = [
        cost
        for output in night.outputs
        for filesystem in sorted({row.last.filesystem for row in night.cases})
        for cost in _costs(output, filesystem, night.cases)
    ]
    return sorted(costs, key=lambda cost: cost.usual - cost.tonight)


def worst_of(costs: Sequence[UserCost]) -> list[UserCost]:
    """Keep the most that each output loses on a filesystem."""
    most: dict[tuple[UserOutput, str], UserCost] = {}
    for cost in costs:
        most.setdefault((cost.output, cost.row.last.filesystem), cost)
    return [*most.values()]


def _costs(output: UserOutput, filesystem: str, rows: Iterable[CaseNight]) -> Iterator[UserCost]:
    alike = [
        row
        for row in rows
        if row.last.filesystem == filesystem and _is_alike(row.case, filesystem, output)
    ]
    nearest = min((_distance(row.case, output) for row in alike), default=None)
    nearest_rows = [row for row in alike if _distance(row.case, output) == nearest]
    is_everywhere = all(row.outcome.is_slow for row in nearest_rows)
    for row in nearest_rows:
        cost = _cost(output, row, is_everywhere)
        if cost and cost.tonight - cost.usual >= LEAST_S and cost.low > 0:
            yield cost


def _is_alike(case: Case, filesystem: str, output: UserOutput) -> bool:
    """Does a case move data as the output does, whatever its size, ranks and layout?"""
    kind = (case.backend, case.files, case.operation)
    return (
        case.check.stands_for_users
        and kind == (output.library, output.files, output.operation)
        and (not output.filesystems or filesystem in output.filesystems)
    )


def _distance(case: Case, output: UserOutput) -> tuple[int, float, float, bool]:
    """Say how far a case is from an output, the layout that users get by default the nearest."""
    ranks = abs(math.log(case.ranks / output.ranks))
    of_rank = case.bytes / case.ranks, output.size * _GIB / output.ranks
    return len(case.ways), ranks, abs(math.log(of_rank[0] / of_rank[1])), case.layout != DEFAULT


def _cost(output: UserOutput, row: CaseNight, is_everywhere: bool) -> UserCost | None:
    """Count the seconds; None: no verified rate of tonight is judged by a baseline as slow."""
    if not (row.blessed and row.rate and row.outcome.is_slow):
        return None
    size, baseline = output.size * _MIB_A_GIB, row.blessed.baseline
    slow, usual, fast = (
        size / math.exp(baseline.m + scores * baseline.s) for scores in (-NORMAL_95, 0, NORMAL_95)
    )
    tonight = size / row.rate
    is_larger = output.size * _GIB > row.case.bytes
    return UserCost(
        output=output,
        row=row,
        usual=usual,
        tonight=tonight,
        low=tonight - slow,
        high=tonight - fast,
        is_most=not is_everywhere or (is_larger and row.is_slow_to_finish),
    )


def idle_outputs(site: Site, outputs: Sequence[UserOutput]) -> Iterator[str]:
    """A note on the outputs that no case of the nightly suite stands for."""
    names = {place.partition: place.name for place in site.filesystems}
    cases = site.cases(NIGHTLY)
    idle = [
        output.name
        for output in outputs
        if not any(_is_alike(case, names[case.partition], output) for case in cases)
    ]
    if idle:
        yield (
            f"{outputs_path(site.system, reference_folder())}: no case of the nightly suite stands "
            f"for {', '.join(idle)}: measure such files with that library and operation, or take "
            "the entry out"
        )
