"""The scripts of jobs: pure functions of what a job is given, which need no ReFrame.

The shell itself stands in files in `job/`, which shellcheck reads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iowatch.adopt.probe import MPI, QUOTAS
from iowatch.cases.parameters import READ_EXISTING
from iowatch.measure import context, job_environment
from iowatch.measure.context import AFTER, BEFORE, SOURCES, UNFINISHED
from iowatch.measure.job_environment import ASKED
from iowatch.measure.kinds import application, ior, mdtest, slow_node
from iowatch.measure.kinds.readback import KEPT, LAST, READ_CODE
from iowatch.measure.law import Job, id_of_round
from iowatch.measure.result import WRONG_DATA
from iowatch.past import raw_results

from .run_directory import BUSY, ELSEWHERE, NO_QUOTA, NOTES, room_of, run_directory
from .schedulers import GIVEN_UP
from .shell import shell

END_S = 60  # for a launcher to end, once the result is written
ANSWER_S = 4  # for a source of the system context, and 1 more to be killed

# Files that a job leaves.
STARTED = "benchio_started"  # benchio is about to start
FEWER = "granted_fewer"  # slots than the job has ranks; the sentence on it

#: Open MPI 4's mpirun ends with 1, about once in some thousand runs, when it takes the end of a
#: rank after MPI_Finalize for a crash: open-mpi/ompi#7833.
LOST_RANK = "with PID 0 on"

IOR_FILE = f'"$RUNDIR"/{ior.NAME}'
MDTEST_FILES = f'"$RUNDIR"/{mdtest.NAME}'
DARSHAN_LOG = "benchio.darshan"


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """All that a job of one case is given."""

    job: Job
    stage: str
    repeats: int
    ranks_per_node: int
    benchio: str  # the program, as one word of the shell
    load: Sequence[str] = ()  # what brings the program
    join: Sequence[str] = ()  # gets the script into an allocation
    launcher: str = ""  # the command that starts the tasks
    limit_s: float | None = None
    is_here: bool = False  # no scheduler gives the launcher its nodes
    is_alone: bool = False  # no other account writes to the filesystem
    under_slurm: bool = False


@dataclass(frozen=True, kw_only=True)
class JobScript:
    """A command that the launcher starts, and the lines before and after it."""

    before: Sequence[str]
    command: str
    after: Sequence[str]


# Shared by all jobs


def keep_results(stage, kept, outputs):
    """Return what a job does first, so that its raw results are kept whatever becomes of it.

    The job itself keeps them: ReFrame looks at no job that it has cancelled. `outputs` are patterns
    of what the job writes in its stage, which may hold an earlier job's, and the kept results those
    of the same job, which was queued again.
    """
    outputs = " ".join((job_environment.NAME, *outputs))
    return [
        raw_results.ENVIRONMENT_ENDS,
        "export LC_ALL=C",  # else awk may write 0,5, and programs may say things in other words
        f'cd "{stage}" || exit 1',
        # Wrong data of its first beginning are the verdict.
        f'[ "$(cat "{kept}/exit_code" 2>/dev/null)" != {WRONG_DATA} ] || exit 0',
        f'(cd "{kept}" && rm -f {outputs})',
        f"rm -f {outputs}",
        # At the end by this host, whatever has become of the nodes.
        f"keep() {{ STEP='' look_at_clocks; "
        f'find . -maxdepth 1 -type f -exec cp -p -t "{kept}" {{}} +; }}',
        "trap keep EXIT",
        shell("clocks", CLOCKS=job_environment.NAME),
        "look_at_clocks",
        f'[ ! -e "{kept}/{GIVEN_UP}" ] || exit 0',  # nobody waits for it any more
        # sbatch --export=NONE would else go for srun's tasks, too.
        "export SLURM_EXPORT_ENV=ALL",
    ]


def options_of_run(filesystem, repeats, run_id, result, directory='"$RUNDIR"', variables=()):
    """Return benchio's options for one run, which follow those of its case."""
    return [
        f"--repeats {repeats}",
        *([f"--settle {filesystem.settle}"] if filesystem.settle else []),
        *([f"--keep-corrupt {filesystem.keep_corrupt}"] if filesystem.keep_corrupt else []),
        f"--dir {directory}",
        *_place_and_result(filesystem, run_id, result, variables),
    ]


