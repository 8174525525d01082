"""The job by which `iowatch site check` tries a place: what the job asks for, and what it met.

Everything here is a pure function of the site's file and of what the job has left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import attrs

from iowatch.base.text import brief_bytes, brief_rate, counted, one_line
from iowatch.cases.case import KIB
from iowatch.cases.filesystem import NIGHTLY, SUITES, Filesystem, Setting
from iowatch.cases.parameters import DEFAULT, SHARING
from iowatch.cases.verdict import Reason
from iowatch.measure.causes import cause_of, known_cause
from iowatch.measure.checks import kind_of, physical_rate
from iowatch.measure.job_folder import lines_of, read_text, standard_error
from iowatch.measure.kinds.array import SHARED_FILE_WRITE
from iowatch.measure.kinds.versions import known_faults, read_versions
from iowatch.measure.result import read_result
from iowatch.night.job_script import environment_of

#: The class in reframe_checks.
PROBE = "SiteProbe"
#: What the job leaves: modules that are loaded, what benchio says of itself, the host of each rank,
#: the hosts whose ranks see the run directory, the KiB and names that it has room for, what each
#: quota leaves, the filesystem as benchio tells it, and those that the node is to mount.
MODULES, PROGRAM, RANKS, SEEN, ROOM = "modules", "program", "ranks", "seen", "room"
QUOTAS, FILESYSTEM, FSTAB = "quotas", "filesystem", "fstab"
#: What its launcher and MPI-IO say of themselves, and what is set for them, in a line.
MPI = "mpi"
#: Edge of the cube that each rank writes, of 2 MiB.
EDGE = 64
#: MiB/s of a node: neither its links nor its memory move as much.
BEYOND_A_NODE = 1e6
#: benchio's words on ranks that another MPI's launcher has started.
WRONG_LAUNCHER = "start it by the launcher of that MPI"
MEND_LAUNCHER = "mend 'launcher' and 'access' of the partition"
#: Libraries that a suite may ask of benchio, and that a benchio may be built without.
_LIBRARIES = set(SHARING[1:])
_MODULES_OF = "mend 'modules' of environment {!r}, or of the partition"
_MODULE = re.compile(r"module load (\S+)")


@attrs.frozen
class SiteLine:
    """One thing that was tried, in a line."""

    subject: str
    text: Annotated[str, "What was met, and if it is not in order what to do."] = attrs.field(
        converter=one_line
    )
    ok: Annotated[bool, "Is it in order?"] = True
    place: Annotated[str, "Partition and environment; empty: the site as a whole."] = ""

    def __str__(self) -> str:
        return f"{'ok ' if self.ok else 'FIX'} {self.subject:<10} {self.text}"


def to_mend(subject: str, fault: str, remedy: str) -> SiteLine:
    """Say of a thing that is not in order what is wrong, and what to do."""
    return SiteLine(subject, f"{fault}: {remedy}", ok=False)


def setting_at(place: Filesystem) -> Setting:
    """Return what the job at a place writes: a little, on as many nodes as the largest case of a
    night, with the layout that users get."""
    settings = chain.from_iterable(place.suites[NIGHTLY].values())
    wide = [(s.nodes, s.ranks_per_node) for s in settings]
    nodes, ranks_per_node = max(wide, default=(1, place.ranks_per_node))
    values = {
        "backend": "mpiio",
        "local_size": (EDGE,) * 3,
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        **({"layout": DEFAULT} if place.osts is not None else {}),
    }
    return Setting.make(SHARED_FILE_WRITE, values)


def outcome(
    folder: Path, place: Filesystem, environ: str, failed: str = "", why: str = ""
) -> Iterator[SiteLine]:
    """Say of each thing that the job at a place has met whether it is in order.

    `folder` has what the job left. `failed` is why its test failed, and `why` the
    :class:`Reason` of its verdict; empty: it did not.
    """
    setting = setting_at(place)
    if not (folder / PROGRAM).is_file():
        if is_environment(failed):
            yield to_mend("modules", failed, _MODULES_OF.format(environ))
            return
        yield SiteLine("job", failed or f"it left nothing: see {folder}", ok=False)
        return
    ranks, program = _ranks(folder, setting), _program(folder, place, environ)
    if ranks.ok and WRONG_LAUNCHER in failed:
        ranks = to_mend("launcher", failed, MEND_LAUNCHER)
    yield from (ranks, _modules(folder, environ), program)
    if not (folder / ROOM).is_file():
        if program.ok:  # else nobody knows which filesystem it is
            remedy = f"mend that, or 'path' of partition {place.partition}"
            yield to_mend("quota" if why == Reason.QUOTA else "directory", failed, remedy)
        return
    directory = _directory(folder, place)
    if ranks.ok:  # else nobody has looked from there
        yield directory
    yield from _room(folder, place)
    if not failed:
        yield _ceiling(folder, place, environ)
    elif ranks.ok and program.ok and directory.ok:  # else that is why
        is_other = why == Reason.WRONG_FILESYSTEM
        remedy = f"'type' or 'path' of partition {place.partition}" if is_other else str(folder)
        yield to_mend("write", failed, f"see {remedy}")


def is_environment(why: str) -> bool:
    """Return whether these words of ReFrame's say that what the environment loads is at fault."""
    cause = known_cause(why)
    return bool(cause and cause.reason is Reason.ENVIRONMENT and "module" in cause.sentence)


