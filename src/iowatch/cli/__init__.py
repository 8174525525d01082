"""The command line: `iowatch nightly --system local`."""

import signal
from contextlib import suppress

# To load the commands takes a second, or more on a busy machine. Whoever presses Ctrl-C meanwhile
# need not read where that was.
_before = signal.getsignal(signal.SIGINT)
with suppress(ValueError):  # not the main thread, which alone is interrupted
    if _before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

# In the order in which the help lists them.
from iowatch.cli import every_night, earlier, tests_and_paper, adopting, people  # noqa: E402  # isort: skip
from iowatch.cli.command import app  # noqa: E402

with suppress(ValueError):
    if _before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _before)

__all__ = ["adopting", "app", "earlier", "every_night", "people", "tests_and_paper"]
