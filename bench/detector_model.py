"""Simulated nights of benchio runs, from marginal distributions fitted to published tables.

ln MiB/s of a repetition = q(Phi(sqrt(ICC) z + sqrt(1 - ICC) e)): q is the quantile function of one
of the 22 cases in archer_model.json, z is the run's contention and e the repetition's own. Nightly
runs have AR(1) z with correlation rho; a re-run's, hours later, has correlation `rerun` with its
night's. HDF5's z has correlation `control` with MPI-IO's of the same run. ICC, rho, rerun and
control are assumptions: the tables cannot tell them. Cases of one filesystem share a part of their
z. In a real year of five filesystems their bandwidths had a correlation of 0.3 to 0.5.
"""

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from iowatch.judge.baseline import Sample

RUNS = 5  # of a night: the nightly one and four re-runs
REPEATS = 10
BLESSED = 30  # nights of the baseline
_Z = np.linspace(-6.5, 6.5, 2601)
_PHI = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in _Z])
_LN_PHI = np.log(_PHI)


@dataclass(frozen=True)
class Model:
    icc: float = 0.7
    rho: float = 0.3
    rerun: float = 0.45
    control: float = 0.9
    lasting: bool = False  # what HDF5 does not share with MPI-IO lasts as long as what it does


MAIN = Model()
PESSIMISTIC = Model(rho=0.6, rerun=0.7)
HARDER = Model(icc=0.85, rerun=0.6, control=0.8)


@dataclass(frozen=True)
class Finish:
    """The time of healthy HDF5 to open, define and close its file beyond MPI-IO.

    Chosen such that rules on them come near the false alarms per 1000 that the study found with
    Darshan's metadata times of a real year: 2.2 on the median of ten repetitions (there 2.2), 0.56
    on the fastest (0.66), 0.04 on the fastest if a re-run confirms it (0.06), if stalls spare
    MPI-IO: there was none beside it.
    """

    usual: tuple[float, float] = (0.0, 0.5)  # median fraction of a case: uniform, as systems differ
    spread: float = 0.3  # of a repetition's logit
    stalls: float = 0.005  # nights on which the metadata server is slow
    stalled: tuple[float, float] = (0.25, 0.6)  # what a stall adds to the fraction
    #: The part of a stall's time that MPI-IO loses, too. HDF5 creates, sets the size, flushes and
    #: closes in the rounds between, where MPI-IO creates and closes.
    shared: float = 0.5


@cache
def quantiles(icc, index):
    """One of the 22 cases: ln MiB/s at the quantiles Phi(_Z)."""
    path = Path(__file__).with_name("archer_model.json")
    cases = [case for case in json.loads(path.read_text())["cases"] if case["icc"] == icc]
    return _scaled_beta(*cases[index]["theta"])


def normal_quantiles(spread):
    """A case whose runs, by their fastest repetitions, have this spread: ln MiB/s at the same."""
    icc, of_fastest = MAIN.icc, 0.344  # the variance of the largest of ten normal variates
    return spread / math.sqrt(icc + (1 - icc) * of_fastest) * _Z


def _scaled_beta(scale, ln_a, ln_b):
    t = np.linspace(-60, 60, 240001)  # the logit of a beta variate
    density = -math.exp(ln_a) * np.logaddexp(0, -t) - math.exp(ln_b) * np.logaddexp(0, t)
    density = np.exp(density - density.max())
    cumulative = (np.cumsum(density) - density / 2) / density.sum()
    cumulative, first = np.unique(cumulative, return_index=True)
    return scale - np.logaddexp(0, -np.interp(_PHI, cumulative, t[first]))


def contention(rng, shape, model):
    z = np.empty(shape)
    noise = rng.standard_normal(shape)
    z[:, 0, 0] = noise[:, 0, 0]
    rho, rerun = model.rho, model.rerun
    for night in range(1, shape[1]):
        z[:, night, 0] = rho * z[:, night - 1, 0] + math.sqrt(1 - rho**2) * noise[:, night, 0]
    z[..., 1:] = rerun * z[..., :1] + math.sqrt(1 - rerun**2) * noise[..., 1:]
    return z


class Weather:
    """The contention that all cases of a filesystem meet on each of its nights. `part` is its part
    of their contention, and of what HDF5 does not share with MPI-IO."""

    def __init__(self, rng, model, part, series, nights):
        shape = (series, nights, RUNS)
        self.part = part
        self.shared = contention(rng, shape, model)
        self.of_hdf5 = (
            contention(rng, shape, model) if model.lasting else rng.standard_normal(shape)
        )

    def over(self, z, is_of_hdf5=False):
        common = self.of_hdf5 if is_of_hdf5 else self.shared
        return math.sqrt(self.part) * common + math.sqrt(1 - self.part) * z


