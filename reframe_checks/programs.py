"""The programs that checks run: benchio, and others that a machine may not have."""

import os
import re
import shlex
import uuid
from contextlib import suppress
from pathlib import Path

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError
from reframe.core.meta import make_test

from iowatch.adopt.spack import read_lock
from iowatch.base.commands import run
from iowatch.base.files import UserError, no_room
from iowatch.base.locks import holder
from iowatch.base.places import BENCHIO_SOURCE, BUILT_BENCHIO, ROOT
from iowatch.base.yaml_text import load
from iowatch.cases.verdict import Reason
from iowatch.measure.causes import cause_of
from iowatch.measure.job_folder import printed
from iowatch.past import raw_results
from iowatch.site.site import BENCHIO, SPACK, require_for_jobs

from .reframe_4_10 import hear_out, why_ended
from .shell import shell
from .suite_cases import SessionVariables

BUILD = ROOT / "build" / "benchio"
SPACK_REPO = ROOT / "spack-repo"

#: This session of ReFrame: what Spack has made concrete in it, it does not again.
SESSION = uuid.uuid4().hex

#: The file of a job that gave up waiting for its turn to build.
HELD = Path("held")

#: After so many seconds of waiting a job says for whom.
SILENT_S = 5

#: The program while only the shell knows where it is.
IN_SHELL = '"$program"'


