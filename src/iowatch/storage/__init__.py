"""Types of filesystems, as far as one spreads its files over targets: a type is a module."""

from __future__ import annotations

from collections.abc import Collection

from iowatch.storage.ceph import Ceph
from iowatch.storage.lustre import Lustre
from iowatch.storage.plain import Plain

LUSTRE, CEPH, PLAIN = Lustre(), Ceph(), Plain()
_STRIPED = (LUSTRE, CEPH)


def of_types(types: Collection[str], is_striped: bool) -> Plain:
    """Return the type of a filesystem by the names that a site gives it. A striped one without a
    name of its own, as below FUSE, is CephFS."""
    unnamed = CEPH if is_striped else PLAIN
    return next((storage for storage in _STRIPED if storage.name in types), unnamed)


def of_mount(kind: str) -> Plain:
    """Return the type of a filesystem that is mounted as this."""
    return next((storage for storage in _STRIPED if kind in storage.mounts), PLAIN)