def phase_limit(limit_s):
    """Return benchio's option that ends a hang before the scheduler would, and lose the cause.

    A phase of a tenth of the job's time would leave none for the rounds that are asked for.
    """
    return [f"--phase-limit {max(1, int(limit_s // 10))}"] if limit_s else []


def _place_and_result(filesystem, run_id, result, variables):
    return [
        *([f"--environment-of {','.join(variables)}"] if variables else []),
        f"--fs-type {','.join(filesystem.types)}",
        f"--run-id {id_of_round(run_id, result)}",
        f"--json {result}",
    ]


def benchio(plan, repeats, result, case=None, directory='"$RUNDIR"'):
    """Return the command of one run for the job's case, or for the case that stands in for it."""
    case, filesystem = case or plan.job.case, plan.job.filesystem
    options = [
        *case.check.command_line(case),
        *filesystem.layout_options(case),
        *options_of_run(
            filesystem, repeats, plan.job.run_id, result, directory, plan.job.variables
        ),
        *phase_limit(plan.limit_s),
    ]
    return " ".join([plan.benchio, *options])


def _around(plan, command, before=(), after=(), outputs=(), code="exit_code"):
    """Return the script of a job that has a run directory and notes what goes on beside it.

    `code` is the file of the command's exit code.
    """
    job, (note_before, note_after) = plan.job, _notes(plan)
    of_job = (ASKED, BUSY, NO_QUOTA, ELSEWHERE, FEWER, NOTES, QUOTAS, MPI)
    outputs = ("result*.json", "exit_code", *of_job, f"{context.FILES}.*", *outputs)
    room = room_of(job.case, plan.repeats)
    return JobScript(
        before=[
            *keep_results(plan.stage, job.folder, outputs),
            *_programs(plan),
            *plan.join,
            run_directory(job.filesystem, room, plan.is_alone, plan.benchio, job.known),
            *note_before,
            *_require_slots(job.case.ranks),
            # Without this mark benchio must not run: what it then fails to do could be excused.
            f': > "{job.folder / STARTED}" || exit 1',
            *(
                [shell("environment", VARIABLES=[*job.variables], ASKED=ASKED)]
                * bool(job.variables)
            ),
            *before,
        ],
        command=command,
        after=[f"echo $? > {code}", *after, *note_after],
    )


def mpi(benchio, command, is_here):
    """Return the shell that sets what MPI-IO needs, and the launcher that the command begins with
    if no scheduler gives it nodes."""
    launcher, *_ = [*command.split(), ""]
    is_here = "yes" if is_here else ""
    return f"BENCHIO={benchio}\n{shell('mpi', LAUNCHER=launcher, IS_HERE=is_here, MPI=MPI)}"


def _programs(plan):
    return [*plan.load, mpi(plan.benchio, plan.launcher, plan.is_here)]


def chosen():
    """Return the names of the variables that a job may set for its MPI."""
    return re.findall(r"\bchoose (\w+) ", shell("mpi"))


def _require_slots(ranks):
    """Return what ends a job to which Grid Engine has granted fewer slots than it has ranks."""
    if not ranks:
        return []
    sentence = (
        f"Grid Engine granted its job $NSLOTS of {ranks} slots: name a parallel environment in "
        f"'access' or 'extra_resources', such as `-pe mpi {ranks}`"
    )
    fewer = f'[ "${{NSLOTS:-{ranks}}}" -ge {ranks} ]'
    return [f'{fewer} || {{ echo "{sentence}" > {FEWER}; exit 1; }}'.replace("`", "\\`")]


def _step(place):
    """Return what starts a command on a node where the script runs on the login node."""
    return "srun --overlap --nodes=1 --ntasks=1" if place.allocation else ""


