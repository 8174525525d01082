"""The evidence of an acceptance run: raw result files, read again and held to the law.

Nothing that a check imports may import this module: what it needs is the extra `report`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.checks import rate_name
from iowatch.files import UserError, brief
from iowatch.history import read_metrics, sessions, tests_of
from iowatch.metrics import hung_osts, metrics_of, ost_metrics, ost_rates, void_osts
from iowatch.night.gate import faults
from iowatch.result import InvalidResult, Result, conditions, read_result, require
from iowatch.site import ACCEPTANCE, Filesystem
from iowatch.verdict import Kind

Session = dict[str, Any]  # as ReFrame stores it
SPACK_LOCK = "spack.lock"
SKEW_S = 300.0  # between the clocks of login and compute nodes


@dataclass(frozen=True)
class Exhibit:
    """One run of a case as evidence, and what it left behind."""

    case: Case
    nodes: int
    session: str
    rates: Mapping[str, Sequence[float]]  # backend -> MiB/s of each round, writes synced
    osts: Mapping[
        str, Mapping[int, Sequence[float]]
    ]  # operation -> OST, if each by itself -> rates
    conditions: Mapping[str, str]
    files: Mapping[Path, str]  # results and job script: their SHA-256


@dataclass
class Evidence:
    """All jobs that satisfy the law, and what is wrong with the others."""

    exhibits: list[Exhibit] = field(default_factory=list)
    invalid: dict[Case, str] = field(default_factory=dict)
    sessions: list[Mapping[str, Any]] = field(default_factory=list)
    unused: list[Mapping[str, Any]] = field(default_factory=list)  # on record: who chose, shows it
    faults: list[str] = field(default_factory=list)  # of sessions, not of cases: a build, versions
    builds: dict[Path, str] = field(default_factory=dict)  # Spack's lock files: their SHA-256


def acceptance_sessions(
    databases: Sequence[Path], system: str, wanted: Collection[str]
) -> tuple[list[Session], list[Session]]:
    """The sessions with these uuids, else the last that measured the acceptance sweep; the others.

    UserError if there is none.
    """
    found = {
        session["session_info"]["uuid"]: session
        for database in databases
        for session in sessions(database)
        if any(
            test.get("sweep") == ACCEPTANCE and test["system"] == system
            for test in tests_of(session)
        )
    }
    names = ", ".join(map(str, databases))
    if unknown := [uuid for uuid in wanted if uuid not in found]:
        there = f": there are {', '.join(found)}" if found else ""
        raise UserError(
            f"{names}: no acceptance session {unknown[0]} of {system} is on record{there}"
        )
    if not found:
        raise UserError(
            f"{names}: no acceptance session of {system} is on record: run "
            f"`iowatch nightly --system {system} --sweep acceptance`"
        )
    by_time = sorted(found.values(), key=lambda session: session["session_info"]["time_start_unix"])
    used = [s for s in by_time if s["session_info"]["uuid"] in wanted] or by_time[-1:]
    return used, [session for session in by_time if session not in used]


def collect(
    used: Iterable[Session], places: Sequence[Filesystem], unused: Iterable[Session] = ()
) -> Evidence:
    """The jobs of the used sessions, read from the files that they left."""
    filesystems = {(place.system, place.partition): place for place in places}
    evidence = Evidence(unused=[session["session_info"] for session in unused])
    for session in used:
        info = session["session_info"]
        evidence.sessions.append(info)
        evidence.faults += faults(session)
        for test in tests_of(session):
            if not test.get("case_id"):
                if test["outputdir"]:  # of the build, among others
                    evidence.builds |= _checksums(Path(test["outputdir"]).rglob(SPACK_LOCK))
                continue
            case = Case.parse(test["case_id"])
            if not case.check.has_control or not case.metrics:  # on these no criterion is
                continue
            place = filesystems.get((case.system, case.partition))
            try:
                if place is None:
                    raise InvalidResult("the site's configuration no longer has its partition")
                exhibit = _exhibit(test, case, place, info)
                claimed = {path for other in evidence.exhibits for path in other.files}
                if twice := claimed & set(exhibit.files):
                    raise InvalidResult(f"{min(twice)}: a later session wrote over it")
                evidence.exhibits.append(exhibit)
            except InvalidResult as err:
                evidence.invalid[case] = str(err)
    return evidence


def _exhibit(
    test: Mapping[str, Any], case: Case, place: Filesystem, session: Mapping[str, Any]
) -> Exhibit:
    folder = Path(test["kept"] or "")
    if test["verdict"] in ("", Kind.INVALID, Kind.TOO_FAST):
        raise InvalidResult(test["sentence"] or f"the job did not end: {test['fail_reason']}")
    if not test["kept"] or not folder.is_dir():
        raise InvalidResult(f"{folder}: its raw results are no longer there")
    paths = sorted(folder.glob("result*.json*"))
    if len(paths) != 1:
        raise InvalidResult(f"{folder}: {len(paths)} result files, where 1 were written")
    result = read_result(paths[0])
    seconds = result.started.timestamp()
    if not -SKEW_S < seconds - session["time_start_unix"] < session["time_elapsed"] + SKEW_S:
        raise InvalidResult(f"{paths[0]}: another session wrote it, at {result.started}")
    osts: dict[str, dict[int, list[float]]] = {}
    if case.check.needs_stripes:
        hung = hung_osts(folder)
        require(result, case, test["repeats"], place, hung)
        if void := void_osts(result, hung, place.targets):
            raise InvalidResult("; ".join(void))
        found, osts = ost_metrics(result, place.targets), ost_rates(result, place.targets)
    else:
        require(result, case, test["repeats"], place)
        found = metrics_of(result, case)
    _compare(found, read_metrics(test.get("perfvalues") or {}), place, folder)
    return Exhibit(
        case=case,
        nodes=test["nodes"],
        session=session["uuid"],
        rates={} if osts else _rates(result),
        osts=osts,
        conditions=conditions(result),
        files=_checksums([*paths, *folder.glob("said.*"), *folder.glob("rfm_job.sh*")]),
    )


def _compare(
    found: Mapping[str, float], stored: Mapping[str, float], place: Filesystem, folder: Path
) -> None:
    """InvalidResult if the result files do not say what the session has on record."""
    for name, value in found.items():
        on_record = stored.get(name, math.nan)
        if not math.isclose(value, on_record, rel_tol=1e-9):
            raise InvalidResult(
                f"{folder}: {name} of its results is {brief(value)}, and {brief(on_record)} is on "
                "record: changed, or a later session wrote over them"
            )
    if (best := found[rate_name(found)]) > place.peak:
        rate = brief(best)
        raise InvalidResult(f"{folder}: {rate} MiB/s is above the peak of {place.name}")


def _checksums(paths: Iterable[Path]) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def _rates(result: Result) -> dict[str, list[float]]:
    return {m.backend: [rep.rate for rep in m.repetitions] for m in result.measurements}
