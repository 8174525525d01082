"""What all checks have in common: a case, the raw results that are kept, a verdict that ends it."""

import secrets
import shutil
import warnings
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import reframe.core.runtime as rt
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import (
    fixture,
    loggable,
    parameter,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import ExpectedFailureError, PerformanceError, SanityError

from iowatch import __version__, build, context, raw_results
from iowatch.check import DRIFT
from iowatch.context.nodes import node_busy
from iowatch.files import UserError
from iowatch.judge import by_contract, by_past, in_force, judge
from iowatch.kinds import CHECKS, metric
from iowatch.kinds.each_ost import osts_away
from iowatch.law import Job, exit_code, id_of_round, require_end
from iowatch.metrics import slow_node, slow_rank
from iowatch.references import excuse
from iowatch.result import InvalidResult
from iowatch.run import NOTE
from iowatch.suites import ACCEPTANCE, Setting
from iowatch.verdict import Flag, Outcome, Reason, State, Verdict

from . import (
    allocation,
    context_shell,
    resume,
    run_directory,
    site_record,
    why_not_measured,
)
from .benchio import BuiltBenchio
from .parameters import (
    FILESYSTEMS,
    SYSTEM,
    OfSession,
    asking,
    promised,
    setting_of,
)
from .reframe_4_10 import log_bounds

#: The time limit of a script that only waits: what it waits for has its own.
WAITS = "30d"


def keep_commands(test):
    """What a job does first, so that its raw results are kept whatever becomes of it."""
    # The job itself does it, for ReFrame looks at no job that it has cancelled.
    return [
        raw_results.ENVIRONMENT_ENDS,
        "export LC_ALL=C",  # else awk may write 0,5, and programs may say things in other words
        f'cd "{test.stagedir}" || exit 1',
        *([f"rm -f {' '.join(test.outputs)}"] if test.outputs else []),
        f'keep() {{ find . -maxdepth 1 -type f -exec cp -p -t "{test.kept}" {{}} +; }}',
        "trap keep EXIT",
    ]


def spread(test, case, ranks_per_node):
    """Ask the scheduler of a test's job for the ranks of this case."""
    test.num_tasks = case.ranks
    if test.current_partition.scheduler.registered_name == "lsf":
        # ReFrame would turn it into `bsub -nnodes`, which only some LSF know.
        test.job.options += [f'-R "span[ptile={ranks_per_node}]"']
    else:
        test.num_tasks_per_node = ranks_per_node


def one_job_at_once(test, filesystem):
    """No two jobs of ours write to a filesystem at the same time, where the scheduler can do it."""
    # max_jobs of the partition holds within one session, this also across a user's sessions.
    if test.current_partition.scheduler.registered_name in why_not_measured.SLURM:
        name = f"iowatch_{filesystem.name}"
        test.job.options += [f"--job-name={name}", "--dependency=singleton"]


def make_run_directory(test, case, filesystem, repeats=1):
    """The commands with which a job of so many rounds has `RUNDIR`, and room there for what it has
    at one time."""
    kib = case.check.room_kib(case, repeats)
    # On one machine, the jobs of all partitions are ours, and `max_jobs` holds.
    takes_turns = not test.is_local() or bool(filesystem.allocation)
    return run_directory.commands(filesystem.path, kib, filesystem.keep_days, takes_turns)


def phase_limit(test):
    """benchio's option that ends a hang long before the scheduler would, and lose its cause.

    A phase that takes a tenth of the job's time would leave none for the rounds that are asked for.
    """
    # The job's own: a test waits longer than that for its job to join the allocation.
    limit = test.job.time_limit or test.time_limit or test.current_partition.time_limit
    return [f"--phase-limit {max(1, int(typ.Duration(limit) // 10))}"] if limit else []


def options_of_run(filesystem, repeats, run_id, result, directory='"$RUNDIR"'):
    """benchio's options that are of one run, and follow those of its case."""
    return [
        f"--repeats {repeats}",
        *([f"--settle {filesystem.settle}"] if filesystem.settle else []),
        *([f"--keep-corrupt {filesystem.keep_corrupt}"] if filesystem.keep_corrupt else []),
        f"--dir {directory}",
        f"--fs-type {','.join(filesystem.types)}",
        f"--run-id {id_of_round(run_id, result)}",
        f"--json {result}",
    ]


class CaseCheck(OfSession):
    """A check of one case: its job leaves raw results, and its verdict ends the test.

    What exists from which phase of ReFrame's on: from `init` what the session sets (`suite`,
    `record`, `away`) and `repeats`; from `setup` `filesystem`, `case`, `case_id`, `left`, `nodes`,
    `ranks_per_node` and `references`; from `run` `made`, `kept`, `run_id` and the commands; from
    `sanity` what the job has left: `measured`, `provenance`, `slowest`, `control` and
    `system_context`; from `performance` `case_past`. `state`, `reason` and `sentence` are there as
    soon as the test ends.
    """

    valid_prog_environs = ["*"]
    env_vars = {"DARSHAN_DISABLE": "1"}  # some sites have it in every job, and it takes time

    benchio = fixture(BuiltBenchio, scope="environment")

    #: How many cases that suite of the whole system has: a session that ran them all is a night.
    promised = variable(int, value=0, loggable=True)

    #: The iowatch that runs the check.
    iowatch = variable(str, value="", loggable=True)

    #: The key of all metrics and reference values; see :class:`iowatch.case.Case`.
    case_id = variable(str, value="", loggable=True)

    #: The filesystem's name in the site's configuration.
    filesystem_name = variable(str, value="", loggable=True)

    #: Where the raw results are kept.
    kept = variable(str, value="", loggable=True)

    #: The id that the job gives to benchio: a result without it is another job's.
    run_id = variable(str, value="", loggable=True)

    #: What the job writes in its stage, which may hold an earlier job's; patterns of the shell.
    outputs = ()

    #: The verdict's :class:`iowatch.verdict.State`; empty: there is no verdict yet.
    state = variable(str, value="", loggable=True)

    #: Its :class:`iowatch.verdict.Reason`; empty: it needs none.
    reason = variable(str, value="", loggable=True)

    #: The :class:`iowatch.verdict.Flag` of it.
    flags = variable(list, value=[], loggable=True)

    #: The verdict in one sentence.
    sentence = variable(str, value="", loggable=True)

    #: What the run met with: library versions, hints, striping, hosts.
    provenance = variable(dict, value={}, loggable=True)

    #: The case and its filesystem; from the setup on.
    case = None
    filesystem = None

    #: When the job was made; from the run on.
    made = None

    #: The folder and the record of the job that is taken up; None: it has one of its own.
    left = None

    @loggable
    @property
    def queued(self):
        """What its job waited for when its session was stopped: then it is not known how it is."""
        if self.state or not (self.filesystem and self.job):
            return ""
        try:
            if self.left:
                return resume.waited_for(self, self.left[1])
            if self.filesystem.allocation and self.job.submit_time:
                return allocation.waited_for(self)
            return why_not_measured.waited_for(self)
        except Exception as err:  # it would cost the report of the whole session
            # Not by ReFrame's log, whose records have this variable.
            warnings.warn(f"cannot tell if a job was queued: {err!r}", RuntimeWarning, 1)
            return ""

    @run_after("init")
    def set_promised(self):
        self.promised = promised(self.suite)

    @run_after("setup")
    def set_iowatch(self):
        self.iowatch = build.version(__version__)

    @run_after("setup")
    def set_case(self):
        self.filesystem = FILESYSTEMS[self.current_partition.name]
        self.case = self.filesystem.case(self.current_environ.name, self.asked())
        self.case_id = str(self.case)
        self.filesystem_name = self.filesystem.name

    def asked(self):
        """What is asked for at the test's place, :class:`iowatch.suites.Setting`."""
        return Setting.of(CHECKS[type(self).__name__], {})

    @run_after("setup")
    def take_up_job(self):
        if self.resumes and not self.is_dry_run():
            self.left = resume.find(self)
        if self.left:
            resume.take_up(self)

    @run_after("setup")
    def require_expected_failures(self):
        """Before the job has run: a file that cannot be read would else cost the night."""
        try:
            site_record.expected_failures()
            site_record.maintenance()
        except UserError as err:
            raise PerformanceError(str(err)) from None

    @run_before("run")
    def skip_what_is_not_there(self):
        self.made = datetime.now(UTC)
        if self.left:
            return
        # As ReFrame is about to do; in seconds, then.
        self.job.time_limit = self.time_limit or self.current_partition.time_limit
        if self.is_dry_run():
            return
        end = self.made + timedelta(seconds=self.job.time_limit or 0)
        try:
            announced = why_not_measured.maintenance(self.filesystem_name, self.made, end)
        except UserError as err:
            raise PerformanceError(str(err)) from None
        if why := announced or why_not_measured.reservation(self.job, end):
            self.end_untried(why_not_measured.NotMeasured(why, Reason.MAINTENANCE))
        if why := self.missing():
            self.end_without_program(why)

    def missing(self):
        """Which program the check needs besides benchio and does not find, and how to get it, in a
        sentence; empty: none. Before anything is submitted."""
        return ""

    @run_before("run")
    def set_kept(self):
        self.executable = self.benchio.word
        self.kept = "runs"
        if self.left:
            self.kept = str(self.left[0])
        elif not self.is_dry_run():
            try:
                prefix = Path(rt.runtime().prefix)
                self.kept = str(raw_results.new_folder(prefix, site_record.KEPT_AS, self.case))
            except UserError as err:
                raise SanityError(str(err)) from None
        for name in (self.stdout, self.stderr):  # of an earlier job: this one may never start
            Path(self.stagedir, str(name)).unlink(missing_ok=True)
        self.prerun_cmds = [*keep_commands(self), *self.benchio.load_cmds]

    @run_before("run")
    def join_allocation(self):
        if self.left or not self.filesystem.allocation:
            return
        limit = self.job.time_limit
        if not (
            self.is_local()
            and limit
            and self.current_partition.launcher_type.registered_name == "srun"
            and self.current_partition.max_jobs == 1
        ):
            self.end_failed(
                "'allocation' in the partition's extras needs the scheduler 'local', the launcher "
                "'srun', 1 as 'max_jobs' and a 'time_limit': mend it in the site's configuration",
                Reason.CONFIGURATION,
            )
        try:
            allocation.require_time(self.filesystem, limit)
        except why_not_measured.NotMeasured as err:
            self.end_untried(err)
        suite = self.filesystem.suites[self.suite]
        settings = [setting for its in suite.values() for setting in its]
        nodes = max(setting.nodes for setting in settings)
        per_node = max(setting.ranks_per_node for setting in settings)
        self.prerun_cmds += allocation.join(self, nodes, per_node, limit)
        own = self.num_tasks, self.num_tasks_per_node or 1
        self.job.launcher.options += allocation.step(*own, limit)
        self.time_limit = WAITS

    @run_before("run", always_last=True)
    def wait_for_job(self):
        """In the place of all that it would do itself."""
        if self.left:
            record = self.left[1]
            self.made, self.run_id = record["made"], record["run_id"]
            self.prerun_cmds, self.executable_opts, self.postrun_cmds = [], [], []
            self.executable, self.time_limit = resume.wait(self, record), WAITS
        elif not self.is_dry_run():
            try:
                resume.remember(self)
            except UserError as err:
                raise SanityError(str(err)) from None

    def kept_file(self, name):
        """A file among the raw results, which every verdict rests on."""
        return Path(self.kept, name)

    def keep_output(self):
        """What the job said: some schedulers hand that over only after the job."""
        if self.left:  # the stage is another one
            for file in Path(self.kept).iterdir():
                shutil.copy(file, file.name)
        for name in (self.stdout, self.stderr):
            file = Path(str(name))
            if not self.kept_file(file.name).exists():
                with suppress(OSError):
                    shutil.copy(file, self.kept)
        try:
            raw_results.keep(Path(self.kept))
        except UserError as err:
            raise SanityError(str(err)) from None

    def end(self, verdict, error):
        """End the test with this verdict: `error` is what to raise if it is red."""
        self.log_verdict(verdict)
        if verdict.outcome.is_untried:
            self.skip(self.sentence)
        if not verdict.is_red:
            return
        if excused := self.excuse_of(verdict):
            known = verdict.outcome.flagged(Flag.KNOWN)
            self.log_verdict(Verdict(known, f"{verdict.sentence} ({excused})"))
            raise ExpectedFailureError(self.sentence)
        raise error(self.sentence)

    def log_verdict(self, verdict):
        """Give report and database the verdict."""
        for name, value in verdict.outcome.fields.items():
            setattr(self, name, value)
        self.sentence = verdict.sentence

    def excuse_of(self, verdict):
        """Why the site expects this verdict; None if it does not, or must not."""
        if not verdict.outcome.is_regression:
            return None
        today = datetime.now(UTC).date()
        return excuse(site_record.expected_failures(), self.case_id, today)

    def end_untried(self, why):
        """End the test as ReFrame ends one that is skipped, whatever it has come to."""
        self.end(Verdict(why.outcome, str(why)), None)

    def end_without_program(self, why):
        """End the test of a case whose program is missing.

        Where the check has ever run it was lost: nobody guards the case any more. Else nobody has
        ever promised it: it is skipped, and the night says why, of no colour for that.
        """
        try:
            was_there = site_record.has_run(self.case)
        except UserError as err:
            raise PerformanceError(str(err)) from None
        untried = why_not_measured.NotMeasured if was_there else why_not_measured.Skipped
        self.end_untried(untried(why, Reason.NOT_INSTALLED))

    def end_without_result(self, why):
        """End the test of a job that has left nothing that counts; `why` is an exception that has a
        reason, or is NotMeasured."""
        if isinstance(why, why_not_measured.NotMeasured):
            self.end_untried(why)
        if known := why_not_measured.why_not_started(self):
            self.end_untried(known)
        if nothing := why_not_measured.left_nothing(self):
            self.end_failed(nothing, Reason.NO_OUTPUT)
        self.end_failed(why, why.reason)

    def end_failed(self, why, reason):
        self.end(Verdict(Outcome(State.FAILED, reason), str(why)), SanityError)


class BenchioCheck(CaseCheck):
    """One job of benchio, judged by the site's reference values and by the case's own past.

    Of an acceptance test it is only verified: the contract judges, and neither may be in its way. A
    check without metrics says its verdict itself, once its job has ended.
    """

    outputs = (
        *("result*.json", "exit_code", run_directory.BUSY, run_directory.NO_QUOTA),
        context_shell.FILES,
    )

    #: The tail of the id of a case, such as ``backend=hdf5/local_size=8x8x8/ranks=4``.
    setting = parameter(type=str)

    #: Number of nodes.
    nodes = variable(int, value=0, loggable=True)

    #: Number of ranks on each node.
    ranks_per_node = variable(int, value=0, loggable=True)

    #: Timed repetitions of each backend, after one that warms up.
    #:
    #: :default: as many as the check takes
    repeats = variable(int, type(None), value=None)

    #: The slowest rank of each phase, in words.
    slowest = variable(dict, value={}, loggable=True)

    #: Median seconds of each phase of MPI-IO in the same rounds; none of MPI-IO itself.
    control = variable(dict, value={}, loggable=True)

    #: What else went on then, :data:`iowatch.context.SystemContext`; it is no metric.
    system_context = variable(dict, value={}, loggable=True)

    #: The site's bounds on the case; from its setup on, None of what has no metrics.
    references = None

    #: What the run came to, :class:`iowatch.metrics.Measured`; from the sanity on, if the run
    #: satisfies the law.
    measured = None

    #: What is on record of the case, :class:`iowatch.judge.Past`; from the performance on.
    case_past = None

    def asked(self):
        return setting_of(self)

    @run_after("init")
    def set_repeats(self):
        if self.repeats is None:
            self.repeats = CHECKS[type(self).__name__].repeats

    @run_after("init")
    def set_valid_systems(self):
        self.valid_systems = [f"{SYSTEM.name}:{partition}" for partition in asking(self)]

    @run_after("setup")
    def set_tasks(self):
        asked = self.asked()
        self.nodes, self.ranks_per_node = asked.nodes, asked.ranks_per_node
        spread(self, self.case, self.ranks_per_node)

    @run_after("setup")
    def set_one_job_per_filesystem(self):
        one_job_at_once(self, self.filesystem)

    @run_before("run")
    def set_run_directory(self):
        self.prerun_cmds += make_run_directory(self, self.case, self.filesystem, self.repeats)
        self.prerun_cmds += context_shell.commands(self)
        # Without this mark benchio must not run: what it then fails to do could be excused.
        self.prerun_cmds += [f': > "{self.kept_file(why_not_measured.STARTED)}" || exit 1']

    @run_before("run")
    def set_command(self):
        self.run_id = secrets.token_hex(8)
        try:
            self.executable_opts = self.benchio_options(self.repeats, "result.json")
        except UserError as err:
            raise SanityError(str(err)) from None
        self.postrun_cmds = ["echo $? > exit_code"]

    @run_before("run", always_last=True)
    def set_afterwards(self):
        """After all that a check does once benchio has ended, such as to start it again."""
        if not self.left:
            self.postrun_cmds += context_shell.afterwards(self)

    @property
    def benchio_case(self):
        """What benchio is to do."""
        return self.case

    def benchio_options(self, repeats, result):
        """The command line of one run for the case."""
        return [
            *self.benchio_case.check.command_line(self.benchio_case),
            *self.filesystem.layout_options(self.benchio_case),
            *options_of_run(self.filesystem, repeats, self.run_id, result),
            *phase_limit(self),
        ]

    @sanity_function
    def assert_verified_write(self):
        self.keep_output()
        try:
            self.system_context = context.read(Path(self.kept))
        except Exception as err:  # of what is not judged, nothing may cost the verdict
            self.system_context = {context.UNKNOWN: f"iowatch cannot read it: {err!r}"}
        try:
            self.measured = self.verified()
            self.require_exit_code()
        except (InvalidResult, why_not_measured.NotMeasured) as err:
            self.end_without_result(err)
        self.slowest = self.measured.slowest(self.case.check.phases)
        self.control = dict(self.measured.control)
        self.provenance = dict(self.measured.provenance)
        if self.measured.notes:
            self.provenance[NOTE] = "; ".join(self.measured.notes)
        if modules := self.current_environ.modules:
            self.provenance["modules"] = " ".join(modules)
        if spec := self.benchio.concrete_spec:
            self.provenance["spack"] = spec
        if digest := self.benchio.digest:
            self.provenance["program"] = digest
        return True

    def verified(self):
        """What a run that satisfies the law came to; else InvalidResult."""
        return self.case.check.read(self.ended_job, self.repeats)

    @property
    def ended_job(self):
        """The job, :class:`iowatch.law.Job`, as the law asks of it."""
        away = osts_away(self.away).get(self.filesystem.name, ()) if self.away else None
        return Job(
            folder=Path(self.kept),
            case=self.case,
            filesystem=self.filesystem,
            run_id=self.run_id,
            made=self.made,
            nodes=self.nodes,
            spec=self.benchio.concrete_spec,
            away=away,
        )

    def require_exit_code(self):
        """InvalidResult, NotMeasured."""
        why_not_measured.require_end(exit_code(Path(self.kept)), self.said())
        require_end(self.ended_job)

    def said(self):
        return Path(str(self.stderr)).read_text(errors="replace")

    @property
    def is_of_contract(self):
        return self.suite == ACCEPTANCE

    @property
    def has_rate(self):
        """Is there, or will there be, something to judge?"""
        return bool(self.case.check.metrics) and not self.is_dry_run()

    @run_after("setup")
    def set_references(self):
        if self.is_of_contract or not self.case.check.metrics:
            return
        try:
            self.references = site_record.reference_file().of(self.case)
        except UserError as err:
            raise PerformanceError(str(err)) from None

    @run_before("performance")
    def set_metrics(self):
        if not self.has_rate:
            return
        metrics = dict(self.measured.metrics)
        with suppress(UserError):  # said when the metrics are on record
            self.case_past = None if self.is_of_contract else self.look_back()
            if self.case_past and self.case_past.drift is not None:
                metrics[DRIFT] = self.case_past.drift
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(value), metric(name).unit)
            for name, value in metrics.items()
        }

    def look_back(self):
        """What the past says of this run; UserError if it cannot be read."""
        earlier, tonight = site_record.nights_of(self.case)
        now = datetime.now(UTC)
        entry = site_record.baseline_of(self.case)
        metrics, control = self.measured.metrics, self.measured.control
        return by_past(self.case.check, earlier, tonight, entry, now, metrics, control)

    @run_after("performance")
    def set_verdict(self):
        if not self.has_rate:
            return
        if self.is_of_contract:
            verdict = by_contract(self.measured.metrics, self.filesystem.peak)
            said = "; ".join([verdict.sentence, *self.measured.notes])
            self.end(Verdict(verdict.outcome, said), PerformanceError)
            return
        try:
            self.case_past = self.case_past or self.look_back()
            blessed = site_record.baseline_of(self.case)
        except UserError as err:
            raise PerformanceError(str(err)) from None
        verdict = judge(
            self.case,
            self.measured.metrics,
            self.references,
            site_record.reference_file().name,
            self.filesystem.peak,
            self.case_past,
            blessed,
            self.measured.control,
            node_busy(Path(self.kept)),
        )
        failed = verdict.failed if verdict.is_red else ()
        result = "xfail" if self.excuse_of(verdict) else "fail"
        log_bounds(self, in_force(self.references, blessed), failed, result)
        said = [verdict.sentence, *self.details(verdict), *self.measured.notes]
        said = "; ".join(filter(None, said))
        told = Verdict(verdict.outcome, said)
        if verdict.outcome.is_unreferenced and self.record:
            self.log_verdict(told)
        else:
            self.end(told, PerformanceError)

    def details(self, verdict):
        """Phrases that a check adds to the sentence of a verdict."""
        if not verdict.outcome.is_slow:
            return []
        repetitions = self.measured.repetitions
        return [slow_rank(repetitions, self.case.check.phases), slow_node(repetitions)]