def _notes(plan):
    """Return the shell that notes the system context before and after benchio, which needs `PLACE`;
    empty where nobody can be asked."""
    place = plan.job.filesystem
    sources = [source.name for source in SOURCES if source.is_asked(place, plan.under_slurm)]
    if not sources:
        return [], []
    asking = [shell(source, Path(context.__file__).parent) for source in sources]
    note = shell("context", ANSWER_S=ANSWER_S, UNFINISHED=UNFINISHED, STEP=_step(place))
    names = " ".join(sources)
    return [note, *asking, f"note {BEFORE} {names}"], [f"note {AFTER} {names}"]


# The shapes of jobs


def versions(plan):
    """Return the script of a job that prints the versions of benchio's libraries."""
    kept = keep_results(plan.stage, plan.job.folder, ["exit_code", MPI])
    return JobScript(
        before=[*kept, *_programs(plan), *plan.join],
        command=f"{plan.benchio} --version",
        after=["echo $? > exit_code"],
    )


def once(plan):
    """Return the script of a job that starts benchio once."""
    result = "result.json"
    return _around(
        plan,
        benchio(plan, plan.repeats, result),
        before=[shell("end", RESULT=result, END_S=END_S)],
        after=["kill $ENDING 2>/dev/null || true"],
    )


def probe(plan):
    """Return the script of a job that notes what it meets before benchio starts."""
    meet = [
        f'start_tasks() {{ {plan.launcher} "$@"; }}',
        f'run_program() {{ {plan.benchio} "$@"; }}',
        shell("probe"),
        "meet",
    ]
    command = benchio(plan, plan.repeats, "result.json")
    return _around(replace(plan, join=[*plan.join, *meet]), command, before=["look"])


def each_ost(plan):
    """Return the script of a job that starts benchio again without the OST that it hung on."""
    return _around(
        plan,
        benchio(plan, plan.repeats, "result.$START.json") + " 2> said.$START",
        before=[
            # srun's step goes on with processes that cannot be killed, as a server hangs.
            "export SLURM_OVERLAP=1",
            f"TARGETS={','.join(plan.job.filesystem.targets)} START=0",
            'while [ -n "$TARGETS" ]; do',
            "START=$((START + 1))",
        ],
        # A name that the log has, and no result: the watchdog has ended that start.
        after=[
            "cat said.$START >&2",
            "[ ! -e result.$START.json ] || break",
            r"HUNG=$(sed -n 's,^benchio: error: .*/benchio\.[^/]*/target\.\([^/:]*\).*,\1,p' "
            "said.$START | head -n 1)",
            'case ",$TARGETS," in *",${HUNG:-none},"*) ;; *) break ;; esac',
            r'TARGETS=$(echo "$TARGETS" | tr , "\n" | grep -vxF -e "$HUNG" | paste -sd , -)',
            "done",
        ],
        outputs=["said.*"],
    )


