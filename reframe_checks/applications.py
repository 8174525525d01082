"""The base class of applications: in each round, one takes turns with MPI-IO.

docs/howto/applications.md says how to add one.
"""

from . import scripts
from .base import CaseCheck
from .shell import FILES


def input_file(name):
    """Return the shell that makes an input of `job/` in the present folder."""
    return f"cat > {name} << 'END OF INPUT'\n{(FILES / name).read_text('utf-8')}END OF INPUT"


class Application(CaseCheck):
    """An application writes, as fast as it says itself, beside MPI-IO in the same rounds.

    The commands below are bash. In them, `"$PROGRAM"` is the application, `launch` starts a command
    as the job's tasks, and `"$INPUT"` is the folder where `to_prepare` has run. The commands run in
    a folder of their own on the filesystem that is measured. A leaf says by its fixture `program`
    which application it runs.
    """

    #: Makes the input, once in a job.
    to_prepare = ":"
    #: Runs the application, and fails if it does.
    to_run = ""
    #: The files that it then has written, as patterns of the shell.
    written = ""
    #: The file with its times, if that is not what it prints.
    log = ""
    #: Reads on standard input what the application has printed; prints the seconds of its output.
    to_time = ""
    #: Reads the same, and prints the application's version.
    to_tell_version = ""
    #: Reads with the application's own reader what was written. Prints in one line what was found,
    #: and fails if that is not all.
    to_confirm = ""
    #: Does it write the same bytes whenever it runs on as many tasks?
    repeats_itself = False

    env_vars = {**CaseCheck.env_vars, "OMP_NUM_THREADS": "1"}

    def script(self, plan):
        steps = ("to_prepare", "to_run", "to_time", "to_tell_version", "to_confirm")
        return scripts.beside_application(
            plan,
            self.program.path,
            {step: getattr(self, step) for step in steps},
            log=self.log,
            written=self.written,
            repeats_itself=self.repeats_itself,
        )
