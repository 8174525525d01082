"""What else went on around a run: other jobs, the load of its nodes, what the servers said.

Its job has noted that before and after benchio (`reframe_checks/meanwhile.py`), and benchio the
state of its nodes. It is shown beside a run that was slow, and no figure depends on it: nothing
here may fail, whatever a file has in it. What is not known is absent. A slow run says nothing if
its ranks waited for processors that others had.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from iowatch.files import one_line

#: What a run is on record with: numbers by the names of QUANTITIES, `NAME_of` with where a number
#: was found, and `unknown` with what did not answer.
Circumstances = Mapping[str, float | str]

NODE_BUSY = "node_busy"  # the reason, as sentences have it
BEFORE, AFTER = "before", "after"
UNFINISHED = ".part"  # ends the name of a file whose source has failed, or not answered in time
OF, UNKNOWN = "_of", "unknown"

NIGHTS = 5  # with numbers: with fewer, nobody knows what is usual
MUCH = 1.2  # times the most that is usual
LONGEST = 200  # characters of a name or reason that is shown


@dataclass(frozen=True)
class Quantity:
    """A number that is the worse the higher it is."""

    words: str
    trifle: float  # a smaller rise is not worth a word
    unit: str = ""  # after the number; `%`: of a part


QUANTITIES = {
    "jobs": Quantity("other jobs on the system", 5),
    "nodes_in_use": Quantity("nodes in use on the system", 5),
    "jobs_on_nodes": Quantity("other jobs on its nodes", 0.5),
    "load": Quantity("load of the busiest of its nodes before it began", 1),
    "stolen": Quantity("time that a virtual node got no processor from its host", 0.02, "%"),
    "cpu_waiting": Quantity("time that processes waited for a processor", 0.05, "%"),
    "others": Quantity("time of its processors that others took", 0.05, "%"),
    "memory_waiting": Quantity("time that processes waited for memory", 0.02, "%"),
    "io_waiting": Quantity(
        "time that processes waited for I/O in the minute before it began", 0.05, "%"
    ),
    "lustre_wait_ms": Quantity("mean wait for the answer of a Lustre server", 1, "ms"),
    "lustre_service_s": Quantity("longest that a Lustre server was expected to take", 1, "s"),
    "lustre_timeouts": Quantity("requests that a Lustre server did not answer in time", 0.5),
    "lustre_away": Quantity("Lustre targets without a connection", 0.5),
    "ceph_traffic": Quantity("traffic of other clients of Ceph before it began", 10, "MiB/s"),
    "ceph_recovery": Quantity("recovery traffic of Ceph", 1, "MiB/s"),
    "ceph_displaced": Quantity("objects of Ceph that are degraded or misplaced", 0.001, "%"),
    "ceph_down": Quantity("OSDs of Ceph that are down", 0.5),
    "ceph_commit_ms": Quantity("longest commit of an OSD of Ceph", 20, "ms"),
}

#: Of these, each node has its own: the highest counts.
_OF_NODES = ("load", "stolen", "cpu_waiting", "others", "memory_waiting", "io_waiting")

#: Ranks wait for others if these take more than this part of a node's time, its host's machines
#: among them, and processes wait for more than this part of the run. Of 4 ranks on 2 processors,
#: which wait for one another in more than half of the time, others took a tenth to a quarter in
#: health, and 0.77 to 0.98 beside one to four busy loops.
TAKEN, WAITING = 0.3, 0.5


# What a job has noted


@dataclass
class Found:
    """What one source came to."""

    numbers: dict[str, float]
    where: dict[str, str]  # by the names of numbers
    silent: list[str]  # what did not answer, and why

    @classmethod
    def nothing(cls) -> Found:
        return cls({}, {}, [])

    def add(self, name: str, value: float, where: str = "") -> None:
        """The highest counts; what is no such number is left out."""
        if math.isfinite(value) and value >= 0 and value > self.numbers.get(name, -1):
            self.numbers[name] = float(value)
            self.where[name] = where if value else ""


def read(folder: Path) -> dict[str, float | str]:
    """What is known of the run that has left its raw results in this folder."""
    found = Found.nothing()
    for source in (_read_nodes, *(_reader(name) for name in _SOURCES)):
        own = source(folder)
        found.numbers |= own.numbers
        found.where |= own.where
        found.silent += own.silent
    shown: dict[str, float | str] = {**found.numbers}
    shown |= {f"{name}{OF}": _short(where) for name, where in found.where.items() if where}
    return shown | ({UNKNOWN: "; ".join(found.silent)} if found.silent else {})


def _reader(name: str) -> Callable[[Path], Found]:
    """Reads what a source has said before and after."""
    words, parse = _SOURCES[name]

    def reader(folder: Path) -> Found:
        said = [_text(folder / f"circumstances.{when}.{name}") for when in (BEFORE, AFTER)]
        found = Found.nothing()
        try:
            if any(said):
                parse(found, *said)
        except _MALFORMED:
            found = Found({}, {}, [f"{words} gave no answer that can be read"])
        if [*folder.glob(f"circumstances.*.{name}{UNFINISHED}")]:
            found.silent.append(f"{words} failed, or gave no answer in time")
        return found

    return reader


#: What comes of text that is not as it should be.
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _short(text: str) -> str:
    return one_line(text)[:LONGEST]


def _read_nodes(folder: Path) -> Found:
    """What benchio has seen on each node; if it ran several times, in any of its runs."""
    found = Found.nothing()
    for node in _nodes(folder):
        with suppress(*_MALFORMED):  # no result says so elsewhere
            for name in _OF_NODES:
                if node.get(name) is not None:
                    found.add(name, node[name], node["host"])
    return found


def _nodes(folder: Path) -> list[dict[str, Any]]:
    """Those of each of benchio's runs, one after the other."""
    nodes = []
    for file in sorted(folder.glob("result*.json")):
        with suppress(OSError, *_MALFORMED):
            nodes += [*json.loads(file.read_text("utf-8"))["run"]["nodes"]]
    return nodes


