"""The request for a night: the options of `iowatch run`, and those that ReFrame gets."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from iowatch.base.files import UserError
from iowatch.cases.filesystem import ACCEPTANCE, ALL_SUITES, HOURLY, NIGHTLY
from iowatch.site.site import Site


@dataclass(frozen=True, kw_only=True)
class Wanted:
    system: str
    suite: str = NIGHTLY
    names: Sequence[str] = ()  # ReFrame's -n
    record: bool = False  # accept cases without reference values
    again: bool = False  # only the re-runs that are due
    time_limit: timedelta = timedelta(hours=20)
    quiet: bool = False  # nothing is printed while it runs
    verbose: bool = False  # ReFrame's own output instead of how far it is
    options: Sequence[str] = ()  # of ReFrame's, besides ours
    resume: bool = False  # the last night, whose session was killed
    away: Sequence[str] = ()  # OSTs that are away on purpose, each FILESYSTEM:OST
    death: str = ""  # what is killed on purpose, FILESYSTEM:client or FILESYSTEM:server

    def check(self) -> None:
        """UserError if these do not go together."""
        if self.suite not in ALL_SUITES:
            raise UserError(f"--suite {self.suite}: there are {', '.join(ALL_SUITES)}")
        if self.suite == HOURLY and (self.again or self.resume or self.record):
            raise UserError("--suite hourly is no night: leave out --again, --resume and --record")
        if self.again and self.names:
            raise UserError("--again runs what is due: leave out --name")
        if self.resume and (self.again or self.names):
            raise UserError("--resume ends the whole night: leave out --again and --name")
        for option, value in (("--away", self.away), ("--death", self.death)):
            if value and self.suite != ACCEPTANCE:
                raise UserError(f"{option} is for an acceptance test: add --suite acceptance")
        if self.options and not self.options[0].startswith("-"):
            raise UserError(
                f"{self.options[0]}: no option of iowatch: those of ReFrame follow `--`, such as "
                "`-- -J reservation=NAME`"
            )
        options_of_reframe(self.options)
        if self.quiet and self.verbose:
            raise UserError("--quiet and --verbose exclude each other: leave one of them out")

    @property
    def rerun_command(self) -> str:
        """The command that runs again what is suspicious."""
        suite = [] if self.suite == NIGHTLY else ["--suite", self.suite]
        suite += [word for ost in self.away for word in ("--away", ost)]
        suite += ["--death", self.death] if self.death else []
        options = ["--", *self.options] if self.options else []
        words = ["iowatch", "run", "--system", self.system, *suite, "--again", *options]
        return shlex.join(words)

    @property
    def mode(self) -> list[str]:
        """The options of ReFrame for the suite; a site's mode may add to it, such as longer jobs.

        Stage and output are in a folder of the nights, apart from acceptance sessions and from runs
        by hand: ReFrame empties a test's folders as it begins.
        """
        # A "timestamp" that is a name: it goes below whatever folders a site has chosen.
        is_nightly = self.suite == NIGHTLY
        mode = [f"--timestamp={NIGHTLY}" if is_nightly else f"--mode={self.suite}"]
        if self.resume:  # in a folder of its own: the jobs that were left still use theirs
            mode += ["--timestamp=resumed_%FT%H%M%S", "--setvar=resumes=1"]
        mode += [f"--setvar=away={','.join(self.away)}"] if self.away else []
        mode += [f"--setvar=death={self.death}"] if self.death else []
        return [*mode, *(["--setvar=record=1"] if self.record else []), *self.options]

    def is_part(self, site: Site) -> bool:
        """Return whether only a part of the nightly suite is asked for: a hand run, no night."""
        is_new = self.suite == NIGHTLY and not (self.again or self.resume)
        return is_new and bool(self.names or not site.is_whole)

    def require_in(self, site: Site) -> None:
        """UserError if what is said to be away, or to die, is not in the site's file."""
        mortal = [f"{fs.name}:{who}" for fs in site.filesystems for who in ("client", "server")]
        if self.death and self.death not in mortal:
            raise UserError(f"--death {self.death}: there are {', '.join(dict.fromkeys(mortal))}")
        known = [f"{fs.name}:{ost}" for fs in site.filesystems for ost in fs.targets.values()]
        if unknown := sorted({*self.away} - {*known}):
            there = f"there are {', '.join(dict.fromkeys(known))}" if known else "none is known"
            raise UserError(
                f"--away {unknown[0]}: {site.system} has no such OST as FILESYSTEM:OST: {there}"
            )


#: Options of ReFrame's that a night may be given, those with a value and those without. Any other
#: could leave out a case, or its verdict, or go by another configuration.
WITH_VALUE = (
    *("-J --job-option", "-S --setvar", "-m --module", "-u --unload-module", "-M --map-module"),
    *("--exec-order", "--exec-policy", "--report-junit"),
)
WITHOUT = ("-v --verbose", "--purge-env", "--keep-stage-files", "--non-default-craype", "--nocolor")
#: The variables of a check that may be set: they say how it is measured, not how it is judged.
MAY_BE_SET = ("repeats", "time_limit", "max_pending_time", "build", "spack_spec")


class _Refusing(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"after `--`: {message}")


def options_of_reframe(options: Sequence[str]) -> None:
    """UserError if one of them could switch judging off."""
    parser = _Refusing(prog="reframe", add_help=False, allow_abbrev=False)
    for action, every in (("append", WITH_VALUE), ("count", WITHOUT)):
        for names in every:
            parser.add_argument(*names.split(), action=action)
    given, others = parser.parse_known_args([*options])
    if others:
        there = ", ".join(names.split()[-1] for names in (*WITH_VALUE, *WITHOUT))
        raise UserError(
            f"{others[0]}: no option of ReFrame's for a night, which promises every case and its "
            f"verdict: there are {there}"
        )
    for pair in given.setvar or ():
        name = pair.partition("=")[0].rpartition(".")[2]
        if name not in MAY_BE_SET:
            raise UserError(
                f"--setvar {pair}: a night may set only {', '.join(MAY_BE_SET)}: the site's file "
                "and iowatch's own options say the rest"
            )


def read_duration(text: str) -> timedelta:
    """A time such as 90m, 6h or 1d12h, in ReFrame's form; UserError."""
    match = re.fullmatch(
        r"(?:(\d{1,4})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", text, re.ASCII
    )
    days, hours, minutes, seconds = (int(n or 0) for n in match.groups()) if match else (0,) * 4
    duration = timedelta(days, seconds, 0, 0, minutes, hours)
    if not duration:
        raise UserError(f"--time-limit: not a time such as 90m, 6h or 1d12h: {text!r}")
    return duration