def rate_at(folder: Path, place: Filesystem, environ: str) -> float:
    """Return the MiB/s that a job which did not fail has written."""
    case = place.case(environ, setting_at(place))
    return physical_rate(kind_of(case).metrics_of(read_result(folder / "result.json"), case))


def _read(folder: Path, name: str) -> str:
    file = folder / name
    return read_text(file) if file.is_file() else ""


def _ranks(folder: Path, setting: Setting) -> SiteLine:
    """Do ranks start, as many as were asked for and where?"""
    asked = setting.nodes * setting.ranks_per_node
    hosts = Counter(_read(folder, RANKS).split())
    remedy = MEND_LAUNCHER
    if not hosts:
        why = cause_of(_read(folder, f"{RANKS}.err")).sentence or "its launcher says nothing"
        return to_mend("launcher", f"no rank started: {why}", remedy)
    names = ", ".join(sorted(hosts))
    there = f"{counted(hosts.total(), 'rank')} on {names}"
    if hosts.total() != asked or len(hosts) != setting.nodes:
        wanted = f"{asked} on {counted(setting.nodes, 'node')} were asked for"
        return to_mend("launcher", f"{there}, and {wanted}", remedy)
    return SiteLine("launcher", "; ".join([there, *lines_of(folder, MPI)]))


def _modules(folder: Path, environ: str) -> SiteLine:
    """Is every module loaded that the job's script loads? An alias has another name then, so that
    the shell must have complained, too."""
    script = environment_of(_read(folder, "rfm_job.sh"))
    asked = [match[1] for line in script if (match := _MODULE.match(line))]
    loaded = _read(folder, MODULES).strip().split(":")
    missing = [m for m in asked if not any(f"{there}/".startswith(f"{m}/") for there in loaded)]
    words = (*missing, "module: command not found") if missing else ()
    complaints = [
        line.strip()
        for line in standard_error(folder).splitlines()
        if any(word in line for word in words)
    ]
    if complaints:
        fault = f"{', '.join(missing)} not loaded: {complaints[0]}"
        return to_mend("modules", fault, _MODULES_OF.format(environ))
    return SiteLine("modules", ", ".join(asked) or "none are asked for")


def _program(folder: Path, place: Filesystem, environ: str) -> SiteLine:
    """Does benchio run, with every library that the suites name?"""
    text = _read(folder, PROGRAM)
    versions = {name: v for name, v in read_versions(text).items() if v != "not built in"}
    if "mpiio" not in versions:
        remedy = (
            f"name one that runs on the nodes as 'benchio' in the extras of environment {environ!r}"
        )
        return to_mend("program", f"benchio does not run: {cause_of(text).sentence}", remedy)
    named = {b for suite in SUITES for case in place.cases(suite) for b in case.backends}
    if missing := sorted((named & _LIBRARIES) - versions.keys()):
        remedy = f"build it with {' and '.join(missing)}, or leave that out of the suites"
        return to_mend("program", f"benchio has no {', '.join(missing)}", remedy)
    if faults := known_faults(versions, place.types):
        return to_mend("program", "; ".join(faults), "load a newer version")
    first = text.partition("\n")[0].strip()
    brief = (f"{name} {version.partition(',')[0]}" for name, version in versions.items())
    return SiteLine("program", "; ".join([first, *brief]))


