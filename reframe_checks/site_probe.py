"""The job of `iowatch site check`: no check of a suite, and only that command runs it."""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, variable

from iowatch.adopt.probe import setting_at

from . import scripts
from .base import CaseCheck
from .suite_cases import FILESYSTEMS, SYSTEM


@rfm.simple_test
class SiteProbe(CaseCheck):
    """A short write at each place, whose job notes what it meets on the way there.

    It is judged by :mod:`iowatch.adopt.probe`: what runs here is no past, no night and no evidence.
    """

    repeats = 3
    time_limit = "2m"
    #: Run it?
    #:
    #: :default: ``False``: then it runs nowhere
    is_asked = variable(typ.Bool, value=False)
    #: No rate of it is judged by a reference or by a past.
    has_rate = False

    @run_after("init")
    def set_valid_systems(self):
        self.valid_systems = [f"{SYSTEM.name}:{p}" for p in FILESYSTEMS if self.is_asked]

    def setting_here(self):
        return setting_at(self.filesystem)

    def script(self, plan):
        return scripts.probe(plan)
