"""The benchmark that all checks run."""

import os
import re
import shlex
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
import yaml
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError

from iowatch import raw_results
from iowatch.adopt.spack import read_lock
from iowatch.files import UserError, no_room
from iowatch.places import BENCHIO_SOURCE, BUILT_BENCHIO, ROOT
from iowatch.site import BENCHIO, SPACK, require_for_jobs

from .parameters import OfSession

BUILD = ROOT / "build" / "benchio"
SPACK_REPO = ROOT / "spack-repo"

#: This session of ReFrame: what Spack has made concrete in it, it does not again.
SESSION = uuid.uuid4().hex

#: What a job leaves if it gave up waiting for its turn to build: a sentence on whom it waited for.
HELD = Path("held")

#: After so many seconds of waiting a job says for whom.
SILENT_S = 5

#: The program while only the shell knows where it is.
IN_SHELL = '"$program"'


class BuiltBenchio(OfSession):
    """benchio: a site's own; built by Spack; brought up to date in this checkout; or on PATH."""

    descr = "benchio is built and runs"
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

    #: What a job must do before it runs the program.
    load_cmds = variable(typ.List[str], value=[])

    #: What Spack has built, with what it is linked to.
    concrete_spec = variable(str, value="", loggable=True)

    #: SHA-256 of the program, its first 16 digits; empty if only a job can read it.
    digest = variable(str, value="", loggable=True)

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
            built = f"{shlex.join(['cmake', '--build', str(BUILD)])} && {touch}"
            self.prerun_cmds += [*self.in_turn(BUILD / ".lock"), built, "exec 8>&-"]
        else:
            self.is_borrowed = True
        self.executable = self.word
        self.executable_opts = ["--version"]

    def in_turn(self, lock):
        """What a job does first of what one at a time may do: it has the lock until it closes 8.

        Who holds the lock for ever, such as a build that hangs, is named in time.
        """
        if self.time_limit is None:
            partition = f"systems/0/partitions/@{self.current_partition.name}"
            self.time_limit = rt.runtime().get_option(f"{partition}/time_limit")
        wait = int((self.time_limit or 3600) / 2)
        file, held = shlex.quote(str(lock)), shlex.quote(f"{self.stagedir}/{HELD}")
        owner = f"$(grep . {file} || echo another process)"
        return [
            f"exec 8>>{file}",
            f"if ! flock -w {SILENT_S} 8; then",
            f"echo waiting for {file}, which {owner} holds >&2",
            f"if ! flock -w {max(1, wait - SILENT_S)} 8; then",
            f"echo {file} is still held after {wait} s by {owner}: wait for it, or end it >{held}",
            f"cat {held} >&2",
            "exit 1",
            "fi",
            "fi",
            f"echo process $$ on $HOSTNAME, since $(date '+%F %T') >{file}",
        ]

    @property
    def word(self):
        """The program as one word of a job's shell, which may have a variable to put in."""
        return re.sub(r"\s", r"\\\g<0>", self.program)

    def find_on_path(self):
        """The benchio that jobs find: a module of the environment may bring it."""
        self.is_on_path = True
        self.program = IN_SHELL  # until it has been found
        self.prerun_cmds += [
            "program=$(command -v benchio) || { echo 'no benchio on PATH' >&2; exit 1; }",
            'echo "$program" >program',
        ]

    def build_with_spack(self, spec):
        """This spec; None: this checkout's last commit to benchio."""
        environments = SPACK_REPO / "environments"
        system = self.current_system.name
        manifest = environments / system / "spack.yaml"
        if not manifest.exists():
            raise ReframeError(
                f"{manifest} is missing: write it like one of those beside it, or build without "
                "Spack: -S build=cmake"
            )
        roots = yaml.safe_load(manifest.read_text())["spack"]["specs"]
        others = [root for root in roots if not re.match(r"benchio\b", root)]
        self.build, self.time_limit = "spack", "4h"  # with what a site has not installed
        environment = f"environments/{system}"
        spack = f"spack -e {environment}"
        source = []
        if spec is None:
            spec = committed_spec()
            git = f'packages:benchio:package_attributes:git:"{ROOT.as_uri()}"'
            source = [f"{spack} config add {shlex.quote(git)}"]
        # Making it concrete takes minutes: one partition's job does it for all with this environ.
        shared = Path(rt.runtime().stage_prefix, system, ".spack", self.current_environ.name)
        session = shlex.quote(f"{SESSION} {spec}")
        stage = shlex.quote(self.stagedir)
        self.prerun_cmds += [
            "command -v spack >/dev/null || "
            "{ echo 'no spack on PATH: source its setup-env.sh' >&2; exit 1; }",
            f"mkdir -p {shared} && cd {shared}",
            *self.in_turn(shared / "lock"),
            f'if [ "$(cat session 2>/dev/null)" != {session} ]; then',
            # A copy: adding a spec changes it. Its paths stay right: they begin at its own folder.
            "rm -rf session environments && mkdir environments",
            f"ln -sfn {SPACK_REPO}/spack_repo .",
            f"cp -r {environments}/common.yaml {environments}/{system} environments",
            # Of another time, and perhaps of another Spack, whose lock files this one cannot read.
            f"rm -rf {environment}/spack.lock {environment}/.spack-env",
            *source,
            f"{spack} add {shlex.quote(spec)}",
            f"{spack} install",
            # For the jobs, which then need no Spack; with what else there is, such as Darshan.
            f"{spack} load --sh {shlex.join([spec, *others])} >{raw_results.LOADED}",
            f"program=$({spack} location --install-dir {shlex.quote(spec)})/bin/benchio",
            'echo "$program" >program',
            f"echo {session} >session",
            "fi",
            f"rm -rf {stage}/environments",
            f"cp -r environments program {raw_results.LOADED} {stage}",
            f"cd {stage} && exec 8>&-",
            "program=$(cat program)",
            f". ./{raw_results.LOADED}",
        ]
        self.program = IN_SHELL  # until it has been built
        # A copy, which is kept with the raw results: the next night writes over this one.
        loaded = f"{shlex.quote(self.stagedir)}/{raw_results.LOADED}"
        self.load_cmds = [f"cp {loaded} . && . ./{raw_results.LOADED}"]
        self.keep_files = [f"{environment}/spack.yaml", f"{environment}/spack.lock"]

    @sanity_function
    def assert_it_runs(self):
        if HELD.exists():
            raise SanityError(HELD.read_text().strip())
        if self.build == "spack":
            return self.assert_spack_built_it()
        if self.is_borrowed and (newer := newer_than(self.program)):
            raise SanityError(f"{self.program} is older than {newer}: {self.advice}")
        if self.is_on_path and Path("program").exists():
            self.program = Path("program").read_text().strip()
        if self.job.exitcode != 0:
            full = no_room(Path(self.stagedir), BUILD)
            advice = f"{full}: make some" if full else self.advice
            what = f"{self.program} does not build or run"
            if self.program == IN_SHELL:
                what = "there is no benchio on PATH"
            raise SanityError(f"{what}: {advice}; see {self.stagedir}")
        return True

    @run_after("sanity")
    def set_digest(self):
        if not self.is_dry_run():
            with suppress(OSError):
                self.digest = raw_results.digest(Path(self.program))

    @property
    def advice(self):
        """What to do if there is no benchio that can be used."""
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
            said = [*_lines(self.stdout), *_lines(self.stderr)]
            errors = [line for line in said if "Error:" in line] or said or ["no reason"]
            raise SanityError(f"Spack gave no benchio that runs: {errors[0]}; see {self.stagedir}")
        self.program = Path("program").read_text().strip()
        lock = Path("environments", self.current_system.name, "spack.lock")
        self.concrete_spec = str(read_lock(lock.read_text())[-1])  # what was added
        return True


