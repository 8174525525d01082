"""Programs that iowatch runs, and what they answer."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The output of a program, and why that may be no answer."""

    command: str
    text: str = ""  # on standard output
    errors: str = ""  # on standard error
    trouble: str = ""  # why the program did not run, or did not end well; empty: it did

    def why(self, lack: str) -> str:
        """One sentence on why the answer lacks what is wanted, such as `names no OSTs`."""
        first = self.text.partition("\n")[0].strip()
        instead = f"it says {first!r}, as no version that is known here" if first else ""
        return self.trouble or f"`{self.command}` {lack}: {instead or 'it says nothing'}"


def run(
    *words: str, given: bytes = b"", timeout_s: float | None = TIMEOUT_S, **variables: str
) -> Answer:
    """Run a program to its end, with its messages in English.

    `given` is its standard input, and `variables` are added to its environment. Bytes that are no
    UTF-8 become question marks: whoever may mount a filesystem chooses names.
    """
    command = " ".join(words)
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", **variables},
            timeout=timeout_s,
        )
    except FileNotFoundError:
        lack = f"there is no {words[0]}" if "/" in words[0] else f"{words[0]} is not on PATH"
        return Answer(command=command, trouble=lack)
    except OSError as err:
        return Answer(command=command, trouble=f"{words[0]} cannot be run: {err.strerror}")
    except subprocess.TimeoutExpired:
        trouble = f"`{command}` gave no answer within {timeout_s:g} s"
        return Answer(command=command, trouble=trouble)
    text, errors = (printed.decode(errors="replace") for printed in (done.stdout, done.stderr))
    trouble = ""
    if done.returncode != 0:
        lines = [line.strip() for line in (errors or text).splitlines() if line.strip()]
        trouble = f"`{command}` failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
    return Answer(command=command, text=text, errors=errors, trouble=trouble)
