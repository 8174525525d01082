"""The command line: `iowatch run --system local`."""

# In the order in which the help lists them.
from iowatch.cli import every_night, reading, earlier, tests_and_paper, adopting, people  # isort: skip
from iowatch.cli import documentation
from iowatch.cli.command import app, main

__all__ = [
    "adopting",
    "app",
    "documentation",
    "earlier",
    "every_night",
    "main",
    "people",
    "reading",
    "tests_and_paper",
]
