"""How each library writes: collectively, as Darshan sees it."""

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from iowatch.darshan_log import ProfileError, judge, read_log, write_summary, writes_of
from iowatch.result import InvalidResult, backends_of
from iowatch.site import DARSHAN

from . import past
from .job import BenchioJob
from .parameters import swept

LOG = Path("benchio.darshan")
SUMMARY = Path("benchio.darshan.html")
NO_DARSHAN = Path("no_darshan")  # the job found none, and nothing says where it is
LIBRARY = "DARSHAN_LIBRARY"  # the environment variable


@rfm.simple_test
@swept
class IoProfile(BenchioJob):
    """benchio under Darshan, which counts the calls of MPI-IO; there is no bandwidth in it."""

    descr = "Collective and independent writes of each library"

    repeats = 1  # of one repetition, every independent write is seen

    #: What is looked at, written like a case.
    profile = variable(str, value="", loggable=True)

    @run_after("setup")
    def set_profile(self):
        self.profile, self.case_id = str(self.case), ""  # it has no figures: it is no case
        self.case = replace(self.case, operation="write")

    @run_after("setup")
    def require_pydarshan(self):
        self.skip_if(
            find_spec("darshan") is None,
            "PyDarshan is missing: pip install -e '.[darshan]' where ReFrame runs",
        )

    @run_before("run")
    def set_darshan(self):
        named = self.current_environ.extras.get(DARSHAN) or os.environ.get(LIBRARY, "")
        if named.startswith("/"):
            library = [f'DARSHAN="{named}"']
        else:
            self.modules += [named] if named else []
            prefix = "darshan-config --pre-ld-flags | sed 's/^-L\\([^ ]*\\).*/\\1/'"
            library = [
                "command -v darshan-config >/dev/null || { "
                + (
                    f'echo "the module {named} brings no darshan-config"'
                    if named
                    else f": > {NO_DARSHAN}"
                )
                + " >&2; exit 1; }",
                f"DARSHAN=$({prefix})/libdarshan.so",
            ]
        self.prerun_cmds += [
            *library,
            '[ -r "$DARSHAN" ] || { echo "there is no Darshan library $DARSHAN" >&2; exit 1; }',
            # By itself, Darshan leaves out what is below /dev, /var and others.
            """printf '%s\\n' 'NAME_EXCLUDE .* *' "NAME_INCLUDE ^$RUNDIR/ *" > "$RUNDIR/config\"""",
        ]
        # Through env, which every launcher can start, for these processes alone.
        self.executable = (
            'env -u DARSHAN_DISABLE DARSHAN_CONFIG_PATH="$RUNDIR/config" '
            f'DARSHAN_LOGFILE="$RUNDIR/{LOG}" LD_PRELOAD="$DARSHAN${{LD_PRELOAD:+:$LD_PRELOAD}}" '
            + self.executable
        )
        # Not cp: the log is read-only, and would be so where the next one is to be.
        self.postrun_cmds += [f'[ ! -e "$RUNDIR/{LOG}" ] || cat "$RUNDIR/{LOG}" > {LOG}']
        self.keep_files += [str(LOG), str(SUMMARY)]

    def benchio_options(self, repeats, result):
        return [*super().benchio_options(repeats, result), "--warmup 0"]

    @sanity_function
    def assert_collective_writes(self):
        self.skip_if(
            NO_DARSHAN.exists(),
            f"no Darshan: name its libdarshan.so, or its module, as {DARSHAN!r} in the extras of "
            f"environment {self.current_environ.name!r} or in {LIBRARY}, or load darshan-runtime",
        )
        try:
            self.verified_result(Path("result.json"), self.repeats)
            files = read_log(LOG, self.case.writers)
            write_summary(LOG, SUMMARY)
            writes = {backend: writes_of(backend, files) for backend in backends_of(self.case)}
        except (InvalidResult, ProfileError) as err:
            raise SanityError(f"{self.profile}: {err}") from None
        self.sentence = "; ".join(f"{backend}: {found}" for backend, found in writes.items())
        faults = [
            judge(backend, found, self.case.writers, self.repeats)
            for backend, found in writes.items()
        ]
        if faults := [fault for fault in faults if fault]:
            past.fail(self.profile, "; ".join(faults))
        return True
