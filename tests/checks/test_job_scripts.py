"""The job scripts that ReFrame makes of the sites' configurations, without their machines."""

import importlib
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import cases
import pytest
from cases import PLACE
from checks.conftest import QUICK

from iowatch.cases.filesystem import NIGHTLY
from iowatch.measure.case_ids import parse_case
from iowatch.measure.causes import known_cause
from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.application import ApplicationKind
from iowatch.measure.law import Job, notes_on_end
from iowatch.measure.result import InvalidResult
from iowatch.night.job_script import read_script
from iowatch.site.site import read_site

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "site_configs"

#: How a job asks for its nodes, and how it starts the benchmark.
LAUNCH = {
    "archer": ("#PBS -l select={nodes}:mpiprocs=24:ncpus=24", "aprun -n {ranks} -N 24 "),
    "cirrus": ("#PBS -l select={nodes}:mpiprocs=36:ncpus=36", "mpiexec -n {ranks} "),
    "cosma5": ('#BSUB -R "span[ptile=16]"', "mpirun -np {ranks} "),
    "cosma6": ('#BSUB -R "span[ptile=16]"', "mpirun -np {ranks} "),
    "rdf-dac": ("#PBS -l select=1:mpiprocs=40:ncpus=40", "mpirun -np 40 "),
    "jasmin": ('#BSUB -R "span[ptile=16]"', "mpirun -np {ranks} "),
    "c3hpc": ("#PBS -l nodes={nodes}:ppn=24", "mpirun -np {ranks} "),
    "ulysses": ("#PBS -l nodes={nodes}:ppn=20", "mpirun -np {ranks} "),
    "archer2": ("#SBATCH --ntasks={ranks}\n#SBATCH --ntasks-per-node=128", "srun "),
    "slurm": ("#SBATCH --ntasks={ranks}\n#SBATCH --ntasks-per-node=64", "srun "),
    "cephfs": ("#SBATCH --ntasks={ranks}\n#SBATCH --ntasks-per-node=64", "srun "),
}

#: Launchers of a site's own: system, tool, how a job calls it, and what the tool then gets.
OWN_LAUNCHERS = {
    "cirrus": ("mpiexec_mpt", "mpiexec -n 72", ["-n", "72", "-ppn", "36"]),
    "jasmin": ("mpirun.lotus", "mpirun -np 16", ["-np", "16"]),
}


@pytest.fixture
def module(monkeypatch):
    """module(name): one of the checks' own that needs no session of ReFrame."""
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"reframe_checks.{name}")


def planned(scripts, job_case, folder="/kept"):
    """What a job of this case is given, for three repetitions on two nodes."""
    job = Job(folder=Path(folder), case=job_case, filesystem=PLACE, run_id="0123abcd",
              made=datetime.now(UTC), nodes=2)  # fmt: skip
    return scripts.JobPlan(
        job=job, stage="/stage", repeats=3, ranks_per_node=1, benchio="/benchio",
        launcher="mpirun -np 2", limit_s=600.0,
    )  # fmt: skip


NAMES = {"items": 30, "files": "shared"}
STEPS = dict.fromkeys(("to_prepare", "to_run", "to_time", "to_tell_version", "to_confirm"), ":")


