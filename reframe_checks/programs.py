"""Programs beside benchio that a check runs, and that a machine may not have."""

from pathlib import Path

from reframe.core.builtins import run_after, sanity_function, variable

from iowatch.verdict import Reason

from .parameters import OfSession


class Found(OfSession):
    """Where a program is: where the environment's extras say, on PATH with the environment's
    modules loaded, or where Spack has installed it.

    Extend it by its names, and use it as a fixture of the scope ``environment``. What a check
    finds missing, it says by `missing`, :class:`reframe_checks.base.CaseCheck`.
    """

    descr = "Where a program is"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True

    #: The command that starts it.
    command = ""

    #: Its package in Spack.
    package = ""

    #: The key in the extras of an environment that has its path.
    extra = ""

    #: What that key may have, in words.
    given = "its path"

    #: The program's path; empty if there is none.
    program = variable(str, value="")

    @run_after("setup")
    def set_commands(self):
        if named := self.current_environ.extras.get(self.extra):
            self.executable = f"command -v {named} || true"
            return
        self.executable = (
            f"command -v {self.command} || {{ p=$(spack location -i {self.package}) && "
            f'[ -x "$p/bin/{self.command}" ] && echo "$p/bin/{self.command}"; }} || true'
        )

    @property
    def word(self):
        """What starts it in a job's script, of a dry run too, where nobody has looked for it."""
        return self.program or self.command

    @sanity_function
    def find_program(self):
        self.program = Path(str(self.stdout)).read_text().strip()
        return True  # the check that wants it says if there is none

    def missing_for(self, test):
        """That a test does not find it, and what to do; empty: it does. A test whose site names a
        path where there is none ends: this one is promised."""
        environ = test.current_environ
        if self.program:
            return ""
        if named := environ.extras.get(self.extra):
            test.end_failed(
                f"there is no program {named}, which the extras of environment {environ.name!r} "
                f"name as {self.extra!r}: mend the path there",
                Reason.NOT_INSTALLED,
            )
        return (
            f"there is no {self.command} on PATH or in Spack: `spack install {self.package}`, add "
            f"the module that brings it to environment {environ.name!r}, or name {self.given} as "
            f"{self.extra!r} in the extras of that environment"
        )
