"""The command line: `iowatch run --system local`."""

from iowatch.cli import (
    accepting,
    adopting,
    comparing,
    documentation,
    earlier,
    every_night,
    people,
    reading,
)
from iowatch.cli.command import app, main

__all__ = [
    "accepting",
    "adopting",
    "app",
    "comparing",
    "documentation",
    "earlier",
    "every_night",
    "main",
    "people",
    "reading",
]
