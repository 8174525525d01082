"""Nights made up: runs of a few cases, their blessed baselines, and what is said of the night."""

import re
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from random import Random

from attrs import evolve
from cases import case, changed, outcome_of
from clock import NOW
from result_file import CALL_SECONDS

from iowatch.cases.run import Run
from iowatch.cases.verdict import SLOWER, Flag
from iowatch.judge.bless import Blessed, settings_hash
from iowatch.judge.judge import by_past
from iowatch.judge.settings import NORMAL
from iowatch.measure.kinds.latency import CALLS
from iowatch.measure.kinds.slow_ost import OST
from iowatch.night.alarm import Alarm
from iowatch.night.gate import night_of
from iowatch.night.on_record import night_on_record
from iowatch.night.record import SystemRecord
from iowatch.past.hours import CaseHour
from iowatch.site.declared import ExpectedFailure

NIGHT = NOW.date()  # the last one
HDF5 = case(
    place="archer:fs3/cray",
    stripe_count=-1,
    stripe_size=1,
    local_size=(128, 128, 128),
    ranks=96,
)
MPIIO = changed(HDF5, backend="mpiio")
USUAL, SLOW = 7700.0, 3000.0  # MiB/s


def at(hour=1.0, ago=0):
    """A time so many nights before the last one."""
    midnight = datetime.combine(NIGHT, time(0), UTC)
    return midnight + timedelta(days=-ago, hours=hour)


def night_id(ago=0):
    """The id of a night: all of them begin at half past midnight."""
    return f"{NIGHT - timedelta(days=ago)}T003000"


BLESSED = Blessed(
    bandwidth=USUAL, spread=0.05, ratio=1.0, ratio_spread=0.05, overhead_fraction=0.02, nights=30,
    first=night_id(40), last=night_id(10), runs="0123456789abcdef", settings=settings_hash(NORMAL),
    blessed=NIGHT - timedelta(days=9), who="ops", why="quiet",
)  # fmt: skip


def ran(of=HDF5, ago=0, hour=1.0, rate=USUAL, control=None, finish=0.02, verdict="ok", **changes):
    """A run of the night so many before the last one; 8000 MiB were written at this rate, sync
    included, and MPI-IO is as fast unless `control` says otherwise."""
    seconds = 8000 / rate
    sync = seconds * (1 - finish) / 5
    names = ("total_max", "total_median", "total_mean", "total_min")
    metrics = dict.fromkeys(names, 8000 / (seconds - sync))
    metrics |= {"stable_max": rate, "stable_median": rate}
    metrics |= {"open_s": 0.01, "write_s": 4 * sync, "close_s": seconds * finish, "sync_s": sync}
    metrics["overhead_fraction"] = finish
    if of.backend != "mpiio":
        metrics["ratio"] = rate / (control or rate)
    fields = {
        "case": of,
        "time": at(hour, ago),
        "outcome": outcome_of(verdict),
        "sentence": "fine",
        "metrics": metrics,
        "night": night_id(ago),
        "session": night_id(ago),
        "test": "a1",
        "filesystem": of.partition,
        "provenance": {"hdf5": "1.10.8", "hosts": "n1 n2"},
    }
    run = Run(**(fields | changes))
    is_known = run.result == "xfail" and run.outcome.is_regression
    return replace(run, outcome=run.outcome.flagged(Flag.KNOWN)) if is_known else run


def slow(of=HDF5, ago=0, hour=1.0, **changes):
    """A run that is suspicious together with MPI-IO."""
    return ran(of, ago, hour, **({"rate": SLOW, "verdict": "suspect (own_past)"} | changes))


def red(of=HDF5, ago=0, hour=1.0, verdict="regression (own_past)", **changes):
    told = {"verdict": verdict, "result": "fail", "sentence": "bandwidth is lower"}
    return ran(of, ago, hour, **(told | changes))


def unverified(of=HDF5, ago=0, hour=1.0, **changes):
    told = {"verdict": "failed (io_error)", "metrics": {}, "sentence": "disk full"}
    return red(of, ago, hour, **(told | changes))


def unmeasured(of=HDF5, ago=0, hour=1.0, **changes):
    """Amber, with what an amber run never has, so that nothing goes by it."""
    told = {
        "verdict": "unjudged (maintenance)",
        "result": "skip",
        "sentence": "in maintenance",
    }
    return ran(of, ago, hour, **(told | changes))


def well(of=HDF5, nights=10):
    """Nights before the last one, in which all was well."""
    return [ran(of, ago) for ago in range(nights, 0, -1)]


def judged(runs, blessed):
    """The runs, oldest first, with what the detector made of each as its check was at work."""
    on_record, nights = [], {}
    for run in sorted(runs, key=lambda run: run.time):
        entry, of_case = blessed.get(run.case), nights.setdefault(run.case, {})
        if entry and f"{entry.blessed}" > run.night:
            entry = None
        if run.is_measured:
            earlier = [before for night, before in sorted(of_case.items()) if night < run.night]
            so_far = of_case.get(run.night, [])
            past = by_past(
                run.case.check, earlier, so_far, entry, run.time, run.metrics, run.control
            )
            run = replace(run, detector=past.judged.stored(past.verdict))
        if run.night:
            of_case.setdefault(run.night, []).append(run)
        on_record.append(run)
    return on_record


