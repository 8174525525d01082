"""The base class of checks: a case, a job whose raw results are kept, a verdict that ends it."""

import re
import secrets
import shutil
import warnings
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    fixture,
    loggable,
    run_after,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import ExpectedFailureError, PerformanceError, SanityError

from iowatch import __version__
from iowatch.base import build
from iowatch.base.files import UserError
from iowatch.cases.filesystem import NIGHTLY
from iowatch.cases.metric import DRIFT
from iowatch.cases.run import NOTE
from iowatch.cases.verdict import Flag, Outcome, Reason, State, Verdict
from iowatch.judge.judge import by_past, in_force
from iowatch.measure import context, job_environment
from iowatch.measure.checks import CHECKS, kind_of, metric
from iowatch.measure.job_folder import SAID, lines_of
from iowatch.measure.kinds.profile import ProfileError
from iowatch.measure.kinds.slow_ost import osts_away
from iowatch.measure.law import Job, notes_on_end
from iowatch.measure.measured import slow_node, slow_rank
from iowatch.measure.mounted import place_notes
from iowatch.measure.result import InvalidResult
from iowatch.past import raw_results

from . import allocation, outcome, resume, scripts, site_record, why_not_measured
from .outcome import NotMeasured, Skipped, users_error_as
from .programs import BuiltBenchio
from .reframe_4_10 import fate_of, is_timed_out, log_bounds, why_ended
from .run_directory import ELSEWHERE, NOTES
from .suite_cases import FILESYSTEMS, SYSTEM, SessionVariables, asking, promised, setting_of