def node_busy(folder: Path) -> str:
    """That the ranks of the run that has left its raw results here had to wait for processors which
    others had; empty: they had not, or it is not known. A kernel that counts nobody's waiting is
    believed to have let them wait."""
    shares = dict[str, list[tuple[float, float]]]()
    for node in _nodes(folder):
        with suppress(*_MALFORMED):
            taken = node["others"] + (node["stolen"] or 0)
            waiting = 1 if node["cpu_waiting"] is None else node["cpu_waiting"]
            shares.setdefault(node["host"], []).append((taken, waiting))
    for host, of_runs in shares.items():
        taken, waiting = (median(values) for values in zip(*of_runs, strict=True))
        if taken > TAKEN and waiting > WAITING:
            return (
                f"{NODE_BUSY}: its ranks waited for the processors of {host}, of whose time others "
                f"took {taken:.0%}"
            )
    return ""


def _read_slurm(found: Found, *said: str) -> None:
    """The jobs that ran, but for one's own, and the nodes that were in use."""
    for text in said:
        lines = [line.split() for line in text.splitlines()]
        words = {line[0]: line[1] for line in lines if len(line) > 1}
        if not text:
            continue
        if "nodes" in words:
            found.add("nodes_in_use", int(words["nodes"].split("/")[0]))
        if "jobs" in words.get("hidden", "").split(","):
            why = "Slurm shows nobody the jobs of others (PrivateData)"
            found.silent += [why] if why not in found.silent else []
            continue
        own = words.get("own", "")
        others = {kind: {line[1] for line in lines if line[0] == kind} - {own}
                  for kind in ("job", "here")}  # fmt: skip
        found.add("jobs", len(others["job"]))
        if own:
            found.add("jobs_on_nodes", len(others["here"]))


def _read_lustre(found: Found, before: str, after: str) -> None:
    """What the client has seen of each target, as `lctl get_param` and `lfs check` name them."""
    first, last = _targets(before), _targets(after)
    connections = [
        (target, facts["connection"])
        for target, facts in (*first.items(), *last.items())
        if "connection" in facts
    ]
    away = {target: f"{target}{_AWAY[how]}" for target, how in connections if how in _AWAY}
    if connections:
        found.add("lustre_away", len(away), ", ".join(away.values()))
    elif first or last:
        found.silent.append("Lustre shows this user no connection (lctl get_param, lfs check)")
    late, waits = {}, {}
    for target in sorted(first.keys() & last.keys()):
        was, now = first[target], last[target]
        if "services" in now:
            found.add("lustre_service_s", float(now["services"]), target)
        if "timeouts" in was and "timeouts" in now:
            late[target] = float(now["timeouts"]) - float(was["timeouts"])
        if "waits" in was and "waits" in now:
            waits[target] = tuple(b - a for a, b in zip(was["waits"], now["waits"], strict=True))
    if late:
        found.add("lustre_timeouts", sum(late.values()), ", ".join(t for t in late if late[t] > 0))
    if count := sum(count for count, _ in waits.values()):
        slowest = max(waits, key=lambda target: waits[target][1] / max(waits[target][0], 1))
        mean = sum(microseconds for _, microseconds in waits.values()) / count
        found.add("lustre_wait_ms", mean / 1000, f"the longest for {slowest}")