def nodes_in_turn(plan, first, hours):
    """Return the script of a job in which groups of nodes write and read at once, and then single
    nodes, those of `first` before others, until the job has taken so many node-hours."""
    job, kind = plan.job, plan.job.case.check
    alone = " ".join(
        [
            plan.benchio,
            *kind.alone(job.case),
            *job.filesystem.layout_options(job.case),
            *options_of_run(
                job.filesystem, 1, job.run_id, "result.alone.$turn.json", variables=job.variables
            ),
            *phase_limit(plan.limit_s),
        ]
    )
    written = f'"$RUNDIR"/benchio.{id_of_round(job.run_id, "result.alone.$turn.json")}'
    back = " ".join(
        [
            plan.benchio,
            f"--backend {job.case.backend} --operation {READ_EXISTING} --dir {written}",
            *_place_and_result(job.filesystem, job.run_id, "result.read.$turn.json", job.variables),
            *phase_limit(plan.limit_s),
        ]
    )
    together = benchio(plan, 1, "result.$round.$group.json")
    budget_s = hours * 3600 / job.nodes
    if plan.limit_s:
        budget_s = min(budget_s, 0.7 * plan.limit_s)
    return _around(
        plan,
        f"printenv SLURMD_NODENAME > {slow_node.NODES_FILE}",
        before=["export SLURM_OVERLAP=1"],  # a step may go on with processes that nobody can kill
        after=[
            # A start that nothing ends is ended.
            f"""on() {{ timeout -k 10 {int(plan.limit_s or 3600) // 4} {plan.launcher} "$@"; }}""",
            f"""write_and_read() {{ on "${{WHERE[@]}}" {together}; }}""",
            f"""write_alone() {{ on "${{WHERE[@]}}" {alone}; }}""",
            f"""read_alone() {{ on "${{WHERE[@]}}" {back}; }}""",
            f"forget() {{ rm -rf {written}; }}",
            shell(
                "nodes",
                FIRST=tuple(first),
                PER_NODE=plan.ranks_per_node,
                ROUNDS=plan.repeats,
                GROUP=slow_node.GROUP,
                BUDGET_S=int(budget_s),
                STARTS=slow_node.STARTS,
                LOST_FILE=slow_node.LOST_FILE,
            ),
        ],
        outputs=[slow_node.NODES_FILE, slow_node.STARTS, slow_node.LOST_FILE, "said", "failed.*"],
    )


def in_rounds(plan, before, of_round, outputs, case=None):
    """Return the script of a job in which benchio runs once in each round, and then `of_round`.

    There, `launch` starts a command as the job's tasks. The first failure ends the job: what
    follows would cost time and give no metric.
    """
    return _around(
        plan,
        benchio(plan, 1, "result.$round.json", case) + " 2> said.$round",
        before=[
            f'start_tasks() {{ {plan.launcher} "$@"; }}',
            shell("rounds", LOST_RANK=LOST_RANK, STEP=_step(plan.job.filesystem)),
            *before,
            f"for round in $(seq {plan.repeats}); do",
        ],
        after=[
            "cat said.$round >&2",
            '[ "$(cat exit_code)" = 0 ] || is_written result.$round.json || exit 1',
            *of_round,
            "done",
        ],
        outputs=["said.*", "launched.err", *outputs],
    )


def beside_ior(plan, program):
    """Return the script of a job in which benchio and IOR take turns with the same bytes."""
    case, filesystem = plan.job.case, plan.job.filesystem
    commands = _program(program, "ior", ior.write_options(case, IOR_FILE, "ior.$round.json"))
    if filesystem.osts is not None:
        commands += [f"{filesystem.storage.listing(f'{IOR_FILE}*')} > ior.$round.layout"]
    if case.operation == "read":
        options = ior.read_options(case, plan.ranks_per_node, IOR_FILE, "read.$round.json")
        commands += _program(program, "read", options)
    of_round = [*commands, f"rm -f {IOR_FILE}*"]
    return in_rounds(plan, filesystem.layout_commands(case), of_round, ["ior.*", "read.*"])


def beside_mdtest(plan, program):
    """Return the script of a job in which benchio and mdtest take turns."""
    options = mdtest.options(plan.job.case, plan.ranks_per_node, MDTEST_FILES)
    of_round = [*_program(program, mdtest.NAME, options), f"rm -rf {MDTEST_FILES}"]
    return in_rounds(plan, [], of_round, [f"{mdtest.NAME}.*"])


def _program(program, name, options):
    """Return the commands that run a program as the job's tasks, and keep what the program says."""
    return [
        f"launch {program} {' '.join(options)} > {name}.$round.out",
        f"echo $? > {name}.$round.code",
        f'[ "$(cat {name}.$round.code)" = 0 ] || exit 1',
    ]


