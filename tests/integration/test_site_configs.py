"""The sites' configurations: what they promise, and the job scripts that ReFrame makes of them."""

import csv
import functools
import json
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from iowatch import site
from iowatch.case import Case, format_size
from iowatch.checks import ALL_CHECKS, CHECKS, SWEEPS
from iowatch.site import read_filesystem

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "site_configs"
PUBLISHED = ROOT / "reference_values" / "published"

#: Cases of the two sweeps.
CASES = {
    "archer": (33, 1749), "cirrus": (10, 385), "cosma5": (7, 64), "cosma6": (9, 565),
    "rdf-dac": (9, 129), "jasmin": (6, 44), "c3hpc": (22, 109), "ulysses": (7, 121),
    "archer2": (55, 1105), "slurm": (19, 136),
}  # fmt: skip

#: Those whose larger sweep, too, ReFrame lists in a few seconds.
SMALL = ("rdf-dac", "jasmin", "slurm")

#: OSTs of each partition.
OSTS = {
    "archer": {"fs2": 48, "fs3": 48, "fs4": 56}, "cirrus": {"lustre": 14},
    "cosma5": {"data": None}, "cosma6": {"data": 120},
    "rdf-dac": {"gpfs1": None, "gpfs2": None, "gpfs3": None}, "jasmin": {"group": None},
    "c3hpc": {"lustre": 4, "nfs": None, "local": None}, "ulysses": {"lustre": 2},
    "archer2": {"work1": 12, "work2": 12, "work3": 12, "work4": 12, "nvme": 20},
    "slurm": {"scratch": 16, "project": None},
}  # fmt: skip

#: Host names of login nodes.
LOGIN_NODES = {
    "archer": ["eslogin001"], "cirrus": ["cirrus-login0", "cirrus-login1.epcc.ed.ac.uk"],
    "cosma5": ["login5a", "login5b.cosma.dur.ac.uk"], "cosma6": ["login6a"],
    "rdf-dac": ["rdf-comp-login"], "jasmin": ["jasmin-sci1", "jasmin-sci12.ceda.ac.uk"],
    "c3hpc": ["c3hpc", "hpc.c3e.exact-lab.it"], "ulysses": ["frontend1.hpc.sissa.it"],
    "archer2": ["ln01", "uan01"], "slurm": [], "local": [],
}  # fmt: skip

#: How a job asks for its nodes, and how it starts the benchmark.
LAUNCH = {
    "archer": ("#PBS -l select={nodes}:mpiprocs=24:ncpus=24", "aprun -n {writers} -N 24 "),
    "cirrus": ("#PBS -l select={nodes}:mpiprocs=36:ncpus=36", "mpiexec -n {writers} "),
    "cosma5": ('#BSUB -R "span[ptile=16]"', "mpirun -np {writers} "),
    "cosma6": ('#BSUB -R "span[ptile=16]"', "mpirun -np {writers} "),
    "rdf-dac": ("#PBS -l select=1:mpiprocs=40:ncpus=40", "mpirun -np 40 "),
    "jasmin": ('#BSUB -R "span[ptile=16]"', "mpirun -np {writers} "),
    "c3hpc": ("#PBS -l nodes={nodes}:ppn=24", "mpirun -np {writers} "),
    "ulysses": ("#PBS -l nodes={nodes}:ppn=20", "mpirun -np {writers} "),
    "archer2": ("#SBATCH --ntasks={writers}\n#SBATCH --ntasks-per-node=128", "srun "),
    "slurm": ("#SBATCH --ntasks={writers}\n#SBATCH --ntasks-per-node=64", "srun "),
}

every_system = pytest.mark.parametrize("system", CASES)


@functools.cache
def configuration(system):
    return runpy.run_path(str(CONFIGS / f"{system}.py"))["site_configuration"]


@functools.cache
def filesystems(system):
    """The filesystems of a system by partition."""
    return {
        part["name"]: read_filesystem(system, part["name"], part["environs"], part["extras"], [])
        for part in configuration(system)["systems"][0]["partitions"]
    }


def command(script):
    """The line of a job script that runs the benchmark."""
    (line,) = [line for line in script.splitlines() if "build/bin/benchio " in line]
    return line


