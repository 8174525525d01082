"""A site's filesystems, as the `extras` of ReFrame's partitions describe them.

A partition is one node type seen with one filesystem. All keys are required, so a misspelt one
cannot pass unnoticed. site_configs/README.md says what each key means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch.case import Case
from iowatch.errors import UserError
from iowatch.sweep import (
    ALL_CHECKS,
    CHECKS,
    PROFILES,
    Setting,
    Sweep,
    read_count,
    read_list,
    read_sweeps,
    read_text,
)

FILESYSTEM = "filesystem"
PATH = "path"
TYPE = "type"
PEAK = "peak"
OSTS = "osts"
CACHED_READS = "cached_reads"
WRITERS_PER_NODE = "writers_per_node"
SWEEPS = "sweeps"

#: Optional, in the extras of an environment: a prebuilt benchio to use instead of this checkout's.
BENCHIO = "benchio"

#: Likewise: the path of libdarshan.so, or the module that brings Darshan.
DARSHAN = "darshan"


class SiteConfigError(UserError):
    """A site's configuration is incomplete or wrong.

    Not one of ReFrame's own exceptions: with those it would skip the check and exit with 0.
    """


@dataclass(frozen=True)
class Filesystem:
    """A partition's filesystem and what is to be measured on it."""

    system: str
    partition: str
    environs: tuple[str, ...]
    name: str  # such as fs3
    path: str  # directory to write under; made if only its last component is missing
    types: tuple[str, ...]  # statfs names that benchio may find there
    peak: float  # MiB/s that nothing can exceed: link or memory bandwidth
    osts: int | None  # None: not striped
    cached_reads: bool  # reads that a cache may have served are accepted
    writers_per_node: int  # where a sweep does not say so itself
    sweeps: Mapping[str, Sweep]

    def settings(self, sweep: str, check: str) -> tuple[Setting, ...]:
        """What a check is to measure here; nothing if the sweep does not name it."""
        return self.sweeps[sweep].get(check, ())

    def case(self, environ: str, check: str, setting: Setting) -> Case:
        """The case of one setting of a check in one environment."""
        return Case(
            system=self.system,
            partition=self.partition,
            environ=environ,
            operation=ALL_CHECKS[check].operation,
            files=setting.files,
            backend=setting.backend,
            stripe_count=setting.stripe_count,
            stripe_size=setting.stripe_size,
            local_size=setting.local_size,
            writers=setting.nodes * setting.writers_per_node,
            instances=setting.instances,
            each_ost=ALL_CHECKS[check].each_ost,
            ior_peer=ALL_CHECKS[check].ior_peer,
        )

    def cases(self, sweep: str) -> set[Case]:
        """Every case to be measured here."""
        return self._cases(sweep, CHECKS)

    def profiles(self, sweep: str) -> set[Case]:
        """Every access pattern to be looked at here; their operation is ``profile``."""
        return self._cases(sweep, PROFILES)

    def _cases(self, sweep: str, checks: Iterable[str]) -> set[Case]:
        return {
            self.case(environ, check, setting)
            for environ in self.environs
            for check in checks
            for setting in self.settings(sweep, check)
        }


def read_filesystem(
    system: str,
    partition: str,
    environs: Iterable[str],
    extras: Mapping[str, Any],
    sources: Iterable[str],
) -> Filesystem:
    """The filesystem of one partition; SiteConfigError, naming the file among `sources` to mend."""
    files = list(sources)
    # One file per system, named like it, is the rule; a site may have its own.
    mend = ", ".join([f for f in files if Path(f).stem == system] or files)
    names = tuple(environs)
    if not names:
        raise SiteConfigError(
            f"{system}:{partition}: the partition has no environs: mend it in {mend}"
        )

    def read(key: str, convert: Callable[[Any], Any]) -> Any:
        if key not in extras:
            raise SiteConfigError(
                f"{system}:{partition}: the partition's extras have no {key!r}: add it in {mend}"
            )
        try:
            return convert(extras[key])
        except ValueError as err:
            raise SiteConfigError(
                f"{system}:{partition}: {key!r} in the partition's extras {err}: mend it in {mend}"
            ) from None

    name = read(FILESYSTEM, read_text)
    osts = read(OSTS, lambda value: None if value is None else read_count(value))
    writers_per_node = read(WRITERS_PER_NODE, read_count)
    return Filesystem(
        system=system,
        partition=partition,
        environs=names,
        name=name,
        path=read(PATH, _directory),
        types=read(TYPE, lambda v: read_list(read_text)([v] if isinstance(v, str) else v)),
        peak=read(PEAK, _positive),
        osts=osts,
        cached_reads=read(CACHED_READS, _flag),
        writers_per_node=writers_per_node,
        sweeps=read(SWEEPS, lambda v: read_sweeps(v, osts is not None, writers_per_node)),
    )


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"is not an absolute path: {value!r}")
    return value


def _positive(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < float("inf")
    ):
        raise ValueError(f"is not a positive number: {value!r}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is neither True nor False: {value!r}")
    return value
