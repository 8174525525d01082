"""A history made up, stored as ReFrame stores one and judged night by night by the detector.

Some cases have faults in the last nights.
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import product

import numpy as np
from cases import case, changed, outcome_of
from reported import reported, session, store

from iowatch.cases.case import Case
from iowatch.cases.run import night_id
from iowatch.cases.verdict import NO_REFERENCE
from iowatch.judge.baseline import estimate
from iowatch.judge.bless import Blessed, sample_of
from iowatch.judge.explain import why_slow
from iowatch.judge.rules import Detector, Memory
from iowatch.measure.checks import metric
from iowatch.night.on_record import night_on_record
from iowatch.night.record import SystemRecord

SYSTEM = "archer"
BLESSED = 30  # nights
CEILINGS = {"mpiio": 9000.0, "hdf5": 7700.0, "netcdf": 6000.0}
VERSIONS = {"benchio": "0.1.0", "mpi": "cray-mpich 7.2.6", "hdf5": "1.10.8", "netcdf": "4.9.0"}

BASE = case(
    place=f"{SYSTEM}:fs3/cray", stripe_count=-1, stripe_size=1, local_size=(128, 128, 128),
    ranks=96,
)  # fmt: skip
CLOSE = BASE  # H5Fclose is slow
SLOW = changed(BASE, backend="netcdf", stripe_count=4)  # only tonight
FS2 = f"{SYSTEM}:fs2/cray"
BROKEN = changed(BASE, backend="mpiio", place=FS2)
BETTER = changed(BASE, place=FS2, stripe_count=1)
GONE = changed(BASE, place=FS2, stripe_count=4)  # not measured tonight
KNOWN = changed(BASE, backend="netcdf", place=FS2)
OSTS = changed(BASE, check="SlowOst")
MESSAGE = "benchio: io_error: rank 3, write, /fs2/<script>alert('no')</script>: Input/output error"


@dataclass
class Year:
    """So many nights of so many cases, the last of them on the day `last`."""

    nights: int
    cases: int
    last: date
    has_faults: bool = True
    seed: int = 1
    blessed: dict[Case, Blessed] = field(default_factory=dict)  # filled by `store`

    def all_cases(self):
        partitions, backends = ("fs3", "fs2"), CEILINGS
        sizes = [(n, n, n) for n in (128, 256, 64, 512)]
        every = [
            changed(BASE, place=f"{SYSTEM}:{partition}/cray", backend=backend,
                    stripe_count=stripes, local_size=size, ranks=ranks)
            for ranks, size, stripes, partition, backend in product(
                (96, 192, 384), sizes, (-1, 4, 1), partitions, backends
            )
        ]  # fmt: skip
        return [OSTS, *every][: self.cases]

    def store(self, database):
        """Write a new database; fills `blessed` if there are nights enough."""
        rng = np.random.default_rng(self.seed)
        sessions = {}
        for of in self.all_cases():
            for at, test in self._tests(rng, of):
                sessions.setdefault(at, []).append(test)
        store(database, *(self._session(*at, tests) for at, tests in sorted(sessions.items())))

    def _session(self, night, run, tests):
        first = min(test["job_completion_time_unix"] for test in tests)
        began = datetime.fromtimestamp(first - 60, UTC)
        return session(*tests, uuid=f"{night} {run}", began=began, night=self._id(night))

    def recorded(self, runs):
        """The last night, as the record has it."""
        now = datetime.combine(self.last, datetime.max.time(), UTC)
        record = SystemRecord(system=SYSTEM, blessed=self.blessed, runs=runs, now=now)
        return night_on_record(record)

    def _midnight(self, night):
        last = datetime.combine(self.last, datetime.min.time(), UTC)
        return last - timedelta(days=self.nights - 1 - night)

    def _id(self, night):
        return night_id(self._midnight(night) + timedelta(minutes=30))

    def _tests(self, rng, of):
        """((night, run), test) of every run of a case."""
        detector, state, first = Detector(None), Memory(), []
        middle = CEILINGS[of.backend] * rng.uniform(0.4, 1)
        for night in range(self.nights):
            left = self.nights - 1 - night
            if of == GONE and left == 0 and self.has_faults:
                return
            start = self._midnight(night) + timedelta(hours=1, minutes=int(rng.integers(0, 60)))
            samples = []
            for number in range(5):
                metrics = self._metrics(rng, of, middle, left)
                time = start + timedelta(hours=4.1 * number)
                samples.append(sample_of(time, metrics, {}))
                is_last = number == 4 or left == 0
                _, verdict = detector.judge(state, samples, final=is_last and left > 0)
                met = provenance(rng, of, left, self.has_faults)
                test = as_reframe(of, time, metrics, verdict, met)
                self._spoil(of, left, test)
                yield (night, number), test
                if verdict.rerun_at is None or is_last:
                    break
            state, _ = detector.judge(state, samples)
            first.append(samples)
            if len(first) == BLESSED:
                ids = [self._id(earlier) for earlier in range(BLESSED)]
                day = samples[0].time.date()
                self.blessed[of] = Blessed.make(
                    estimate(first), dict(zip(ids, first, strict=True)), day, "ops", "quiet weeks"
                )
                detector, state = Detector(self.blessed[of].baseline), Memory()

    def _metrics(self, rng, of, middle, left):
        """Metrics as benchio's would be; `left` nights before the last."""
        best = middle * math.exp(0.08 * rng.standard_normal())
        close = 0.02 + 0.02 * rng.random()
        mib = 8 * math.prod(of.local_size) * of.ranks / 2**20
        if self.has_faults and of == CLOSE and left < 3:
            best, close = 0.27 * best, 0.9 + 0.01 * rng.random()
        if self.has_faults and of == SLOW and left == 0:
            best *= 0.55
        if self.has_faults and of == BETTER and left < 12:
            best *= 1.5
        if self.has_faults and of == KNOWN and left < 25:
            best *= 0.4
        seconds = mib / best
        spread = np.sort(rng.uniform(0.5, 1, 9))
        values = {
            "total_max": best * 1.1,
            "total_median": best * 1.1 * spread[4],
            "total_mean": best * 1.1 * float(spread.mean()),
            "total_min": best * 1.1 * spread[0],
            "stable_max": best,
            "stable_median": best * spread[4],
            "data_median": best * spread[4] * 1.2,
            "open_s": 0.002,
            "define_s": 0.001,
            "write_s": seconds * (0.85 - 0.85 * close),
            "close_s": seconds * close,
            "sync_s": seconds * (0.15 - 0.15 * close),
            "unlink_s": 0.01,
            "overhead_fraction": close,
            "ratio": best / (middle * math.exp(0.03 * rng.standard_normal())),
        }
        if of.check.by_target:
            rates = {f"ost_{ost}": best * rng.uniform(0.9, 1) for ost in range(12)}
            rates["ost_5"] = best * 0.55
            values |= rates | {"ost_ratio": 0.58}
            return {n: v for n, v in values.items() if n in of.metrics or n in rates}
        return {name: float(values[name]) for name in of.metrics}

    def _spoil(self, of, left, test):
        """What is no matter of metrics."""
        if not self.has_faults:
            return
        if of == BROKEN and left == 0:
            test |= {
                "result": "fail",
                **outcome_of("failed (io_error)").fields,
                "sentence": MESSAGE,
            }
            test |= {"perfvalues": {name: [None] for name in test["perfvalues"]}}
        if of == KNOWN and test["result"] == "fail":
            test["result"] = "xfail"


