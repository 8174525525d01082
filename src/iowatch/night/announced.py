"""The work of a night, told before it begins, and how far it is while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.base.text import counted
from iowatch.cases.case import Case
from iowatch.cases.run import began, nights_of
from iowatch.night.gate import RECENT
from iowatch.night.progress import Follow, Progress, say, watch
from iowatch.night.unfinished import PlannedSession
from iowatch.night.wanted import Wanted
from iowatch.past import history, raw_results
from iowatch.site.site import Site

#: How long the nights of this time took says how long the next one takes.
OF_LATE = timedelta(days=30)


@contextmanager
def watched(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession]
) -> Iterator[Follow | None]:
    """Announce the night, and give what shows how far it is; None: ReFrame's output does."""
    if wanted.quiet:
        yield lambda lines: None
        return
    say("\n".join(_announced(wanted, site, night, parts)))
    if wanted.verbose:
        yield None
        return
    # ReFrame alone knows which cases a name matches.
    cases = 0 if wanted.names else sum(len(part.expected) for part in parts)
    count = raw_results.count_by_hand if wanted.is_part(site) else raw_results.count
    earlier = count(site.prefix, night)  # of a night that is run again
    progress = Progress(
        cases,
        lambda: count(site.prefix, night) - earlier,
        lambda: raw_results.waits_for(site.prefix, night),
    )
    with watch(progress) as follow:
        yield follow


def _announced(
    wanted: Wanted, site: Site, night: str, parts: Sequence[PlannedSession]
) -> Iterator[str]:
    """The work of the night, how long it takes as far as known, and where to see more."""
    names = {place.partition: place.name for place in site.filesystems}
    asked = {case for part in parts for case in part.expected}
    counts = Counter(names[case.partition] for case in asked)
    places = ", ".join(f"{count} on {name}" for name, count in sorted(counts.items()))
    cases = counted(len(asked), "case")
    does = f"{cases} will be measured{' again' if wanted.again else ''} ({places})."
    if wanted.resume:
        does = f"goes on with {cases} ({places})."
    elif wanted.names:
        does = f"those of {cases} ({places}) that --name matches."
    is_part = wanted.is_part(site)
    subject = f"Run by hand on {wanted.system}" if is_part else f"Night {night} of {wanted.system}"
    yield f"{subject}: {does}"
    if not (wanted.again or wanted.resume or is_part):
        yield how_long(site.database, night, asked)
    if wanted.away:
        yield (
            f"On record as away: {', '.join(wanted.away)}. SlowOst has to find that it "
            "cannot write there, and can everywhere else."
        )
    if wanted.death:
        name, _, who = wanted.death.rpartition(":")
        yield (
            f"On record: a {who} of {name} is killed while this runs. So kill one, and measure "
            "afterwards without --death: ReadBack then reads what was kept."
        )
    if not wanted.verbose and site.logs:
        yield f"ReFrame's own log is {', '.join(site.logs)}; with --verbose its output is shown."


def how_long(database: Path, night: str, asked: set[Case]) -> str:
    """Say how long the last nights took that measured all of this in their first session."""
    try:
        runs = history.read([database], datetime.now(UTC) - OF_LATE)
    except UserError:  # its judging will say so
        runs = []
    took = []
    for earlier, of_night in nights_of(runs).items():
        first = [run for run in of_night if run.session == of_night[0].session]
        measured = {run.case for run in first if not run.outcome.is_amber}
        measured |= {run.case for run in runs if run.night == earlier and run.outcome.is_skipped}
        if asked <= measured and earlier < night:
            took.append(max(run.time for run in first) - began(earlier))
    minutes = sorted(max(1, round(span / timedelta(minutes=1))) for span in took[-RECENT:])
    if not minutes:
        return "How long it takes is not known: no whole night like this one is on record."
    return f"The last nights like this one took {_in_words(minutes[0], minutes[-1])}."


def _in_words(least: int, most: int) -> str:
    """Minutes as people say them; from two hours on, hours."""
    unit = "minute"
    if most >= 120:
        unit, least, most = "hour", round(least / 60), round(most / 60)
    words = f"{most} {unit}{'' if most == 1 else 's'}"
    return f"about {words}" if least == most else f"{least} to {words}"