class CaseCheck(rfm.RunOnlyRegressionTest, SessionVariables):
    """A check of one case: its job leaves raw results, and its verdict ends the test.

    A check says by `script` what its job does, and by `read_job` what the job came to. Under
    another suite than the nightly one, a run is only verified: a contract or the next night judges.

    The attributes below exist from the phase of ReFrame on that their comments name.
    """

    valid_prog_environs = ["*"]
    env_vars = {"DARSHAN_DISABLE": "1"}  # some sites have it in every job, and it takes time

    #: Variables that ranks may have otherwise than their job: launchers add to the path, and what
    #: is theirs they use up.
    RESET = re.compile(r"PATH|(SLURM|SBATCH|SRUN|PRTE_MCA|I_MPI_HYDRA)_.*")

    benchio = fixture(BuiltBenchio, scope="environment")

    # From init on.

    #: How many cases that suite of the whole system has: a session that ran them all is a night.
    promised = variable(int, value=0, loggable=True)
    #: Timed repetitions of each backend, after one that warms up.
    #:
    #: :default: as many as the check takes
    repeats = variable(int, type(None), value=None)

    # From setup on.

    #: The version of iowatch that runs the check.
    iowatch = variable(str, value="", loggable=True)
    #: The key of all metrics and reference values; see :class:`iowatch.cases.case.Case`.
    case_id = variable(str, value="", loggable=True)
    #: The filesystem's name in the site's configuration.
    filesystem_name = variable(str, value="", loggable=True)
    #: Number of nodes.
    nodes = variable(int, value=0, loggable=True)
    #: Number of ranks on each node.
    ranks_per_node = variable(int, value=0, loggable=True)
    #: :class:`iowatch.cases.case.Case`; ReFrame could not copy a case before.
    case = None
    #: :class:`iowatch.cases.filesystem.Filesystem`.
    filesystem = None
    #: The job of a killed session that is taken up, :class:`resume.LeftJob`; None: there is none.
    left_job = None
    #: The site's bounds on the case; None if the check has no metrics, or another judges.
    references = None

    # From run on.

    #: The folder of the raw results.
    kept = variable(str, value="", loggable=True)
    #: The id that the job gives to benchio: a result without this id is another job's.
    run_id = variable(str, value="", loggable=True)
    #: The job that the law judges, :class:`iowatch.measure.law.Job`.
    given = None
    #: How far the time of day was ahead then, :func:`iowatch.measure.job_environment.ahead`.
    was_ahead = 0.0

    # From sanity on, if the job has left them.

    #: The results of the run, :class:`iowatch.measure.measured.Measured`.
    measured = None
    #: Library versions, hints, striping and hosts of the run.
    provenance = variable(dict, value={}, loggable=True)
    #: The slowest rank of each phase, in words.
    slowest = variable(dict, value={}, loggable=True)
    #: Median seconds of each phase of MPI-IO in the same rounds; none of MPI-IO itself.
    control = variable(dict, value={}, loggable=True)
    #: The rates of nodes that did not wait for one another, :data:`iowatch.cases.run.ByNode`.
    by_node = variable(dict, value={}, loggable=True)
    #: The system context, :data:`iowatch.cases.run.SystemContext`; it is no metric.
    system_context = variable(dict, value={}, loggable=True)

    # From performance on.

    #: The record of the case, :class:`iowatch.judge.Past`.
    case_past = None

    #: What the detector made of the run, :class:`iowatch.judge.stored.JudgedRun`.
    detector = variable(dict, value={}, loggable=True)

    # From the end of the test on, in whichever phase.

    #: The verdict's :class:`iowatch.cases.verdict.State`; empty: there is no verdict yet.
    state = variable(str, value="", loggable=True)
    #: The verdict's :class:`iowatch.cases.verdict.Reason`; empty: the state needs none.
    reason = variable(str, value="", loggable=True)
    #: The verdict's :class:`iowatch.cases.verdict.Flag`.
    flags = variable(list, value=[], loggable=True)
    #: The verdict in one sentence.
    sentence = variable(str, value="", loggable=True)

    @loggable
    @property
    def queued(self):
        """The reason for which the job still waited when its session was stopped; empty: none."""
        if self.state or not (self.filesystem and self.job):
            return ""
        try:
            if self.left_job:
                return resume.waited_for(self, self.left_job)
            if self.filesystem.allocation and self.job.submit_time:
                return allocation.waited_for(self)
            return why_not_measured.waited_for(self)
        except Exception as err:  # it would cost the report of the whole session
            # Not by ReFrame's log, whose records have this variable.
            warnings.warn(f"cannot tell if a job was queued: {err!r}", RuntimeWarning, 1)
            return ""

    # Hooks that a check may override

    def setting_here(self):
        """Return what the check is to measure at its partition."""
        return setting_of(self)

    def missing(self):
        """Say which program the check does not find, and how to get it; empty: it finds all."""
        program = getattr(self, "program", None)  # the fixture of a check of another program
        return program.missing_for(self) if program else ""

    def script(self, plan):
        """Return the :class:`scripts.JobScript` of a job that is given this :class:`JobPlan`.

        UserError; NotMeasured: there is nothing to be measured now.
        """
        return scripts.once(plan)

    def measure(self):
        """Return what the job has measured. InvalidResult, NotMeasured."""
        return kind_of(self.case).read(self.given, self.repeats)

    def read_job(self):
        """Read what the job has left; a check without metrics returns its verdict. InvalidResult,
        NotMeasured, ProfileError."""
        measured = self.measure()
        self.measured = replace(measured, notes=[*measured.notes, *notes_on_end(self.given)])
        self.slowest = self.measured.slowest(self.case.check.phases)
        self.control = dict(self.measured.control)
        self.by_node = dict(self.measured.by_node)
        notes = [*self.measured.notes, *place_notes(self.measured.results)]
        told, mpi = (lines_of(Path(self.kept), name) for name in (NOTES, scripts.MPI))
        more = {
            NOTE: "; ".join(filter(None, [*notes, *told, *mpi[1:], why_ended(self.job)])),
            "launcher": "".join(mpi[:1]),
            "modules": " ".join(self.current_environ.modules),
            "spack": self.benchio.concrete_spec,
            "program": self.benchio.digest,
        }
        more = {name: text for name, text in more.items() if text}
        self.provenance = self.measured.provenance | more

    def details(self, verdict):
        """Return phrases that a check adds to the sentence of a verdict."""
        repetitions = self.measured.repetitions  # none beside another program
        if not (verdict.outcome.is_slow and repetitions):
            return []
        return [slow_rank(repetitions, self.case.check.phases), slow_node(repetitions)]

    def judge_parts(self, verdict):
        """Return the verdict on a run of the night, or what is worse of its parts."""
        return verdict

    def known_filesystems(self):
        """Return the filesystems that the place may be on, with their sources."""
        with suppress(UserError):  # said when the metrics are on record
            return site_record.known_filesystems(self.filesystem)
        return {}

    # Init and setup

    @run_after("init")
    def set_valid_systems(self):
        self.valid_systems = [f"{SYSTEM.name}:{partition}" for partition in asking(self)]
        self.promised = promised(self.suite)
        if self.repeats is None:
            self.repeats = CHECKS[type(self).__name__].repeats

    @run_after("setup")
    def set_case(self):
        self.iowatch = build.version(__version__)
        self.filesystem = FILESYSTEMS[self.current_partition.name]
        setting = self.setting_here()
        self.case = self.filesystem.case(self.current_environ.name, setting)
        self.case_id, self.filesystem_name = str(self.case), self.filesystem.name
        self.nodes, self.ranks_per_node = setting.nodes, setting.ranks_per_node

    @run_after("setup")
    def take_up_left_job(self):
        if self.resumes and not self.is_dry_run():
            self.left_job = resume.take_up(self)

    @run_after("setup")
    def set_tasks(self):
        allocation.ask_for_nodes(self, self.case, self.filesystem, self.ranks_per_node)

    @run_after("setup")
    def set_references(self):
        """Read all that judges the case before the job runs: what cannot be read would else cost
        the night."""
        with users_error_as(PerformanceError):
            site_record.expected_failures()
            site_record.maintenance()
            if self.suite == NIGHTLY and self.case.check.metrics:
                self.references = site_record.reference_file().bounds_of(self.case)

    # Run

    @run_before("run")
    def skip_what_cannot_run(self):
        # As ReFrame is about to do; in seconds, then.
        self.job.time_limit = self.time_limit or self.current_partition.time_limit
        if self.left_job:
            return
        try:
            with users_error_as(PerformanceError):
                self.require_place_and_programs()
        except NotMeasured as err:
            self.end_untried(err)

    def require_place_and_programs(self):
        """Raise NotMeasured if the job could not measure its case now. UserError."""
        if self.filesystem.allocation:
            allocation.require_place(self)
        if self.is_dry_run():
            return
        now = datetime.now(UTC)
        end = now + timedelta(seconds=self.job.time_limit or 0)
        announced = why_not_measured.maintenance(self.filesystem_name, now, end)
        if why := announced or why_not_measured.reservation(self.job, end):
            raise NotMeasured(why, Reason.MAINTENANCE)
        if why := self.missing():
            # Where the check has ever run, nobody guards the case any more. Else nobody has
            # promised it: the night says why it is skipped, and has no colour for that.
            untried = NotMeasured if site_record.has_run(self.case) else Skipped
            raise untried(why, Reason.NOT_INSTALLED)

    @run_before("run")
    def set_given(self):
        self.kept, self.run_id, made = "runs", secrets.token_hex(8), datetime.now(UTC)
        if self.left_job:
            self.kept, self.run_id = str(self.left_job.folder), self.left_job.run_id
            made = self.left_job.made
        elif not self.is_dry_run():
            prefix = Path(rt.runtime().prefix)
            with users_error_as(SanityError):
                self.kept = str(raw_results.new_folder(prefix, site_record.KEPT_AS, self.case))
        for file in self.printed(self.stagedir):  # of an earlier job: this one may never start
            file.unlink(missing_ok=True)
        why_not_measured.hear_out(self)
        self.was_ahead = job_environment.ahead()
        self.given = Job(
            folder=Path(self.kept),
            case=self.case,
            filesystem=self.filesystem,
            run_id=self.run_id,
            made=made,
            nodes=self.nodes,
            spec=self.benchio.concrete_spec,
            variables=self.variables_of_job(),
            away=osts_away(self.away).get(self.filesystem.name, ()) if self.away else None,
            known=self.known_filesystems(),
        )

    def variables_of_job(self):
        """Return what the job hands over to its ranks, by name: the text that sets it, or nothing
        where only the job knows."""
        places = (self.current_partition.local_env, self.current_environ, self)
        commands = [*self.current_partition.prepare_cmds, *self.current_environ.prepare_cmds]
        exported = re.findall(r"\bexport\s+(\w+)=", "\n".join(commands))
        texts = dict.fromkeys([*scripts.chosen(), *exported], "")
        texts |= {name: str(text) for place in places for name, text in place.env_vars.items()}
        if any(place.modules for place in places):
            texts["LOADEDMODULES"] = ""
        return {name: text for name, text in texts.items() if not self.RESET.fullmatch(name)}

    @run_before("run")
    def set_script(self):
        if self.left_job:
            self.executable, self.time_limit = resume.wait(self, self.left_job), allocation.WAITS
            return
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        limit_s, join = self.job.time_limit, []
        if self.filesystem.allocation:
            join, self.time_limit = allocation.join_for(self), allocation.WAITS
        plan = scripts.JobPlan(
            job=self.given,
            stage=self.stagedir,
            repeats=self.repeats,
            ranks_per_node=self.ranks_per_node,
            benchio=self.benchio.word,
            load=self.benchio.load_cmds,
            join=join,
            launcher=self.job.launcher.run_command(self.job),
            limit_s=limit_s,
            is_here=why_not_measured.is_here(self, self.filesystem),
            is_alone=self.case.check.by_hour or allocation.is_alone(self, self.filesystem),
            under_slurm=why_not_measured.is_slurm(self) or bool(self.filesystem.allocation),
        )
        try:
            with users_error_as(SanityError):
                script = self.script(plan)
                if not self.is_dry_run():
                    resume.remember(self)
        except NotMeasured as err:
            self.end_untried(err)
        self.prerun_cmds, self.postrun_cmds = [*script.before], [*script.after]
        # A rank that nobody can kill is not to hold the lock of the job, or of the site's.
        self.executable = f"{script.command} 8>&- 9>&-"

    # Sanity and performance

    @sanity_function
    def assert_verified(self):
        self.keep_output()
        try:
            self.system_context = context.read(Path(self.kept))
        except Exception as err:  # of what is not judged, nothing may cost the verdict
            self.system_context = {context.UNKNOWN: f"iowatch cannot read it: {err!r}"}
        try:
            verdict = self.read_job()
            job_environment.require_unset(Path(self.kept), job_environment.APART_S, self.was_ahead)
        except (InvalidResult, NotMeasured, ProfileError) as err:
            self.end_without_result(err)
        if verdict:
            self.end(verdict, SanityError)
        return True

    @run_before("performance")
    def set_metrics(self):
        if not self.has_rate:
            return
        metrics = dict(self.measured.metrics)
        with suppress(UserError):  # said when the metrics are on record
            self.case_past = self.look_back()
            if self.case_past and self.case_past.drift is not None:
                metrics[DRIFT] = self.case_past.drift
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(value), metric(name).unit)
            for name, value in metrics.items()
        }

    @run_after("performance")
    def set_verdict(self):
        if not self.has_rate:
            return
        references, blessed, source = self.references, None, ""
        with users_error_as(PerformanceError):
            self.case_past = self.case_past or self.look_back()
            if self.case_past:
                blessed = site_record.baseline_of(self.case)
                source = site_record.reference_file().name
        verdict = outcome.of_run(
            self.given, self.measured, references, source, self.case_past, blessed, self.details
        )
        if self.case_past:
            verdict = self.judge_parts(verdict)
            failed = verdict.failed if verdict.is_red else ()
            result = "xfail" if site_record.excuse_of(self.case_id, verdict) else "fail"
            self.detector = self.case_past.judged.stored(verdict)
            log_bounds(self, in_force(references, blessed), failed, result)
        if verdict.outcome.is_unreferenced and self.record:
            self.log_verdict(verdict)
        else:
            self.end(verdict, PerformanceError)

    @property
    def has_rate(self):
        """Return whether there is, or will be, something to judge."""
        return bool(self.case.check.metrics) and not self.is_dry_run()

    def look_back(self):
        """Return what the past says of this run; None: another judges. UserError."""
        if self.suite != NIGHTLY:
            return None
        earlier, tonight = site_record.nights_of(self.case)
        now = datetime.now(UTC)
        entry = site_record.baseline_of(self.case)
        metrics, control = self.measured.metrics, self.measured.control
        return by_past(self.case.check, earlier, tonight, entry, now, metrics, control)

    def kept_file(self, name):
        """Return a file among the raw results, which every verdict rests on."""
        return Path(self.kept, str(name))

    def printed(self, folder):
        """Return the files in a folder that have what the job printed."""
        names = (str(name) for name in (self.stdout, self.stderr))
        files = [*(Path(folder, name) for name in names), *Path(folder).glob(SAID)]
        return [file for file in files if file.is_file()]

    def keep_output(self):
        """Keep what the job printed: some schedulers hand that over only after the job, and a job
        that was killed keeps nothing."""
        for file in self.printed(self.stagedir):
            if not self.kept_file(file.name).exists():
                with suppress(OSError):
                    shutil.copy(file, self.kept)
        with users_error_as(SanityError):
            raw_results.keep(Path(self.kept))

    # The end

    def end(self, verdict, error):
        """End the test with this verdict: `error` is what to raise if it is red."""
        self.log_verdict(verdict)
        if verdict.outcome.is_untried:
            self.skip(self.sentence)
        if not verdict.is_red:
            return
        if excused := site_record.excuse_of(self.case_id, verdict):
            known = verdict.outcome.flagged(Flag.KNOWN)
            self.log_verdict(Verdict(known, f"{verdict.sentence} ({excused})"))
            raise ExpectedFailureError(self.sentence)
        raise error(self.sentence)

    def log_verdict(self, verdict):
        """Give report and database the verdict."""
        for name, value in verdict.outcome.fields.items():
            setattr(self, name, value)
        self.sentence = verdict.sentence

    def end_untried(self, why):
        """End the test as ReFrame ends one that is skipped, for this NotMeasured."""
        self.end(Verdict(why.outcome, str(why)), None)

    def end_without_result(self, why):
        """End the test of a job that has left nothing that counts, for this exception."""
        wrong = {ELSEWHERE: Reason.WRONG_FILESYSTEM, scripts.FEWER: Reason.CONFIGURATION}
        for name, reason in wrong.items():
            if (sentence := self.kept_file(name)).exists():
                self.end_failed(sentence.read_text("utf-8").strip(), reason)
        if isinstance(why, InvalidResult) and why.is_of_quota:
            why = NotMeasured(str(why), Reason.QUOTA)
        if isinstance(why, NotMeasured):
            self.end_untried(why)
        if why.reason is Reason.WRONG_CLOCK:  # the node's fault, and nothing that failed to verify
            self.end_untried(NotMeasured(str(why), why.reason))
        if known := why_not_measured.why_not_ended(self, why):
            self.end_untried(known)
        if nothing := why_not_measured.left_nothing(self, why):
            self.end_failed(nothing, Reason.NO_OUTPUT)
        ended, reason = why_ended(self.job) or fate_of(self.job).words, why.reason
        if is_timed_out(self.job) and reason is Reason.NO_OUTPUT:
            reason = Reason.TIME_LIMIT
        self.end_failed("; ".join(filter(None, [str(why), ended])), reason)

    def end_failed(self, why, reason):
        self.end(Verdict(Outcome(State.FAILED, reason), str(why)), SanityError)
