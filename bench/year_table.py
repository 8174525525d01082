"""The table of a real year: every run of each series, of which those of one day are re-runs.

docs/explanation/evidence.md says where to find one. Every column but the time and the rate is a
part of a series' name, and those up to `filesystem` name that.
"""

import csv
from datetime import datetime

from iowatch.judge.backtest import FILESYSTEM, CasePast, PastNight
from iowatch.judge.baseline import Sample

TIME, RATE = "start_utc", "mib_s"


def read_year(path):
    """The nights of every series in order of time."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        table = csv.DictReader(stream)
        rows = sorted((row for row in table if row[RATE] not in ("", "nan")), key=lambda r: r[TIME])
    parts = [name for name in table.fieldnames if name not in (TIME, RATE)]
    to = parts.index(FILESYSTEM) + 1 if FILESYSTEM in parts else 0
    series = {}
    for row in rows:
        past = CasePast(filesystem=_joined(row, parts[:to]))
        nights = series.setdefault(_joined(row, parts), past).nights
        time = datetime.fromisoformat(row[TIME])
        night = f"{time:%Y-%m-%d}"
        if not nights or nights[-1].night != night:
            nights.append(PastNight(night, []))
        nights[-1].samples.append(Sample(time, float(row[RATE]), None, None))
    return dict(sorted(series.items()))


def _joined(row, columns):
    return "/".join(row[name] for name in columns if row[name])
