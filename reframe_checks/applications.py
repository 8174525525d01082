"""What the checks of applications have in common: in each round, one takes turns with MPI-IO.

docs/applications.md says how to add one.
"""

from iowatch.kinds import application

from .rounds import InRounds
from .shell import shell


class Application(InRounds):
    """What an application writes, as fast as it says itself, beside MPI-IO in the same rounds.

    The commands below are bash. In them, `"$PROGRAM"` is the application, `launch` starts a command
    as the job's tasks, and `"$INPUT"` is the folder where `to_prepare` has run. They run in a
    folder of their own on the filesystem that is measured. Where the application is, a leaf has as
    its fixture `found`, of :class:`reframe_checks.programs.Found`.
    """

    outputs = (*InRounds.outputs, "application.*", "reader.*", "prepared")

    #: Makes the input, once in a job.
    to_prepare = ":"

    #: Runs the application, and fails if it does.
    to_run = ""

    #: The files that it then has written, as patterns of the shell.
    written = ""

    #: The file with its times, if that is not what it prints.
    log = ""

    #: Prints the seconds that it has spent on output, of what it has said on standard input.
    to_time = ""

    #: Prints its version, of the same.
    to_tell_version = ""

    #: Reads with the application's own reader what was written. Prints in one line what was found,
    #: and fails if that is not all.
    to_confirm = ""

    #: Does it write the same bytes whenever it runs on as many tasks?
    repeats_itself = False

    env_vars = {**InRounds.env_vars, "OMP_NUM_THREADS": "1"}

    @property
    def benchio_case(self):
        return application.control(self.case)

    def missing(self):
        return self.found.missing_for(self)

    def commands_before(self):
        listing = ":"
        if self.filesystem.osts is not None:
            listing = self.filesystem.storage.listing('"$@"')
            listing += ' > "$HERE/application.$round.layout"'
        functions = ("to_prepare", "to_run", "to_time", "to_tell_version", "to_confirm")
        return [
            # Paths may have variables of the job.
            f"INPUT=$RUNDIR/input PROGRAM={self.found.program}",
            *(f"{name}() {{\n{getattr(self, name)}\n}}" for name in functions),
            f"to_list() {{ {listing}; }}",
            *self.filesystem.layout_commands(self.case),
            shell(
                "application",
                FORMAT=application.FORMAT,
                NAME=self.case.backend,
                ID=self.run_id,
                TASKS=self.num_tasks,
                LOG=self.log,
                WRITTEN=self.written,
                REPEATS_ITSELF=str(self.repeats_itself).lower(),
                CACHED=application.ELSEWHERE if self.nodes > 1 else application.CACHED,
                SYNC=shell("sync_files"),
                READ=shell("read_files"),
            ),
        ]

    def commands_of_round(self):
        return ["measure || exit 1"]
