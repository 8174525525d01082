"""Numbers, lists and lines as people read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def one_line(text: str) -> str:
    """A text without line breaks, and with a question mark for what does not print."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def counted(count: int, noun: str, verb: str = "", total: int | None = None) -> str:
    """A count in words: `1 case`, `2 cases`; with the verb `are` or `were`, `1 case is`; with the
    `total`, `1 of 2 cases is`."""
    words = f"{count} {noun}" if total is None else f"{count} of {total} {noun}"
    words += "" if (count if total is None else total) == 1 else "s"
    return f"{words} {_SINGULAR[verb] if count == 1 else verb}" if verb else words


_SINGULAR = {"are": "is", "were": "was"}


def brief(value: float) -> str:
    """Write a number to four digits or to the unit, large ones without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def brief_time(seconds: float) -> str:
    """Write a time with three digits, in s, ms or µs: `302 ms`."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        value = seconds * scale
        if value >= 0.9995 or seconds == 0:
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def brief_bytes(count: int) -> str:
    """Write a number of bytes with three digits: `1.5 GiB`."""
    units = (unit for unit in ("TiB", "GiB", "MiB", "KiB") if count >= _BYTES[unit])
    unit = next(units, "")
    value = count / _BYTES.get(unit, 1)
    return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit or 'bytes'}"


_BYTES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def brief_rate(value: float) -> str:
    """A bandwidth in MiB/s: whole from 10 on, and below with two digits, so that 0.37 is not 0."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def numbers_in_words(noun: str, numbers: Collection[int]) -> str:
    """Say which targets, such as `OSTs 0 to 23, 25`."""
    texts = [
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs(numbers)
    ]
    return f"{noun}{'s' * (len(numbers) > 1)} {', '.join(texts)}"


def runs(numbers: Iterable[int]) -> list[range]:
    """Return the same numbers, in order, as runs without a gap."""
    joined: list[range] = []
    for number in sorted(numbers):
        if joined and number == joined[-1].stop:
            joined[-1] = range(joined[-1].start, number + 1)
        else:
            joined.append(range(number, number + 1))
    return joined