def provenance(rng, of, left, has_faults):
    """What changed with the fault: HDF5's version; and what changes every night."""
    fault = has_faults and of == CLOSE and left < 3
    hosts = sorted(rng.choice(4000, 4, replace=False) + 1)
    return {
        **VERSIONS,
        "hdf5": "1.8.14" if fault else VERSIONS["hdf5"],
        "hint cb_nodes": "4",
        "striping": f"count {of.stripe_count}, size 1048576",
        "hosts": " ".join(f"nid{host:05}" for host in hosts),
        "free space": f"{900 - (365 - left) // 4} GiB",
        "modules": "PrgEnv-cray cray-hdf5-parallel",
    }


def slowest(hosts):
    """The slowest rank of each phase, as the checks say it."""
    places = enumerate(zip(("open", "write", "sync", "close"), hosts, strict=True))
    return {
        phase: f"rank {7 * n} on {host}, {10 - n} of 10 times, {1 + n / 4:.1f} times the mean"
        for n, (phase, host) in places
    }


def as_reframe(of, time, metrics, verdict, met):
    """A test as ReFrame stores it."""
    is_first = verdict.outcome == NO_REFERENCE  # the references stand in for the baseline
    is_red = verdict.is_red and not is_first
    said = "; ".join(filter(None, [verdict.sentence, is_red and why_slow(of, metrics, {})]))
    return reported(
        of,
        time,
        promised=0,
        result="fail" if is_red else "pass",
        kept=f"/iowatch/runs/{time:%Y-%m-%d}/{str(of).replace('/', ',')}",
        verdict="ok" if is_first else str(verdict.outcome),
        sentence=said,
        provenance=met,
        slowest=slowest(met["hosts"].split()),
        perfvalues={
            f"{of.system}:{of.partition}:{name}": [value, 0, None, None, metric(name).unit, "pass"]
            for name, value in metrics.items()
        },
    )