def reframe(folder, system, *options):
    """ReFrame as after env.sh; neither a scheduler nor modules are needed."""
    files = sorted(file for file in CONFIGS.glob("*.py") if file.name != "settings.py")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RFM_CONFIG_FILES": ":".join(map(str, [CONFIGS / "settings.py", *files])),
        "RFM_PREFIX": str(folder),
    }
    command = ["reframe", "--nocolor", "-c", ROOT / "reframe_checks", "--system", system, *options]
    done = subprocess.run(
        command, env=environment, cwd=folder.parent, timeout=300, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    done.folder = folder
    return done


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs(system): a dry run of its night; runs(system, "acceptance"): the list of that sweep."""
    folder = tmp_path_factory.mktemp("sites")
    todo = {(system, "nightly"): ["--dry-run"] for system in CASES}
    todo |= {(system, "acceptance"): ["-lC", "--mode=acceptance"] for system in SMALL}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a test waits for its own
        started = {
            run: pool.submit(reframe, folder / "-".join(run), run[0], *options)
            for run, options in todo.items()
        }
        yield lambda system, sweep="nightly": started[system, sweep].result()


@pytest.fixture
def jobs(runs):
    """jobs(system): the case and the job script of each test of its night."""

    def read(system):
        (report,) = (runs(system).folder / "reports").glob("*.json")
        tests = json.loads(report.read_text())["runs"][-1]["testcases"]
        return [
            (Case.parse(test["case_id"]), Path(test["stagedir"], "rfm_job.sh").read_text())
            for test in tests
            if test.get("case_id")
        ]

    return read


@pytest.fixture(scope="module")
def expected():
    """expected(system, sweep): the cases that the nightly gate expects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        patch.setenv("RFM_CONFIG_FILES", ":".join(map(str, CONFIGS.glob("*.py"))))
        # Both sweeps are in what ReFrame says once of a system.
        patch.setattr(site, "ask_reframe", functools.cache(site.ask_reframe))
        yield lambda system, sweep: site.cases(site.filesystems(system), sweep)


def test_every_configuration_is_tested_here():
    systems = {file.stem for file in CONFIGS.glob("*.py")} - {"settings"}
    assert set(LOGIN_NODES) == systems
    assert set(CASES) == set(LAUNCH) == systems - {"local"}


@every_system
def test_a_file_is_about_one_system(system):
    config = configuration(system)
    (only,) = config["systems"]
    assert only["name"] == system
    assert set(config) <= {"systems", "environments", "general"}
    for entry in (*config["environments"], *config.get("general", [])):
        assert entry["target_systems"] == [system]
    for part in only["partitions"]:
        assert part["name"] == part["extras"]["filesystem"]
        assert part["max_jobs"] == 1


def test_no_host_belongs_to_two_systems():
    patterns = {s: configuration(s)["systems"][0]["hostnames"] for s in LOGIN_NODES}
    for system, hosts in LOGIN_NODES.items():
        assert bool(hosts) == bool(patterns[system])
        for host in hosts:
            # As ReFrame does it.
            assert {s for s in patterns if any(re.match(p, host) for p in patterns[s])} == {system}
    assert len({p for s in patterns for p in patterns[s]}) == sum(map(len, patterns.values()))


@every_system
def test_dry_run_passes_and_is_what_the_gate_expects(system, runs, jobs, expected):
    done = runs(system)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    # Each partition also has LibraryVersions, and benchio itself.
    total = CASES[system][0] + 2 * len(OSTS[system])
    assert f"Ran {total}/{total} test case(s)" in done.stdout
    assert "(0 failure(s), 0 expected failure(s), 0 skipped, 0 aborted)" in done.stdout
    made = [case for case, _ in jobs(system)]
    assert len(made) == len(set(made))
    assert set(made) == expected(system, "nightly")
    assert tuple(len(expected(system, sweep)) for sweep in SWEEPS) == CASES[system]


@pytest.mark.parametrize("system", SMALL)
def test_acceptance_mode_lists_its_sweep(system, runs):
    done = runs(system, "acceptance")
    assert done.returncode == 0, done.stdout
    lines = re.findall(r"^- (\w+ %.*) /\w+ @(\S+)$", done.stdout, re.MULTILINE)
    promised = {
        (f"{check} {parameters(check, setting)}", f"{system}:{name}+{filesystem.environs[0]}")
        for name, filesystem in filesystems(system).items()
        for check in CHECKS
        for setting in filesystem.settings("acceptance", check)
    }
    assert len(lines) == len(promised) == CASES[system][1]
    assert set(lines) == promised


def parameters(check, setting):
    """A setting as ReFrame shows it."""
    names = ["stripe_count", "stripe_size", "backend", "local_size", "nodes"]
    names += ["writers_per_node"]
    names += [name for name in ("files", "instances") if name in CHECKS[check].parameters]
    values = {**vars(setting), "local_size": format_size(setting.local_size)}
    return " ".join(f"%{name}={values[name]}" for name in names)


@every_system
def test_jobs_ask_for_full_nodes_and_for_stripes_where_there_are_any(system, jobs):
    assert {name: fs.osts for name, fs in filesystems(system).items()} == OSTS[system]
    directive, launch = LAUNCH[system]
    for case, script in jobs(system):
        filesystem = filesystems(system)[case.partition]
        size = {"writers": case.writers, "nodes": case.writers // filesystem.writers_per_node}
        assert directive.format(**size) in script
        assert command(script).startswith(launch.format(**size) + str(ROOT))
        assert f"--fs-type {','.join(filesystem.types)} " in command(script)
        if filesystem.osts is None:
            assert "/count=none/size=none/" in str(case)
            assert "--stripe" not in script
        else:
            stripes = f" --stripe-count {case.stripe_count} --stripe-size {case.stripe_size}"
            assert stripes in command(script)


def test_jobs_of_archer_are_the_papers(jobs):
    modules = ["PrgEnv-cray/5.2.56", "cce/8.4.1", "cray-mpich/7.2.6", "cray-hdf5-parallel/1.8.16"]
    modules += ["cray-netcdf-hdf5parallel/4.4.0"]
    scripts = {str(case): script for case, script in jobs("archer")}
    for script in scripts.values():
        assert re.findall(r"^module load (\S+)$", script, re.MULTILINE) == modules
        assert script.startswith("#!/bin/bash -l\n#PBS ")
    case = "archer:fs3/cray/write/shared/hdf5/count=-1/size=1/local=128x128x128/writers=48"
    assert "--backend mpiio,hdf5 " in command(scripts[case])
    assert 'mktemp -d "/fs3/z01/iowatch/iowatch.XXXXXX"' in scripts[case]


@pytest.mark.parametrize(
    ("system", "tool", "launch", "arguments"),
    [
        ("cirrus", "mpiexec_mpt", "mpiexec -n 72", ["-n", "72", "-ppn", "36"]),
        ("jasmin", "mpirun.lotus", "mpirun -np 16", ["-np", "16"]),
    ],
)
def test_a_launcher_of_the_sites_own(system, tool, launch, arguments, jobs):
    _, job = jobs(system)[0]
    (function,) = [line for line in job.splitlines() if f"{{ {tool} " in line]
    script = f"{tool}() {{ printf '%s\\n' \"$@\"; }}\n{function}\n{launch} benchio 'a b'"
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines() == [*arguments, "benchio", "a b"]


def nodes(filesystem, *checks):
    settings = (filesystem.settings(sweep, check) for sweep in SWEEPS for check in checks or CHECKS)
    return {setting.nodes for each in settings for setting in each}


def test_node_counts_are_those_a_system_allows_its_peak_is_for_and_caches_need():
    assert [nodes(filesystem) for filesystem in filesystems("rdf-dac").values()] == [{1}] * 3
    assert nodes(filesystems("c3hpc")["local"]) == {1}
    for system, link in (("jasmin", 1.25e9), ("archer2", 25e9), ("ulysses", 4e9)):
        for filesystem in filesystems(system).values():
            assert filesystem.peak * 2**20 == pytest.approx(max(nodes(filesystem)) * link)
    # Reads are of what another node wrote, but from disks with no cache but the kernel's.
    shared = [fs for s in CASES for fs in filesystems(s).values() if fs.types != ("ext4", "xfs")]
    assert all(1 not in nodes(filesystem, "SharedFileRead") for filesystem in shared)


def test_no_peak_below_a_published_value():
    compared = 0
    for file in set(PUBLISHED.glob("*.csv")) - {PUBLISHED / "prose.csv"}:
        for row in csv.DictReader(file.read_text().splitlines()):
            fastest = max(float(row[name] or 0) for name in ("max", "mean", "median"))
            for name, filesystem in filesystems(row["system"]).items():
                if row["filesystem"] in ("", name):
                    assert filesystem.peak > fastest > 0
                    compared += 1
    assert compared > 300
    # ARCHER2's user guide, "I/O performance and tuning": a file per process.
    assert filesystems("archer2")["nvme"].peak > 200 * 1024
    assert filesystems("archer2")["work1"].peak > 170 * 1024


def test_the_readme_explains_every_key_check_and_parameter():
    names = ("FILESYSTEM", "PATH", "TYPE", "PEAK", "OSTS", "CACHED_READS", "WRITERS_PER_NODE")
    known = {getattr(site, name) for name in (*names, "SWEEPS")} | {*ALL_CHECKS}
    known |= {name for check in CHECKS.values() for name in check.parameters}
    text = (CONFIGS / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == known
    assert all(f"`{name}`" in text for name in (*SWEEPS, site.BENCHIO, site.DARSHAN))