def may_build():
    """May this user write where benchio is built?"""
    there = next(folder for folder in (BUILD, *BUILD.parents) if folder.exists())
    return os.access(there, os.W_OK)


def newer_than(program):
    """A source of benchio that has changed since the program was built; None: there is none."""
    if not Path(program).exists():
        return None
    built = Path(program).stat().st_mtime
    folders = (BENCHIO_SOURCE / "app", BENCHIO_SOURCE / "lib")
    sources = (file for folder in folders for file in sorted(folder.iterdir()))
    return next((file for file in sources if file.stat().st_mtime > built), None)


def committed_spec():
    """This checkout's benchio by its commit: a branch is built once, and then never again."""
    where = "src/benchio"
    try:
        changed = _git("status", "--porcelain", "--", where)
        commit = _git("log", "-1", "--format=%H", "--", where)
    except (OSError, subprocess.CalledProcessError) as err:
        said = (getattr(err, "stderr", None) or str(err)).strip().splitlines()[-1]
        raise ReframeError(
            f"{ROOT} is no git clone to be built by Spack: name a spec with -S "
            f"spack_spec=benchio@..., or as {SPACK!r} in the extras of the environment ({said})"
        ) from None
    if changed:
        raise ReframeError(
            f"{where} has changes, and Spack builds commits: commit them, name another spec with "
            "-S spack_spec=benchio@..., or build them with -S build=cmake"
        )
    return f"benchio@git.{commit}=main"


def _git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _lines(file):
    return Path(str(file)).read_text(errors="replace").splitlines()
