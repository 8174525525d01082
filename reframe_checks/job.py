"""A job of benchio on one filesystem, and the law that its result must satisfy."""

import os
from math import prod
from pathlib import Path

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import (
    fixture,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import SanityError
from reframe.core.schedulers.local import LocalJobScheduler

from iowatch.case import parse_size, parse_stripe
from iowatch.checks import NIGHTLY, SWEEPS, Setting
from iowatch.metrics import figures, slowest_ranks
from iowatch.result import InvalidResult, backends_of, conditions, read_result, require
from iowatch.site import JOB_TMPDIR
from iowatch.verdict import INVALID

from .benchio import BuiltBenchio
from .parameters import FILESYSTEMS, SYSTEM, asking, full_size

MARK = ".iowatch"  # the file that says that a directory is one of ours

# By itself, ReFrame kills a cancelled job of this machine after 2 s. mpirun takes as long to end
# its ranks, and only then does the job remove what they wrote. Less than session.GRACE_S.
LocalJobScheduler.CANCEL_GRACE_PERIOD = 30

# TMPDIR is ReFrame's own if iowatch started it, and on no other machine: jobs get the user's.
if JOB_TMPDIR in os.environ:
    os.environ.pop("TMPDIR", None)
    if users := os.environ.pop(JOB_TMPDIR):
        os.environ["TMPDIR"] = users


class BenchioJob(rfm.RunOnlyRegressionTest):
    """One job of benchio; every backend but mpiio runs with mpiio as its control."""

    valid_prog_environs = ["*"]
    env_vars = {"DARSHAN_DISABLE": "1"}  # some sites have it in every job, and it takes time

    benchio = fixture(BuiltBenchio, scope="environment")

    #: Number of OSTs to stripe over; -1: all of them; None: not striped.
    stripe_count = parameter(type=parse_stripe)

    #: Stripe size in MiB; None: not striped.
    stripe_size = parameter(type=parse_stripe)

    #: I/O library: mpiio, hdf5, netcdf, pnetcdf or stream.
    backend = parameter(type=str)

    #: Array elements per writer in x, y, z.
    local_size = parameter(type=full_size)

    #: Number of nodes.
    nodes = parameter(type=int)

    #: Number of writers on each node.
    writers_per_node = parameter(type=int)

    #: The site's list of cases to measure.
    #:
    #: :default: ``nightly``; ``acceptance`` with ``--mode=acceptance``
    sweep = variable(typ.Str["|".join(SWEEPS)], value=NIGHTLY)

    #: Timed repetitions of each backend, after one that warms up.
    #:
    #: :default: ``10``, as in the white paper
    repeats = variable(int, value=10)

    #: The key of all figures and reference values; see :class:`iowatch.case.Case`.
    case_id = variable(str, value="", loggable=True)

    #: Kind of verdict, such as ``ok`` or ``regression``.
    verdict = variable(str, value="", loggable=True)

    #: The verdict in one sentence.
    sentence = variable(str, value="", loggable=True)

    #: What the run met with: library versions, hints, striping, hosts.
    conditions = variable(dict, value={}, loggable=True)

    #: The slowest rank of each phase, in words.
    slowest = variable(dict, value={}, loggable=True)

    @property
    def setting(self):
        return Setting(
            backend=self.backend,
            stripe_count=self.stripe_count,
            stripe_size=self.stripe_size,
            local_size=parse_size(self.local_size),
            nodes=self.nodes,
            writers_per_node=self.writers_per_node,
            files=getattr(self, "files", "shared"),
            instances=getattr(self, "instances", None),
        )

    @run_after("init")
    def set_valid_systems(self):
        self.valid_systems = [f"{SYSTEM.name}:{partition}" for partition in asking(self)]

    @run_after("setup")
    def set_case(self):
        self.filesystem = FILESYSTEMS[self.current_partition.name]
        check = type(self).__name__
        self.case = self.filesystem.case(self.current_environ.name, check, self.setting)
        self.case_id = str(self.case)

    @run_after("setup")
    def set_tasks(self):
        self.num_tasks = self.case.writers
        # ReFrame would turn it into `bsub -nnodes`, which only some LSF know; a site's `access` has
        # `-R span[ptile=N]` instead.
        if self.current_partition.scheduler.registered_name != "lsf":
            self.num_tasks_per_node = self.writers_per_node

    @run_after("setup")
    def set_one_job_per_filesystem(self):
        # max_jobs of the partition holds within one session, this also across a user's sessions.
        if self.current_partition.scheduler.registered_name in ("slurm", "squeue"):
            name = f"iowatch_{self.filesystem.name}"
            self.job.options += [f"--job-name={name}", "--dependency=singleton"]

    @run_before("run")
    def set_run_directory(self):
        path = self.filesystem.path
        backends = backends_of(self.case)
        kib = 8 * prod(self.case.local_size) * self.case.writers * len(backends) // 1024
        self.prerun_cmds = [
            # Not mkdir -p: a filesystem that is not mounted must not be replaced by a directory.
            f'[ -d "{path}" ] || mkdir "{path}"',
            # What a killed job left behind, by our mark; no job runs for two days.
            f'find "{path}" -mindepth 2 -maxdepth 2 -path "{path}/iowatch.??????/{MARK}" '
            "-user \"$(id -u)\" -mtime +1 -printf '%h\\0' | xargs -0 -r rm -rf",
            f'RUNDIR=$(mktemp -d "{path}/iowatch.XXXXXX") || exit 1',
            """trap 'rm -rf "$RUNDIR"' EXIT""",
            "trap 'exit 143' TERM",  # after the ranks have ended: they still write there
            f': > "$RUNDIR/{MARK}"',
            "FREE=$(df -Pk \"$RUNDIR\" | awk 'NR == 2 {print $4}')",
            f'[ "${{FREE:=0}}" -ge {kib} ] || {{ echo "{path}: {kib} KiB will be written, but only'
            ' $FREE KiB are free" >&2; exit 1; }',
        ]

    @run_before("run")
    def set_command(self):
        self.executable = self.benchio.program
        self.prerun_cmds = [*self.benchio.load_cmds, *self.prerun_cmds]
        self.executable_opts = self.benchio_options(self.repeats, "result.json")
        self.postrun_cmds = ["echo $? > exit_code"]
        self.keep_files = ["result.json"]

    def benchio_options(self, repeats, result):
        """The command line of one run for the case."""
        case = self.case
        options = [
            f"--backend {','.join(backends_of(case))}",
            f"--operation {case.operation}",
            f"--files {case.files}",
            f"--local-size {self.local_size}",
            f"--repeats {repeats}",
            "--sync data",
            '--dir "$RUNDIR"',
            f"--fs-type {','.join(self.filesystem.types)}",
            f"--json {result}",
        ]
        if case.instances is not None:
            options += [f"--instances {case.instances}"]
        if case.stripe_count is not None:
            options += [f"--stripe-count {case.stripe_count}"]
        if case.stripe_size is not None:
            options += [f"--stripe-size {case.stripe_size}"]
        return options

    @sanity_function
    def assert_verified_write(self):
        try:
            self.figures = self.measured_figures()
        except InvalidResult as err:
            self.verdict, self.sentence = INVALID, f"{self.case}: {err}"
            raise SanityError(self.sentence) from None
        return True

    def measured_figures(self):
        """The figures of a run that satisfies the law; else InvalidResult."""
        result = self.verified_result(Path("result.json"), self.repeats)
        self.repetitions = result.measurements[-1].repetitions  # the control comes first
        self.slowest = slowest_ranks(self.repetitions)
        return figures(result, self.case)

    def verified_result(self, file, repeats, offset=None):
        """The result of one run of benchio, if it satisfies the law; else InvalidResult."""
        if not file.exists():
            raise InvalidResult(self.last_error())
        result = read_result(file)
        require(result, self.case, repeats, self.filesystem, offset)
        code = Path("exit_code")
        if not code.exists() or code.read_text().strip() != "0":
            raise InvalidResult(f"benchio reported success but failed: {self.last_error()}")
        self.conditions = conditions(result)
        if modules := self.current_environ.modules:
            self.conditions["modules"] = " ".join(modules)
        if spec := self.benchio.concrete_spec:
            self.conditions["spack"] = spec
        return result

    def last_error(self):
        """benchio's own last error in stderr, else its last line."""
        lines = Path(str(self.stderr)).read_text(errors="replace").split("\n")
        lines = [line for line in lines if any(map(str.isalnum, line))]  # not mpirun's rules
        errors = [line for line in lines if line.startswith("benchio: error:")]
        return (errors or lines or ["no result file and nothing in stderr"])[-1]