def _directory(folder: Path, place: Filesystem) -> SiteLine:
    """Does every node see the run directory?"""
    hosts, seen = ({*_read(folder, name).split()} for name in (RANKS, SEEN))
    if blind := sorted(hosts - seen):
        where = f"{place.path} is not the same on {', '.join(blind)}"
        return to_mend("directory", where, "mount it there, or leave these nodes out by 'access'")
    identity, source, point, options = _read(folder, FILESYSTEM).splitlines()
    there = f"{identity}, mounted from {source or 'nothing'} with {options}"
    rows = (r.split() for r in _read(folder, FSTAB).splitlines() if not r.lstrip().startswith("#"))
    points = (row[1].replace("\\040", " ") for row in rows if len(row) > 2)
    innermost = max((p for p in points if Path(place.path).is_relative_to(p)), key=len, default="")
    if innermost and not Path(point).is_relative_to(innermost):
        where = f"{place.path} is on {there}, and /etc/fstab has a mount point {innermost} above it"
        return to_mend("directory", where, "mount that")
    return SiteLine("directory", f"{place.path}, seen from {counted(len(seen), 'node')}: {there}")


def _room(folder: Path, place: Filesystem) -> Iterator[SiteLine]:
    """Is there room for the largest case of each suite, and does every quota leave as much? That
    there are names enough goes without saying."""
    kib, names = map(int, _read(folder, ROOM).split())
    left = [("room", "kib", kib, "free"), ("room", "names", names, "more can be there")]
    for line in _read(folder, QUOTAS).splitlines():
        kind, most, whose = line.split(maxsplit=2)
        left.append(("quota", kind, int(most), f"left to {whose}"))
    has_quota = len(left) > 2
    if names < 0:  # they have no limit
        del left[1]
    least = {
        (subject, kind): (number, text)  # of several the last
        for subject, kind, number, text in sorted(left, key=lambda room: -room[2])
    }
    for (subject, kind), (number, text) in sorted(least.items(), reverse=True):
        needs = {suite: largest(place, suite, kind) for suite in SUITES}
        wanted = ", ".join(f"{suite} {_amount(kind, n)}" for suite, n in needs.items() if n)
        words = f"{_amount(kind, number)} {text}; needed at one time: {wanted or 'nothing'}"
        if number < max(needs.values()):
            making = "make room" if subject == "room" else "have it raised"
            yield to_mend(subject, words, f"{making}, or choose smaller cases")
        elif kind == "kib":
            yield SiteLine(subject, words)
    if not has_quota:
        yield SiteLine("quota", "none is known to be set")


def largest(place: Filesystem, suite: str, kind: str) -> int:
    """Return the KiB, or the names, of the case that needs most."""
    rooms = (
        (case.check.room_kib if kind == "kib" else case.check.names)(case, case.check.repeats)
        for case in place.cases(suite)
    )
    return max(rooms, default=0)


def most_nodes(place: Filesystem) -> int:
    """Return the nodes of the largest case that a place has: its ceiling is for no more."""
    suites = (settings for suite in SUITES for settings in place.suites[suite].values())
    return max((setting.nodes for settings in suites for setting in settings), default=1)


def _amount(kind: str, number: int) -> str:
    return brief_bytes(number * KIB) if kind == "kib" else counted(number, "file")


def _ceiling(folder: Path, place: Filesystem, environ: str) -> SiteLine:
    """Is the site's ceiling above what was measured, and below what nobody can reach?"""
    rate, peak = rate_at(folder, place, environ), place.peak
    nodes = most_nodes(place)
    text = f"{brief_rate(peak)} MiB/s; {brief_rate(rate)} MiB/s written and verified"
    if rate > peak:
        return to_mend("ceiling", text, "raise 'peak', which nothing may exceed")
    if peak / nodes > BEYOND_A_NODE:
        remedy = f"mend 'peak', which is in MiB/s: {counted(nodes, 'node')} cannot move as much"
        return to_mend("ceiling", text, remedy)
    return SiteLine("ceiling", text)
