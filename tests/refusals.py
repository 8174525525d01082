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
    wrong = []
    for given, sentence in wanted:
        arguments = given if isinstance(given, tuple) else (given,)
        try:
            attempt(*arguments)
        except error as err:
            if not re.search(sentence, str(err)) or "\n" in str(err):
                wrong.append(f"{given!r}: said {str(err)!r}, and not {sentence!r}")
        else:
            wrong.append(f"{given!r}: was not refused")
    if wrong:
        pytest.fail("\n".join(wrong))
