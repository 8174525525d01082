"""The shell of job/, with the variables that it needs."""

import shlex
from functools import cache
from pathlib import Path

FILES = Path(__file__).parent / "job"


def shell(name, folder=FILES, **variables):
    """Return the text of a file of shell, after an assignment of each variable that it needs.

    The name has no ending. A list or tuple becomes an array. Values are quoted: no value is
    expanded by the shell.
    """
    values = (f"{key}={_word(value)}" for key, value in variables.items())
    return "\n".join([*values, _text(folder / f"{name}.sh")])


def _word(value):
    if isinstance(value, list | tuple):
        return f"({shlex.join(map(str, value))})"
    return shlex.quote(str(value))


@cache
def _text(file):
    """Return a file without the lines at its head that tell shellcheck what the file needs."""
    lines = file.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("# shellcheck"))
    return "\n".join(lines[first:])
