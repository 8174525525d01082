"""What a job notes of others before and after it measures: `iowatch.circumstances` reads it.

Nothing of it may fail, slow or hang the job. Each source is a program of its own with a few seconds
to answer in, and all run side by side. Who hangs inside the kernel cannot even be killed: nobody
waits for it, and its file keeps the ending that says so.
"""

from iowatch.circumstances import AFTER, BEFORE, UNFINISHED
from iowatch.site import LUSTRE

from .not_now import SLURM

ANSWER_S = 4  # for a source, and 1 more to be killed

FILES = "circumstances.*"  # what a job leaves in its stage; a pattern of the shell

# The pipe ends with the last of them. Of a function that is exported, MPI launchers make nonsense.
_NOTE = """\
note() {{
    local when=$1 source
    shift
    IFS= read -r -t {limit} -d '' _ < <(
        for source; do
            (
                file=circumstances.$when.$source
                script="$(declare -f "ask_$source"); ask_$source \\"\\$1\\""
                timeout -k 1 {answer} bash -c "$script" bash "$PLACE" 2>/dev/null |
                    head -c 1000000 >"$file{unfinished}"
                [ "${{PIPESTATUS[0]}}" != 0 ] || mv "$file{unfinished}" "$file"
            ) </dev/null 2>/dev/null &
        done
    )
    return 0
}}"""

# Numbers of jobs, never their names or users. Who may see only jobs of their own learns nothing.
_SLURM = """\
ask_slurm() {
    command -v squeue >/dev/null || exit 0
    squeue -h -a -t R -o 'job %A %D' || exit 1
    scontrol show config | awk '$1 == "PrivateData" { print "hidden", $3 }'
    if [ -n "$SLURM_JOB_ID" ]; then
        echo "own $SLURM_JOB_ID"
        squeue -h -a -t R -w "$(squeue -h -j "$SLURM_JOB_ID" -o %N)" -o 'here %A'
    fi
    sinfo -h -a -o 'nodes %F'
}"""

# Of this one mount, whose number is another on each client. Where the counters are, and whether all
# may read them, changes with the version of Lustre: those in debugfs are root's alone. To whom lctl
# shows no connection, lfs does, by a request to each OST.
_LUSTRE = """\
ask_lustre() {
    @bash -c '
        PATH=$PATH:/usr/sbin:/sbin
        command -v lctl >/dev/null || exit 0
        mount=$(lfs getname "$1") || exit 1
        mount=${mount%% *}
        client=${mount##*-}
        shown=$(lctl get_param "*.*-$client.import" "*.*-$client.active" "*.*-$client.stats" |
            grep -a -E "^(osc|mdc)\\.|^ *(state|import_flags|timeouts|services):|^req_waittime ")
        echo "$shown"
        grep -q "state:" <<<"$shown" || timeout 2 lfs check osts 2>&1 | grep -e "-osc-$client"
        exit 0
    ' bash "$1"
}"""

_CEPH = """\
ask_ceph() {
    command -v ceph >/dev/null || exit 0
    ceph --connect-timeout 3 status --format json
}"""

_OSDS = """\
ask_osds() {
    command -v ceph >/dev/null || exit 0
    ceph --connect-timeout 3 osd perf --format json
}"""

_ASK = {"slurm": _SLURM, "lustre": _LUSTRE, "ceph": _CEPH, "osds": _OSDS}


def commands(test):
    """The commands that give the shell `note`, and note what is there before; they need the shell's
    `PLACE`, a directory of the filesystem. None where nobody can be asked."""
    filesystem, sources = test.filesystem, _sources(test)
    if not sources:
        return []
    # In an allocation the script itself runs on the login node, which is another client.
    step = "srun --overlap --nodes=1 --ntasks=1 " if filesystem.allocation else ""
    note = _NOTE.format(answer=ANSWER_S, limit=ANSWER_S + 2, unfinished=UNFINISHED)
    asked = (_ASK[source].replace("@", step) for source in sources)
    return [note, *asked, _note(BEFORE, sources)]


def afterwards(test):
    """The commands that note the same again."""
    sources = _sources(test)
    return [_note(AFTER, sources)] if sources else []


def _sources(test):
    """Who can be asked, by their names in `iowatch.circumstances`."""
    filesystem, scheduler = test.filesystem, test.current_partition.scheduler
    is_slurm = scheduler.registered_name in SLURM or filesystem.allocation
    sources = ["slurm"] if is_slurm else []
    if LUSTRE in filesystem.types:
        return [*sources, "lustre"]
    # All others with OSTs are CephFS, of which the client in user space is of type fuse.
    is_ceph = "ceph" in filesystem.types or filesystem.osts is not None
    return [*sources, "ceph", "osds"] if is_ceph else sources


def _note(when, sources):
    return f"note {when} {' '.join(sources)}"
