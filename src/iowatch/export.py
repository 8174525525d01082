"""Nights for a centre's own monitoring: Prometheus' text, and a JSON document for each run.

docs/monitoring.md says what the names mean; who changes one breaks somebody's dashboard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from iowatch.check import DRIFT
from iowatch.files import one_line
from iowatch.history import NIGHT_KEY, runs_of
from iowatch.kinds import metric
from iowatch.night.case_night import CaseNight
from iowatch.night.gate_record import COLOURS
from iowatch.night.night import Night
from iowatch.run import Run, began
from iowatch.site import NIGHT
from iowatch.verdict import State

MIB = 2**20

# Prometheus

#: The units of metrics as Prometheus' names have them, and how many of them there are in ours.
UNITS = {
    "MiB/s": ("bytes_per_second", MIB),
    "1/s": ("operations_per_second", 1),
    "s": ("seconds", 1),
    "1": ("ratio", 1),
}

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A metric of Prometheus': all are gauges, for the old text format knows no state sets."""

    name: str  # ends with its unit
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float, labels: Labels) -> None:
        self.samples.append((labels, value))

    def add_states(self, state: str, states: Iterable[str], name: str, labels: Labels) -> None:
        """A sample for each state that there is, 1 for the one that holds: a query finds them all
        at any time, and an alert goes with its state."""
        for each in states:
            self.add(each == state, {**labels, name: each})

    def lines(self) -> Iterator[str]:
        yield f"# TYPE {self.name} gauge"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {self.help}"
        for labels, value in self.samples:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{pairs}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return one_line(text).replace("\\", r"\\").replace('"', r"\"")


def prometheus(nights: Sequence[Night]) -> str:
    """The last night of each system: for the textfile collector, and as OpenMetrics alike.

    Both read the same text as long as all are gauges without timestamps: what is a comment to the
    one is a unit, or the end, to the other.
    """
    lines = [line for family in _families(nights) if family.samples for line in family.lines()]
    return "\n".join([*lines, "# EOF", ""])


def _families(nights: Sequence[Night]) -> list[Family]:
    start = Family("iowatch_night_start_timestamp_seconds", "When the last night began.", "seconds")
    end = Family(
        "iowatch_night_end_timestamp_seconds",
        "When the last run of the last night ended.",
        "seconds",
    )
    colour = Family("iowatch_night_colour", "1 for the colour of the last night, else 0.")
    problems = Family("iowatch_night_problems", "Problems with the last night as a whole.")
    cases = Family("iowatch_night_cases", "Cases that the last night measured.")
    promised = Family(
        "iowatch_night_promised_cases",
        "Cases that the site's file promised it, but for those that were skipped.",
    )
    state = Family("iowatch_case_state", "1 for the state of the case's last run, else 0.")
    reason = Family("iowatch_case_reason", "1 for the reason of that state, if it has one.")
    flag = Family("iowatch_case_flag", "1 for each flag of the verdict on the case's last run.")
    red = Family("iowatch_case_red", "1 if the case makes its night red, else 0.")
    measured = {
        unit: Family(
            f"iowatch_metric_{name}", "Metric of the best run of the last night, by its name.", name
        )
        for unit, (name, _) in UNITS.items()
    }
    rate, baseline = (
        Family(f"iowatch_case_{name}_bytes_per_second", text, "bytes_per_second")
        for name, text in (
            ("rate", "The rate that the case is judged by, of the best run of the last night."),
            ("baseline", "The same rate in the case's blessed baseline."),
        )
    )
    deviation = Family(
        "iowatch_case_deviation_ratio",
        "By what part of its baseline the case was faster, or slower if negative.",
        "ratio",
    )
    drift = Family(
        "iowatch_case_drift_ratio",
        "How near the nights so far are to an alarm: 1 is one. Only where there is a baseline.",
        "ratio",
    )
    for night in nights:
        of = {"system": night.system}
        start.add(began(night.id).timestamp(), of)
        end.add(night.ended.timestamp(), of)
        colour.add_states(night.colour, COLOURS, "colour", of)
        problems.add(len(night.problems), of)
        cases.add(len(night.cases) - len(night.amber), of)
        if night.promised is not None:
            promised.add(night.promised, of)
        for row in night.cases:
            of_row = labels(row)
            state.add_states(row.outcome.state, State, "state", of_row)
            if row.outcome.reason:
                reason.add(1, {**of_row, "reason": row.outcome.reason})
            for each in sorted(row.outcome.flags):
                flag.add(1, {**of_row, "flag": each})
            red.add(row.is_red, of_row)
            for name, value in row.metrics.items():
                if name == DRIFT:
                    drift.add(value, of_row)
                    continue
                unit = metric(name).unit
                measured[unit].add(value * UNITS[unit][1], {**of_row, "metric": name})
            is_of_bytes = row.unit == "MiB/s"  # the others are among the metrics
            if row.rate and is_of_bytes:
                rate.add(row.rate * MIB, of_row)
            if row.blessed and row.expected:
                if is_of_bytes:
                    baseline.add(row.expected.value * MIB, of_row)
                if row.drop is not None:
                    deviation.add(-row.drop, of_row)
    return [
        *(start, end, colour, problems, cases, promised, state, reason, flag, red),
        *measured.values(),
        *(rate, baseline, deviation, drift),
    ]


def labels(row: CaseNight) -> dict[str, str]:
    """By what a case is found: its name, and what that says, each by itself."""
    case = row.case
    return {
        "system": case.system,
        "partition": case.partition,
        "environ": case.environ,
        "filesystem": row.last.filesystem,
        "check": case.check.name,
        **_parameters(str(case)),
        "case": str(case),
    }


def _parameters(case: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in case.split("/")[3:])


# A document for each run


def document(run: Run) -> dict[str, Any]:
    """What there is to say of a run, for OpenSearch, Loki and the like; metrics in iowatch's units.

    Its id stays the same however often and by whichever way a run is sent.
    """
    case = run.case
    time = run.time.isoformat(timespec="milliseconds")
    return {
        "@timestamp": time,
        "id": f"{time} {case}",
        "night": run.night or None,
        "system": case.system,
        "partition": case.partition,
        "environ": case.environ,
        "filesystem": run.filesystem,
        "check": case.check.name,
        "case": str(case),
        "parameters": _parameters(str(case)),
        **run.outcome.fields,
        "red": run.is_red,
        "sentence": one_line(run.sentence),
        "metrics": dict(run.metrics),
        "control": dict(run.control),
        "slowest": dict(run.slowest),
        "provenance": {_field(name): text for name, text in run.provenance.items()},
        "system_context": dict(run.system_context),
        "folder": run.folder,
    }


def _field(name: str) -> str:
    """Without what a query language gives a meaning: `hint cb_nodes`, `free space`."""
    return re.sub(r"\W", "_", name)


def json_lines(runs: Iterable[Run]) -> str:
    """A line for each run."""
    return "".join(f"{json.dumps(document(run))}\n" for run in runs)


def httpjson(record: Any, extras: Mapping[str, Any], ignore_keys: Iterable[str]) -> str | None:
    """The same document, of a test that ReFrame's `httpjson` handler is about to send; None: it is
    none of iowatch's cases.

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
    "prometheus": prometheus,
    "jsonl": lambda nights: json_lines(run for night in nights for run in night.runs),
}