def beside_application(plan, program, commands, *, log, written, repeats_itself):
    """Return the script of a job in which an application and MPI-IO take turns.

    `commands` is the shell of each step, by the name of its function.
    """
    case, filesystem = plan.job.case, plan.job.filesystem
    listing = ":"
    if filesystem.osts is not None:
        listing = filesystem.storage.listing('"$@"') + ' > "$HERE/application.$round.layout"'
    before = [
        f"INPUT=$RUNDIR/input PROGRAM={program}",  # paths may have variables of the job
        *(f"{name}() {{\n{text}\n}}" for name, text in commands.items()),
        f"to_list() {{ {listing}; }}",
        *filesystem.layout_commands(case),
        shell(
            "application",
            FORMAT=application.FORMAT,
            NAME=case.backend,
            ID=plan.job.run_id,
            TASKS=case.ranks,
            LOG=log,
            WRITTEN=written,
            REPEATS_ITSELF=str(repeats_itself).lower(),
            CACHED=application.ELSEWHERE if plan.job.nodes > 1 else application.CACHED,
            SYNC=shell("sync_files"),
            READ=shell("read_files"),
        ),
    ]
    outputs = ["application.*", "reader.*", "prepared"]
    return in_rounds(plan, before, ["measure || exit 1"], outputs, application.control(case))


def profiled(plan, named, config):
    """Return the script of a job that starts benchio once, under Darshan.

    `named` is the path of Darshan's library, or its module; empty: the program `config` knows.
    """
    config = "darshan-config" if named else config
    prefix = f"{config} --pre-ld-flags | sed 's/^-L\\([^ ]*\\).*/\\1/'"
    library = [f"DARSHAN=$({prefix})/libdarshan.so"]
    if named.startswith("/"):
        library = [f'DARSHAN="{named}"']
    elif named:
        no_config = f'{{ echo "the module {named} brings no {config}" >&2; exit 1; }}'
        library = [f"command -v {config} >/dev/null || {no_config}", *library]
    log = f'"$RUNDIR/{DARSHAN_LOG}"'
    # Through env, which every launcher can start, for these processes alone.
    environment = (
        'env -u DARSHAN_DISABLE DARSHAN_CONFIG_PATH="$RUNDIR/config" '
        f'DARSHAN_LOGFILE={log} LD_PRELOAD="$DARSHAN${{LD_PRELOAD:+:$LD_PRELOAD}}" '
    )
    return _around(
        plan,
        environment + benchio(plan, plan.repeats, "result.json"),
        before=[
            *library,
            '[ -r "$DARSHAN" ] || { echo "there is no Darshan library $DARSHAN" >&2; exit 1; }',
            # By itself, Darshan leaves out what is below /dev, /var and others.
            """printf '%s\\n' 'NAME_EXCLUDE .* *' "NAME_INCLUDE ^$RUNDIR/ *" > "$RUNDIR/config\"""",
        ],
        # Not cp: the log is read-only, and would be so where the next one is to be.
        after=[f"[ ! -e {log} ] || cat {log} > {DARSHAN_LOG}"],
        outputs=[DARSHAN_LOG],
    )


def reading_back(plan, night, last_night, done):
    """Return the script of a job that reads the files of the last night and keeps new ones. The
    files of this `night` replace those of the nights in `done`."""
    job = plan.job
    reading = [
        f"--backend {','.join(job.case.backends)}",
        f"--operation {READ_EXISTING}",
        '--dir "$LAST"',
        *_place_and_result(job.filesystem, job.run_id, "result.json", job.variables),
        *phase_limit(plan.limit_s),
    ]
    writing = benchio(plan, plan.repeats, KEPT, directory=f'"$CASE/{night}"')
    # ROMIO takes what stands before a colon for the type of a filesystem.
    name = str(job.case).replace("/", ",").replace(":", "@")
    return _around(
        plan,
        " ".join([plan.benchio, *reading]),
        before=[
            shell("find_kept", NAME=name, BEFORE=last_night, LAST_FILE=LAST),
            'if [ -n "$LAST" ]; then',
        ],
        after=[
            "fi",
            f"start_writing() {{\n{plan.launcher} {writing}\n}}",
            shell("keep", DONE=sorted(done), NIGHT=night, DAYS=job.filesystem.keep_days),
        ],
        outputs=[KEPT, LAST, READ_CODE],
        code=READ_CODE,
    )