class BuiltBenchio(rfm.RunOnlyRegressionTest, SessionVariables):
    """benchio: a site's own; built by Spack; brought up to date in this checkout; or on PATH."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True
    #: ``cmake``: in this checkout; ``spack``: in a copy of the system's Spack environment, which
    #: all partitions share.
    #:
    #: :default: nothing is built if the environment's extras name a program as ``benchio``;
    #:     ``spack`` if they name a spec as ``spack``; else ``cmake`` if there is a build in this
    #:     checkout
    build = variable(typ.Str["cmake|spack"], type(None), value=None)
    #: What Spack is to build.
    #:
    #: :default: ``spack`` of the environment's extras, else this checkout's last commit to benchio
    spack_spec = variable(str, type(None), value=None)
    #: The program's path.
    #:
    #: :default: ``benchio`` of the environment's extras, else ``build/bin/benchio``, else the one
    #:     on PATH once the environment is loaded
    program = variable(str, value=str(BUILT_BENCHIO))
    #: Commands of a job before it runs the program.
    load_cmds = variable(typ.List[str], value=[])
    #: The spec that Spack has built, with what it is linked to.
    concrete_spec = variable(str, value="", loggable=True)
    #: SHA-256 of the program, its first 16 digits; empty if only a job can read it.
    digest = variable(str, value="", loggable=True)
    #: The lock that its job waits for; None: it waits for none.
    lock = None
    #: Is it looked for on PATH?
    is_on_path = variable(bool, value=False)
    #: Is it taken as it was built, in a checkout that is read-only or somebody else's?
    is_borrowed = variable(bool, value=False)

    @run_before("setup")
    def require_places_for_jobs(self):
        here = rt.runtime()
        try:
            require_for_jobs("RFM_PREFIX or --prefix", Path(here.prefix))
            require_for_jobs("RFM_STAGE_DIR or --stage", Path(here.stage_prefix))
        except UserError as err:
            raise ReframeError(str(err)) from None

    @run_before("run")
    def hear_job_out(self):
        hear_out(self.job)

    @run_after("setup")
    def set_commands(self):
        self.prerun_cmds = ["set -e"]
        extras = self.current_environ.extras
        if self.build is None and BENCHIO in extras:
            self.program, self.concrete_spec = extras[BENCHIO], extras.get(SPACK, "")
        elif self.build == "spack" or (self.build is None and SPACK in extras):
            self.build_with_spack(self.spack_spec or extras.get(SPACK))
        elif self.build is None and not BUILD.is_dir():
            self.find_on_path()
        elif may_build():
            # The build tree is persistent and shared: one session at a time brings it up to date.
            # Touched, it is as new as what it was built of, whatever had to be linked anew.
            touch = shlex.join(["touch", "-c", str(BUILT_BENCHIO)])
            # What the build leaves running, such as a compiler's cache, is to hold no lock.
            built = f"{shlex.join(['cmake', '--build', str(BUILD)])} 8>&- 9>&- && {touch}"
            self.prerun_cmds += [self.in_turn(BUILD / ".lock"), built, "exec 8>&-"]
        else:
            self.is_borrowed = True
        self.executable = self.word
        self.executable_opts = ["--version"]

    def in_turn(self, lock):
        """Return the shell with which a job waits for this lock, half of its time at most."""
        if self.time_limit is None:
            self.time_limit = self.current_partition.time_limit
        wait_s = int((self.time_limit or 3600) / 2)
        held, self.lock = f"{self.stagedir}/{HELD}", lock
        return shell("lock", LOCK=lock, HELD=held, SILENT_S=SILENT_S, WAIT_S=wait_s)

    @property
    def word(self):
        """The program as one word of a job's shell, which may have a variable in it."""
        return re.sub(r"\s", r"\\\g<0>", self.program)

    def find_on_path(self):
        """Take the benchio that jobs find: a module of the environment may bring it."""
        self.is_on_path = True
        self.program = IN_SHELL  # until it has been found
        self.prerun_cmds += [
            "program=$(command -v benchio) || { echo 'there is no benchio on PATH' >&2; exit 1; }",
            'echo "$program" >program',
        ]

    def build_with_spack(self, spec):
        """Build this spec; None: this checkout's last commit to benchio."""
        environment = f"environments/{self.current_system.name}"
        manifest = SPACK_REPO / environment / "spack.yaml"
        if not manifest.exists():
            raise ReframeError(
                f"{manifest} is missing: write it like one of those beside it, or build without "
                "Spack: -S build=cmake"
            )
        roots = load(manifest)["spack"]["specs"]
        self.build, self.time_limit = "spack", "4h"  # with what a site has not installed
        git = ""
        if spec is None:
            spec = committed_spec()
            git = f'packages:benchio:package_attributes:git:"{ROOT.as_uri()}"'
        # Making it concrete takes minutes: one partition's job does it for all with this environ.
        folder = f"{self.current_system.name}/.spack/{self.current_environ.name}"
        shared = Path(rt.runtime().stage_prefix, folder)
        self.prerun_cmds += [
            shlex.join(["mkdir", "-p", str(shared)]),
            self.in_turn(shared / "lock"),
            shell(
                "spack",
                SHARED=shared,
                SESSION=f"{SESSION} {spec}",
                REPO=SPACK_REPO,
                ENVIRONMENT=environment,
                GIT=git,
                SPEC=spec,
                OTHERS=[root for root in roots if not re.match(r"benchio\b", root)],
                LOADED=raw_results.LOADED,
                STAGE=self.stagedir,
            ),
        ]
        self.program = IN_SHELL  # until it has been built
        # A copy, which is kept with the raw results: the next night writes over this one.
        loaded = f"{shlex.quote(self.stagedir)}/{raw_results.LOADED}"
        self.load_cmds = [f"cp {loaded} . && . ./{raw_results.LOADED}"]
        self.keep_files = [f"{environment}/spack.yaml", f"{environment}/spack.lock"]

    @sanity_function
    def assert_it_runs(self):
        if HELD.exists():
            why = f"{self.lock} is held by {holder(self.lock)}: wait for it, or end it"
            raise SanityError(why)
        if self.build == "spack":
            return self.assert_spack_built_it()
        if self.is_borrowed and (newer := newer_than(self.program)):
            raise SanityError(f"{self.program} is older than {newer}: {self.advice}")
        if self.is_on_path and Path("program").exists():
            self.program = Path("program").read_text("utf-8").strip()
        if self.job.exitcode != 0:
            full = no_room(Path(self.stagedir), BUILD)
            advice = f"{full}: make some" if full else self.advice
            fault = f"{self.program} does not build or run"
            if self.program == IN_SHELL:
                fault = "there is no benchio on PATH"
            raise SanityError(f"{self.told(fault)}: {advice}; see {self.stagedir}")
        return True

    def told(self, fault):
        """Return a fault with what the job has printed of its cause, and why it was ended."""
        errors, output = (printed(Path(str(file))) for file in (self.stderr, self.stdout))
        words = (fault, cause_of(errors, output).sentence, why_ended(self.job))
        return "; ".join(dict.fromkeys(filter(None, words)))

    @run_after("sanity")
    def set_digest(self):
        if not self.is_dry_run():
            with suppress(OSError):
                self.digest = raw_results.digest(Path(self.program))

    @property
    def advice(self):
        """Say what to do if there is no benchio that can be used."""
        first = "run `make setup`"
        if self.is_borrowed:
            first = "ask whoever owns this checkout to run `make setup`"
        elif not BENCHIO_SOURCE.is_dir():
            first = "load what brings it"
        elif self.is_on_path:
            first += ", or load what brings it"
        return (
            f"{first}, or name a prebuilt one as {BENCHIO!r} in the extras of environment "
            f"{self.current_environ.name!r}"
        )

    def assert_spack_built_it(self):
        if self.job.exitcode != 0:
            fault = self.told("Spack gave no benchio that runs")
            raise SanityError(f"{fault}; see {self.stagedir}")
        self.program = Path("program").read_text("utf-8").strip()
        lock = Path("environments", self.current_system.name, "spack.lock")
        self.concrete_spec = str(read_lock(lock.read_text("utf-8"))[-1])  # what was added
        return True


