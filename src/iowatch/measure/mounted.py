"""Which filesystem a place is on: the one that the site names, or else that of its last night.

benchio names a filesystem by what no reboot changes, such as `lustre NAME at /lustre`. One that
each node has for itself ends in ` on HOST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iowatch.cases.run import Run
from iowatch.cases.storage import unstable
from iowatch.cases.verdict import Reason
from iowatch.measure.provenance import FILESYSTEM, SOURCE
from iowatch.measure.result import InvalidResult, Result

#: Filesystems that a place may be on, with their sources.
Known = Mapping[str, str]


def known_by_runs(runs: Iterable[Run]) -> dict[str, str]:
    """Return the filesystem of the last verified run, from runs in the order of time; of what each
    host has for itself that of each host. None: nothing is known yet.

    A run on another one is not verified, so that this is also the filesystem of the first night,
    unless the site has named another one since.
    """
    known: dict[str, tuple[str, str]] = {}
    for run in runs:
        if not run.outcome.is_failed and (identity := run.provenance.get(FILESYSTEM)):
            known[_host(identity)] = identity, run.provenance.get(SOURCE, "")
    shared = known.pop("", None)
    return dict([shared] if shared else known.values())


def require_known(result: Result, known: Known) -> None:
    """Raise InvalidResult unless a run was on a filesystem that its place may be on.

    Where each host has its own, one that is not among them must have their type and mount point.
    """
    there = result.run["filesystem"]
    now = there["identity"]
    here = [name for name in known if _host(name) in ("", _host(now))]
    if any(now in (name, f"{name} on {_host(now)}") for name in here) or not known:
        return
    if not here and _host(now) and any(_kind(name) == _kind(now) for name in known):
        return
    here = here or [*known]
    raise InvalidResult(
        f"{result.run['directory']} is on {now}, mounted from {there['source'] or 'nothing'}, and "
        f"was known to be on {' or '.join(here)}: mount that, or, if the place is another one from "
        f"now on, set 'mounted' in the extras of its partition to '{now}'",
        Reason.WRONG_FILESYSTEM,
    )


def place_notes(results: Iterable[Result]) -> list[str]:
    """Say which options of a mount take away what a sync promises; empty: none of them."""
    mounts = {
        (place["mount_point"], place["options"])
        for place in (result.run["filesystem"] for result in results)
    }
    return [
        f"{point} is mounted with {' and '.join(options)}: a sync there does not wait until data "
        "are on the disk, and power that fails may cost them"
        for point, text in sorted(mounts)
        if (options := unstable(text))
    ]


def _host(identity: str) -> str:
    """Return the host of what each host has for itself; empty: all share it."""
    _, on, host = identity.rpartition(" on ")
    return host if on else ""


def _kind(identity: str) -> tuple[str, str]:
    """Return the type and the mount point."""
    return identity.partition(" ")[0], identity.rpartition(" on ")[0].rpartition("at ")[2]
