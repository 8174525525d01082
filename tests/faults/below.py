"""Flips a byte of the file FAULT_PATH in the image of its filesystem, as a disk does: below every
cache of the system that has it mounted."""

import fcntl
import mmap
import os
import struct
import sys
from pathlib import Path

FS_IOC_FIEMAP = 0xC020660B
BLOCK = 4096
EXTENTS = 1024


def extents(file: int) -> list[tuple[int, int, int]]:
    """Where a file's bytes are on its disk: offset in the file, on the disk, length."""
    head = struct.pack("=QQLLLL", 0, 2**64 - 1, 1, 0, EXTENTS, 0)  # 1: synced first
    found = bytearray(head + bytes(56 * EXTENTS))
    fcntl.ioctl(file, FS_IOC_FIEMAP, found)
    (count,) = struct.unpack_from("=L", found, 20)
    return [struct.unpack_from("=QQQ", found, 32 + 56 * index) for index in range(count)]


def on_disk(file: int, offset: int) -> int:
    for logical, physical, length in extents(file):
        if logical <= offset < logical + length:
            return physical + offset - logical
    raise SystemExit(f"byte {offset} is nowhere on the disk")


def read_direct(path: str, offset: int) -> int:
    """A byte as the disk has it."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, BLOCK) as aligned:
        os.preadv(file, [aligned], offset // BLOCK * BLOCK)
        os.close(file)
        return aligned[offset % BLOCK]


def main() -> None:
    path, image = os.environ["FAULT_PATH"], Path(sys.argv[1])
    file = os.open(path, os.O_RDONLY)
    middle = os.fstat(file).st_size // 2
    before = os.pread(file, 1, middle)[0]
    with image.open("r+b") as disk:
        disk.seek(on_disk(file, middle))
        assert disk.read(1)[0] == before, "not the place of this byte"
        disk.seek(-1, os.SEEK_CUR)
        disk.write(bytes([before ^ 255]))
        disk.flush()
        os.fsync(disk.fileno())
    assert read_direct(path, middle) == before ^ 255


if __name__ == "__main__":
    main()