def may_build():
    """Return whether this user may write where benchio is built."""
    existing = next(folder for folder in (BUILD, *BUILD.parents) if folder.exists())
    return os.access(existing, os.W_OK)


def newer_than(program):
    """Return a source that has changed since the program was built; None: there is none."""
    if not Path(program).exists():
        return None
    built = Path(program).stat().st_mtime
    parts = (BENCHIO_SOURCE / part for part in ("app", "lib"))
    sources = sorted(file for part in parts for file in part.rglob("*") if file.is_file())
    return next((file for file in sources if file.stat().st_mtime > built), None)


def committed_spec():
    """Return this checkout's benchio by its commit: a branch is built once, and never again."""
    where = "src/benchio"
    status = run("git", "-C", str(ROOT), "status", "--porcelain", "--", where)
    log = run("git", "-C", str(ROOT), "log", "-1", "--format=%H", "--", where)
    if why := status.trouble or log.trouble:
        raise ReframeError(
            f"{ROOT} is no git clone to be built by Spack: name a spec with -S "
            f"spack_spec=benchio@..., or as {SPACK!r} in the extras of the environment ({why})"
        )
    if status.text:
        raise ReframeError(
            f"{where} has changes, and Spack builds commits: commit them, name another spec with "
            "-S spack_spec=benchio@..., or build them with -S build=cmake"
        )
    return f"benchio@git.{log.text.strip()}=main"


def program_of(extra, command="", package="", value="its path"):
    """Return the :class:`Program` that a check runs beside benchio, for its fixture `program`.

    `extra` is the key in the extras of an environment whose value, `value` in words, says where the
    program is. The command and the package in Spack are named likewise, unless they are given.
    """
    names = {"extra": extra, "command": command or extra, "package": package or extra}
    return make_test(extra.title(), (Program,), {**names, "value_of_extra": value})


class Program(rfm.RunOnlyRegressionTest, SessionVariables):
    """The path of a program: where the environment's extras say, on PATH with the environment's
    modules loaded, or where Spack has installed it."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True
    extra = command = package = value_of_extra = ""
    #: The program's path; empty if there is none.
    path = variable(str, value="")

    @run_after("setup")
    def set_commands(self):
        if path := self.current_environ.extras.get(self.extra):
            self.executable = f"command -v {path} || true"
            return
        self.executable = (
            f"command -v {self.command} || {{ p=$(spack location -i {self.package}) && "
            f'[ -x "$p/bin/{self.command}" ] && echo "$p/bin/{self.command}"; }} || true'
        )

    @property
    def word(self):
        """The program in a job's script, of a dry run too, where nobody has looked for it."""
        return self.path or self.command

    @sanity_function
    def find_program(self):
        self.path = Path(str(self.stdout)).read_text("utf-8").strip()
        return True  # the check that wants it says if there is none

    def missing_for(self, test):
        """Say that a test does not find the program, and what to do; empty: the test does. A test
        whose site names a path where there is none ends: this program is promised."""
        environ = test.current_environ
        if self.path:
            return ""
        if path := environ.extras.get(self.extra):
            test.end_failed(
                f"there is no program {path}, which the extras of environment {environ.name!r} "
                f"name as {self.extra!r}: mend the path there",
                Reason.NOT_INSTALLED,
            )
        return (
            f"there is no {self.command} on PATH or in Spack: `spack install {self.package}`, add "
            f"the module that brings it to environment {environ.name!r}, or name "
            f"{self.value_of_extra} as {self.extra!r} in the extras of that environment"
        )
