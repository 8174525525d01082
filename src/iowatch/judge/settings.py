"""The thresholds of the detector, all of them, and where each comes from.

"study" is the survey and simulation that preceded the detector; "tuned" values differ from the
study's, by what `make detector-bench` measures (docs/explanation/evidence.md).
Spreads are standard deviations of the natural logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import NormalDist
from types import MappingProxyType
from typing import ClassVar

#: The rules: bandwidth, ratio to MPI-IO, finishing the file, this night alone, R1 mirrored.
R1, R2, R3, R4, GAIN = "R1", "R2", "R3", "R4", "gain"


@dataclass(frozen=True)
class Settings:
    """The thresholds of a suspicious night, of an alarm, and of its end."""

    # Baseline (bless)

    #: Nights that a baseline needs at least. Study: with 10, 20 and 30 nights there are 2.7, 1.2
    #: and 0.8 false alarms per 1000; 30 are recommended.
    min_nights: int = 20
    #: Smallest spread. Study: the quietest tenth of a real year has 0.03, too small a drop to call.
    min_spread: float = 0.05
    #: Contention that lasts for nights may miss, or fill, the baseline. The spread of bandwidth
    #: widens by 1 + lasting_widens * (autocorrelation of the nights - this). Tuned: where slow
    #: spells last, false alarms of MPI-IO fall from 1.41 to 0.95 per 1000. 2 in 100 fewer drops of
    #: 70 % show on the third night.
    lasting: float = 0.2
    lasting_widens: float = 1.5
    #: Refused if more than this share of the nights is "bad". Study.
    max_bad_nights: float = 0.2
    #: A night is bad below this part of the median. Study.
    bad_night: float = 0.5
    #: Fewest nights on either side of a change point in the window. Tuned.
    change_nights: int = 6
    #: Student's t of a change point in the window, the best of all splits. Tuned: of 30 nights
    #: without one, 2 to 3 windows in 100 are refused, or 13 where slow spells last. A drop of 50 %
    #: in the middle shows in 90 of 100.
    change_t: float = 4.5

    # Suspicion: a re-run is due

    #: Warn line in spreads below the baseline. Study.
    warn: float = 2.0
    #: The same while the CUSUM is above 0. Tuned: finds a filesystem-wide -30 % in 7 nights in 6 of
    #: 100 cases more, for 0.05 jobs more a night.
    warn_again: float = 1.0
    #: The warn line is at least this part below the baseline. Study.
    warn_drop: float = 0.1
    #: Re-runs of a suspicious night at most. Study: false alarms per 1000 fall from 17.7 to 0.96
    #: with 2 and to 0.12 with 4, for 0.2 jobs more per case and night.
    max_reruns: int = 4
    #: Between a job and the next that counts. Study: an immediate repetition meets the same
    #: contention and is worth little.
    rerun_after: timedelta = timedelta(hours=4)

    # R1, a slow-down: winsorised CUSUM on ln MiB/s; R2, the same relative to MPI-IO

    #: A night adds its score less this. Study.
    slack: float = 1.0
    #: Largest score of a night whose re-runs were all low too. Study: one gross transient must not
    #: make an alarm.
    clip: float = 3.0
    #: Largest score of a night without a re-run; with each it grows towards `clip`. Tuned: replaces
    #: the study's second set of limits, 12 and 8, for sites that never re-run.
    clip_unconfirmed: float = 1.5
    #: Each re-run adds this to a score that is still low: the best of five jobs is rarely as low as
    #: one. Tuned.
    rerun_bonus: float = 0.125
    #: A score below this sets the CUSUM to 0. Tuned: a quarter less false alarms where slow spells
    #: last.
    reset: float = 0.5
    #: R1: alarm above this; two nights, however low, do not reach it. Study ("normal").
    slow_limit: float = 5.9
    #: R2: alarm above this. Tuned (study: 3): the bonus of re-runs leaves room for a lower limit.
    ratio_limit: float = 2.5
    #: R2 in one night, with all re-runs: below this part of the baseline's ratio. Study.
    ratio_floor: float = 0.5
    #: R2's floor, R3 and R4, which one night decides, are at least so many spreads below. Study
    #: (R2).
    floor_spreads: float = 4.0

    # R3, finishing the file (open, define, close, beyond MPI-IO) takes too much of the time

    #: Relative to a baseline: more than this fraction ... Study.
    overhead_fraction: float = 0.25
    #: ... and this much more than the baseline's. Study: healthy systems differ from 0.00 to 0.53.
    finish_rise: float = 0.2
    #: With or without a baseline: more than this fraction ... Study.
    defect_overhead_fraction: float = 0.45
    #: ... and less than this part of MPI-IO's bandwidth. Study: flags the published HDF5 on Cirrus,
    #: nothing on GPFS.
    defect_ratio: float = 0.5
    #: Fewer seconds to finish the file in the median round are no sign of R3. Chosen: people take a
    #: tenth of a second for immediate.
    noticed_s: float = 0.1
    #: One job says enough if it is this much above either limit, and the ratio to MPI-IO
    #: `floor_spreads` below its usual. Tuned: a stall of the metadata server stays below.
    finish_sure: float = 0.3
    #: A job tells nothing against the library if MPI-IO has lost more than this part of what the
    #: case has, in logarithms. Tuned: a filesystem that is slow to finish files, too, is blamed on
    #: the library on 0 to 8 of 1000 nights, else on up to 55.
    shared_loss: float = 0.5
    #: Else so many jobs must show it, and a CUSUM of their ratios exceed `ratio_limit`. Each adds
    #: its spreads below usual, at most `clip`, less `slack`. Study: false alarms per 1000 fall from
    #: 0.66 to 0.06. Tuned: without the ratios, a slow filesystem is blamed on the library every
    #: night on which finishing takes 0.3 more of the time.
    finish_runs: int = 2

    # R4, improvement, the end of an alarm

    #: R4: every job of the night below this part of the baseline. Study.
    severe: float = 0.3
    #: Improvement: mirrored CUSUM on the night's first job. Study.
    better_limit: float = 8.0
    #: An alarm is over once this many ... Study.
    recovered: int = 5
    #: ... of the last so many nights were not suspicious. Study.
    recovered_of: int = 7
    #: Or once the night's first job and so many re-runs are all as they were before the alarm.
    #: Tuned: no more alarms end while the fault is there. Once it is mended, half of the alarms go
    #: the first night. No baseline depends on it: no field.
    recovered_reruns: ClassVar[int] = 2

    # Shared by several cases: a filesystem, or a library

    #: A group has a chart of its own from so many cases on. Tuned: with 3, a filesystem has more
    #: false alarms than one case, and -30 % shows within 7 nights in only 72 of 100.
    common_cases: int = 4
    #: A group has reached what this share of its cases, by weight, do not exceed. Tuned: with 0.5,
    #: a third of the cases alone alarm the filesystem, and twice as many jobs run again. -30 %
    #: shows in three nights in 2 to 8 of 100 more.
    common_part: float = 2 / 3
    #: Cases weigh as 1 / spread, and at most this often the median: no case alone decides. Chosen.
    common_weight: float = 2.0
    #: So many of its cases run again if the group is suspicious. Tuned: with 3 or 8 a filesystem
    #: that has lost 30 % is found as soon.
    common_panel: int = 5
    #: Every case below this part of its baseline is told the same night, and severe if all re-runs
    #: are. Chosen: 1 in 100 nights of a real year's filesystems, 0.2 with re-runs.
    common_severe: float = 0.5
    #: Without a chart: alarms of this share of the cases are one ... Study.
    common_share: float = 0.5
    #: ... if they were raised within so many nights. Study.
    common_nights: int = 3

    # Several parts of one case: the OSTs of a filesystem

    #: R1 of each. Tuned on 24 OSTs with noise that lasts for nights: 0.8 false alarms per 1000
    #: nights, where 5.9 has 7.5. A loss of 30 % of one OST shows on the fourth night, not on the
    #: third.
    each_limit: float = 7.9

    # The smallest drop that a case can show

    #: A drop of so many spreads is found within `visible_nights` in 99 of 100 cases. Tuned.
    visible: float = 3.5
    visible_nights: int = 7
    #: Drop that a site wants to see: a case that cannot show it is noisy. Study.
    wanted_drop: float = 0.3
    #: More nights than this share suspicious: noisy. Study.
    max_suspect: float = 0.25

    def warn_line(self, spread: float, again: bool) -> float:
        """The warn line, relative to the baseline on the logarithmic scale."""
        spreads = self.warn_again if again else self.warn
        return min(-spreads * spread, math.log(1 - self.warn_drop))

    def slow_part(self, spread: float | None) -> float:
        """Below this part of what is usual a rate is low; None: nobody knows its spread."""
        return 1 - self.wanted_drop if spread is None else math.exp(self.warn_line(spread, False))

    def for_one_of(self, charts: int) -> Settings:
        """Widen the limits for one of so many charts on the runs of one case. By chance all charts
        together then ask for as many re-runs as one alone."""
        normal = NormalDist()

        def line(spreads: float) -> float:
            return -normal.inv_cdf(normal.cdf(-spreads) / charts)

        limit = max(self.slow_limit, self.each_limit)
        return replace(
            self, warn=line(self.warn), warn_again=line(self.warn_again), slow_limit=limit
        )

    def finish_limit(self, usual: float) -> float:
        """The part of the time to finish the file above which a case with this usual part is
        slow."""
        return max(self.overhead_fraction, usual + self.finish_rise)

    def defect_limit(self, ratio: float) -> float:
        """The part of the time to finish the file above which a case with this ratio to MPI-IO has
        the close-phase fault, whatever its history."""
        if ratio >= self.defect_ratio:
            return math.inf
        return max(self.defect_overhead_fraction, (1 - ratio) / 2)

    def is_defect(self, overhead_fraction: float, ratio: float) -> bool:
        """Return whether this is the close-phase fault."""
        return overhead_fraction > self.defect_limit(ratio)


NORMAL = Settings()

#: The settings that a command line offers. Sensitive trades false alarms for speed, quiet the
#: other way round; the targets and docs/explanation/evidence.md are of `normal`.
SETTINGS: Mapping[str, Settings] = MappingProxyType(
    {
        "normal": NORMAL,
        "sensitive": replace(NORMAL, slow_limit=4.5, ratio_limit=2.0),
        "quiet": replace(NORMAL, slow_limit=7.9, ratio_limit=4.5),
    }
)