#: What ends the name of a target that this client cannot reach, by why.
_AWAY = {"away": "", "deactivated": " (deactivated)"}

#: States of a connection that is there; an idle one is made again when it is needed.
_CONNECTED = {"FULL", "IDLE", "active"}


def _targets(text: str) -> dict[str, dict[str, Any]]:
    """What is said of each OST and MDT, by its name: lines of `lctl get_param`, and of `lfs check`
    as `NAME active.` or `check 'NAME': ERROR`."""
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


def _read_ceph(found: Found, *said: str) -> None:
    """What `ceph status` says; the traffic afterwards is one's own too."""
    for text, is_before in zip(said, (True, False), strict=True):
        if not text:
            continue
        status = json.loads(text)
        pgs, osds = status["pgmap"], status["osdmap"]
        osds = osds.get("osdmap", osds)  # as before Octopus
        found.add("ceph_down", osds["num_osds"] - osds["num_up_osds"])
        found.add("ceph_displaced", pgs.get("degraded_ratio", 0) + pgs.get("misplaced_ratio", 0))
        found.add("ceph_recovery", pgs.get("recovering_bytes_per_sec", 0) / 2**20)
        if is_before:
            traffic = pgs.get("read_bytes_sec", 0) + pgs.get("write_bytes_sec", 0)
            found.add("ceph_traffic", traffic / 2**20)


def _read_osds(found: Found, *said: str) -> None:
    """What `ceph osd perf` says of each OSD."""
    for text in filter(None, said):
        every = json.loads(text)
        for osd in every.get("osdstats", every)["osd_perf_infos"]:
            milliseconds = osd["perf_stats"]["commit_latency_ms"]
            found.add("ceph_commit_ms", milliseconds, f"osd.{int(osd['id'])}")


#: By the names that the job gives them: in words, and what reads them.
_SOURCES: Mapping[str, tuple[str, Callable[..., None]]] = {
    "slurm": ("Slurm", _read_slurm),
    "lustre": ("Lustre's client (lctl get_param)", _read_lustre),
    "ceph": ("Ceph (ceph status)", _read_ceph),
    "osds": ("Ceph (ceph osd perf)", _read_osds),
}


# Beside those of other nights


@dataclass(frozen=True)
class Compared:
    """What is to be said of the circumstances of a run that was slow."""

    unusual: Sequence[str]  # a phrase for each number above what is usual, or that has no usual yet
    usual: Sequence[str]  # what is as usual, in words
    unknown: str  # what did not answer


def compare(now: Circumstances, earlier: Sequence[Circumstances]) -> Compared:
    """The circumstances of a run beside those of the same case on its good nights."""
    unusual, usual = [], []
    for name, quantity in QUANTITIES.items():
        value = now.get(name)
        if not isinstance(value, int | float):
            continue
        known = [number for its in earlier if isinstance(number := its.get(name), int | float)]
        where = f" ({now[f'{name}{OF}']})" if f"{name}{OF}" in now else ""
        said = f"{quantity.words}: {_number(value, quantity)}{where}"
        if len(known) < NIGHTS:
            unusual += [said] if value > quantity.trifle else []
            continue
        ordered, tenth = sorted(known), len(known) // 10
        low, high = ordered[tenth], ordered[-1 - tenth]
        if value > max(MUCH * high, high + quantity.trifle):
            unusual.append(f"{said}, usually {_range(low, high, quantity)}")
        else:
            usual.append(quantity.words)
    return Compared(unusual, usual, str(now.get(UNKNOWN, "")))


def _number(value: float, quantity: Quantity) -> str:
    return f"{_digits(value, quantity)} {quantity.unit}".rstrip()


def _range(low: float, high: float, quantity: Quantity) -> str:
    first, last = _digits(low, quantity), _number(high, quantity)
    return last if first == _digits(high, quantity) else f"{first} to {last}"


def _digits(value: float, quantity: Quantity) -> str:
    return f"{100 * value if quantity.unit == '%' else value:.3g}"