def tonight(*runs, blessed=None, expected=(), now=None, again="", problems=()):
    """The last night, as whoever ran it sees it."""
    known = {"blessed": blessed or {}, "expected": expected, "rerun_command": again}
    ordered = judged(runs, blessed or {})
    record = SystemRecord(system="archer", runs=ordered, now=now or at(24), **known)
    return replace(night_of(record, night_id()), problems=list(problems))


def row_of(*runs, **options):
    """The only case of the last night."""
    (row,) = tonight(*runs, **options).cases
    return row


FS2 = changed(HDF5, place="archer:fs2/cray")
BROKEN, AWAY, AWAY_TOO, QUEUED, KNOWN = (changed(FS2, ranks=number) for number in range(1, 6))
TOO_FAST = changed(MPIIO, ranks=7)
LONG = changed(MPIIO, place="archer:scratch_gpuwrite/cray")
LOAD = changed(LONG, check="SystemLoad", instances=2)  # the longest shape: `write shared x2`


def eventful():
    """A night with something of everything: an alarm over two cases, what is broken, above the
    ceiling, away, known or well, long names, and texts of others."""
    text = "\x1b[31m<script>|*x*&\ufffe"
    known = ExpectedFailure(case=re.compile(".*fs2.*"), until=NIGHT, why="ticket 4711")
    night = tonight(
        *(run for of in (HDF5, MPIIO, FS2, BROKEN, AWAY, KNOWN) for run in well(of)),
        red(rate=3850),
        red(MPIIO, rate=7690),
        ran(FS2, rate=11550, verdict="improvement (own_past)"),
        unverified(BROKEN, sentence=f"{text} " + "and " * 50 + "so on"),
        *(unmeasured(of) for of in (AWAY, AWAY_TOO)),
        unmeasured(QUEUED, sentence="still queued"),
        red(KNOWN, result="xfail"),
        red(TOO_FAST, verdict="failed (above_ceiling)"),
        *(ran(of) for of in (LONG, LOAD)),
        expected=[known],
        problems=["[red]no disk[/red]", "a | problem"],
    )
    rows = [row for row in night.red if row.case in (HDF5, MPIIO)]
    merged = frozenset({HDF5, MPIIO})
    alarm = Alarm("fs3", SLOWER, "2 of 2 cases are [b]slow[/b]", rows, merged)
    new = [row for row in night.red if row.case == TOO_FAST]  # of which nothing is usual
    of_known = replace(
        alarm, subject="fs2", outcome=SLOWER.flagged(Flag.KNOWN), rows=new,
        known="expected until then", merged=frozenset(),
    )  # fmt: skip
    page = Path("/results/page.html")
    return replace(night, alarms=[alarm, of_known], notes=["a | note"], page=page)


def in_words(nights):
    """What is said of nights, each below its title: for a golden file."""
    lines = []
    for title, night in nights.items():
        lines += [f"# {title}", night.summary.headline.banner, night.why]
        lines += [f"alarm: {alarm.outcome}: {alarm.sentence}" for alarm in night.alarms]
        lines += [f"problem: {problem}" for problem in night.problems]
        lines += [f"note: {note}" for note in night.notes]
        lines.append("")
    return "\n".join(lines)


def recorded(*runs, night="", system="archer", now=None, **known):
    """A night as the record has it."""
    ordered = judged(runs, known.get("blessed", {}))
    record = SystemRecord(system=system, runs=ordered, now=now or at(24), **known)
    return night_on_record(record, night)


OSTS = changed(MPIIO, "SlowOst")


def over_osts(nights, part, *more, **said):
    """The last of so many nights, each but it with all re-runs, after others with one run each:
    `part` says what is left of the write and the read of each of six OSTs, and how many nights ago;
    0: it is not measured. `more` are runs of other cases."""
    random = Random(18)
    entry = evolve(BLESSED, ratio=None, ratio_spread=None, first=night_id(54), last=night_id(20))

    def metrics(ago):
        rates = {
            f"{name}{ost}": 500 * part(ost, operation, ago) * random.lognormvariate(0, 0.04)
            for operation, name in OST.items()
            for ost in range(6)
        }
        return ran(OSTS).metrics | {name: rate for name, rate in rates.items() if rate}

    runs = [
        ran(OSTS, ago, 1 + 4.1 * number, metrics=metrics(ago), **said)
        for ago in range(54, -1, -1)
        for number in range(5 if 0 < ago < nights else 1)
    ]
    return tonight(*runs, *more, blessed={OSTS: entry}, now=at(2), again="iowatch AGAIN")


# Hours

LATENCY = case("Latency", "archer:fs3/cray", seconds=120)


def an_hour(time, factor=1.0, slow=CALLS):
    """An hour of the case, some calls of which take so many times as long."""
    calls = {}
    for call in CALLS:
        median = CALL_SECONDS[call] * (factor if call in slow else 1.0)
        ends = [10 * median] * 3
        calls[call] = {
            "p50": [median] * 3, "p99": ends, "p999": ends, "longest": 10 * median,
            "first_bucket": 60, "buckets": [980, 0, 20], "sum": 1180 * median,
        }  # fmt: skip
    return CaseHour(time=time, case=LATENCY, filesystem="fs3", calls=calls)


def month(until=None, days=30, factor=2.0, since=24, slow=("write",)):
    """The hours of these days, each with its own usual level, and a change `since` hours ago."""
    until, rng, made = until or at(), Random(3), []
    for ago in reversed(range(24 * days)):
        time = until - timedelta(hours=ago)
        usual = (1.0 + time.hour / 12) * rng.lognormvariate(0, 0.1)
        made.append(an_hour(time, usual * (factor if ago < since else 1.0), slow))
    return made
