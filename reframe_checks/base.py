"""What all checks have in common: one job of benchio on one filesystem, and its verdict."""

from pathlib import Path

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import (
    fixture,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import PerformanceError, SanityError

from iowatch import results
from iowatch.case import format_size, parse_size, parse_stripe
from iowatch.site import read_filesystem
from iowatch.verdict import INVALID, BadReference, judge, read_references

from .benchio import ROOT, BuiltBenchio

SYSTEM = rt.runtime().system
FILESYSTEMS = {
    part.name: read_filesystem(
        SYSTEM.name,
        part.name,
        [environ.name for environ in part.environs],
        part.extras,
        rt.runtime().site_config.sources,
    )
    for part in SYSTEM.partitions
}


def offered(setting):
    """All values of one setting that any filesystem of this system asks for."""
    return sorted(
        {value for fs in FILESYSTEMS.values() for value in getattr(fs, setting)},
        key=lambda value: (value is not None, value),
    )


def full_size(text):
    """A size with its three edges written out, so that one size has one test name and hash."""
    return format_size(parse_size(text))


class BenchioCheck(rfm.RunOnlyRegressionTest):
    """One job of benchio; every backend but mpiio runs with mpiio as its control."""

    valid_prog_environs = ["*"]

    benchio = fixture(BuiltBenchio, scope="environment")

    #: Number of OSTs to stripe over; -1: all of them; None: not striped.
    stripe_count = parameter(offered("stripe_counts"), type=parse_stripe)

    #: Stripe size in MiB; None: not striped.
    stripe_size = parameter(offered("stripe_sizes"), type=parse_stripe)

    #: I/O library: mpiio, hdf5 or netcdf.
    backend = parameter(offered("backends"), type=str)

    #: Array elements per writer in x, y, z.
    local_size = parameter(map(format_size, offered("local_sizes")), type=full_size)

    #: Number of nodes; the site's configuration says how many writers each has.
    nodes = parameter(offered("nodes"), type=int)

    #: Timed repetitions of each backend, after one that warms up.
    #:
    #: :default: ``10``, as in the white paper
    repeats = variable(int, value=10)

    #: Accept a case without reference values: a new site's first nights.
    #:
    #: :default: ``False``
    record = variable(typ.Bool, value=False)

    #: The key of all figures and reference values; see :class:`iowatch.case.Case`.
    case_id = variable(str, value="", loggable=True)

    #: Kind of verdict, such as ``ok`` or ``regression``.
    verdict = variable(str, value="", loggable=True)

    #: The verdict in one sentence.
    sentence = variable(str, value="", loggable=True)

    @property
    def setting(self):
        size = parse_size(self.local_size)
        return self.backend, self.stripe_count, self.stripe_size, size, self.nodes

    @run_after("init")
    def set_valid_systems(self):
        self.valid_systems = [
            f"{SYSTEM.name}:{partition}"
            for partition, filesystem in FILESYSTEMS.items()
            if self.setting in filesystem.settings()
        ]

    @run_after("setup")
    def set_case(self):
        self.filesystem = FILESYSTEMS[self.current_partition.name]
        self.case = self.filesystem.case(self.current_environ.name, *self.setting)
        self.case_id = str(self.case)

    @run_after("setup")
    def set_references(self):
        folder = rt.runtime().get_option("general/0/reference_prefix") or ROOT / "reference_values"
        path = Path(folder, f"{SYSTEM.name}.yaml").absolute()
        self.reference_file = f"{path.parent.name}/{path.name}"
        try:
            self.reference = {"$ref": str(path)}
            if self.reference and self.reference.index != ("case_id",):
                raise BadReference("'$index: [case_id]' is missing")
            self.references = read_references(self.backend, self._reference_entries())
        except Exception as err:  # whatever a broken YAML file brings about
            raise PerformanceError(f"{path} cannot be used as reference values: {err}") from None
        # iowatch judges: a bound of ReFrame's would fail first and hide our sentence.
        self.reference = {}

    def _reference_entries(self):
        try:
            return self.reference[self]
        except KeyError:
            return {}

    @run_after("setup")
    def set_tasks(self):
        self.num_tasks = self.case.writers
        self.num_tasks_per_node = self.filesystem.writers_per_node

    @run_after("setup")
    def set_one_job_per_filesystem(self):
        # max_jobs of the partition holds within one session, this also across a user's sessions.
        if self.current_partition.scheduler.registered_name in ("slurm", "squeue"):
            name = f"iowatch_{self.filesystem.name}"
            self.job.options += [f"--job-name={name}", "--dependency=singleton"]

    @run_before("run")
    def set_run_directory(self):
        path = self.filesystem.path
        self.prerun_cmds = [
            # Not mkdir -p: a filesystem that is not mounted must not be replaced by a directory.
            f'[ -d "{path}" ] || mkdir "{path}"',
            # What a killed job left behind; no job runs for two days.
            f'find "{path}" -maxdepth 1 -name "iowatch.??????" -user "$(id -u)" -mtime +1 '
            "-exec rm -rf {} +",
            f'RUNDIR=$(mktemp -d "{path}/iowatch.XXXXXX") || exit 1',
            """trap 'rm -rf "$RUNDIR"' EXIT""",
        ]

    @run_before("run")
    def set_command(self):
        self.executable = self.benchio.program
        self.executable_opts = [
            f"--backend {','.join(results.backends_of(self.case))}",
            f"--local-size {self.local_size}",
            f"--repeats {self.repeats}",
            "--sync data",
            '--dir "$RUNDIR"',
            f"--fs-type {','.join(self.filesystem.types)}",
            "--json result.json",
        ]
        if self.stripe_count is not None:
            self.executable_opts += [f"--stripe-count {self.stripe_count}"]
        if self.stripe_size is not None:
            self.executable_opts += [f"--stripe-size {self.stripe_size}"]
        self.postrun_cmds = ["echo $? > exit_code"]
        self.keep_files = ["result.json"]

    @sanity_function
    def assert_verified_write(self):
        try:
            self.figures = self.measured_figures()
        except results.InvalidResult as err:
            self.verdict, self.sentence = INVALID, f"{self.case}: {err}"
            raise SanityError(self.sentence) from None
        return True

    def measured_figures(self):
        """The figures of a run that satisfies the law; else InvalidResult."""
        file = Path("result.json")
        if not file.exists():
            raise results.InvalidResult(self.last_error())
        result = results.load(file)
        results.require(result, self.case, self.repeats, self.filesystem.types)
        code = Path("exit_code")
        if not code.exists() or code.read_text().strip() != "0":
            raise results.InvalidResult(f"benchio reported success but failed: {self.last_error()}")
        return results.figures(result, self.backend)

    def last_error(self):
        """benchio's own last error in stderr, else its last line."""
        lines = Path(str(self.stderr)).read_text(errors="replace").split("\n")
        lines = [line for line in lines if line.strip()]
        errors = [line for line in lines if line.startswith("benchio: error:")]
        return (errors or lines or ["no result file and nothing in stderr"])[-1]

    @run_before("performance")
    def set_figures(self):
        if not self.is_dry_run():
            self.perf_variables = {
                name: sn.make_performance_function(sn.defer(value), results.FIGURES[name])
                for name, value in self.figures.items()
            }

    @run_after("performance")
    def set_verdict(self):
        if self.is_dry_run():
            return
        verdict = judge(
            self.case,
            self.figures,
            self.references,
            self.reference_file,
            self.filesystem.peak,
            self.record,
        )
        self.verdict, self.sentence = verdict.kind, verdict.sentence
        self.log_bounds(verdict.failed)
        if verdict.red:
            raise PerformanceError(verdict.sentence)

    def log_bounds(self, failed):
        """Give report and database the bounds that iowatch judged by."""
        for name in self.figures:
            entry = self.perfvalues[f"{self.current_partition.fullname}:{name}"]
            if reference := self.references.get(name):
                entry[1:4] = [
                    reference.value,
                    reference.lower_threshold,
                    reference.upper_threshold,
                ]
            if name in failed:
                entry[-1] = "fail"
