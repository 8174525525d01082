"""The outcome of a job that has ended: pure functions of its files and of the record."""

from contextlib import contextmanager
from dataclasses import replace

from iowatch.base.files import UserError
from iowatch.cases.verdict import OK, Outcome, Reason, State, Verdict
from iowatch.judge.judge import by_contract, judge
from iowatch.measure import law
from iowatch.measure.context.nodes import node_busy
from iowatch.measure.job_environment import require_built
from iowatch.measure.kinds import profile
from iowatch.measure.kinds.versions import known_faults, read_versions
from iowatch.measure.result import InvalidResult


@contextmanager
def users_error_as(error):
    """Raise an error that a user can mend as this one of ReFrame's, which ends the test alone."""
    try:
        yield
    except UserError as err:
        raise error(str(err)) from None


class NotMeasured(Exception):
    """A case was not measured, and nothing that was tried has failed to verify; the message says
    why."""

    state = State.UNJUDGED

    def __init__(self, why, reason):
        super().__init__(why)
        self.outcome = Outcome(self.state, reason)


class Skipped(NotMeasured):
    """A case cannot be measured: what it needs has never been there."""

    state = State.SKIPPED


def of_run(job, measured, references, source, past, blessed, details):
    """Return the verdict on a verified run, of which `details` tells more.

    `references` stand in the file `source`; without `past` another judges.
    """
    case, ceiling = job.case, job.filesystem.peak
    if past is None:
        verdict = by_contract(measured.metrics, ceiling)
    else:
        verdict = judge(
            case,
            measured.metrics,
            references,
            source,
            ceiling,
            past,
            blessed,
            measured.control,
            node_busy(job.folder),
        )
    more = details(verdict) if past else []
    sentence = "; ".join(filter(None, [verdict.sentence, *more, *measured.notes]))
    return replace(verdict, sentence=sentence)


def of_versions(job, text):
    """Return the versions of the libraries that `benchio --version` has printed, and the verdict on
    them. InvalidResult: they are not known, or not those that Spack was asked for, or the program
    failed; NotMeasured."""
    law.require_end(job)
    versions = read_versions(text)
    if "mpiio" not in versions:
        why = f"benchio --version names no MPI: see {job.folder}"
        raise InvalidResult(why, Reason.NO_OUTPUT)
    require_built({**versions, "mpi": versions["mpiio"]}, job.spec)
    faults = known_faults(versions, job.filesystem.types)
    words = [f"{name} {version}" for name, version in versions.items()]
    return versions, _of_faults(Reason.SLOW_VERSION, faults, ", ".join(words))


def of_profile(job, files, repeats):
    """Return the verdict on the writes to these files, as Darshan counted them. ProfileError: it
    did not see what the case has written."""
    case = job.case
    writes = {backend: profile.writes_of(backend, files) for backend in case.backends}
    faults = [profile.fault_of(name, count, case.ranks, repeats) for name, count in writes.items()]
    words = "; ".join(f"{name}: {count}" for name, count in writes.items())
    return _of_faults(Reason.NOT_COLLECTIVE, [*filter(None, faults)], words)


def _of_faults(reason, faults, words):
    outcome = Outcome(State.REGRESSION, reason) if faults else OK
    return Verdict(outcome, "; ".join(faults) or words)
