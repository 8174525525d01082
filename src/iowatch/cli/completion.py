"""Completion of systems, nights and cases in a shell: from names of files alone, which is quick.

typer asks for the names and takes those that fit. It does not know where bash ends a word, nor that
a prompt is no place for an error: that is here. A site that keeps its results elsewhere than
RFM_PREFIX says is offered its systems alone.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

import typer

from iowatch.base.places import configured_systems, results

#: The system of commands that are given no `--system`.
SYSTEM = "IOWATCH_SYSTEM"

_ASKED = "_IOWATCH_COMPLETE"
_BREAKS = (":", "=")  # where bash ends a word, and where ids of cases have more of it
_NIGHT = re.compile(r"(.+)-(\d{4}-\d\d-\d\dT\d{6})", re.ASCII)


def is_asked() -> bool:
    """Does a shell want to know how a command line may go on?"""
    return os.environ.get(_ASKED, "").startswith("complete")


def answer(run: Callable[[], None]) -> None:
    """Print how the command line may go on; whatever is wrong is no text for somebody's prompt."""
    cut, text = _mend_bash() if os.environ[_ASKED] == "complete_bash" else 0, io.StringIO()
    with suppress(Exception, SystemExit), redirect_stdout(text):
        run()
    print("\n".join(line[cut:] for line in text.getvalue().splitlines()))


def _mend_bash() -> int:
    """Join again the words that bash has cut at `:` and `=`, and return how many characters of the
    last one bash does not replace."""
    last = int(os.environ.get("COMP_CWORD", "0"))
    words = os.environ.get("COMP_WORDS", "").split("\n")[: last + 1]
    joined: list[str] = []
    for number, word in enumerate(words):
        before = joined[-1] if joined else "-"
        if before.startswith("-"):  # an option, whose value may follow a `=`
            if word != "=" or number == last:
                joined.append(word.removeprefix("="))
        elif word[:1] in _BREAKS or before[-1:] in _BREAKS:
            joined[-1] += word
        else:
            joined.append(word)
    os.environ.update(COMP_WORDS="\n".join(joined), COMP_CWORD=f"{len(joined) - 1}")
    return max(joined[-1].rfind(sign) for sign in _BREAKS) + 1


def systems() -> list[str]:
    """The systems of the site's files, and those that have had a night."""
    return [*dict.fromkeys([*configured_systems(), *(name for name, _ in _judged())])]


def nights(ctx: typer.Context) -> list[str]:
    """The nights of the system, the last first."""
    system = ctx.params.get("system") or os.environ.get(SYSTEM, "")
    return sorted({night for name, night in _judged() if system in ("", name)}, reverse=True)


def cases() -> list[str]:
    """The cases whose raw results the last night has left."""
    folders = sorted((results() / "runs").glob("????-??-??T??????"))
    names = {run.name.partition("+")[0] for run in folders[-1].iterdir()} if folders else set()
    return sorted(name.replace(",", "/") for name in names if ":" in name)


def system_in(case: str) -> str:
    """Return the system in a case's id; empty: a name has none."""
    match = re.match(r"[\w-]+(?=:)", case, re.ASCII)
    return match[0] if match else ""


def cases_and_nights(ctx: typer.Context) -> list[str]:
    """Whatever can be shown."""
    return [*nights(ctx), *cases()]


def _judged() -> list[tuple[str, str]]:
    """Return the system and the night of each that has been judged, by the names of its records."""
    names = (Path(entry).stem for entry in (results() / "nights").glob("*.json"))
    return [(match[1], match[2]) for name in names if (match := _NIGHT.fullmatch(name))]
