"""The cost of an acceptance test, and what it will be able to show, before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from iowatch.acceptance.contract import Contract
from iowatch.acceptance.criteria.criterion import Nights
from iowatch.acceptance.gather import suite
from iowatch.case import Case
from iowatch.files import counted
from iowatch.filesystem import Filesystem
from iowatch.parameters import MIB
from iowatch.run import Run, by_case
from iowatch.site import Site


def plan(contract: Contract, site: Site, runs: Iterable[Run]) -> tuple[list[str], bool]:
    """Say what the test of a contract costs at a site, and what it can show. True: all of it can be
    decided. `runs` are on record."""
    cases = suite(site)
    places = {(place.system, place.partition): place for place in site.filesystems}
    nights = by_case(run for run in runs if run.case in cases and run.is_measured)
    lines = [contract.title, *_cost(contract, cases, places, nights)]
    is_decidable = True
    for criterion in contract.criteria:
        mine = {p.partition for p in site.filesystems if p.name == criterion.filesystem}
        about = {case: nodes for case, nodes in cases.items() if case.partition in mine}
        sentence, is_enough = criterion.outlook(contract, about, nights)
        is_decidable &= is_enough
        lines.append(f"{criterion.name}: {sentence}")
    if not is_decidable:
        lines.append("not all of this can be decided: change the contract, or the site's suite")
    return lines, is_decidable


def _cost(
    contract: Contract,
    cases: Mapping[Case, int],
    places: Mapping[tuple[str, str], Filesystem],
    nights: Nights,
) -> Iterator[str]:
    agreed, apart = contract.rules.sessions, contract.rules.hours_apart
    conditions = sorted({criterion.condition for criterion in contract.criteria} - {()})
    sessions = agreed * (1 + len(conditions))
    size = hours = 0.0
    unknown = 0
    for case, nodes in cases.items():
        place = places[case.system, case.partition]
        written = case.check.bytes_written(case, place)
        rate = _usual_rate(nights.get(case, {}))
        unknown += rate is None and bool(written)
        size += written
        # The witness reads again what is written.
        hours += nodes * 2 * written / MIB / (rate or place.peak / 2) / 3600
    yield f"jobs: {sessions} sessions of {len(cases)}, that is {sessions * len(cases)}"
    yield f"written: {sessions * size / 2**40:.3g} TiB, and as much is read by the witness"
    sentence = f"node-hours: about {sessions * hours:.2g} of moving data"
    if unknown:
        sentence += (
            f"; of {counted(unknown, 'case')} no rate is on record, and half of what the site's "
            "file says that nothing can exceed is assumed: on few nodes it will be more"
        )
    yield sentence
    yield (
        f"nights: {agreed}, which begin {apart:g} h apart or more, so that the last begins "
        f"{apart * (agreed - 1) / 24:.3g} days after the first or later"
    )
    for condition in conditions:
        for name, away in condition:
            yield f"and as many sessions without {counted(away, 'OST')} of {name}"


def _usual_rate(nights: Mapping[str, Sequence[Run]]) -> float | None:
    rates = [run.rate for runs in nights.values() for run in runs if run.rate]
    return median(rates) if rates else None
