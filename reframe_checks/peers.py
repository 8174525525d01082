"""Programs of others beside benchio: rates of IOR and mdtest, and Darshan's count of calls."""

import os
from importlib.util import find_spec

from reframe.core.builtins import (
    fixture,
    run_before,
    sanity_function,
)
from reframe.core.exceptions import SanityError

from iowatch.darshan_log import ProfileError, read_log, write_summary
from iowatch.kinds import ior, mdtest
from iowatch.kinds.profile import judge, writes_of
from iowatch.law import verified
from iowatch.result import InvalidResult, provenance
from iowatch.site import DARSHAN, IOR, MDTEST
from iowatch.verdict import OK, Outcome, Reason, State, Verdict

from .base import BenchioCheck
from .parameters import in_suites
from .programs import Found
from .rounds import InRounds
from .why_not_measured import NotMeasured

IOR_FILE = f'"$RUNDIR"/{ior.NAME}'
MDTEST_FILES = f'"$RUNDIR"/{mdtest.NAME}'
DARSHAN_LOG, DARSHAN_SUMMARY = "benchio.darshan", "benchio.darshan.html"
DARSHAN_LIBRARY = "DARSHAN_LIBRARY"  # the environment variable


class FoundIor(Found):
    descr = "Where IOR is"
    command = package = "ior"
    extra = IOR


class FoundMdtest(Found):
    descr = "Where mdtest is"
    command, package = "mdtest", "ior"
    extra = MDTEST


class FoundDarshan(Found):
    """What says where Darshan's library is, unless the site does."""

    descr = "Where Darshan is"
    command, package = "darshan-config", "darshan-runtime"
    extra = DARSHAN
    given = "libdarshan.so, or its module,"


def _commands(program, name, options):
    """Run a program as the job's tasks, and keep what it says."""
    return [
        f"launch {program.word} {' '.join(options)} > {name}.$round.out",
        f"echo $? > {name}.$round.code",
        f'[ "$(cat {name}.$round.code)" = 0 ] || exit 1',
    ]


class IorCheck(InRounds):
    """benchio and IOR in turn, with the same bytes: a contiguous block of each writer."""

    outputs = (*InRounds.outputs, "ior.*", "read.*")

    ior = fixture(FoundIor, scope="environment")

    def missing(self):
        return self.ior.missing_for(self)

    def commands_before(self):
        return self.filesystem.layout_commands(self.case)

    def commands_of_round(self):
        options = ior.write_options(self.case, IOR_FILE, "ior.$round.json")
        commands = _commands(self.ior, "ior", options)
        if self.filesystem.osts is not None:
            listing = self.filesystem.storage.listing(f"{IOR_FILE}*")
            commands += [f"{listing} > ior.$round.layout"]
        if self.case.operation == "read":
            spread, summary = self.ranks_per_node, "read.$round.json"
            options = ior.read_options(self.case, spread, IOR_FILE, summary)
            commands += _commands(self.ior, "read", options)
        return [*commands, f"rm -f {IOR_FILE}*"]


@in_suites
class IorPeer(IorCheck):
    """Both write."""

    descr = "Parallel write of benchio and of IOR"


@in_suites
class IorPeerRead(IorCheck):
    """Both read what others wrote; IOR compares the data while its clock runs, benchio after."""

    descr = "Parallel read of benchio and of IOR"


@in_suites
class MdtestPeer(InRounds):
    """Both make as many files in directories alike, look at those of others and remove them."""

    descr = "Operations on names of benchio and of mdtest"

    outputs = (*InRounds.outputs, f"{mdtest.NAME}.*")

    mdtest = fixture(FoundMdtest, scope="environment")

    def missing(self):
        return self.mdtest.missing_for(self)

    def commands_of_round(self):
        options = mdtest.options(self.case, self.ranks_per_node, MDTEST_FILES)
        return [*_commands(self.mdtest, mdtest.NAME, options), f"rm -rf {MDTEST_FILES}"]


@in_suites
class IoProfile(BenchioCheck):
    """benchio under Darshan, which counts the calls of MPI-IO; there is no bandwidth in it."""

    descr = "Collective and independent writes of each library"

    outputs = (*BenchioCheck.outputs, DARSHAN_LOG)

    darshan = fixture(FoundDarshan, scope="environment")

    @property
    def named_darshan(self):
        """The library's path, or its module, as the site says; empty: it says nothing."""
        return self.current_environ.extras.get(DARSHAN) or os.environ.get(DARSHAN_LIBRARY, "")

    def missing(self):
        if find_spec("darshan") is None:
            return "PyDarshan is missing: `pip install darshan` where ReFrame runs"
        return "" if self.named_darshan else self.darshan.missing_for(self)

    @run_before("run")
    def set_darshan(self):
        named, config = self.named_darshan, "darshan-config"
        if named.startswith("/"):
            library = [f'DARSHAN="{named}"']
        else:
            if named:
                self.modules += [named]
                library = [
                    f"command -v {config} >/dev/null || "
                    f'{{ echo "the module {named} brings no {config}" >&2; exit 1; }}'
                ]
            else:
                library, config = [], self.darshan.word
            prefix = f"{config} --pre-ld-flags | sed 's/^-L\\([^ ]*\\).*/\\1/'"
            library.append(f"DARSHAN=$({prefix})/libdarshan.so")
        self.prerun_cmds += [
            *library,
            '[ -r "$DARSHAN" ] || { echo "there is no Darshan library $DARSHAN" >&2; exit 1; }',
            # By itself, Darshan leaves out what is below /dev, /var and others.
            """printf '%s\\n' 'NAME_EXCLUDE .* *' "NAME_INCLUDE ^$RUNDIR/ *" > "$RUNDIR/config\"""",
        ]
        # Through env, which every launcher can start, for these processes alone.
        log = f'"$RUNDIR/{DARSHAN_LOG}"'
        self.executable = (
            'env -u DARSHAN_DISABLE DARSHAN_CONFIG_PATH="$RUNDIR/config" '
            f'DARSHAN_LOGFILE={log} LD_PRELOAD="$DARSHAN${{LD_PRELOAD:+:$LD_PRELOAD}}" '
            + self.executable
        )
        # Not cp: the log is read-only, and would be so where the next one is to be.
        self.postrun_cmds += [f"[ ! -e {log} ] || cat {log} > {DARSHAN_LOG}"]

    @sanity_function
    def assert_collective_writes(self):
        self.keep_output()
        log = self.kept_file(DARSHAN_LOG)
        try:
            self.provenance = provenance(verified(self.ended_job, "result.json", self.repeats))
            self.require_exit_code()
            files = read_log(log, self.case.ranks)
            write_summary(log, self.kept_file(DARSHAN_SUMMARY))
            writes = {backend: writes_of(backend, files) for backend in self.case.backends}
        except (InvalidResult, NotMeasured, ProfileError) as err:
            self.end_without_result(err)
        faults = [
            judge(backend, found, self.case.ranks, self.repeats)
            for backend, found in writes.items()
        ]
        faults = "; ".join(filter(None, faults))
        said = faults or "; ".join(f"{backend}: {found}" for backend, found in writes.items())
        outcome = Outcome(State.REGRESSION, Reason.NOT_COLLECTIVE) if faults else OK
        self.end(Verdict(outcome, said), SanityError)
        return True
