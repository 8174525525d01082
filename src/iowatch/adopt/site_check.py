"""`iowatch site check`: tries a site before its first night, and says line by line what to mend."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console

from iowatch.adopt.probe import PROBE, SiteLine, is_environment, outcome, rate_at, to_mend
from iowatch.base.files import UserError, no_room
from iowatch.base.locks import locked
from iowatch.base.places import made, reference_values, reframe_program
from iowatch.base.text import brief_bytes, counted
from iowatch.cases.filesystem import NIGHTLY, SUITES, Filesystem
from iowatch.night import notices
from iowatch.night.progress import Follow, Progress, watch
from iowatch.night.record import readers
from iowatch.night.session import Interrupted, run_session
from iowatch.past import history
from iowatch.past.cost import Cost, costs
from iowatch.past.history import reason
from iowatch.past.reframe_database import tests_of
from iowatch.site.references import ReferenceFile
from iowatch.site.site import Site, read_site

LIMIT = timedelta(hours=20)  # with the time in the queue, as a night has it
#: The words of a scheduler that refuses a job, in those of ReFrame.
_REFUSED = re.compile(r"--- stderr --- (.*) --- stderr ---")
FOLDER = "site_check"  # of all that the jobs leave, below the site's results


def check_site(
    system: str, channels: Sequence[notices.Outbox | notices.Hook], console: Console
) -> list[SiteLine]:
    """Try a system, or one of its partitions, print a line for each thing that was tried, and
    return the lines. UserError, Interrupted."""
    tried, rates = list[SiteLine](), dict[str, float]()

    def tell(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False)

    def show(lines: Iterator[SiteLine], place: str = "") -> None:
        for line in lines:
            tell(str(line))
            tried.append(attrs.evolve(line, place=place))

    reframe_program()
    site = read_site(system)
    with locked(site.system, site.own_folders) as locks:
        show(_without_job(site))
        if not all(line.ok for line in tried):
            tell("no job was started: mend this first")
            return tried
        prefix = site.prefix / FOLDER / site.system
        shutil.rmtree(prefix, ignore_errors=True)
        made(prefix)
        jobs = sum(len(place.environs) for place in site.filesystems)
        tell(f"\n{counted(jobs, 'job')} of two minutes at most, which may have to wait for nodes")
        progress = Progress(jobs, lambda: len([*prefix.glob("runs/*/*")]), names=[PROBE])
        with watch(progress) as follow:
            tests = tests_of(_run(system, prefix, follow, locks))
        for place in site.filesystems:
            for environ in place.environs:
                here = f"{site.system}:{place.partition}, {environ}"
                tell(f"\n{here}")
                folder, failed, why = _ended(place, environ, tests)
                show(outcome(folder, place, environ, failed, why), here)
                if not failed:
                    rates[place.partition] = rate_at(folder, place, environ)
    tell("")
    show(_night(site, rates))
    show(_notices(site.system, channels))
    faults = [line for line in tried if not line.ok]
    if faults:
        tell(f"\n{counted(len(faults), 'thing')} to mend; what the jobs left: {prefix}")
    else:
        shutil.rmtree(prefix, ignore_errors=True)
        with suppress(OSError):  # another system is being tried
            prefix.parent.rmdir()
        tell(f"\nall is in order: iowatch run --system {site.system} --record")
    return tried


def _without_job(site: Site) -> Iterator[SiteLine]:
    """Try what needs no job, by the code with which a night refuses to begin."""
    places = ", ".join(place.partition for place in site.filesystems)
    counts = ", ".join(f"{suite} {counted(len(site.cases(suite)), 'case')}" for suite in SUITES)
    yield SiteLine("site", f"{places}; {counts}")
    for doubt in site.doubts:
        yield SiteLine("extras", doubt)
    if not site.cases(NIGHTLY):
        yield to_mend("suites", "no night has a case", "name checks in 'suites' of a partition")
    if full := no_room(site.prefix, site.database.parent):
        yield to_mend("results", full, "make some")
    else:
        yield SiteLine("results", str(site.prefix))
    values, faults = reference_values(site.system), list[str]()
    every: list[Callable[[], object]] = [partial(ReferenceFile, values), *readers(site.system)]
    for read in every:
        try:
            read()
        except UserError as err:
            faults.append(str(err))
    for fault in faults:
        yield SiteLine("references", fault, ok=False)
    if not faults:
        yield SiteLine("references", str(values))


def _run(system: str, folder: Path, follow: Follow, locks: Sequence[int]) -> Mapping[str, Any]:
    """Have ReFrame run the jobs, in a prefix of their own: no night is to meet what they leave.
    Return its report. UserError, Interrupted."""
    options = [
        "--system", system, "--name", f"^{PROBE}$", "--setvar", f"{PROBE}.is_asked=1",
        f"--prefix={folder}", f"--stage={folder}/stage", f"--output={folder}/output",
        f"--perflogdir={folder}/perflogs",
    ]  # fmt: skip
    deadline = time.monotonic() + LIMIT.total_seconds()
    ended = run_session(options, "", deadline, follow, locks, is_stored=False)
    if ended.signal:
        raise Interrupted(ended.signal)
    if not ended.report:
        raise UserError(f"reframe ran nothing: {ended.stopped or ended.error or folder}")
    return ended.report


def _ended(
    place: Filesystem, environ: str, tests: Sequence[Mapping[str, Any]]
) -> tuple[Path, str, str]:
    """Return the folder of what the job at a place has left, and why the job failed: a sentence and
    a reason, both empty if it did not."""
    here = [t for t in tests if (t["partition"], t["environ"]) == (place.partition, environ)]
    probe = next((test for test in here if test["name"].split()[0] == PROBE), {})
    folder, why = Path(probe.get("kept") or "-"), probe.get("reason") or ""
    if probe.get("result") == "pass":
        return folder, "", why
    if words := probe.get("sentence") or probe.get("queued"):
        return folder, str(words), why
    # It rests on others, such as benchio, which says what to do.
    failed = (reason(test) for test in here if test is not probe and test["result"] == "fail")
    if words := next(failed, ""):
        return folder, words.removeprefix("sanity error: "), why
    if not probe:
        return folder, f"it was not run: see {FOLDER} in the results folder", why
    refused = _REFUSED.search(reason(probe))
    words = refused[1] if refused else reason(probe)
    if not is_environment(words):
        words += ": mend 'access' of the partition"
    return folder, words, why


def _night(site: Site, rates: Mapping[str, float]) -> Iterator[SiteLine]:
    """Say what a night costs, at the rates on record or at those that were just measured."""
    runs = history.read([site.database]) if site.database.is_file() else []
    cost = sum(costs(site, NIGHTLY, runs, rates).values(), Cost())
    assumed = " at the rate of so short a write" if cost.jobs_without_rate else ""
    written = brief_bytes(round(cost.tib_written * 2**40))
    yield SiteLine(
        "night",
        f"{counted(cost.jobs, 'job')}; {written} written, and read again: about "
        f"{counted(ceil(cost.minutes), 'minute')} of measuring, "
        f"{cost.node_hours:.2g} node-hours{assumed}",
    )


def _notices(system: str, channels: Sequence[notices.Outbox | notices.Hook]) -> Iterator[SiteLine]:
    """Send a notice wherever nights are to send theirs."""
    if not channels:
        yield SiteLine("mail", "not tried: neither --mail nor --webhook names anybody")
    text = f"iowatch can send you the summaries of the nights of {system}."
    for channel in channels:
        try:
            channel.send(notices.Notice(f"iowatch {system}: a try", text, text))
        except notices.NotSent as err:
            yield to_mend("mail", str(err), "mend that, or name another")
        else:
            yield SiteLine("mail", f"sent to {channel}: see that it has come")
