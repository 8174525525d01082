"""The wrong data that a run has met, in words: `error.evidence` of its benchio.result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded
from iowatch.base.text import counted
from iowatch.measure.job_folder import read_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """Elements that follow each other in a file and are wrong in the same way."""

    file: str
    place: str
    writer: str
    content: str  # where the values that were read belong
    expected: str  # the first element, 16 hexadecimal digits
    read: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongData:
    """The first extents of a run, at most 16, and a summary of all."""

    summary: str
    extents: tuple[Extent, ...]


def wrong_data(folder: Path) -> WrongData | None:
    """Read the evidence among the raw results of a run; None: no result has any, or none is left.

    A job that starts benchio many times leaves many results; the first with evidence counts.
    """
    for file in sorted(folder.glob("*.json*")):
        try:
            return _in_words(decoded(read_text(file))["error"]["evidence"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def _in_words(evidence: Mapping[str, Any]) -> WrongData:
    extents = counted(int(evidence["extents"]), "extent")
    zeros = counted(int(evidence["zeros"]), "zero")
    stay = "the files stay where they are" if evidence["kept"] else "the files are removed"
    return WrongData(
        summary=f"{counted(int(evidence['elements']), 'element')} in {extents}, "
        f"{zeros} among them; {stay}",
        extents=tuple(_extent(listed) for listed in evidence["listed"]),
    )


def _extent(listed: Mapping[str, Any]) -> Extent:
    rank = "" if listed["writer"] is None else f"rank {listed['writer']} on "
    return Extent(
        file=listed["path"],
        place=", ".join(_place(listed)),
        writer=f"{rank}{listed['host']}",
        content=_content(listed),
        expected=listed["expected"],
        read=listed["read"],
    )


def _place(listed: Mapping[str, Any]) -> list[str]:
    words = [f"{listed['bytes']} bytes"]
    if listed["offset"] is None:
        return [*words, f"from element {listed['first_element']}"]
    first, last = listed["pages"]
    words[0] += f" at byte {listed['offset']}"
    words.append(f"page {first}" if first == last else f"pages {first} to {last}")
    numbers = {"stripe": listed["stripe"], "OST": listed["ost"]}
    return words + [f"{name} {number}" for name, number in numbers.items() if number is not None]


def _content(listed: Mapping[str, Any]) -> str:
    if listed["kind"] == "shifted":
        side = "further" if listed["shift"] > 0 else "before"
        return f"values of the place {abs(listed['shift'])} bytes {side}"
    if listed["kind"] == "of another":
        return f"values of {listed['of']}"
    return "values that benchio has not written" if listed["kind"] == "unknown" else "zeros"
