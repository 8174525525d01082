"""Programs of others beside benchio: rates of IOR and mdtest, and Darshan's count of calls."""

import os
import re
from importlib.util import find_spec

from reframe.core.builtins import fixture

from iowatch.measure.kinds.profile import read_log, write_summary
from iowatch.measure.law import verified
from iowatch.measure.provenance import provenance
from iowatch.site.site import DARSHAN, IOR, MDTEST

from . import outcome, scripts
from .base import CaseCheck
from .programs import program_of
from .suite_cases import in_suites

#: The path of `libdarshan.so`, for `IoProfile`, where neither the environment of ReFrame nor
#: `darshan-config` names it.
DARSHAN_LIBRARY = "DARSHAN_LIBRARY"


class IorCheck(CaseCheck):
    """benchio and IOR in turn, with the same bytes."""

    program = fixture(program_of(IOR), scope="environment")

    def script(self, plan):
        return scripts.beside_ior(plan, self.program.word)


@in_suites
class IorPeer(IorCheck):
    """benchio and IOR write the same bytes in turn: a contiguous block of each rank."""


@in_suites
class IorPeerRead(IorCheck):
    """benchio and IOR read what others wrote: IOR compares the data while its clock runs, benchio
    after."""


@in_suites
class MdtestPeer(CaseCheck):
    """benchio and mdtest make as many files in directories alike, look at those of others and
    remove them."""

    program = fixture(program_of(MDTEST, package="ior"), scope="environment")

    def script(self, plan):
        return scripts.beside_mdtest(plan, self.program.word)


@in_suites
class IoProfile(CaseCheck):
    """benchio writes under Darshan, which counts the collective and independent calls of each
    library; there is no bandwidth in it."""

    RESET = re.compile(rf"{CaseCheck.RESET.pattern}|DARSHAN_.*")  # the command sets them anew
    program = fixture(
        program_of(DARSHAN, "darshan-config", "darshan-runtime", "libdarshan.so, or its module,"),
        scope="environment",
    )

    @property
    def named_darshan(self):
        """The path or module of the library, as the site names it; empty: it does not."""
        return self.current_environ.extras.get(DARSHAN) or os.environ.get(DARSHAN_LIBRARY, "")

    def missing(self):
        if find_spec("darshan") is None:
            return "PyDarshan is missing: `pip install darshan` where ReFrame runs"
        return "" if self.named_darshan else super().missing()

    def script(self, plan):
        named = self.named_darshan
        if named and not named.startswith("/"):
            self.modules += [named]
        return scripts.profiled(plan, named, self.program.word)

    def read_job(self):
        log = self.kept_file(scripts.DARSHAN_LOG)
        self.provenance = provenance(verified(self.given, "result.json", self.repeats))
        files = read_log(log, self.case.ranks)
        write_summary(log, log.with_name(f"{log.name}.html"))
        return outcome.of_profile(self.given, files, self.repeats)
