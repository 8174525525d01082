"""The command line: `iowatch run --system local`."""

from iowatch.cli import (
    adopting,
    comparing,
    documentation,
    earlier,
    every_night,
    people,
    reading,
    tests_and_paper,
)
from iowatch.cli.command import app, main

__all__ = [
    "adopting",
    "app",
    "comparing",
    "documentation",
    "earlier",
    "every_night",
    "main",
    "people",
    "reading",
    "tests_and_paper",
]
