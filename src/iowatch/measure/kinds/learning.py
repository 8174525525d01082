"""Programs that learn: shuffled samples, the small files of an environment, and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from types import MappingProxyType
from typing import Any, ClassVar

from iowatch.cases.case import KIB, Case, Check
from iowatch.cases.metric import RATE, RATE_BOUND, SECONDS, STABLE, TOTALS, Metric, phase_seconds
from iowatch.cases.parameters import (
    BYTES,
    ITEMS,
    NAMED,
    RANKS,
    SHARED_FILE,
    STRIPING,
    Parameter,
    format_bytes,
)
from iowatch.measure.kinds.kind import CallsKind, two_metrics, two_values
from iowatch.measure.kinds.metadata import BLOCK_KIB
from iowatch.measure.measured import Measured, rate_metrics, rates_of_rounds
from iowatch.measure.result import Repetition, Result

SAMPLE = Parameter(
    "sample",
    BYTES,
    to_text=format_bytes,
    about="The size of a sample, such as '110KiB', or of a shard of a checkpoint.",
)
PER_FILE = Parameter(
    "per_file", NAMED, int, about="Samples in a file: 1 for many small files, more for few large."
)
_LAYOUT = tuple(parameter for parameter in SHARED_FILE if parameter.name in STRIPING)

#: Calls on each file of a tree, each timed by itself.
CALLS = ("stat", "open", "read", "close")
CALL_RATES: Mapping[str, str] = MappingProxyType({call: f"{call}_calls" for call in CALLS})
#: benchio reads a checkpoint under this name.
RESTART = "restart"
_PHASES_OF_WRITE = ("open", "write", "close", "sync")


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningKind(CallsKind):
    """Reads of benchio that go from one file to the next."""

    verbs: ClassVar[str] = "reads"
    phases: ClassVar[Sequence[str]] = ("read",)
    #: What a rank reads beside its items.
    more: ClassVar[int] = 0

    def bytes_of(self, case: Case) -> int:
        size: int = case.get(SAMPLE.name)
        return self._reads(case) * size

    def asked_of(self, case: Case) -> Mapping[str, Any]:
        options = [p for p in (SAMPLE, PER_FILE) if p in self.parameters]
        return {parameter.name: case.get(parameter.name) for parameter in options}

    def names(self, case: Case, repeats: int) -> int:
        return math.ceil(self._reads(case) / (case.get(PER_FILE.name) or 1))

    def faults(self, case: Case) -> Mapping[str, Callable[[Repetition], bool]]:
        reads = self._reads(case)
        return {
            "in which more or fewer reads were counted than there were": lambda rep: (
                rep.operations.get("read", reads if "write" in rep.seconds else 0) != reads
            )
        }

    def _reads(self, case: Case) -> int:
        return case.ranks * (case.items + self.more)


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplesKind(LearningKind):
    """Samples of one size, in few large files or in many small ones."""

    def metrics_of_rounds(self, reps: Sequence[Repetition], case: Case) -> dict[str, float]:
        return {
            **rate_metrics([rep.rates for rep in reps]),
            "samples_median": median(rep.rates["read"] for rep in reps),
            "epoch_s": median(rep.seconds["total"] for rep in reps),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckpointKind(LearningKind):
    """Every rank writes and syncs its shards and a part of a shared file; other ranks read them."""

    verbs: ClassVar[str] = Check.verbs
    phases: ClassVar[Sequence[str]] = _PHASES_OF_WRITE
    more: ClassVar[int] = 1  # the part of the shared file

    @property
    def operations(self) -> list[str]:
        return [self.operation, RESTART]

    def room_kib(self, case: Case, repeats: int) -> int:
        return self.bytes_of(case) // KIB + 2 * BLOCK_KIB * (case.items + 1) * case.ranks

    def metrics_of(self, result: Result, case: Case) -> dict[str, float]:
        written, read = (measurement.repetitions for measurement in result.measurements)
        return {
            **rate_metrics([rep.rates for rep in written]),
            **{
                f"{phase}_s": median(rep.seconds[phase] for rep in written) for phase in self.phases
            },
            "checkpoint_s": median(rep.seconds["stable"] for rep in written),
            **two_values("restart", [rep.rates["total"] for rep in read]),
            "restart_s": median(rep.seconds["total"] for rep in read),
        }

    def measured(self, result: Result, case: Case, notes: Sequence[str] = ()) -> Measured:
        """Return the case's figures: its rounds are those of the write, by which it is judged."""
        written = replace(result, measurements=result.measurements[:1])
        return replace(
            super().measured(result, case, notes),
            repetitions=written.measurements[0].repetitions,
            rates=rates_of_rounds([written]),
        )


def _tree_bytes(files: int) -> int:
    """Return the bytes of so many files of a tree, as `file_set.c` of benchio has their sizes."""
    full, rest = divmod(files, _PERIOD)
    return full * sum(_sizes()) + sum(_sizes()[:rest])


