"""What was not measured, with the real ReFrame: amber if it is known why, and never if what was
tried did not verify."""

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cases import verdict_of

CASE = "small:{}/gnu/SharedFileWrite/backend=mpiio/local_size=8x8x8/ranks=2"
LOST_RANK = "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 9"
#: What benchio cannot be made to do at will, and what never verifies.
FAULTS = ("cut off", "no result")


def entry(filesystems, first, last, why="a new Lustre"):
    """Maintenance of these filesystems from and until so many minutes from now."""
    begins, ends = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (first, last))
    return (
        f"- from: {begins:%Y-%m-%d %H:%M} +00:00\n"
        f"  until: {ends:%Y-%m-%d %H:%M:%S} Z\n"
        f"  filesystems: [{', '.join(filesystems)}]\n"
        f"  why: {why}\n"
    )


def announce(site, *entries):
    file = site.folder / "maintenance" / "small.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(entries))


@pytest.fixture
def quick(site):
    site.faults = {"gnu": "none"}
    return site


def test_maintenance_counts_where_and_when_it_is_announced(quick):
    """It makes the night amber."""
    away = {"extras": {"path": str(quick.scratch / "not" / "mounted")}}
    quick.partitions = {"memory": away, "soon": {}, "later": {}, "past": {}}
    announce(
        quick,
        entry(["memory", "elsewhere"], -60, 60),
        entry(["soon", "past"], -90, -60),
        entry(["soon"], 1, 90),  # before the job could end
        entry(["later"], 30, 90),
    )
    done = quick.iowatch()
    assert done.returncode == 4, done.stdout
    tests = {(test["partition"], verdict_of(test)) for test in quick.report("LibraryVersions")}
    assert tests == {
        ("memory", "unjudged (maintenance)"),
        ("soon", "unjudged (maintenance)"),
        ("later", "ok"),
        ("past", "ok"),
    }, done.stdout
    lost = CASE.format("memory")
    told = r"^unjudged \(maintenance\): .*: memory is not there: maintenance from .* a new Lustre$"
    assert re.search(told, done.stdout, re.M)
    assert "names no filesystem of the site: elsewhere: " in done.stdout
    assert "\namber: 4 cases measured, 4 not measured, 0 with a red verdict" in done.stdout
    page = Path(re.search(r"^report: (.*)$", done.stdout, re.M)[1]).read_text()
    assert '<header class="amber">' in page
    assert not (quick.kept / re.search(r"Night (\S+) of", done.stdout)[1] / lost).exists()


def announce_in_jobs(site, jobs):
    """Maintenance of `memory` that is announced once so many jobs of cases, which are all, have
    begun, and mpirun's word that it lost a rank."""
    file, hour = site.folder / "maintenance" / "small.yaml", timedelta(hours=1)
    now = (
        f"{{from: {datetime.now(UTC) - hour:%Y-%m-%dT%H:%M:%SZ}, until: 2999-01-01T00:00:00Z, "
        "filesystems: [memory], why: now}"
    )
    begun = site.folder / "begun"
    all_begun = f"mkdir -p {begun}; touch {begun}/$$; until [ $(ls {begun} | wc -l) = {jobs} ]"
    announcing = f"mkdir -p {file.parent}; echo '- {now}' > {file}"
    site.partition["prepare_cmds"] = [
        f"case $PWD in *SharedFileWrite*) {all_begun}; do sleep 0.1; done; {announcing} ;; esac",
        f"export STAND_IN_SAYS='{LOST_RANK}'",
    ]


def test_what_did_not_verify_is_never_amber(site):
    """Though maintenance is announced while the job runs, and mpirun says that it lost a rank."""
    site.faults = {fault.replace(" ", "-"): fault for fault in FAULTS}
    site.partition["max_jobs"] = len(FAULTS)
    announce_in_jobs(site, len(FAULTS))
    done = site.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 1, done.stdout
    found = {test["environ"]: verdict_of(test) for test in site.report()}
    assert found == dict.fromkeys(site.faults, "failed (no_output)"), done.stdout


def test_filesystem_that_is_taken_away_as_announced_before_benchio_starts(site):
    """And two that are there: one's user has no quota left, the other's launcher alone fails after
    all was verified, which costs nothing."""
    site.faults = {"gnu": "none", "late": "ends late", "poor": "none"}
    tools = site.folder / "tools"
    tools.mkdir()
    lfs = tools / "lfs"  # a stand-in for Lustre's
    lfs.write_text(
        '#!/bin/sh\ncase "$*" in "quota -q -"[ug]" "[0-9]*" /"*) ;; *) exit 64 ;; esac\n'
        "echo '/fs 1000* 1000 1000 - 2 0 0 -'\n"
    )
    lfs.chmod(0o755)
    site.environs["poor"] = {"env_vars": [["PATH", f"{tools}:$PATH"]]}
    away = {"path": str(site.scratch / "not" / "mounted")}
    site.partitions = {
        "memory": {"environs": ["gnu"], "extras": away},
        "other": {"environs": ["late", "poor"]},
    }
    announce_in_jobs(site, 3)
    done = site.reframe("-r", "-n", "SharedFileWrite")
    found = {test["environ"]: test for test in site.report()}
    late = found.pop("late")
    assert {test["result"] for test in found.values()} == {"skip"}, done.stdout
    assert "memory is not there: maintenance from " in found["gnu"]["sentence"]
    assert "after its result was written: its launcher ended with 1: " in late["sentence"]
    assert late["metrics"]
    assert "no quota is left: " in found["poor"]["sentence"]
    assert not any(test["metrics"] for test in found.values())
    assert all(list(Path(test["kept"]).iterdir()) for test in found.values()), "their jobs ran"