class Nights:
    """`series` independent cases of the same kind, so many nights each, up to RUNS runs a night.

    y, control: ln MiB/s of HDF5 and MPI-IO, the fastest repetition; finish: HDF5's finish fraction
    in that repetition. Arrays of series x nights x runs.
    """

    def __init__(self, rng, table, model, series, nights, finish=Finish(), weather=None):
        self.rng, self.table, self.model = rng, table, model
        shape = (series, nights, RUNS)
        shared = contention(rng, shape, model)
        of_hdf5 = contention(rng, shape, model) if model.lasting else rng.standard_normal(shape)
        if weather:
            shared, of_hdf5 = weather.over(shared), weather.over(of_hdf5, is_of_hdf5=True)
        self.z = model.control * shared + math.sqrt(1 - model.control**2) * of_hdf5
        self.control = self._fastest(shared)
        self.y = self._fastest(self.z)
        self._finish(finish, shape)

    def _rate(self, z, noise):
        """ln MiB/s of a repetition whose own z is `noise`."""
        icc = self.model.icc
        return np.interp(math.sqrt(icc) * z + math.sqrt(1 - icc) * noise, _Z, self.table)

    def _fastest(self, z):
        # The largest of n uniform variates is the n-th root of one.
        noise = np.interp(np.log(self.rng.random(z.shape)) / REPEATS, _LN_PHI, _Z)
        return self._rate(z, noise)

    def _finish(self, model, shape):
        rng = self.rng
        self.usual = rng.uniform(*model.usual, (shape[0], 1, 1))
        logit = np.log(np.maximum(self.usual, 1e-3) / (1 - self.usual))
        self.finish = 1 / (1 + np.exp(-logit - model.spread * rng.standard_normal(shape)))
        # A stall of the metadata server hits a share of a run's repetitions, any share alike; the
        # fastest is hit if all are. A re-run is stalled as well with the correlation of contention.
        stall = rng.random(shape) < model.stalls
        again = rng.random(shape) < self.model.rerun
        stall[..., 1:] |= stall[..., :1] & again[..., 1:]
        stall &= rng.random(shape) ** REPEATS > rng.random(shape)
        stalled = np.minimum(self.finish + rng.uniform(*model.stalled, shape), 0.95)
        healthy, control = np.exp(-self.y), np.exp(-self.control)
        added = healthy * ((1 - self.finish) / (1 - stalled) - 1)
        beyond = (self.finish * healthy + (1 - model.shared) * added) / (healthy + added)
        self.y = np.where(stall, -np.log(healthy + added), self.y)
        self.control = np.where(stall, -np.log(control + model.shared * added), self.control)
        self.finish = np.where(stall, beyond, self.finish)

    def h5fclose(self, left, first):
        """(y, finish) from night `first` on if H5Fclose leaves this part of the bandwidth.

        The time it adds depends on the file's size, not on contention: lognormal, sd 0.35.
        """
        z = self.z[:, first:]
        rates = self._rate(z[..., None], self.rng.standard_normal((*z.shape, REPEATS)))
        usual = np.exp(-np.interp(0, _Z, self.table))  # s per MiB, the median repetition
        added = usual * (1 / left - 1) * np.exp(0.35 * self.rng.standard_normal(rates.shape))
        healthy = np.exp(-rates)
        total = healthy + added
        fastest = total.argmin(-1)[..., None]
        total, added, healthy = (
            np.take_along_axis(values, fastest, -1)[..., 0] for values in (total, added, healthy)
        )
        return -np.log(total), (self.finish[:, first:] * healthy + added) / total


_START = datetime(2026, 1, 1)
_TIMES = [
    [_START + timedelta(days=night, hours=4 * run) for run in range(RUNS)] for night in range(400)
]


def nights_of(y, control=None, finish=None, first=0):
    """The nights (lists of Samples) of one series from its arrays nights x runs of logarithms."""
    best = np.exp(y).tolist()
    none = [[None] * RUNS] * len(best)
    ratio = none if control is None else np.exp(y - control).tolist()
    finish = none if finish is None else finish.tolist()
    return [
        list(map(Sample, *columns))
        for columns in zip(_TIMES[first : first + len(best)], best, ratio, finish, strict=True)
    ]
