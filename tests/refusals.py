"""What must be refused, many at once: every failure is named."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def assert_refused(
    error: type[Exception],
    attempt: Callable[..., Any],
    wanted: Iterable[tuple[Any, str]],
) -> None:
    """attempt(*given) must raise this error, in one line that the regular expression finds.

    `given` that is no tuple is the only argument.
    """
    wanted = list(wanted)
    lines = why_refused(error, attempt, (given for given, _ in wanted))
    wrong = [
        f"{given!r}: said {line!r}, and not {sentence!r}"
        for (given, sentence), line in zip(wanted, lines, strict=True)
        if not re.search(sentence, line)
    ]
    if wrong:
        pytest.fail("\n".join(wrong))


def why_refused(
    error: type[Exception], attempt: Callable[..., Any], wrong: Iterable[Any]
) -> list[str]:
    """What attempt(*given) says of each: it must raise this error, with one line."""
    lines, accepted = [], []
    for given in wrong:
        try:
            attempt(*(given if isinstance(given, tuple) else (given,)))
        except error as err:
            lines.append(str(err))
        else:
            accepted.append(f"{given!r} was not refused")
    accepted += [f"{line!r} is more than one line" for line in lines if "\n" in line]
    if accepted:
        pytest.fail("\n".join(accepted))
    return lines


def refusals(error: type[Exception], attempt: Callable[..., Any], wrong: Iterable[Any]) -> str:
    """The same as a text for a golden file: what is given, and below it what is said of it."""
    wrong = list(wrong)
    lines = why_refused(error, attempt, wrong)
    return "".join(
        f"{_shown(given)}\n    {line}\n" for given, line in zip(wrong, lines, strict=True)
    )


def _shown(given: Any) -> str:
    if isinstance(given, tuple):
        return ", ".join(map(_shown, given))
    return repr(given) if isinstance(given, str) else str(given)