#: What Slurm 22.05 says with four nodes, of which nobody has any now; a job is begun at once if
#: FATE is FAILED, and ends without a word, as where its node does not see its folder. It refuses
#: what the real one would, or is not asked here.
SLURM = r"""
said() { echo "JobId=77 JobState=$1 Reason=$2 Dependency=(null) ReqNodeList=(null) NodeList=$3"; }
WHY="ReqNodeNotAvail, UnavailableNodes:node[1-4]"
[ ! -e "$HERE/cancelled" ] || FATE=CANCELLED
case "${0##*/} $*" in
"sbatch rfm_job.sh") echo "Submitted batch job 77" ;;
"scancel 77") touch "$HERE/cancelled" ;;
"sacct -S "????-??-??" -P -j 77 -o jobid,state,exitcode,end,nodelist")
    echo "JobID|State|ExitCode|End|NodeList"
    case $FATE in
    FAILED) echo "77|FAILED|0:53|$(date +%s)|node2" ;;
    CANCELLED) echo "77|CANCELLED by 0|0:0|$(date +%s)|None assigned" ;;
    *) echo "77|PENDING|0:0|Unknown|None assigned" ;;
    esac ;;
"sacct -nXP -j 77 -o state") ;;
"squeue -h -j 77 -o %i|%r") echo "77|$WHY" ;;
"scontrol --oneliner show job=77") said "$FATE" None node2 ;;
"scontrol --all --oneliner show job=77")
    case $FATE in
    FAILED) said FAILED JobLaunchFailure node2 ;;
    *) said "$FATE" "${WHY// /_}" "(null)" ;;
    esac ;;
"scontrol --all --oneliner show partition")
    echo "PartitionName=compute AllowGroups=ALL Default=YES Nodes=node[1-4] State=UP" ;;
"scontrol --all --oneliner show reservation")
    [ "$BEGINS" ] || { echo "No reservations in the system"; exit; }
    now="StartTime=1000000000 EndTime=2000000000"
    echo "ReservationName=course $now Nodes=node[1-4] Flags=SPEC_NODES,ALL_NODES State=ACTIVE"
    echo "ReservationName=rack $now Nodes=node[1-3] Flags=MAINT,IGNORE_JOBS State=ACTIVE"
    echo "ReservationName=later StartTime=$(($(date +%s) + BEGINS)) EndTime=2000000000" \
        "Nodes=node[1-4] Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES State=INACTIVE" ;;
"scontrol show hostnames node[1-4]") printf 'node%s\n' 1 2 3 4 ;;
"scontrol show hostnames node[1-3]") printf 'node%s\n' 1 2 3 ;;
"scontrol show hostname node2") echo node2 ;;
"scontrol show hostname None assigned")  # ReFrame's way to ask for none
    echo "too many arguments for keyword:show" >&2
    exit 1 ;;
*)
    echo "${0##*/} $*" >> "$HERE/refused"
    exit 1 ;;
esac
"""


@pytest.fixture
def queued(quick):
    """queued(options, variable=value...): a night of a job that is given to this Slurm, and its
    sentence."""
    for command in ("sbatch", "scancel", "sacct", "squeue", "scontrol"):
        file = quick.program("slurm", command, f"HERE={quick.folder}\n{SLURM}")
    quick.partition |= {"scheduler": "slurm", "launcher": "srun"}
    quick.environment |= {
        "PATH": f"{file.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RFM_SLURM_PENDING_JOB_REASON_POLL_FREQ": "1",
    }

    def night(*options, verdict="unjudged (queued)", **variables):
        (quick.folder / "cancelled").unlink(missing_ok=True)
        quick.environment |= {"FATE": "PENDING", "BEGINS": "", **variables}
        done = quick.reframe("-r", "-n", "SharedFileWrite", *options)
        assert not (quick.folder / "refused").exists(), (quick.folder / "refused").read_text()
        (test,) = quick.report()
        assert verdict_of(test) == verdict, done.stdout
        return test["sentence"]

    return night


def test_job_that_slurm_has_no_nodes_for(queued, quick):
    """It waits, unless the site lets ReFrame give it up."""
    no_nodes = "job 77 had no nodes yet (ReqNodeNotAvail, UnavailableNodes:node[1-4])"
    said = queued("-S", "max_pending_time=1s", BEGINS="3600")
    assert said == f"its job was still queued after 0:00:01: {no_nodes}"
    said = queued(RFM_SLURM_JOB_CANCEL_REASONS="ReqNodeNotAvail")
    assert said == f"its job was cancelled in the queue: {no_nodes}"


def test_maintenance_that_slurm_announces(queued):
    """Nothing is submitted that could not end before it, unless it asks for the reservation. One of
    some nodes is none of all, and a course is no maintenance."""
    said = queued("-S", "max_pending_time=1s", BEGINS="60", verdict="unjudged (maintenance)")
    assert said.startswith("all nodes of compute are reserved for maintenance from ")
    assert said.endswith(" to 2033-05-18 03:33 UTC (reservation later)")
    said = queued("-S", "max_pending_time=1s", "-J", "reservation=later", BEGINS="60")
    assert said.startswith("its job was still queued after "), said


def test_node_that_does_not_see_the_folder_of_a_job(queued, quick):
    said = queued(FATE="FAILED", verdict="failed (no_output)")
    assert said == (
        f"job 77, on node2, has left nothing in {quick.folder}/run, not even what it prints: its "
        "nodes must see that folder, which RFM_PREFIX names"
    )
