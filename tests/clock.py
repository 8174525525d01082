"""The one clock of the unit tests: four in the morning, when the last night of nights.py is over.

What is judged in the test's process is judged then, whatever the real clock says. A process that a
test starts has the real one, unless its program begins with SET.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SET = f"import time_machine; time_machine.travel({NOW.timestamp()}).start()\n"


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[None]:
    """Sets the clock of all tests of a file, or of a folder whose conftest.py has this."""
    with time_machine.travel(NOW):
        yield
