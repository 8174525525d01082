"""What a job measured, judged: by the site's reference values, and by the case's own past."""

from datetime import date, datetime, timezone

import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ExpectedFailureError, PerformanceError

from iowatch.bless import BlessError
from iowatch.detector.judgement import SUSPECT
from iowatch.history import HistoryError
from iowatch.judge import judge_tonight
from iowatch.metrics import DRIFT, slow_phase, slow_rank, unit
from iowatch.references import EXCUSABLE, ExpectedError, excuse
from iowatch.verdict import BadReference, in_force, judge, read_references, with_past

from . import past
from .job import BenchioJob
from .parameters import SYSTEM


class BenchioCheck(BenchioJob):
    """One job of benchio, and the verdict on it."""

    #: Accept a case without reference values: a new site's first nights.
    #:
    #: :default: ``False``
    record = variable(typ.Bool, value=False)

    @run_after("setup")
    def set_references(self):
        path = past.reference_folder() / f"{SYSTEM.name}.yaml"
        self.reference_file = f"{path.parent.name}/{path.name}"
        try:
            past.check_references(path)
            self.reference = {"$ref": str(path)}
            if self.reference and self.reference.index != ("case_id",):
                raise BadReference("'$index: [case_id]' is missing")
            self.references = read_references(self.case, self._reference_entries())
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
    def set_excuse(self):
        try:
            self.excuse = excuse(past.expected_failures(), self.case_id, date.today())
        except ExpectedError as err:
            raise PerformanceError(str(err)) from None

    @run_before("performance")
    def set_trend(self):
        if self.is_dry_run():
            return
        self.trend, self.blessed = None, None
        try:
            self.blessed = past.blessed().get(self.case)
            nights = past.nights().get(self.case, {})
        except (HistoryError, BlessError) as err:
            self.past_error = str(err)  # raised when the figures are recorded
            return
        now = datetime.now(timezone.utc)
        self.trend = judge_tonight(nights, self.blessed, now, self.figures)
        if self.trend.drift is not None:
            self.figures[DRIFT] = self.trend.drift

    @run_before("performance")
    def set_figures(self):
        if not self.is_dry_run():
            self.perf_variables = {
                name: sn.make_performance_function(sn.defer(value), unit(name))
                for name, value in self.figures.items()
            }

    @run_after("performance")
    def set_verdict(self):
        if self.is_dry_run():
            return
        if not self.trend:
            raise PerformanceError(self.past_error)
        blessed = self.blessed is not None
        self.references = in_force(self.references, self.blessed.judged if blessed else ())
        present = judge(
            self.case,
            self.figures,
            self.references,
            self.reference_file,
            self.filesystem.peak,
            self.record,
        )
        verdict = with_past(self.case, present, self.trend.judgement, blessed)
        self.verdict = verdict.kind
        self.sentence = "; ".join(filter(None, [verdict.sentence, *self.details(verdict)]))
        excused = verdict.red and verdict.kind in EXCUSABLE and self.excuse
        self.log_bounds(verdict.failed, "xfail" if excused else "fail")
        if excused:
            self.sentence += f" ({excused})"
            raise ExpectedFailureError(self.sentence)
        if verdict.red:
            raise PerformanceError(self.sentence)

    def details(self, verdict):
        """Phrases that a check adds to the sentence of a verdict."""
        if verdict.kind not in {*EXCUSABLE, SUSPECT}:
            return []
        return [slow_phase(self.figures, self.trend.usual), slow_rank(self.repetitions)]

    def log_bounds(self, failed, result):
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
                entry[-1] = result
