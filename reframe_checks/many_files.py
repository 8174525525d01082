"""Writing many files at once."""

import reframe as rfm
from reframe.core.builtins import parameter

from .base import BenchioCheck
from .parameters import swept


@rfm.simple_test
@swept
class FilePerProcess(BenchioCheck):
    """Each writer has a file of its own; or each node, or each of N groups of writers."""

    descr = "Parallel write of a file per process, per node, or of N files"

    #: Who has a file: process, node, or a number of files.
    files = parameter(type=str)


@rfm.simple_test
@swept
class SystemLoad(BenchioCheck):
    """Independent benchmarks share the filesystem; their aggregate is judged."""

    descr = "Parallel writes of several concurrent instances"

    #: Number of concurrent instances, each with an equal part of the writers.
    instances = parameter(type=int)
