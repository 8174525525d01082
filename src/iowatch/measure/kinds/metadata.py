"""Names: how fast directories and small files are made, found by others, renamed and removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import ClassVar

from iowatch.cases.case import Case
from iowatch.cases.metric import Metric, Metrics, phase_seconds
from iowatch.cases.parameters import ITEMS, MDT, METADATA, ONE_OR_EACH, RANKS
from iowatch.measure.kinds.kind import CallsKind, two_metrics, two_values
from iowatch.measure.result import Repetition

#: The phases of names, in this order; after `create` names are synced.
NAME_PHASES = ("mkdir", "create", "stat", "list", "rename", "read", "unlink", "rmdir")
#: The most operations a second in each phase.
NAME_RATES: Mapping[str, str] = MappingProxyType({name: f"{name}_rate" for name in NAME_PHASES})
#: The phases of a round, in the order of time.
_PHASES = (*NAME_PHASES[:2], "sync", *NAME_PHASES[2:])
METRICS: Metrics = MappingProxyType(
    {
        # Names that go through all phases.
        **two_metrics(
            "items",
            "1/s",
            words="items/s",
            title="through all phases, {}",
            about="The {} rate of files and directories that go through all phases.",
        ),
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
class MetadataKind(CallsKind):
    """Operations of benchio on names, each as a phase of its own."""

    rates: ClassVar[Sequence[str]] = ("items_max",)
    verbs: ClassVar[str] = "metadata"
    rate_in_words: ClassVar[str] = "the rate of all phases together"
    unit_of_parts: ClassVar[str] = "operations/s"
    phases: ClassVar[Sequence[str]] = _PHASES
    evidence_of: ClassVar[str] = "names"
    calls: ClassVar[Mapping[str, str]] = NAME_RATES

    def bytes_of(self, case: Case) -> int:
        """The files hold 8 to 32 bytes each, in turns."""
        return case.ranks * sum(8 * (1 + item % 4) for item in range(case.items))

    def room_kib(self, case: Case, repeats: int) -> int:
        return BLOCK_KIB * self.names(case, repeats)

    def names(self, case: Case, repeats: int) -> int:
        """A file and a directory of each item."""
        return 2 * case.items * case.ranks

    def bytes_written(self, case: Case, targets: int) -> int:
        return 0  # next to none

    def metrics_of_rounds(self, reps: Sequence[Repetition], case: Case) -> dict[str, float]:
        """The fastest repetition of each phase is the one that others disturb least."""
        return {
            **two_values("items", [rep.rates["items"] for rep in reps]),
            **{rate: max(rep.rates[name] for rep in reps) for name, rate in NAME_RATES.items()},
            **{f"{name}_s": median(rep.seconds[name] for rep in reps) for name in _PHASES},
        }

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


METADATA_KIND = MetadataKind(
    name="Metadata",
    short="metadata {files}",
    size="{items} items",
    operation=METADATA,
    parameters=(ITEMS, RANKS, ONE_OR_EACH, MDT),
    fixed={"backend": "posix"},
    repeats=5,  # ten times as many calls as items in each
    metrics=METRICS,
    bounds={"items_max": [1, 0, None, "1/s"]},
    bounds_comment="Slower than this, it hangs; bless nights to have more found.",
)
