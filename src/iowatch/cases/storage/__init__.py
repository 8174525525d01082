"""Types of filesystems, as far as they differ for iowatch: a type is a module."""

from __future__ import annotations

from collections.abc import Collection

from iowatch.cases.storage.ceph import Ceph
from iowatch.cases.storage.lustre import Lustre
from iowatch.cases.storage.plain import Plain, Zfs

LUSTRE, CEPH, ZFS, PLAIN = Lustre(), Ceph(), Zfs(), Plain()
_NAMED = (LUSTRE, CEPH, ZFS)
TYPES = (*_NAMED, PLAIN)

#: Options of mounts that make a sync end before the data are on stable storage.
_UNSTABLE = ("nobarrier", "barrier=0", "barrier=none", "volatile")


def unstable(options: str) -> list[str]:
    """Return those of a mount's options, with commas between them, that take stability away."""
    return [option for option in _UNSTABLE if option in options.split(",")]


def of_types(types: Collection[str], is_striped: bool) -> Plain:
    """Return the type of a filesystem by the names that a site gives it. A striped one without a
    name of its own, as below FUSE, is CephFS."""
    unnamed = CEPH if is_striped else PLAIN
    return next((storage for storage in _NAMED if storage.name in types), unnamed)


def of_mount(kind: str) -> Plain:
    """Return the type of a filesystem that is mounted as this."""
    return next((storage for storage in _NAMED if kind in storage.mounts), PLAIN)