@pytest.mark.parametrize(
    ("check", "values", "kib", "shape"),
    [
        # Two ranks of 2 MiB, and as much of the control.
        ("SharedFileWrite", {}, 8192, lambda s, plan: s.once(plan)),
        # The files of all rounds stay.
        ("ReadBack", {}, 3 * 8192, lambda s, plan: s.reading_back(plan, "night", "last", set())),
        ("Metadata", NAMES, 2 * 30 * 2 * 4, lambda s, plan: s.once(plan)),  # and directories
        ("SlowOst", {}, None, lambda s, plan: s.each_ost(plan)),
        ("SlowNode", {}, None, lambda s, plan: s.nodes_in_turn(plan, ["n1"], 2.0)),
        ("IoProfile", {}, None, lambda s, plan: s.profiled(plan, "darshan/3.4", "")),
        ("IorPeer", {"files": "shared"}, None, lambda s, plan: s.beside_ior(plan, "ior")),
        ("MdtestPeer", NAMES, None, lambda s, plan: s.beside_mdtest(plan, "mdtest")),
        ("GromacsTrajectory", {}, None, lambda s, plan: s.beside_application(
            plan, "gmx", STEPS, log="", written="x", repeats_itself=True)),
    ],
)  # fmt: skip
def test_script_of_each_shape_of_job(module, check, values, kib, shape):
    """Bash can read the script. Results are kept whatever comes first, there is room for all that
    the job leaves at one time, and no benchio starts without its mark."""
    scripts = module("scripts")
    known = {p.name for p in CHECKS[check].parameters}
    given = {name: value for name, value in {"ranks": 2, **values}.items() if name in known}
    plan = planned(scripts, cases.case(check, **given))
    script = shape(scripts, plan)
    text = "\n".join([*script.before, f"{plan.launcher} {script.command}", *script.after])
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert script.before[2] == 'cd "/stage" || exit 1'
    assert script.before[6].endswith('-exec cp -p -t "/kept" {} +; }')
    assert script.before[7] == "trap keep EXIT"
    room = int(re.search(r"^KIB=(\d+)$", text, re.M)[1])
    assert room == kib or kib is None
    assert "--fs-type tmpfs --run-id 0123abcd" in text
    assert " --phase-limit 60" in text
    mark = script.before.index(': > "/kept/benchio_started" || exit 1')
    assert "/benchio --" not in "".join(script.before[:mark]).replace("/benchio --filesystem", "")


def test_filesystem_that_cannot_lock_is_named_at_once(module, tmp_path):
    """Not that somebody holds the lock."""
    flock = tmp_path / "flock"
    flock.write_text("#!/bin/sh\necho 'flock: 8: Function not implemented' >&2\nexit 71\n")
    flock.chmod(0o755)
    text = module("shell").shell(
        "lock", LOCK=tmp_path / "l", HELD=tmp_path / "held", SILENT_S=5, WAIT_S=60
    )
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", text], env=environ, capture_output=True, text=True)
    assert done.returncode == 1
    said = known_cause(done.stderr).sentence
    assert said.startswith(f"{tmp_path}/l: its filesystem cannot lock files: ")
    assert not (tmp_path / "held").exists()


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("0", "", []),
        ("0", "benchio: note: rank 1 on a: SIGSEGV", ["rank 1 on a: SIGSEGV"]),
        ("1", "benchio: note: rank 0: end MPI\nmpirun: 1", ["rank 0: end MPI"]),
        ("1", "rank 1 exited", ["its launcher ended with 1: rank 1 exited"]),
        (None, "", ["the job was ended before its launcher"]),
    ],
)  # fmt: skip
def test_what_comes_after_the_result_is_a_note(module, tmp_path, code, error, words):
    if code is not None:
        (tmp_path / "exit_code").write_text(f"{code}\n")
    (tmp_path / "rfm_job.err").write_text(error)
    job = planned(module("scripts"), cases.case(), tmp_path).job
    assert notes_on_end(job) == [f"after its result was written: {text}" for text in words]


