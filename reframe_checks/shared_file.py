"""Writing and reading a single shared file."""

import reframe as rfm

from .base import BenchioCheck
from .parameters import swept


@rfm.simple_test
@swept
class SharedFileWrite(BenchioCheck):
    """All writers write their blocks of one 3D array into one file, and sync it."""

    descr = "Parallel write of a single shared file"


@rfm.simple_test
@swept
class SharedFileRead(BenchioCheck):
    """All writers read blocks that others wrote, from a file that was synced and not cached."""

    descr = "Parallel read of a single shared file"
