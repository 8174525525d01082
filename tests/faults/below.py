"""Flips a byte of the file FAULT_PATH in the image of its filesystem, as a disk does: below every
cache of the system that has it mounted."""

import mmap
import os
import sys
from pathlib import Path


def main() -> None:
    file = Path(os.environ["FAULT_PATH"]).read_bytes()
    middle = len(file) // 2 // 64 * 64  # in one block of the disk
    around = file[middle : middle + 64]  # which no other place of the file has
    with Path(sys.argv[1]).open("r+b") as image, mmap.mmap(image.fileno(), 0) as disk:
        at = disk.find(around)
        assert at >= 0, "the disk does not have it"
        while at >= 0:  # in files that were removed, too
            disk[at] ^= 255
            at = disk.find(around, at + 1)
        disk.flush()
        os.fsync(image.fileno())


if __name__ == "__main__":
    main()
