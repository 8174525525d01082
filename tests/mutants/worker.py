"""Runs pytest in the present folder for each line of JSON, with the words in it, in a fork.

So no mutant pays for the imports of others' modules, which the command line names, and each imports
all of ours anew. The answer is pytest's exit code, or `hangs`: what has not ended in time is told
to, so that it removes what it has made in /tmp and /dev/shm.
"""

import importlib
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

CLEAN_UP_S = 60


def ended(process: int, seconds: float) -> int | None:
    """Its exit code, if it ends in that time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        ready, status = os.waitpid(process, os.WNOHANG)
        if ready:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def run(words: list[str], output: str) -> None:
    """In the fork: never returns."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.exit(pytest.main(words))


def main() -> None:
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
    here = Path.cwd().resolve()
    files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
    ours = [file for file in files if Path(file).is_relative_to(here / "src")]
    assert not ours, f"a mutant would not be what tests import: {ours}"
    for line in sys.stdin:
        asked = json.loads(line)
        process = os.fork()
        if process == 0:
            run(asked["words"], asked["output"])
        code: int | str | None = ended(process, asked["seconds"])
        if code is None:
            code = "hangs"
            os.kill(process, signal.SIGINT)
            if ended(process, CLEAN_UP_S) is None:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
        print(json.dumps(code), flush=True)


if __name__ == "__main__":
    main()
