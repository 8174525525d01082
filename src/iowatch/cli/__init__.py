"""The command line: `iowatch run --system local`."""

# In the order in which the help lists them.
from iowatch.cli import every_night, earlier, tests_and_paper, adopting, people, documentation  # isort: skip
from iowatch.cli.command import app, main

__all__ = [
    "adopting",
    "app",
    "documentation",
    "earlier",
    "every_night",
    "main",
    "people",
    "tests_and_paper",
]
