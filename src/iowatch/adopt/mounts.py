"""The filesystems that a login node sees, and which of them a new site measures."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.filesize import decimal

from iowatch.base.bounded import decoded
from iowatch.base.commands import run
from iowatch.base.files import UserError
from iowatch.cases.storage import of_mount
from iowatch.cases.storage.striped import Striped

FINDMNT = (
    *("findmnt", "--json", "--list", "--nofsroot"),
    *("--output", "TARGET,FSTYPE,SOURCE,OPTIONS,MAJ:MIN"),
)
#: Types of filesystems as findmnt names them, and as benchio does: by their statfs number, which
#: all FUSE filesystems share. `statfs` has no name for WekaFS.
PARALLEL = {
    **{name: name for name in ("lustre", "gpfs", "beegfs", "panfs", "ceph", "nfs")},
    **dict.fromkeys(("fuse.glusterfs", "fuse.ceph-fuse", "fuse.daos"), "fuse"),
    "nfs4": "nfs",
    "wekafs": "unknown",
}
DISKS = {
    **{name: name for name in ("ext4", "xfs", "btrfs", "zfs", "overlay")},
    **dict.fromkeys(("ext2", "ext3"), "ext4"),
}
STATFS = {**PARALLEL, **DISKS, "tmpfs": "tmpfs", "9p": "9p"}

#: Nobody's data.
IMAGES = {"autofs", "iso9660", "ramfs", "squashfs"}

#: Where the operating system and containers mount their own.
SYSTEM = re.compile(r"/(boot|dev|etc|proc|run|snap|sys|usr|var/lib)(/|$)")
HOMES = re.compile(r"/(home|users?)[^/]*(/|$)", re.IGNORECASE)
#: The job scripts put a path between double quotes.
PLAIN = re.compile(r"[\w ./+,:@%=~#-]+")


@dataclass(frozen=True)
class Mount:
    path: str
    type: str
    source: str
    device: str = ""
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A filesystem that a new site is to measure."""

    name: str
    path: str
    type: str  # its statfs name
    mount: Mount
    free: int  # bytes
    quota: int | None = None  # bytes of the user's that are left; None: none is known
    striped: Striped | None = None  # None: it is not

    @property
    def room(self) -> int:
        """Bytes that the user could write."""
        return self.free if self.quota is None else min(self.free, self.quota)

    @property
    def room_text(self) -> str:
        """Return words such as `3.6 TB free, 500 GB left of your quota`."""
        quota = "" if self.quota is None else f", {decimal(self.quota)} left of your quota"
        return f"{decimal(self.free)} free{quota}"

    @property
    def is_striped(self) -> bool:
        """Return whether layouts can be asked for: its OSTs are known."""
        return bool(self.striped and self.striped.osts)

    @property
    def bound(self) -> str:
        """The limit of the bandwidth: that of a disk, of memory, or of the nodes' links."""
        if self.mount.type in DISKS:
            return "disk"
        return "memory" if self.mount.type == "tmpfs" else "link"


LeftOut = tuple[Mount, str]  # and why


def read_mounts() -> list[Mount]:
    """Ask findmnt what is mounted; of the mounts at one path the last, which hides the rest.

    UserError if there is no findmnt, or if it fails.
    """
    answer = run(*FINDMNT)
    try:
        if answer.trouble:
            raise ValueError(answer.errors.partition("\n")[0] or answer.trouble)
        entries = decoded(answer.text)["filesystems"]
    except (ValueError, KeyError, TypeError) as err:
        raise UserError(
            f"findmnt of util-linux 2.27 or later must say what is mounted: {err}"
        ) from None
    mounts = {
        entry["target"]: Mount(
            path=entry["target"],
            type=entry["fstype"],
            source=entry["source"] or "",  # null if it was mounted without one
            device=entry["maj:min"],
            read_only="ro" in entry["options"].split(","),
        )
        for entry in entries
    }
    return list(mounts.values())


def find_filesystems(
    mounts: Collection[Mount], paths: Collection[Path], users_folder: Path, is_local: bool
) -> tuple[list[Candidate], list[LeftOut]]:
    """Choose what to measure, by default all that is parallel; and what is left out and why.

    `users_folder` is the user's. `is_local`: no other node need see the filesystem.
    """
    if paths:
        return _with_own_names(_asked_for(path, mounts) for path in paths), []
    chosen, left_out = _of_types(PARALLEL, mounts, [users_folder])
    others = {mount.type for mount in mounts} - {*STATFS, *IMAGES}  # such as Cray's DVS
    left_out += [(m, why_not(m) or "of an unknown type") for m in of_interest(mounts, others)]
    if not chosen and is_local:
        chosen, disks = _of_types(DISKS, mounts, [users_folder, Path("/var/tmp")])
        left_out += disks
    if not chosen:
        seen = "; ".join(f"{mount.path}: {why}" for mount, why in left_out) or "no parallel ones"
        raise UserError(f"no filesystem to measure ({seen}): name directories with --path")
    return _with_own_names(chosen), left_out


