"""The cases measured tonight, each judged once more with all that is on record of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from iowatch.case import Case
from iowatch.detector.judgement import SUSPECT, Judgement
from iowatch.detector.settings import NORMAL
from iowatch.past.baselines import Blessed
from iowatch.past.drift import judge_tonight
from iowatch.past.history import Record, by_night, is_same_night

#: Runs of a night that may fail before a suspicious case is left alone. They are no re-runs: the
#: detector sees nothing of them.
MAX_INVALID = NORMAL.max_reruns


@dataclass(frozen=True)
class Tonight:
    """One case and what its night says so far."""

    runs: Sequence[Record]  # of this night, oldest first
    valid: Sequence[Record]  # of these, the ones with figures
    judgement: Judgement | None  # of the detector; None: no run was valid
    first_night: date  # on record

    @property
    def is_suspect(self) -> bool:
        return bool(self.valid) and self.valid[-1].verdict == SUSPECT

    @property
    def rerun_at(self) -> datetime | None:
        """When the case is to be run again; None: not tonight."""
        if not (self.is_suspect and self.judgement and self.judgement.rerun_at):
            return None
        if len(self.runs) - len(self.valid) > MAX_INVALID:
            return None
        due = self.judgement.rerun_at
        return due if is_same_night(self.runs, due) else None


def tonight(
    records: Iterable[Record], blessed: Mapping[Case, Blessed], now: datetime
) -> dict[Case, Tonight]:
    """Every case that was run in the night that `now` is in; runs of the future are none."""
    found = {}
    for case, nights in by_night(record for record in records if record.time <= now).items():
        last = max(nights)
        runs = nights[last]
        if not is_same_night(runs, now):
            continue
        valid = [run for run in runs if run.figures.get("total_max")]
        judgement = None
        if valid:
            # As the check saw it: the last run has just ended, and is not yet on record.
            run = valid[-1]
            before = {**nights, last: [other for other in runs if other is not run]}
            before = {night: others for night, others in before.items() if others}
            judgement = judge_tonight(before, blessed.get(case), run.time, run.figures).judgement
        found[case] = Tonight(runs, valid, judgement, min(nights))
    return found
