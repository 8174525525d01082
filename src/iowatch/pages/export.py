"""Nights for a centre's own monitoring: Prometheus' text, and a JSON document for each run.

docs/howto/monitoring.md says what the names mean; who changes one breaks somebody's dashboard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from iowatch.base.text import one_line
from iowatch.cases.case import Case
from iowatch.cases.metric import DRIFT
from iowatch.cases.run import Run
from iowatch.cases.verdict import State
from iowatch.measure.checks import metric
from iowatch.night.document import CallLatency, CaseEntry, NightDocument
from iowatch.night.night import Night
from iowatch.past.history import runs_of
from iowatch.past.reframe_database import NIGHT_KEY
from iowatch.past.words import COLOURS
from iowatch.site.site import NIGHT

MIB = 2**20

# Prometheus

#: The units of metrics as Prometheus' names have them, and how many of them there are in ours.
UNITS = {
    "MiB/s": ("bytes_per_second", MIB),
    "1/s": ("operations_per_second", 1),
    "s": ("seconds", 1),
    "1": ("ratio", 1),
}
#: The metrics of Prometheus', and their help. A name ends with its unit. All are gauges, since the
#: old text format knows no state sets. A state has a sample, 1 or 0, for each possible value, so
#: that a query finds all of them, and an alert goes with its state.
FAMILIES: Mapping[str, str] = {
    "iowatch_night_start_timestamp_seconds": "When the last night began.",
    "iowatch_night_end_timestamp_seconds": "When the last run of the last night ended.",
    "iowatch_night_colour": "1 for the colour of the last night, else 0.",
    "iowatch_night_problems": "Problems with the last night as a whole.",
    "iowatch_night_cases": "Cases that the last night measured.",
    "iowatch_night_promised_cases": (
        "Cases that the site's file promised it, but for those that were skipped."
    ),
    "iowatch_case_state": "1 for the state of the case's last run, else 0.",
    "iowatch_case_reason": "1 for the reason of that state, if it has one.",
    "iowatch_case_flag": "1 for each flag of the verdict on the case's last run.",
    "iowatch_case_red": "1 if the case makes its night red, else 0.",
    **{
        f"iowatch_metric_{unit}": "Metric of the best run of the last night, by its name."
        for unit, _ in UNITS.values()
    },
    "iowatch_case_rate_bytes_per_second": (
        "The rate that the case is judged by, of the best run of the last night."
    ),
    "iowatch_case_baseline_bytes_per_second": "The same rate in the case's blessed baseline.",
    "iowatch_case_deviation_ratio": (
        "By what part of its baseline the case was faster, or slower if negative."
    ),
    "iowatch_case_drift_ratio": (
        "How near the nights so far are to an alarm: 1 is one. Only where there is a baseline."
    ),
    "iowatch_latency_seconds": (
        "A histogram: how long single calls took in the hours of this month, by `operation`."
    ),
}
#: The family that is no gauge. It counts on until the month ends, and then begins anew.
LATENCIES = "iowatch_latency_seconds"
Labels = Mapping[str, str]
Exported = tuple[str, float, Labels]


def prometheus(nights: Iterable[NightDocument]) -> str:
    """Write the last night of each system: for the textfile collector, and as OpenMetrics alike.

    Both read the same text as long as all are gauges, or histograms, without timestamps. A comment
    to the one is a unit, or the end, to the other.
    """
    samples = [sample for night in nights for sample in _samples(night)]
    lines = []
    for family, text in FAMILIES.items():
        # A histogram has three kinds of samples.
        names = {f"{family}{end}" for end in ("", "_bucket", "_sum", "_count")}
        if values := [sample for sample in samples if sample[0] in names]:
            unit = next((unit for unit, _ in UNITS.values() if family.endswith(f"_{unit}")), "")
            lines.append(f"# TYPE {family} {'histogram' if family == LATENCIES else 'gauge'}")
            lines += [f"# UNIT {family} {unit}"] if unit else []
            lines.append(f"# HELP {family} {text}")
            lines += [f"{name}{{{_pairs(labels)}}} {float(n)!r}" for name, n, labels in values]
    return "\n".join([*lines, "# EOF", ""])


def _pairs(labels: Labels) -> str:
    def escaped(text: str) -> str:
        return one_line(text).replace("\\", r"\\").replace('"', r"\"")

    return ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())


def _samples(night: NightDocument) -> Iterator[Exported]:
    of_night = {"system": night.system}
    yield "iowatch_night_start_timestamp_seconds", night.began.timestamp(), of_night
    yield "iowatch_night_end_timestamp_seconds", night.ended.timestamp(), of_night
    for colour in COLOURS:
        yield "iowatch_night_colour", colour == night.colour, {**of_night, "colour": colour}
    yield "iowatch_night_problems", len(night.problems), of_night
    yield "iowatch_night_cases", night.measured, of_night
    if night.promised is not None:
        yield "iowatch_night_promised_cases", night.promised, of_night
    for row in night.cases:
        yield from _samples_of_case(row)
    for calls in night.latencies:
        operation = {**labels(calls), "operation": calls.operation}
        for bound, count in [*calls.buckets.items(), ("+Inf", calls.calls)]:
            limit = bound if isinstance(bound, str) else repr(float(f"{bound:.6g}"))
            yield f"{LATENCIES}_bucket", count, {**operation, "le": limit}
        yield f"{LATENCIES}_sum", calls.seconds, operation
        yield f"{LATENCIES}_count", calls.calls, operation


def _samples_of_case(row: CaseEntry) -> Iterator[Exported]:
    of_case = labels(row)
    for state in State:
        yield "iowatch_case_state", state == row.state, {**of_case, "state": state}
    if row.reason:
        yield "iowatch_case_reason", 1, {**of_case, "reason": row.reason}
    for flag in row.flags:
        yield "iowatch_case_flag", 1, {**of_case, "flag": flag}
    yield "iowatch_case_red", row.red, of_case
    for name, value in row.metrics.items():
        unit, size = UNITS[metric(name).unit]
        if name == DRIFT:
            yield "iowatch_case_drift_ratio", value, of_case
        else:
            yield f"iowatch_metric_{unit}", value * size, {**of_case, "metric": name}
    is_of_bytes = row.unit == "MiB/s"  # the others are among the metrics
    if row.rate and is_of_bytes:
        yield "iowatch_case_rate_bytes_per_second", row.rate * MIB, of_case
    if row.expected and row.expected.blessed:
        if is_of_bytes:
            baseline = row.expected.value * MIB
            yield "iowatch_case_baseline_bytes_per_second", baseline, of_case
        if row.drop is not None:
            yield "iowatch_case_deviation_ratio", -row.drop, of_case


def labels(entry: CaseEntry | CallLatency) -> dict[str, str]:
    """The labels by which a case is found: its name, and each part of the name by itself."""
    return {**_place(entry), **_parameters(entry.case), "case": str(entry.case)}


def _place(entry: CaseEntry | CallLatency | Run) -> dict[str, str]:
    parts = {name: getattr(entry.case, name) for name in ("system", "partition", "environ")}
    return {**parts, "filesystem": entry.filesystem, "check": entry.case.check.name}


def _parameters(case: Case) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in str(case).split("/")[3:])


# A document for each run

#: The fields of a document, with their meanings.
FIELDS: Mapping[str, str] = {
    "@timestamp": "When the job ended, in UTC.",
    "id": "The time and the case: unique, and the same however often a run is sent.",
    "night": "The id of the night; null for a manual run.",
    "system": "The system.",
    "partition": "The partition.",
    "environ": "The environment of ReFrame.",
    "filesystem": "The filesystem's name in the site's file.",
    "check": "The check, such as SharedFileWrite.",
    "case": "The case id.",
    "parameters": "Each parameter of the case.",
    "state": "The state of the case.",
    "reason": "The reason of the state, a section of the runbook; empty if there is none.",
    "flags": "A list, such as known.",
    "red": "Whether the run makes its night red.",
    "sentence": "The sentence of the check.",
    "metrics": "MiB/s, seconds (`_s`), fractions and ratios by name; empty if not verified.",
    "control": "Median seconds of each phase of MPI-IO in the same rounds.",
    "slowest": "The slowest rank of each phase, in words.",
    "provenance": "Versions, modules, hosts and striping.",
    "system_context": "What else went on: numbers, `NAME_of` with the place, and `unknown`.",
    "folder": "The folder of the raw results.",
}


def document(run: Run) -> dict[str, Any]:
    """Describe a run for OpenSearch, Loki and the like; metrics are in iowatch's units.

    The id of a run stays the same however often and by whichever way it is sent.
    """
    time = run.time.isoformat(timespec="milliseconds")
    return {
        "@timestamp": time,
        "id": f"{time} {run.case}",
        "night": run.night or None,
        **_place(run),
        "case": str(run.case),
        "parameters": _parameters(run.case),
        **run.outcome.fields,
        "red": run.is_red,
        "sentence": one_line(run.sentence),
        **{name: dict(getattr(run, name)) for name in ("metrics", "control", "slowest")},
        # A query language gives a meaning to signs, as of `hint cb_nodes`.
        "provenance": {re.sub(r"\W", "_", name): text for name, text in run.provenance.items()},
        "system_context": dict(run.system_context),
        "folder": run.folder,
    }


def json_lines(runs: Iterable[Run]) -> str:
    """Write a line for each run."""
    return "".join(f"{json.dumps(document(run))}\n" for run in runs)


def httpjson(record: Any, extras: Mapping[str, Any], ignore_keys: Iterable[str]) -> str | None:
    """Write the document of a test that ReFrame's `httpjson` handler is about to send; None: the
    test is none of iowatch's cases.

    The arguments are ReFrame's. With what `site_configs/settings.py` gives it, `extras` are further
    fields of a site's own.
    """
    begins = "check_"
    attributes = vars(record).items()
    test = {
        name.removeprefix(begins): value for name, value in attributes if name.startswith(begins)
    }
    info = {
        "uuid": "",  # a session gets it as it ends
        "time_start_unix": datetime.now(UTC).timestamp(),
        NIGHT_KEY: os.environ.get(NIGHT, ""),
    }
    session = {"session_info": info, "runs": [{"testcases": [test]}]}
    for run in runs_of(session):
        sent = {**document(run), **extras}
        return json.dumps({name: sent[name] for name in sent if name not in set(ignore_keys)})
    return None


FORMATS: Mapping[str, Callable[[Sequence[Night]], str]] = {
    "prometheus": lambda nights: prometheus(night.document for night in nights),
    "jsonl": lambda nights: json_lines(run for night in nights for run in night.runs),
}
