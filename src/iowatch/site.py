"""A site's filesystems, as the `extras` of ReFrame's partitions describe them.

A partition is one node type seen with one filesystem. All keys are required, so a misspelt one
cannot pass unnoticed. The cases that follow from them are computed here, once, for the checks
(which measure them) and for the nightly gate (which counts them).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iowatch.case import Case, Size, parse_size

FILESYSTEM = "filesystem"  # its name, such as fs3
PATH = "path"  # directory to write under; made if only its last component is missing
TYPE = "type"  # statfs name(s) that benchio may find there: "lustre" or ["ext4", "xfs"]
PEAK = "peak"  # MiB/s that nothing can exceed: link or memory bandwidth
STRIPE_COUNTS = "stripe_counts"  # OSTs; -1: all of them; [None]: not striped
STRIPE_SIZES = "stripe_sizes"  # MiB; [None]: not striped
BACKENDS = "backends"  # of mpiio, hdf5, netcdf
LOCAL_SIZES = "local_sizes"  # elements per writer: 128 or "128x128x256"
NODES = "nodes"  # node counts
WRITERS_PER_NODE = "writers_per_node"

#: Optional, in the extras of an environment: a prebuilt benchio to use instead of this checkout's.
BENCHIO = "benchio"


class SiteConfigError(Exception):
    """A site's configuration is incomplete or wrong.

    Not one of ReFrame's own exceptions: with those it would skip the check and exit with 0.
    """


@dataclass(frozen=True)
class Filesystem:
    """A partition's filesystem and what is to be measured on it."""

    system: str
    partition: str
    environs: tuple[str, ...]
    name: str
    path: str
    types: tuple[str, ...]
    peak: float  # MiB/s
    stripe_counts: tuple[int | None, ...]
    stripe_sizes: tuple[int | None, ...]  # MiB
    backends: tuple[str, ...]
    local_sizes: tuple[Size, ...]
    nodes: tuple[int, ...]
    writers_per_node: int

    def settings(self) -> Iterator[tuple[str, int | None, int | None, Size, int]]:
        """All (backend, stripe count, stripe size, local size, nodes) to be measured here."""
        return itertools.product(
            self.backends, self.stripe_counts, self.stripe_sizes, self.local_sizes, self.nodes
        )

    def case(
        self,
        environ: str,
        backend: str,
        stripe_count: int | None,
        stripe_size: int | None,
        local_size: Size,
        nodes: int,
    ) -> Case:
        """The case of one such setting in one environment."""
        return Case(
            system=self.system,
            partition=self.partition,
            environ=environ,
            operation="write",
            files="shared",
            backend=backend,
            stripe_count=stripe_count,
            stripe_size=stripe_size,
            local_size=local_size,
            writers=nodes * self.writers_per_node,
        )

    def cases(self) -> set[Case]:
        """Every case to be measured here."""
        return {self.case(environ, *s) for environ in self.environs for s in self.settings()}


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

    return Filesystem(
        system=system,
        partition=partition,
        environs=names,
        name=read(FILESYSTEM, _text),
        path=read(PATH, _directory),
        types=read(TYPE, lambda value: _list(_text)([value] if isinstance(value, str) else value)),
        peak=read(PEAK, _positive),
        stripe_counts=read(STRIPE_COUNTS, _list(_stripe_count)),
        stripe_sizes=read(STRIPE_SIZES, _list(_stripe_size)),
        backends=read(BACKENDS, _list(_text)),
        local_sizes=read(LOCAL_SIZES, _list(parse_size)),
        nodes=read(NODES, _list(_count)),
        writers_per_node=read(WRITERS_PER_NODE, _count),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"is not a name: {value!r}")
    return value


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


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"is not a positive integer: {value!r}")
    return value


def _stripe_count(value: Any) -> int | None:
    return value if value in (None, -1) else _count(value)


def _stripe_size(value: Any) -> int | None:
    return None if value is None else _count(value)


def _list(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"is not a list with at least one entry: {value!r}")
        items = tuple(convert(item) for item in value)
        if len(set(items)) < len(items):
            raise ValueError(f"has an entry twice: {value!r}")
        return items

    return read
