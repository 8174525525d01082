"""What a slow case costs users: how much longer an output that the site has named takes tonight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from iowatch.base.places import reference_folder
from iowatch.cases.case import Case
from iowatch.cases.filesystem import NIGHTLY
from iowatch.cases.parameters import DEFAULT
from iowatch.night.case_night import CaseNight
from iowatch.night.document import UserCost
from iowatch.night.verdicts import NightVerdicts
from iowatch.site.declared import UserOutput, outputs_path
from iowatch.site.site import Site

LEAST_S = 60.0  # less is not worth a sentence
NORMAL_95 = 1.96  # standard deviations on either side that hold 95 % of a normal sample
_GIB = 2**30
_MIB_A_GIB = 1024
_SMALL = 120  # so many seconds, or minutes, are said in the next larger unit


def user_costs(night: NightVerdicts) -> list[UserCost]:
    """List what the slow cases of a night cost users, the most first; of an output that several
    cases stand for, each of them."""
    costs = list[UserCost]()
    for output in night.outputs:
        for filesystem in sorted({row.last.filesystem for row in night.cases}):
            of_output = sorted(_costs(output, filesystem, night.cases), key=_gained)
            costs += [attrs.evolve(cost, worst=cost is of_output[0]) for cost in of_output]
    return sorted(costs, key=_gained)


def _gained(cost: UserCost) -> float:
    return cost.usual_s - cost.tonight_s


def _costs(output: UserOutput, filesystem: str, rows: Sequence[CaseNight]) -> Iterator[UserCost]:
    alike = [
        row
        for row in rows
        if row.last.filesystem == filesystem and _is_alike(row.case, filesystem, output)
    ]
    nearest = min((_distance(row.case, output) for row in alike), default=None)
    nearest_rows = [row for row in alike if _distance(row.case, output) == nearest]
    is_everywhere = all(row.outcome.is_slow for row in nearest_rows)
    for row in nearest_rows:
        if cost := _cost(output, row, is_everywhere):
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
    """Count the seconds; None: no verified rate of tonight is judged by a baseline as slow, or it
    is too little to be said."""
    if not (row.blessed and row.rate and row.outcome.is_slow):
        return None
    case, size, baseline = row.case, output.size * _MIB_A_GIB, row.blessed.baseline
    slow, usual, fast = (
        size / math.exp(baseline.m + scores * baseline.s) for scores in (-NORMAL_95, 0, NORMAL_95)
    )
    tonight = size / row.rate
    if tonight - usual < LEAST_S or tonight <= slow:
        return None
    is_larger = output.size * _GIB > case.bytes
    up_to = not is_everywhere or (is_larger and row.is_slow_to_finish)
    is_measured = math.isclose(case.bytes, output.size * _GIB, rel_tol=0.01)  # not extrapolated
    about = "" if is_measured and case.ranks == output.ranks else "about "
    # Sums that a reader makes must come out: what is said is counted in whole units.
    unit = 1 if tonight < _SMALL else 60
    before, more, *ends = (
        round(seconds / unit)
        for seconds in (usual, tonight - usual, tonight - slow, tonight - fast)
    )
    low, high = (_in_words(end, unit) for end in ends)
    earlier = f"{usual:.0f} s" if usual < _SMALL else _in_words(before, unit)
    plain = (
        f"{'up to ' if up_to else ''}+{_in_words(more, unit)}: "
        f"{'reading ' if output.operation == 'read' else ''}{output.name} takes "
        f"{'up to ' if up_to else about}{_in_words(before + more, unit)} instead of {earlier}"
    )
    return UserCost(
        output=output.name,
        case=case,
        filesystem=row.last.filesystem,
        worst=False,
        usual_s=usual,
        tonight_s=tonight,
        low_s=tonight - slow,
        high_s=tonight - fast,
        up_to=up_to,
        plain=plain,
        sentence=f"{plain} (+{ends[0] if max(ends) < _SMALL else low} to {high}; by {row.name})",
    )


def _in_words(count: int, unit: int) -> str:
    """Write so many seconds or minutes: `95 s`, `32 min`, `2 h 5 min`."""
    if unit == 1:
        return f"{count} s"
    hours, minutes = divmod(count, 60)
    if count < _SMALL:
        return f"{count} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


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
