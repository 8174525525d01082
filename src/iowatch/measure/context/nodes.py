"""The nodes of a run as benchio saw them: load, and processors that others had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from iowatch.base.bounded import json_of
from iowatch.measure.context.source import Quantity, Reading

#: Each node has its own value: the highest counts.
QUANTITIES = {
    "load": Quantity("load of the busiest of its nodes before it began", 1),
    "stolen": Quantity("time that a virtual node got no processor from its host", 0.02, "%"),
    "cpu_waiting": Quantity("time that processes waited for a processor", 0.05, "%"),
    "others": Quantity("time of its processors that others took", 0.05, "%"),
    "memory_waiting": Quantity("time that processes waited for memory", 0.02, "%"),
    "io_waiting": Quantity(
        "time that processes waited for I/O in the minute before it began", 0.05, "%"
    ),
}

#: Ranks wait for others if these take more than this part of a node's time, and processes wait for
#: more than this part of the run. On 2 processors with 4 ranks, others took a tenth to a quarter of
#: the time in health, and 0.77 to 0.98 beside one to four busy loops.
TAKEN, WAITING = 0.3, 0.5

#: Exceptions of a text that is not as it should be.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def read(folder: Path) -> Reading:
    """Read what benchio saw on each node, in any of its runs that left results in `folder`."""
    answer = Reading()
    for node in _nodes(folder):
        with suppress(*MALFORMED):  # no result says so elsewhere
            for name in QUANTITIES:
                if node.get(name) is not None:
                    answer.add(name, node[name], node["host"])
    return answer


def _results(folder: Path) -> Iterator[dict[str, Any]]:
    """The result of each of benchio's runs, one run after the other."""
    for file in sorted(folder.glob("result*.json")):
        with suppress(OSError, *MALFORMED):
            yield json_of(file)


def _nodes(folder: Path) -> list[dict[str, Any]]:
    """The nodes of each of benchio's runs, one run after the other."""
    nodes = []
    for result in _results(folder):
        with suppress(*MALFORMED):
            nodes += [*result["run"]["nodes"]]
    return nodes


def _suspended(folder: Path) -> str:
    """Say in which rounds ranks of the run in `folder` were stopped; empty: in none."""
    rounds = dict[int, float]()
    for result in _results(folder):
        with suppress(*MALFORMED):
            for rep in (rep for case in result["cases"] for rep in case["repetitions"]):
                if rep.get("suspended") and not rep["warmup"]:
                    rounds[rep["round"]] = rep["suspended"]
    words = (f"round {number} for {seconds:.0f} s" for number, seconds in sorted(rounds.items()))
    return f"its ranks were suspended in {', '.join(words)}" if rounds else ""


def node_busy(folder: Path) -> str:
    """Say that the ranks of the run in `folder` waited for processors which others had, or were
    suspended.

    Empty: they did not wait, or it is not known. Where the kernel counts nobody's waiting, the part
    of the time that others took decides alone.
    """
    if suspended := _suspended(folder):
        return suspended
    shares = dict[str, list[tuple[float, float]]]()
    for node in _nodes(folder):
        with suppress(*MALFORMED):
            taken = node["others"] + (node["stolen"] or 0)
            waiting = 1 if node["cpu_waiting"] is None else node["cpu_waiting"]
            shares.setdefault(node["host"], []).append((taken, waiting))
    for host, of_runs in shares.items():
        taken, waiting = (median(values) for values in zip(*of_runs, strict=True))
        if taken > TAKEN and waiting > WAITING:
            return (
                f"its ranks waited for the processors of {host}, of whose time others "
                f"took {taken:.0%}"
            )
    return ""
