"""Provenance: what a run met with, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from iowatch.cases.parameters import format_bytes, pattern_of
from iowatch.cases.storage.striped import RAID0, Component, Striped
from iowatch.measure.result import Result

#: Options of benchio that the law does not compare with the case: they change what is measured.
_OPTIONS = (
    *("transfer", "flush", "direct", "warmup", "settle", "phase_barrier", "halo", "alignment"),
    *("chunk", "file_format"),
)


#: Among the provenance: which filesystem it was, as benchio names it, and what it is mounted from.
FILESYSTEM, SOURCE = "filesystem", "mount source"


def provenance(result: Result) -> dict[str, str]:
    """Say what a run met with: when a metric changes, so may one of these have."""
    measured = result.sound[-1]
    run = result.run
    provenance = {name: version for name, version in result.versions.items() if version}
    provenance |= _surroundings(result.environment)
    provenance |= {f"hint {name}": value for name, value in measured.hints.items()}
    if layout := _layout_in_words(measured.layout["observed"]):
        provenance["layout"] = layout
    if run["filesystem"]["mdt_index"] is not None:
        provenance["MDT"] = str(run["filesystem"]["mdt_index"])
    mounted = run["filesystem"]
    provenance |= {
        FILESYSTEM: mounted["identity"],
        SOURCE: mounted["source"],
        "mount type": mounted["mount_type"] or "",
        "mount options": _options_in_words(mounted["options"]),
        "size": f"{mounted['bytes'] / 2**30:.0f} GiB",
    }
    if measured.collective:
        provenance["transfer"] = measured.collective
    # Without the fraction: of a page cache, that is another one each night.
    detours = [detour for rep in measured.repetitions for detour in rep.witness.detours]
    if detours:
        provenance["witness"] = ", ".join(dict.fromkeys(detours))
    if not all(rep.clocks_agree for rep in measured.repetitions):
        provenance["clocks"] = "those of the nodes differ by more than 1 % of what was timed"
    options = [f"{name} {run[name]}" for name in _OPTIONS]
    provenance["options"] = ", ".join([*options, f"pattern {pattern_of(run['access'])}"])
    provenance["hosts"] = " ".join(run["hosts"])
    provenance["free space"] = f"{mounted['free_bytes'] / 2**30:.0f} GiB"
    return {name: text for name, text in provenance.items() if text}


#: Options of mounts that have other values after a reboot: addresses, and layers of containers.
_OF_A_BOOT = re.compile(r"(client|mount)?addr=|(mount)?port=|(lower|upper|work)dir=|fd=|pgrp=|pid")


def _options_in_words(options: str) -> str:
    """Return the options of a mount, each once, but for those that each boot sets anew."""
    once = dict.fromkeys(options.split(","))
    return ",".join(sorted(option for option in once if not _OF_A_BOOT.match(option)))


def _surroundings(environment: Mapping[str, Any]) -> dict[str, str]:
    """Say what changes I/O besides the options of a run: variables, what is in files of settings,
    the MPI-IO that was used, and where the libraries are from."""
    words = {f"variable {name}": value for name, value in environment["variables"].items()}
    words |= {f"contents of {name}": value for name, value in environment["contents"].items()}
    if environment["mpi_io"]:
        words["MPI-IO"] = environment["mpi_io"]
    for name, path in sorted(environment["libraries"].items()):
        if not name.startswith("mca_"):
            folder = f"libraries of {path.removesuffix(name)}"
            words[folder] = f"{words[folder]} {name}" if folder in words else name
    if environment["other_rank"] is not None:
        words["nodes"] = (
            f"rank {environment['other_rank']} has other variables, files or libraries than rank 0"
        )
    return words


def _layout_in_words(observed: Mapping[str, Any] | None) -> str:
    """Say all components of a layout, and what else the filesystem says of it; empty: nothing.

    The OSTs are left out: the filesystem chooses others each time.
    """
    if observed is None:
        return ""
    parts = [
        Component(
            count=part["stripe_count"],
            size=part["stripe_size"],
            pattern=part.get("pattern", RAID0),
            pool=part["pool"] or "",
            end=part.get("end_byte"),
        )
        for part in observed["components"] or [observed]
        if part["stripe_count"] is not None
    ]
    words = [Striped(default=tuple(parts)).description]
    if not parts and observed["stripe_size"]:
        words = [f"blocks of {format_bytes(observed['stripe_size'])}"]
    lines = (observed["said"] or "").splitlines()
    words += [" ".join(line.split()) for line in lines if _SAID.search(line)]
    return "; ".join(filter(None, words))


#: Lines of the tools of GPFS and BeeGFS on the layout, not on one file.
_SAID = re.compile(r"replication|pool|type:|chunk ?size|number of", re.I)
