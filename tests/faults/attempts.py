"""The runs of a few MiB that meet a fault."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import Run

RANKS = 3
SIZE = (64, 64, 96)  # of each rank's block
BYTES = RANKS * 64 * 64 * 96 * 8
IO, VERIFICATION, TIME_LIMIT = 3, 4, 5
STATUS = {IO: "io_error", VERIFICATION: "verification_error"}
KILLED = 137

Attempt = Callable[..., Any]  # returns a Failure of conftest.py


def no_rate(done: Run) -> bool:
    return "MiB/s" not in done.out and "MiB/s" not in done.err


def few_mib(backend: str, directory: Path, result: Path) -> list[object]:
    """Options."""
    return [
        "--backend", backend, "--local-size", "x".join(map(str, SIZE)), "--warmup", 0,
        "--repeats", 2, "--dir", directory, "--json", result,
    ]  # fmt: skip
