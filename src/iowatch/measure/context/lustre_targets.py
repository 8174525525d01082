"""Lustre: what this client has seen of each target."""

from __future__ import annotations

import re
from typing import Any

from iowatch.cases.storage import LUSTRE
from iowatch.measure.context.source import Quantity, Reading, Source

#: Endings of the name of a target that this client cannot reach, by why.
_AWAY = {"away": "", "deactivated": " (deactivated)"}

#: States of a connection that is there; an idle one is made again when it is needed.
_CONNECTED = {"FULL", "IDLE", "active"}


def _parse(answer: Reading, before: str, after: str) -> None:
    """Read what `lctl get_param` and `lfs check` say of each target."""
    first, last = _targets(before), _targets(after)
    connections = [
        (target, facts["connection"])
        for target, facts in (*first.items(), *last.items())
        if "connection" in facts
    ]
    away = {target: f"{target}{_AWAY[how]}" for target, how in connections if how in _AWAY}
    if connections:
        answer.add("lustre_away", len(away), ", ".join(away.values()))
    elif first or last:
        answer.silent.append("Lustre shows this user no connection (lctl get_param, lfs check)")
    late, waits = {}, {}
    for target in sorted(first.keys() & last.keys()):
        was, now = first[target], last[target]
        if "services" in now:
            answer.add("lustre_service_s", float(now["services"]), target)
        if "timeouts" in was and "timeouts" in now:
            late[target] = float(now["timeouts"]) - float(was["timeouts"])
        if "waits" in was and "waits" in now:
            waits[target] = tuple(b - a for a, b in zip(was["waits"], now["waits"], strict=True))
    if late:
        answer.add("lustre_timeouts", sum(late.values()), ", ".join(t for t in late if late[t] > 0))
    if count := sum(count for count, _ in waits.values()):
        slowest = max(waits, key=lambda target: waits[target][1] / max(waits[target][0], 1))
        mean = sum(microseconds for _, microseconds in waits.values()) / count
        answer.add("lustre_wait_ms", mean / 1000, f"the longest for {slowest}")


def _targets(text: str) -> dict[str, dict[str, Any]]:
    """Sort facts by OST and MDT: lines of `lctl get_param`, and of `lfs check` as `NAME active.` or
    `check 'NAME': ERROR`."""
    targets: dict[str, dict[str, Any]] = {}
    facts: dict[str, Any] = {}
    for line in text.splitlines():
        if match := re.match(r"(?:osc|mdc)\.\S*?((?:OST|MDT)[0-9a-f]{4})\S*?\.(\w+)=(\d*)", line):
            facts = targets.setdefault(match[1], {})
            if match[2] == "active" and match[3] == "0":
                facts["connection"] = "deactivated"
        elif match := re.match(r"\s*(services|timeouts):\s*(\w+)", line):
            facts[match[1]] = match[2]
        elif match := re.match(r"\s*state:\s*(\w+)", line):
            facts.setdefault("connection", "there" if match[1] in _CONNECTED else "away")
        # An import may be FULL all the same.
        elif re.match(r"\s*import_flags:.*\b(IMPF_)?DEACTIVE\b", line, re.I):
            facts["connection"] = "deactivated"
        elif re.match(r"\s*import_flags:.*\b(IMPF_)?INVALID\b", line, re.I):
            facts["connection"] = "away"
        # In microseconds, `usecs` since Lustre 2.15.52.
        elif match := re.match(r"req_waittime\s+(\d+) samples \[usecs?\] \d+ \d+ (\d+)", line):
            facts["waits"] = (int(match[1]), int(match[2]))
        elif match := re.match(r".*?((?:OST|MDT)[0-9a-f]{4})-(?:osc|mdc)-\w+'?:? (.+)", line):
            facts = targets.setdefault(match[1], {})
            if match[2].strip(" .") in _CONNECTED:
                facts["connection"] = "there"
            elif not re.search("permission|permitted", match[2], re.I):
                facts["connection"] = "away"
    return targets


SOURCE: Source = Source(
    name="lustre",
    words="Lustre's client (lctl get_param)",
    quantities={
        "lustre_wait_ms": Quantity("mean wait for the answer of a Lustre server", 1, "ms"),
        "lustre_service_s": Quantity("longest that a Lustre server was expected to take", 1, "s"),
        "lustre_timeouts": Quantity("requests that a Lustre server did not answer in time", 0.5),
        "lustre_away": Quantity("Lustre targets without a connection", 0.5),
    },
    is_asked=lambda filesystem, under_slurm: filesystem.storage is LUSTRE,
    parse=_parse,
)
