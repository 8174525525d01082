"""Filesystems with faults."""

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CLONE_NEWNS = 0x20000


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """Moves this process to a mount namespace of its own: whatever happens to it, nobody else sees
    its mounts, and none outlives it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"mounting needs root: unshare: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def tmpfs(own_mounts: None, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """tmpfs("size=4m"): a directory of its own filesystem, mounted with these options."""
    directory = tmp_path / "mounted"

    def mount(options: str) -> Path:
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
        return directory

    yield mount
    if directory.is_mount():
        subprocess.run(["umount", "--lazy", directory], check=True)
