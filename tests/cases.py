"""Cases, in few words, for tests."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.verdict import Flag, Outcome, Reason, State
from iowatch.measure.case_ids import parse_case
from iowatch.measure.checks import CHECKS, kind_of
from iowatch.measure.result import Result

#: The filesystem of the results that result_file.py makes up.
PLACE = Filesystem(
    system="local", partition="tmpfs", environs=("gnu",), name="memory", path="/dev/shm/iowatch",
    types=("tmpfs",), peak=1e6, osts=None, cached_reads=False, ranks_per_node=4, keep_days=60,
    suites={},
)  # fmt: skip


def case(check: str = "SharedFileWrite", place: str = "local:tmpfs/gnu", **values: Any) -> Case:
    """A case of a check, its parameters in the check's own order: those that are not given are
    hdf5, 64x64x64 and 4 ranks, and no stripes."""
    system, _, rest = place.partition(":")
    partition, _, environ = rest.partition("/")
    usual = {"backend": "hdf5", "local_size": (64, 64, 64), "ranks": 4}
    given = usual | values
    known = [p.name for p in (*CHECKS[check].parameters, *CHECKS[check].ways)]
    if unknown := set(values) - set(known):
        raise ValueError(f"{check} has no {min(unknown)}")
    parameters = tuple((name, given[name]) for name in known if name in given)
    return Case(system, partition, environ, CHECKS[check], parameters)


def outcome_of(text: str) -> Outcome:
    """The outcome that reads so: `ok`, `regression (own_past, known)`."""
    state, *remarks = text.replace("(", "").replace(")", "").replace(",", "").split()
    reason = next((Reason(word) for word in remarks if word in [*Reason]), None)
    return Outcome(
        State(state), reason, frozenset(Flag(word) for word in remarks if word != reason)
    )


def verdict_of(test: Mapping[str, Any]) -> str:
    """What a test that ReFrame has on record came to; empty: it has no verdict."""
    return str(Outcome.read(test) or "")


def backend_of(test: Mapping[str, Any]) -> str:
    """The backend of a test that ReFrame has on record."""
    return parse_case(test["case_id"]).backend


def metrics_of(result: Result, of: Case) -> dict[str, float]:
    """The metrics of a case whose one result satisfies the law."""
    return kind_of(of).metrics_of(result, of)


def changed(before: Case, check: str = "", place: str = "", **values: Any) -> Case:
    """The same case with other values; a parameter that its check has not is left out."""
    name = check or before.check.name
    known = {p.name for p in (*CHECKS[name].parameters, *CHECKS[name].ways)}
    kept = {key: value for key, value in before.parameters if key in known}
    return replace(case(name, place or before.place, **(kept | values)))


def is_of_ost(name: str) -> bool:
    """Is this metric the rate of one OST?"""
    return bool(re.fullmatch("ost_(read_)?[0-9]+", name))
