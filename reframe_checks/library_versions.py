"""Which I/O libraries a job really gets."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from iowatch.kinds.versions import known_faults, read_versions
from iowatch.law import require_built
from iowatch.result import InvalidResult
from iowatch.verdict import OK, Outcome, Reason, State, Verdict

from .base import CaseCheck
from .parameters import FILESYSTEMS, SYSTEM


@rfm.simple_test
class LibraryVersions(CaseCheck):
    """The versions that the libraries report on a compute node; those known to be slow fail."""

    descr = "Versions of MPI, HDF5 and NetCDF"
    valid_systems = [f"{SYSTEM.name}:{partition}" for partition in FILESYSTEMS]
    num_tasks = 1

    #: Version of each library, by benchio's name of its backend.
    versions = variable(dict, value={}, loggable=True)

    @run_before("run")
    def set_command(self):
        self.executable_opts = ["--version"]

    @sanity_function
    def assert_no_known_fault(self):
        self.keep_output()
        said = Path(str(self.stdout))
        if not said.exists():
            why = f"its job has not begun: see {self.kept}"
            self.end_without_result(InvalidResult(why, Reason.NO_OUTPUT))
        self.versions = read_versions(said.read_text(errors="replace"))
        if "mpiio" not in self.versions:
            why = f"{self.executable} --version names no MPI: see {self.kept}"
            self.end_failed(why, Reason.NO_OUTPUT)
        try:
            asked = self.benchio.concrete_spec
            require_built({**self.versions, "mpi": self.versions["mpiio"]}, asked)
        except InvalidResult as err:
            self.end_failed(err, err.reason)
        self.provenance = dict(self.versions)
        faults = known_faults(self.versions, self.filesystem.types)
        outcome = Outcome(State.REGRESSION, Reason.SLOW_VERSION) if faults else OK
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        self.end(Verdict(outcome, "; ".join(faults) or versions), SanityError)
        return True