def _with_own_names(filesystems: Iterable[Candidate]) -> list[Candidate]:
    named: dict[str, Candidate] = {}
    for filesystem in filesystems:
        name, number = filesystem.name, 1
        while name in named:
            name, number = f"{filesystem.name}_{number + 1}", number + 1
        named[name] = replace(filesystem, name=name)
    return list(named.values())


def _asked_for(path: Path, mounts: Collection[Mount]) -> Candidate:
    directory = path.absolute()
    parent = directory if os.access(directory, os.F_OK) else directory.parent
    if not is_writable_directory(parent):
        raise UserError(f"--path {path}: not a directory, or not one that you may write to")
    if not PLAIN.fullmatch(str(directory)):
        raise UserError(f"--path {path}: has characters that a job script would misread")
    return _describe(directory, mount_of(parent.resolve(), mounts))


def _of_types(
    types: Collection[str], mounts: Collection[Mount], more: Iterable[Path]
) -> tuple[list[Candidate], list[LeftOut]]:
    chosen, left_out = [], []
    for mount in of_interest(mounts, types):
        if why := why_not(mount):
            left_out.append((mount, why))
        elif directory := writable_directory(mount, mounts, more):
            chosen.append(_describe(directory / "iowatch", mount))
        else:
            left_out.append((mount, "no directory found that you may write to"))
    return chosen, left_out


def _describe(path: Path, mount: Mount) -> Candidate:
    asked = path if path.exists() else path.parent
    storage = of_mount(mount.type)
    return Candidate(
        name=name_of(mount),
        path=str(path),
        type=STATFS.get(mount.type, "fuse" if mount.type.startswith("fuse") else "unknown"),
        mount=mount,
        free=shutil.disk_usage(asked).free,
        quota=storage.quota_left(asked, mount.path),
        striped=storage.look(str(asked)),
    )


def name_of(mount: Mount) -> str:
    """A name for the filesystem that ReFrame accepts for a partition."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(mount.path).name) or "disk"
    return stem if re.match("[A-Za-z_]", stem) else f"fs{stem}"


def mount_of(path: Path, mounts: Iterable[Mount]) -> Mount:
    """The mount that an absolute path without links is on."""
    on = [mount for mount in mounts if path.is_relative_to(mount.path)]
    return max(on, key=lambda mount: len(mount.path), default=Mount("/", "unknown", "?"))


def of_interest(mounts: Iterable[Mount], types: Collection[str]) -> list[Mount]:
    """Mounts of these types, each filesystem once: where its path is shortest."""
    once: dict[str, Mount] = {}
    for mount in sorted(mounts, key=lambda mount: (len(mount.path), mount.path)):
        if mount.type in types and not SYSTEM.match(mount.path):
            once.setdefault(mount.device, mount)
    return sorted(once.values(), key=lambda mount: mount.path)


def why_not(mount: Mount) -> str:
    """Why a filesystem is left for the user to decide on; empty if there is no reason."""
    if not PLAIN.fullmatch(mount.path):
        return "its path has characters that a job script would misread"
    if mount.read_only:
        return "read-only"
    return "homes have quotas and other users" if HOMES.search(mount.path) else ""


def writable_directory(
    mount: Mount, mounts: Collection[Mount], more: Iterable[Path]
) -> Path | None:
    """A directory on this filesystem that the user may write to."""
    named = [os.environ.get(name) for name in ("SCRATCH", "PSCRATCH", "WORK", "PROJECT")]
    user = os.environ.get("USER", "")
    for path in (*map(Path, filter(None, named)), Path(mount.path, user), Path(mount.path), *more):
        if (
            path.is_absolute()
            and PLAIN.fullmatch(str(path))
            and is_writable_directory(path)
            and str(path.resolve()) not in ("/", os.environ.get("HOME"))
            and mount_of(path.resolve(), mounts) == mount
        ):
            return path
    return None


def is_writable_directory(path: Path) -> bool:
    """Return whether the user may make files there; False if it cannot be reached at all."""
    return os.access(f"{path}/", os.W_OK | os.X_OK)