def test_a_launcher_that_does_not_end_costs_no_result(module, tmp_path):
    """Its stand-in writes a result, and hangs; of the next nothing is known, and it ends well."""
    end = module("shell").shell("end", RESULT="r.json", END_S=1)
    hang = "exec sleep 300"
    launcher = f"""bash -c 'echo "{{\\"status\\": \\"ok\\"}}" > r.json; {hang}'"""
    for command, code, note in ((launcher, "143", True), ("sleep 3", "0", False)):
        (tmp_path / "r.json").unlink(missing_ok=True)
        text = f"{end}\n{command}\necho $? > exit_code; kill $ENDING 2>/dev/null; wait"
        done = subprocess.run(
            ["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (tmp_path / "exit_code").read_text().strip() == code, done.stderr
        assert ("benchio: note: its launcher had not ended 1 s after" in done.stderr) == note
    # Nothing is left of a job that is killed, and holds what it prints to.
    (tmp_path / "r.json").unlink(missing_ok=True)
    killed = ["bash", "-c", f"{end}\nkill -KILL $$"]
    subprocess.run(killed, cwd=tmp_path, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "code", "is_left"), [('"status": "ok"', 9, False), ('"status": "io_error"', 9, True)]
)
def test_a_round_goes_on_after_a_bad_end_if_its_result_is_written(
    module, tmp_path, text, code, is_left
):
    (tmp_path / "result.1.json").write_text(text)
    script = module("shell").shell("rounds", LOST_RANK="no")
    done = subprocess.run(
        ["bash", "-c", f"{script}\n[ {code} = 0 ] || is_written result.1.json || exit 1"],
        cwd=tmp_path,
    )
    assert done.returncode == is_left


def test_versions_count_only_if_their_program_ends_well(module, tmp_path):
    scripts, outcome = module("scripts"), module("outcome")
    job = planned(scripts, cases.case("LibraryVersions"), tmp_path).job
    text = "benchio 0.1.0\nmpiio  Open MPI v4.1.4\n"
    (tmp_path / "exit_code").write_text("0\n")
    versions, verdict = outcome.of_versions(job, text)
    assert (versions["mpiio"], str(verdict.outcome)) == ("Open MPI v4.1.4", "ok")
    (tmp_path / "exit_code").write_text("139\n")
    with pytest.raises(InvalidResult):
        outcome.of_versions(job, text)
    slots = "There are not enough slots available in the system to satisfy the 2"
    (tmp_path / "rfm_job.err").write_text(f"{slots}\nslots that were requested by:\n\nlaunch.\n")
    with pytest.raises(InvalidResult, match=slots):
        outcome.of_versions(job, "")


def test_job_that_was_left_is_waited_for_and_a_controller_that_is_down_is_said(tmp_path, module):
    """With stand-ins: squeue fails, lists the job, and then lists another one."""
    waits = tmp_path / "waits_for"
    script = module("shell").shell(
        "wait", JOB="7", QUEUE=["squeue", "-h"], CANCEL="scancel", WAITS=waits
    )
    for name, text in (
        ("squeue", 'echo "$*" >> asked; n=$(wc -l < asked)\n'
                   '[ $n = 1 ] && exit 1; [ $n = 2 ] && echo 7; echo 77'),
        ("sleep", f"cat {waits} >> said 2> /dev/null || echo nothing >> said"),
    ):  # fmt: skip
        (tmp_path / name).write_text(f"#!/bin/sh\n# Stands in for {name}.\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=path, check=True, timeout=60)
    assert (tmp_path / "said").read_text().splitlines() == [
        "squeue does not answer, and the jobs that were left wait for it", "nothing",
    ]  # fmt: skip
    assert not waits.exists()
    assert (tmp_path / "asked").read_text().splitlines() == ["-h"] * 3


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    """dry_run(system): what ReFrame says of a dry run of its night, what is promised of that, and
    the job scripts by case."""
    files = sorted(file for file in CONFIGS.glob("*.py") if file.name != "settings.py")
    with pytest.MonkeyPatch.context() as patch:
        # As after env.sh; neither a scheduler nor modules are needed.
        patch.setenv("RFM_CONFIG_FILES", ":".join(map(str, [CONFIGS / "settings.py", *files])))
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        for name, value in QUICK.items():
            patch.setenv(name, value)

        @cache
        def run(system):
            prefix = tmp_path_factory.mktemp(system)
            patch.setenv("RFM_PREFIX", str(prefix))
            done = subprocess.run(
                [
                    *("reframe", "--nocolor", "-c", ROOT / "reframe_checks"),
                    *("--system", system, "--dry-run"),
                ],
                cwd=prefix, timeout=300, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout
            (report,) = (prefix / "reports").glob("*.json")
            tests = json.loads(report.read_text())["runs"][-1]["testcases"]
            scripts = {
                parse_case(test["case_id"]): Path(test["stagedir"], "rfm_job.sh").read_text()
                for test in tests
                if test.get("case_id")
            }
            assert not (prefix / "runs").exists(), "a dry run keeps no raw results"
            return done.stdout, read_site(system), scripts

        yield run


LAYOUT = ("--stripe-count", "--stripe-size", "--pool", "--setstripe", "--targets")


def layout(case, filesystem):
    """The options of LAYOUT that a job is to have."""
    if filesystem.osts is None or case.layout == "default" or case.items:
        return {}
    size = {"--stripe-size": str(case.stripe_size * 2**20)}
    if case.check.by_target:
        return size | {"--targets": "$TARGETS"}
    count = case.stripe_count
    if count == -1 and "ceph" in filesystem.types:
        count = 2  # of each of the template's pools
    return size | {"--stripe-count": str(count)} | ({"--pool": case.pool} if case.pool else {})


def command(script):
    """The line of a job script that runs the benchmark, and of two, as to read what was kept and
    then to write, the last."""
    return [line for line in script.splitlines() if "build/bin/benchio " in line][-1]


@pytest.mark.parametrize(
    "system", [s if s == "cirrus" else pytest.param(s, marks=pytest.mark.slow) for s in LAUNCH]
)
def test_dry_run_makes_a_script_of_every_case(system, dry_run):
    said, site, scripts = dry_run(system)
    assert "WARNING" not in said
    # Each partition also has benchio itself, and whoever looks for IOR, Darshan and GROMACS.
    total = len(site.cases(NIGHTLY)) + 4 * len(site.filesystems)
    assert f"Ran {total}/{total} test case(s)" in said
    assert "(0 failure(s), 0 expected failure(s), 0 skipped, 0 aborted)" in said
    assert set(scripts) == site.cases(NIGHTLY)

    filesystems = {filesystem.partition: filesystem for filesystem in site.filesystems}
    directive, launch = LAUNCH[system]
    for case, script in scripts.items():
        filesystem = filesystems[case.partition]
        if not case.ranks:  # the versions of libraries
            assert command(script).endswith("build/bin/benchio --version 8>&- 9>&-"), case
            continue
        if isinstance(case.check, ApplicationKind):  # fewer tasks on a node than it has cores
            assert "ptile" not in directive or '#BSUB -R "span[ptile=4]"' in script, case
            continue
        size = {"ranks": case.ranks, "nodes": case.ranks // filesystem.ranks_per_node}
        assert directive.format(**size) in script, case
        starts = command(script)
        if case.check.by_node:  # on some of the job's nodes
            (starts,) = re.findall(r"^write_and_read\(\) .*", script, re.MULTILINE)
            assert re.search(r"^on\(\) \{ timeout .* srun .*\$@", script, re.MULTILINE), case
        else:
            assert starts.startswith(launch.format(**size)), case
        assert f" {ROOT}/build/bin/benchio " in starts, case
        assert f"--fs-type {','.join(filesystem.types)} " in starts, case
        assert "--settle" not in script, "no site asks for it"
        assert f"WHERE={filesystem.path}\n" in script, case
        minutes = 20 if system in ("archer2", "cosma5") else 30
        assert f" --phase-limit {6 * minutes}" in starts, "a tenth of the job's own"
        if case.check.starts_once:
            assert read_script(script).program.value.endswith("/benchio"), "blame can run it again"
        words = starts.split()
        told = {name: words[words.index(name) + 1] for name in LAYOUT if name in words}
        assert told == layout(case, filesystem), case


@pytest.mark.slow
def test_jobs_of_archer_are_the_papers(dry_run):
    modules = ["PrgEnv-cray/5.2.56", "cce/8.4.1", "cray-mpich/7.2.6", "cray-hdf5-parallel/1.8.16"]
    modules += ["cray-netcdf-hdf5parallel/4.4.0"]
    _, _, scripts = dry_run("archer")
    for script in scripts.values():
        assert re.findall(r"^module load (\S+)$", script, re.MULTILINE) == modules
        assert script.startswith("#!/bin/bash -l\n#PBS ")
    case = parse_case(
        "archer:fs3/cray/SharedFileWrite/backend=hdf5/stripe_count=-1/stripe_size=1"
        "/local_size=128x128x128/ranks=48"
    )
    assert "--backend mpiio,hdf5 " in command(scripts[case])
    assert "--stripe-count -1 --stripe-size 1048576 " in command(scripts[case])
    (each,) = (s for case, s in scripts.items() if case.check.by_target and "fs4" in str(case))
    assert f"TARGETS={','.join(map(str, range(56)))} START=0\n" in each
    assert "WHERE=/fs3/z01/iowatch\n" in scripts[case]


@pytest.mark.parametrize("system", ["cirrus", pytest.param("jasmin", marks=pytest.mark.slow)])
def test_a_launcher_of_the_sites_own(system, dry_run):
    tool, launch, arguments = OWN_LAUNCHERS[system]
    job = next(iter(dry_run(system)[2].values()))
    (function,) = [line for line in job.splitlines() if f"{{ {tool} " in line]
    script = f"{tool}() {{ printf '%s\\n' \"$@\"; }}\n{function}\n{launch} benchio 'a b'"
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines() == [*arguments, "benchio", "a b"]
