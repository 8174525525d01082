"""A site's own past as the table that `iowatch backtest` reads."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import date
from typing import TextIO

from iowatch.past.baselines import jobs_of
from iowatch.past.history import Record, by_night

COLUMNS = ("case", "night", "job", "max_mib_s", "control_max_mib_s", "close_fraction")


def write_table(records: Iterable[Record], file: TextIO) -> int:
    """Write the valid runs, and return their number.

    A night is a number of days since the first of all nights; its first valid run is job 0, and
    those after it are its re-runs, as the detector has them.
    """
    cases = by_night(records)
    first = min((night for nights in cases.values() for night in nights), default=date.min)
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    count = 0
    for case, nights in sorted(cases.items(), key=lambda item: str(item[0])):
        for night, runs in sorted(nights.items()):
            for number, job in enumerate(jobs_of(runs)):
                control = job.best / job.ratio if job.ratio else None
                table.writerow((case, (night - first).days, number, job.best, control, job.close))
                count += 1
    return count
