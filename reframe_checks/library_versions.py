"""Which I/O libraries a job really gets."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import fixture, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from iowatch.result import known_faults, read_versions

from . import past
from .benchio import BuiltBenchio
from .parameters import FILESYSTEMS, SYSTEM


@rfm.simple_test
class LibraryVersions(rfm.RunOnlyRegressionTest):
    """The versions that the libraries report on a compute node; those known to be slow fail."""

    descr = "Versions of MPI, HDF5 and NetCDF"
    valid_systems = [f"{SYSTEM.name}:{partition}" for partition in FILESYSTEMS]
    valid_prog_environs = ["*"]
    num_tasks = 1

    benchio = fixture(BuiltBenchio, scope="environment")

    #: Version of each library, by benchio's name of its backend.
    versions = variable(dict, value={}, loggable=True)

    @run_after("setup")
    def set_filesystem(self):
        self.filesystem = FILESYSTEMS[self.current_partition.name]

    @run_before("run")
    def set_command(self):
        self.executable = self.benchio.program
        self.prerun_cmds = self.benchio.load_cmds
        self.executable_opts = ["--version"]

    @sanity_function
    def assert_no_known_fault(self):
        self.versions = read_versions(Path(str(self.stdout)).read_text(errors="replace"))
        if "mpiio" not in self.versions:
            raise SanityError(f"{self.executable} --version names no MPI: see {self.stagedir}")
        if faults := known_faults(self.versions, self.filesystem.types):
            place = f"{self.current_partition.fullname}/{self.current_environ.name}/versions"
            past.fail(place, "; ".join(faults))
        return True
