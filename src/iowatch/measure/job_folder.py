"""The folder of an ended job: files that may be compressed, why the job failed, and wrong data."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iowatch.base.bounded import decoded, regular_bytes, unpacked
from iowatch.base.text import counted, one_line
from iowatch.measure.causes import Cause, cause_of

COMPRESSED = ".gz"
EXIT_CODE = "exit_code"  # what the last launcher of a job ended with
ERRORS, OUTPUT = "rfm_job.err", "rfm_job.out"  # what a job printed
SAID = "said.*[0-9]"  # likewise, a start of a job that starts benchio again
MOST = 2**20  # bytes that are read at either end of what a job printed
SHOWN, SHOWN_WIDTH = 30, 300  # last lines of a job that a page shows, and their characters


def read_bytes(file: Path) -> bytes:
    """Read a file, compressed or not; OSError, ValueError."""
    if file.suffix == COMPRESSED:
        try:
            return unpacked(regular_bytes(file))
        except (EOFError, zlib.error) as err:  # cut off, or garbled
            raise ValueError(str(err)) from None
    return regular_bytes(file)


def read_text(file: Path) -> str:
    """Read a text, compressed or not; OSError, ValueError."""
    return read_bytes(file).decode("utf-8")


def find(folder: Path, name: str) -> Path | None:
    """A file of a run, compressed or not; None: it is not there."""
    there = (folder / name, folder / f"{name}{COMPRESSED}")
    return next((file for file in there if file.is_file()), None)


def lines_of(folder: Path, name: str) -> list[str]:
    """Return the lines of a text among the files of a run; none: it is not there."""
    file = find(folder, name)
    return read_bytes(file).decode("utf-8", "replace").splitlines() if file else []


def why_it_failed(folder: Path) -> Cause:
    """Return the cause that a run's output tells; of a job that starts benchio again, that of the
    last start comes first."""
    cause = cause_of(standard_error(folder), printed(folder / ERRORS), printed(folder / OUTPUT))
    sentence = cause.sentence or "no result file, and nothing that the job printed says why"
    return replace(cause, sentence=sentence)


def note_of(folder: Path) -> str:
    """Return the line in which benchio says that its end went wrong after the result was written;
    empty: it did not."""
    lines = standard_error(folder).split("\n")
    return next((line for line in lines if line.startswith("benchio: note:")), "")


def standard_error(folder: Path) -> str:
    """Return a run's standard error; of a job that starts benchio again, that of the last start."""
    starts = sorted(folder.glob(SAID), key=lambda file: int(file.name.split(".")[1]))
    return printed(starts[-1] if starts else folder / ERRORS)


def last_lines(folder: Path) -> list[str]:
    """Return the end of what a run printed, as lines that print; empty: nothing is left of it."""
    text = printed(folder / ERRORS, MOST // 64) or printed(folder / OUTPUT, MOST // 64)
    return [one_line(line)[:SHOWN_WIDTH] for line in text.rstrip().splitlines()[-SHOWN:]]


def printed(file: Path, most: int = MOST) -> str:
    """Return what a job printed to a file, of a long one both ends; empty: the file is not there,
    or cannot be read."""
    if not file.is_file():
        return ""
    try:
        with file.open("rb") as text:
            first = text.read(most)
            size = text.seek(0, 2)
            text.seek(max(size - most, len(first)))
            cut = b"\n" if size > 2 * most else b""
            return (first + cut + text.read(most)).decode("utf-8", "replace")
    except OSError:
        return ""


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