_PERIOD = 4096


@cache
def _sizes() -> tuple[int, ...]:
    return tuple((5 << file.bit_count()) * (16 - file % 8) for file in range(_PERIOD))


@dataclass(frozen=True, eq=False, kw_only=True)
class StartUpKind(LearningKind):
    """Every rank reads all files of a tree that another half of the ranks has made."""

    rates: ClassVar[Sequence[str]] = ("files_max",)
    rate_in_words: ClassVar[str] = "the rate of files"
    unit_of_parts: ClassVar[str] = "calls/s"
    calls: ClassVar[Mapping[str, str]] = CALL_RATES

    def bytes_of(self, case: Case) -> int:
        return min(case.ranks, 2) * _tree_bytes(case.items)

    def bytes_moved(self, case: Case) -> int:
        return case.ranks * _tree_bytes(case.items)

    def room_kib(self, case: Case, repeats: int) -> int:
        """The files and directories have at least a block each."""
        return self.bytes_of(case) // KIB + BLOCK_KIB * self.names(case, repeats)

    def names(self, case: Case, repeats: int) -> int:
        """Two trees of files and directories."""
        return 4 * case.items

    def faults(self, case: Case) -> Mapping[str, Callable[[Repetition], bool]]:
        return {
            **super().faults(case),
            "of which a call took no time": lambda rep: not all(map(rep.parts.get, CALLS)),
        }

    def metrics_of_rounds(self, reps: Sequence[Repetition], case: Case) -> dict[str, float]:
        return {
            **two_values("files", [rep.rates["read"] for rep in reps]),
            "startup_s": median(rep.seconds["total"] for rep in reps),
            "data_median": median(rep.rates["data"] for rep in reps),
            **{
                rate: max(case.items / rep.parts[call] for rep in reps)
                for call, rate in CALL_RATES.items()
            },
        }


SAMPLE_READS = SamplesKind(
    name="SampleReads",
    short="samples, {per_file} a file",
    size="{items} samples of {sample}",
    operation="samples",
    parameters=(replace(ITEMS, about="Samples of each rank."), SAMPLE, PER_FILE, *_LAYOUT, RANKS),
    fixed={"backend": "posix", "files": "shared"},
    repeats=5,
    metrics={
        **TOTALS,
        "samples_median": Metric(
            "1/s", words="samples/s", about="The median rate of samples, read by all ranks."
        ),
        "epoch_s": replace(SECONDS, about="The median time in which each sample is read once."),
    },
    bounds=RATE_BOUND,
    bounds_comment="Only that something moved; bless nights to have more found.",
)
CHECKPOINT = CheckpointKind(
    name="Checkpoint",
    short="checkpoint",
    size="{items} shards of {sample}",
    operation="checkpoint",
    parameters=(replace(ITEMS, about="Shards of each rank."), SAMPLE, *_LAYOUT, RANKS),
    fixed={"backend": "posix", "files": "shared"},
    repeats=5,
    metrics={
        **TOTALS,
        **STABLE,
        **phase_seconds(*_PHASES_OF_WRITE),
        "checkpoint_s": replace(
            SECONDS,
            title="the whole checkpoint",
            about="The median time in which all ranks write and sync a checkpoint.",
        ),
        **two_metrics(
            "restart",
            "MiB/s",
            title="restart, {}",
            about="The {} rate at which half of the ranks read the checkpoint.",
        ),
        "restart_s": replace(
            SECONDS,
            title="the whole restart",
            about="The median time in which half of the ranks read the checkpoint.",
        ),
    },
    bounds={"stable_max": [1, 0, None, "MiB/s"], "restart_max": [1, 0, None, "MiB/s"]},
    bounds_comment="Only that something moved; bless nights to have more found.",
)
ENVIRONMENT_START = StartUpKind(
    name="EnvironmentStart",
    short="start-up",
    size="{items} files",
    operation="startup",
    parameters=(replace(ITEMS, about="Files of the tree, which each rank reads."), *_LAYOUT, RANKS),
    fixed={"backend": "posix", "files": "shared"},
    repeats=3,  # each makes a tree of its own, whose names no node has seen
    metrics={
        **two_metrics(
            "files",
            "1/s",
            words="files/s",
            title="files of all ranks, {}",
            about="The {} rate of files that all ranks together stat, open, read and close.",
        ),
        "startup_s": replace(
            SECONDS,
            title="the whole start-up",
            about="The median time from the first rank's first file to the last rank's last.",
        ),
        "data_median": replace(RATE, about="The median rate of writing or reading alone."),
        **{
            rate: Metric(
                "1/s",
                title=f"{call} of a rank, best",
                about=f"The best rate of `{call}` on one rank: its files by its time in the call.",
            )
            for call, rate in CALL_RATES.items()
        },
    },
    bounds={"files_max": [1, 0, None, "1/s"]},
    bounds_comment="Slower than this, it hangs; bless nights to have more found.",
)
