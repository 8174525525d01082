"""Names: how fast directories and small files are made, found by others, renamed and removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import ClassVar

from iowatch.cases.case import Case, Part
from iowatch.cases.metric import Metric, Metrics, phase_seconds
from iowatch.cases.parameters import ITEMS, MDT, METADATA, ONE_OR_EACH, RANKS, Size
from iowatch.measure.kinds.kind import Kind
from iowatch.measure.result import Repetition, Result

#: The phases of names, in this order; after `create` names are synced.
NAME_PHASES = ("mkdir", "create", "stat", "list", "rename", "read", "unlink", "rmdir")
#: The most operations a second in each phase.
NAME_RATES: Mapping[str, str] = MappingProxyType({name: f"{name}_rate" for name in NAME_PHASES})
#: The phases of a round, in the order of time.
_PHASES = (*NAME_PHASES[:2], "sync", *NAME_PHASES[2:])
METRICS: Metrics = MappingProxyType(
    {
        # Names that go through all phases.
        **{
            f"items_{key}": Metric(
                "1/s",
                words="items/s",
                title=f"through all phases, {word}",
                about=f"The {word} rate of files and directories that go through all phases.",
            )
            for key, word in (("max", "best"), ("median", "median"))
        },
        **{
            rate: Metric("1/s", title=f"{name}, best", about=f"The best rate of `{name}`.")
            for name, rate in NAME_RATES.items()
        },
        **phase_seconds("sync", *NAME_PHASES),
    }
)

#: Least space of a name on a filesystem.
BLOCK_KIB = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class MetadataKind(Kind):
    """Operations of benchio on names, each as a phase of its own."""

    rates: ClassVar[Sequence[str]] = ("items_max",)
    verbs: ClassVar[str] = "metadata"
    rate_in_words: ClassVar[str] = "the rate of all phases together"
    unit_of_parts: ClassVar[str] = "operations/s"
    phases: ClassVar[Sequence[str]] = _PHASES
    evidence_of: ClassVar[str] = "names"

    def bytes_of(self, case: Case) -> int:
        """The files hold 8 to 32 bytes each, in turns."""
        return case.ranks * sum(8 * (1 + item % 4) for item in range(case.items))

    def elements(self, case: Case) -> Size:
        return (1, 1, 1)

    def size_of(self, case: Case) -> str:
        mdt = case.get(MDT.name)
        return f"{case.items} items" + ("" if mdt is None else f", MDT {mdt}")

    def command_line(self, case: Case) -> list[str]:
        mdt = case.get(MDT.name)
        return [
            f"--operation {METADATA}",
            f"--files {case.files}",
            f"--items {case.items}",
            *([] if mdt is None else [f"--mdt-index {mdt}"]),
        ]

    def room_kib(self, case: Case, repeats: int) -> int:
        return BLOCK_KIB * self.names(case, repeats)

    def names(self, case: Case, repeats: int) -> int:
        """A file and a directory of each item."""
        return 2 * case.items * case.ranks

    def bytes_written(self, case: Case, targets: int) -> int:
        return 0  # next to none

    def metrics_of(self, result: Result, case: Case) -> dict[str, float]:
        return rates_of_names(result.measurements[0].repetitions)

    def faults(self, case: Case) -> Mapping[str, Callable[[Repetition], bool]]:
        """Each name was there once and then gone, and every phase went through all of them."""
        names = case.items * case.ranks
        phases = [name for name in NAME_PHASES if name != "list"]
        return {
            "in which more or fewer names were confirmed than there were": lambda rep: (
                rep.witness.names != 2 * names
            ),
            "of which a phase has more or fewer operations than there were names": lambda rep: any(
                rep.operations[name] != names for name in phases
            ),
            # One node lists all names, or each does; or each rank those of another.
            "in which not every name was listed": lambda rep: (
                rep.operations["list"] < 2 * names or rep.operations["list"] % (2 * case.items) > 0
            ),
        }

    def parts(
        self, metrics: Mapping[str, float], among: Collection[Part] | None = None
    ) -> dict[Part, float]:
        """The rate of each phase: most of the time goes into one or two, and what another has lost
        is not seen in the whole."""
        return {
            Part(phase, metric=rate, words=f"the rate of {phase}"): metrics[rate]
            for phase, rate in NAME_RATES.items()
            if rate in metrics
        }


def rates_of_names(reps: Sequence[Repetition]) -> dict[str, float]:
    """The metrics of names: the fastest repetition of each phase is the one that others disturb
    least."""
    items = [rep.rates["items"] for rep in reps]
    return {
        "items_max": max(items),
        "items_median": median(items),
        **{rate: max(rep.rates[name] for rep in reps) for name, rate in NAME_RATES.items()},
        **{f"{name}_s": median(rep.seconds[name] for rep in reps) for name in _PHASES},
    }


METADATA_KIND = MetadataKind(
    name="Metadata",
    short="metadata {files}",
    operation=METADATA,
    parameters=(ITEMS, RANKS, ONE_OR_EACH, MDT),
    fixed={"backend": "posix"},
    repeats=5,  # ten times as many calls as items in each
    metrics=METRICS,
    bounds={"items_max": [1, 0, None, "1/s"]},
    bounds_comment="Slower than this, it hangs; bless nights to have more found.",
)
