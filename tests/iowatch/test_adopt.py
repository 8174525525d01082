"""Adopting a site: what its login node says, and the file that follows."""

import io
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from login_node import (
    CONFIG,
    ETHERNET,
    INFINIBAND,
    LUSTRE,
    PBS_PRO,
    SINFO,
    TORQUE,
    answer,
    files,
)

from iowatch import places
from iowatch.adopt import machine, mounts, site_new
from iowatch.adopt.machine import Nodes
from iowatch.adopt.mounts import Mount
from iowatch.case import Case
from iowatch.checks import CHECKS
from iowatch.files import UserError
from iowatch.references import ReferenceFile
from iowatch.site import read_filesystem

ROOT = Path(__file__).parents[2]
HOSTILE = (
    'x\nimport os; os.abort()  # {{ 7 * 7 }} {% raise %} """ \' \u2028 \0 \033[2J ' + "y" * 200
)
BENCHIO = (
    "benchio 0.1.0\ncompiler Cray 15\nmpiio   CRAY MPICH 8\nhdf5    1.12\nnetcdf  not built in\n"
    "posix   Linux 5.14"
)


# Nodes, links and software


def test_partitions_of_slurm():
    found = machine.parse_sinfo(SINFO)
    assert found == [
        Nodes(500, 128, "standard", 1440, default=True),
        Nodes(584, 128, "highmem", 2880),
        Nodes(5, 32, "gpu", 240),  # with and without hyperthreads
        Nodes(2, 128, "gpu", 240),
        Nodes(2, 128, "serial", 30),
        Nodes(1, 40, "interactive", None),
    ]
    for text in ("", "sinfo: error: Unable to contact slurm controller", "a|up|1|2"):
        assert machine.parse_sinfo(text) == []


def test_nodes_of_pbs():
    assert machine.parse_pbsnodes(PBS_PRO) == Nodes(2, 48)
    assert machine.parse_pbsnodes(TORQUE) == Nodes(2, 16)
    assert machine.parse_pbsnodes("pbsnodes: Server has no node list") is None


def test_node_counts_and_time_limit_are_within_the_partitions():
    for count, counts in {1: [1], 2: [1, 2], 7: [1, 2, 4], 5000: [2**n for n in range(9)]}.items():
        assert machine.Jobs("Slurm", "slurm", "srun", Nodes(count, 1)).node_counts == counts
    for limit, minutes in {10: 10, 1440: 30, None: 30}.items():
        assert machine.Jobs("", "", "", Nodes(1, 1, minutes=limit)).minutes == minutes


@pytest.mark.parametrize(
    ("accounting", "mpi", "is_open_mpi_4", "expected"),
    [
        ("accounting_storage/slurmdbd", "pmix", True, ("slurm", "srun")),
        ("accounting_storage/none", "pmi2", True, ("squeue", "srun")),
        ("(null)", "none", True, ("squeue", "mpirun")),
        ("accounting_storage/slurmdbd", "none", False, ("slurm", "srun")),
    ],
)
def test_slurm_with_and_without_accounting_and_pmi(
    commands, accounting, mpi, is_open_mpi_4, expected
):
    commands(sinfo=SINFO, scontrol=CONFIG.format(accounting, mpi), qstat="Version: 6.1.2")
    jobs = machine.find_jobs(is_open_mpi_4)
    assert (jobs.scheduler, jobs.launcher) == expected
    assert (jobs.nodes.partition, len(jobs.others)) == ("standard", 5)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"qstat": "pbs_version = 19.1.3", "pbsnodes": PBS_PRO, "aprun": ""}, ("pbs", "alps", 48)),
        ({"qstat": "Version: 6.1.2\nCommit: 6f", "pbsnodes": TORQUE}, ("torque", "mpirun", 16)),
        ({"qstat": "pbs_version = 22.05"}, ("pbs", "mpirun", os.cpu_count())),
        ({"bsub": ""}, ("lsf", "mpirun", os.cpu_count())),
        ({"sinfo": "sinfo: error: no controller"}, ("local", "mpirun", os.cpu_count())),
    ],
)
def test_other_schedulers(commands, said, expected):
    commands(**said)
    jobs = machine.find_jobs(is_open_mpi_4=False)
    assert (jobs.scheduler, jobs.launcher, jobs.nodes.cores) == expected
    assert jobs.are_nodes_known == ("pbsnodes" in said or jobs.scheduler == "local")


def test_what_benchio_says():
    text = (
        "benchio 0.1.0\ncompiler Cray Fortran : 15.0\nmpiio   CRAY MPICH 8\n"
        "hdf5    not built in\nposix   Linux 5.14\n"
    )
    assert machine.parse_benchio_version(text) == machine.Benchio("", ("mpiio", "posix"), "cray")
    assert machine.parse_benchio_version("") == machine.Benchio()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"LMOD_CMD": "/lmod", "MODULES_CMD": "/m"}, "lmod"),
        ({"MODULES_CMD": "/modulecmd.tcl", "MODULESHOME": "/opt/modules"}, "envmod"),
        ({"MODULESHOME": "/opt/modules/3.2.10.6", "MODULE_VERSION": "3.2.10.6"}, "nomod"),
        ({}, "nomod"),
    ],
)
def test_module_systems(commands, env, expected):
    commands(modulecmd="")
    assert machine.modules_system(env) == expected
    is_old = expected == "nomod" and env
    assert machine.init_modules(env) == ("/opt/modules/3.2.10.6/init/bash" if is_old else "")


def test_links(tmp_path):
    assert machine.link_rates(tmp_path) == {}
    files(tmp_path, ETHERNET)
    assert machine.link_rates(tmp_path) == {"eth0": 25, "eth1": 25}
    files(tmp_path, INFINIBAND)
    assert machine.link_rates(tmp_path) == {"mlx5_0:1": 100, "hfi1_0:2": 12.5}


# The site's file, and the names it may have


@dataclass
class Usage:
    """Stands in for what shutil.disk_usage says of a large filesystem."""

    free: int


@pytest.fixture
def facts(tmp_path, monkeypatch, mounted, commands):
    """What `iowatch site new archer` finds on a Cray-like machine; change it before rendering."""
    config = CONFIG.format("accounting_storage/slurmdbd", "pmix")
    commands(sinfo=SINFO, scontrol=config, benchio=BENCHIO)
    answer(tmp_path, "lfs", {**LUSTRE, "pool_list lus": "osts-err-nolustre"})  # has none
    mounted(("lustre", "fs2"), ("gpfs", "epsrc"), ("wekafs", "weka"), ("nfs", "home"))
    files(tmp_path / "class", INFINIBAND)
    monkeypatch.setattr(site_new, "BUILT_BENCHIO", tmp_path / "none")
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path / "results"))
    monkeypatch.setattr(site_new, "LINKS", tmp_path / "class")
    monkeypatch.setattr(mounts.shutil, "disk_usage", lambda path: Usage(free=10**15))
    monkeypatch.setattr(site_new.socket, "gethostname", lambda: "eslogin003.site.org")
    for name in ("LMOD_CMD", "MODULES_CMD", "MODULESHOME", "LOADEDMODULES"):
        monkeypatch.delenv(name, raising=False)
    return lambda: site_new.look("archer", [])


def load(text, tmp_path):
    """What ReFrame gets of a file that is formatted as the project's own are."""
    file = tmp_path / "archer.py"
    file.write_text(text)
    for command in (["format", "--diff"], ["check"]):
        ruff = [
            Path(sys.executable).with_name("ruff"),
            *command,
            "--config",
            ROOT / "pyproject.toml",
        ]
        done = subprocess.run([*ruff, file], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    config = runpy.run_path(str(file))["site_configuration"]
    (system,) = config["systems"]
    (environment,) = config["environments"]
    return system, environment


def read(system):
    """Its filesystems, as the checks read them: every key is there and right."""
    return [
        read_filesystem(system["name"], part["name"], part["environs"], part["extras"], ["x.py"])
        for part in system["partitions"]
    ]


def test_written_site(facts, tmp_path):
    system, environment = load(site_new.render(facts()), tmp_path)
    epsrc, fs2, weka = read(system)
    assert (epsrc.types, fs2.types, weka.types) == (("gpfs",), ("lustre",), ("unknown",))
    assert (epsrc.osts, fs2.osts, weka.osts) == (None, (0, 1, 2, 3), None)
    assert fs2.path == f"{tmp_path}/fs2/iowatch"
    assert fs2.writers_per_node == 128
    assert fs2.peak == pytest.approx(256 * 112.5e9 / 8 / 2**20)
    # By default a file has one OST, which is not measured twice.
    assert stripes(fs2, "nightly", "SharedFileWrite") == {DEFAULT, (None, -1, 4, None)}
    nightly = fs2.settings("nightly", CHECKS["SharedFileWrite"])
    swept = ("backend", "local_size", "nodes")
    assert {tuple(s.get(name) for name in swept) for s in nightly} == {
        (backend, (128, 128, 128), nodes) for backend in ("mpiio", "hdf5") for nodes in (1, 2)
    }
    for check in ("SharedFileRead", "FilePerProcess"):
        each = {(None, count, 1, None) for count in (1, -1)}
        assert stripes(fs2, "acceptance", check) == {DEFAULT, *each}
    load_test = fs2.settings("acceptance", CHECKS["SystemLoad"])
    assert {(s.get("instances"), s.get("stripe_count")) for s in load_test} == {
        (instances, count) for instances in (1, 2, 4) for count in (None, -1)
    }
    for check in ("SharedFileRead", "ReadBack"):
        reads = fs2.settings("nightly", CHECKS[check])
        assert {s.nodes for s in reads} == {2}, "not from the node that wrote"
    assert [len(fs2.settings(sweep, CHECKS["SlowOst"])) for sweep in ("nightly", "acceptance")] == [
        1,
        1,
    ]
    # Names, the versions of libraries; IOR, profiles and applications.
    assert len(epsrc.cases("nightly")) == 4 + 2 + 2 + 2 + 1 + 2 + 3 + 1
    assert (
        len(epsrc.cases("acceptance")) == 2 * 2 * 9 + 9 + 3 * 9 + 2 * 8 + 2 + 1 + 2 * 9 + 4 + 3 + 3
    )
    assert stripes(epsrc, "acceptance", "IorPeer") == {(None,) * 4}
    one, each = (None, -1, 4, None), DEFAULT
    found = {(s.get("files"), *layout(s)) for s in fs2.settings("acceptance", CHECKS["IorPeer"])}
    assert found == {("shared", *one), ("process", *each)}
    assert stripes(fs2, "nightly", "IoProfile") == {one}
    assert stripes(fs2, "nightly", "GromacsTrajectory") == {DEFAULT}
    partition = system["partitions"][0]
    assert partition["access"] == ["--partition=standard", "--exclusive"]
    assert (partition["scheduler"], partition["launcher"]) == ("slurm", "srun")
    assert (partition["max_jobs"], partition["time_limit"]) == (1, "30m")
    assert system["hostnames"] == [r"eslogin\d+"]
    assert partition["environs"] == [environment["name"]] == ["cray"]
    assert environment["extras"] == {"benchio": f"{tmp_path}/benchio"}


def words(text):
    """Comments as one line: theirs break where paths are long."""
    return " ".join(text.replace("#", " ").split())


DEFAULT = ("default", None, None, None)


def layout(setting):
    """Layout, stripe count, stripe size and pool."""
    return tuple(map(setting.get, ("layout", "stripe_count", "stripe_size", "pool")))


def stripes(fs, sweep, check):
    """Those of what a sweep measures."""
    return {layout(s) for s in fs.settings(sweep, CHECKS[check])}


@pytest.mark.long
def test_written_site_of_every_lustre(facts, tmp_path):
    """Whatever its default, and with some of its OSTs: what is written loads and means that."""
    for file in sorted((ROOT / "tests/data/lustre").glob("getstripe-dir-*.txt")):
        answers = {"getstripe -d": file.stem, "osts": "osts-client-inactive"}
        answer(tmp_path, "lfs", {**LUSTRE, **answers})
        text = site_new.render(facts())
        _, fs2, _ = read(load(text, tmp_path)[0])
        assert fs2.osts == (0, 2, 3)
        assert fs2.pools == {"fast": (2,)}
        found = stripes(fs2, "nightly", "SharedFileWrite")
        assert found - {DEFAULT} == {(None, 1, size, "fast") for *_, size, _ in found - {DEFAULT}}
        assert DEFAULT in found
        assert "Left out, because not active on this client: OST 1." in text
        assert ('"layouts": {' in text) == (file.stem[14:] in ("over", "pfl", "dom")), file
    answer(tmp_path, "lfs", LUSTRE)
    _, fs2, _ = read(load(site_new.render(facts()), tmp_path)[0])
    found = stripes(fs2, "nightly", "SharedFileWrite")
    assert found == {DEFAULT, (None, 1, 4, "fast"), (None, -1, 4, "fast")}, "no pools are mixed"
    assert stripes(fs2, "nightly", "IorPeer") == {(None, -1, 4, "fast")}
    assert fs2.mdts == ()

    answer(tmp_path, "lfs", LUSTRE, 2)
    _, fs2, _ = read(load(site_new.render(facts()), tmp_path)[0])
    assert fs2.mdts == (0, 1)
    for sweep in ("nightly", "acceptance"):
        assert {s.get("mdt") for s in fs2.settings(sweep, CHECKS["Metadata"])} == {0, 1}


def test_layout_that_is_shown_as_an_example_is_what_the_site_reads(facts, tmp_path):
    answer(tmp_path, "lfs", {**LUSTRE, "getstripe -d": "getstripe-dir-pfl"})
    lines = site_new.render(facts()).splitlines()
    first = next(number for number, line in enumerate(lines) if '# "layouts": {' in line)
    last = next(number for number in range(first, len(lines)) if lines[number].endswith("# },"))
    lines[first : last + 1] = [line.replace("# ", "", 1) for line in lines[first : last + 1]]
    file = tmp_path / "archer.py"
    file.write_text("\n".join(lines))
    (system,) = runpy.run_path(str(file))["site_configuration"]["systems"]
    _, fs2, _ = read(system)
    assert fs2.layouts == {"as_default": "-E 1M -c 1 -S 1M -E 16M -c 2 -S 2M -E -1 -c -1 -S 4M"}


def test_many_osts_stay_readable(facts, tmp_path):
    gone = {5, 17, *range(40, 60)}
    rows = (f"{n}: fs2-OST{n:04x}_UUID {'IN' * (n in gone)}ACTIVE\n" for n in range(100))
    answer(tmp_path, "lfs", {**LUSTRE, "osts": "OBDS:\n" + "".join(rows)})
    text = site_new.render(facts())
    assert '"osts": [*range(5), *range(6, 17), *range(18, 40), *range(60, 100)],' in text
    _, fs2, _ = read(load(text, tmp_path)[0])
    assert fs2.osts == tuple(n for n in range(100) if n not in gone)

    rows = (f"{n}: fs2-OST{n:04x}_UUID {'IN' * (n % 3 > 0)}ACTIVE\n" for n in range(200))
    answer(tmp_path, "lfs", {**LUSTRE, "osts": "OBDS:\n" + "".join(rows)})
    _, fs2, _ = read(load(site_new.render(facts()), tmp_path)[0])
    assert fs2.osts == tuple(range(0, 200, 3))


def test_lustre_of_which_nothing_is_said(facts, tmp_path):
    (tmp_path / "lfs").unlink()
    text = site_new.render(facts())
    assert "# Confirm: lfs is not on PATH.\n" in text
    epsrc, fs2, _ = read(load(text, tmp_path)[0])
    assert fs2.osts is None
    assert len(fs2.cases("nightly")) == len(epsrc.cases("nightly"))


def test_peak_is_asked_for_and_never_invented(facts, tmp_path, monkeypatch):
    monkeypatch.setattr(site_new, "LINKS", tmp_path / "none")
    found = facts()
    assert "LINK" not in site_new.render(found)
    system, _ = load(site_new.render(found), tmp_path)
    with pytest.raises(UserError, match=r"^archer:epsrc: 'peak' .*x\.py$"):
        read(system)
    no_peak = site_new.without_peak(found["filesystems"])
    steps = site_new.next_steps("archer", Path("a"), Path("b"), no_peak)
    assert "write the 'peak' of epsrc, fs2, weka" in steps

    epsrc, *_ = read(load(site_new.render(site_new.look("archer", [], 100)), tmp_path)[0])
    assert epsrc.peak == pytest.approx(256 * 100e9 / 8 / 2**20)
    for link in (0, -1, float("inf"), float("nan")):
        with pytest.raises(UserError, match=r"^--link .*: must be above 0"):
            site_new.new_site("other", [], link)


class Terminal(io.StringIO):
    """Stands in for somebody who types this."""

    def isatty(self):
        return True


def test_peak_is_asked_for_at_a_terminal(facts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert "100 Gbit/s" in facts()["links"], "and not where it can be read"
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(site_new, "LINKS", tmp_path / "none")
    for typed, link_bytes in (("fast\n-1\ninf\n200\n", "25e9"), ("0\n", "")):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        assert facts()["link_bytes"] == link_bytes
        assert capsys.readouterr().out.count("Gbit/s of a node's links together") == len(
            typed.splitlines()
        )


def test_sizes_are_those_for_which_there_is_room(facts, tmp_path, monkeypatch):
    """And that a quota leaves: 128 x 256 writers, and 2 nodes of them every night."""
    assert "smaller than usual" not in site_new.render(facts())
    for free, nightly, shared, files_ in (
        (10**13, [128], [128, 256], [256]),
        (10**12, [128], [64], [64]),
        (10**9, [32], [16], [16]),
        (10**6, [16], [16], [16]),
    ):
        monkeypatch.setattr(mounts.shutil, "disk_usage", lambda path, free=free: Usage(free))
        text = site_new.render(facts())
        assert "# Sizes below are smaller than usual, because" in text
        epsrc, *_ = read(load(text, tmp_path)[0])
        for sweep, check, edges in (
            ("nightly", "SharedFileWrite", nightly),
            ("acceptance", "SharedFileWrite", shared),
            ("acceptance", "FilePerProcess", files_),
        ):
            sizes = {s.get("local_size") for s in epsrc.settings(sweep, CHECKS[check])}
            assert sizes == {(edge,) * 3 for edge in edges}, (free, check)
        peers = epsrc.settings("acceptance", CHECKS["IorPeer"])
        assert bool(peers) == (nightly == [128]), "IO500's ior-easy would not fit"
    answer(tmp_path, "lfs", {**LUSTRE, "quota": "quota-after1"})
    monkeypatch.setattr(mounts.shutil, "disk_usage", lambda path: Usage(10**15))
    comments = words(site_new.render(facts()))
    assert "because fs2 has 1.0 PB free, 3.1 MB left of your quota; confirm that" in comments


def test_written_comments_name_what_was_left_out(facts):
    text = site_new.render(facts())
    assert "# - highmem 584 x 128 cores\n" in text
    assert "/home, nfs: homes have quotas" in words(text)
    assert text.count("onfirm") >= 5
    assert "?" not in text


@pytest.mark.parametrize("scheduler", ["local", "pbs", "lsf"])
def test_written_site_of_other_schedulers(facts, commands, tmp_path, monkeypatch, scheduler):
    (tmp_path / "sinfo").unlink()
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 6)
    commands(**{"pbs": {"qstat": "pbs_version = 22"}, "lsf": {"bsub": ""}}.get(scheduler, {}))
    system, _ = load(site_new.render(facts()), tmp_path)
    assert {part["scheduler"] for part in system["partitions"]} == {scheduler}
    access = [part.get("access") for part in system["partitions"]]
    assert access == [None if scheduler == "local" else []] * 3
    profile = [fs.settings("nightly", CHECKS["IoProfile"])[0] for fs in read(system)]
    assert {one.nodes * one.writers_per_node for one in profile} == {12}, (
        "not 6, as there are cores"
    )
    assert {one.nodes for one in profile} == {1 if scheduler == "local" else 2}
    assert not any(fs.settings("acceptance", CHECKS["IorPeerRead"]) for fs in read(system))
    for fs in read(system):
        assert {
            setting.nodes for setting in fs.settings("acceptance", CHECKS["SharedFileWrite"])
        } == {1}
        assert {
            setting.get("instances") for setting in fs.settings("acceptance", CHECKS["SystemLoad"])
        } == {1, 2}


@pytest.mark.parametrize(
    ("env", "modules_system"),
    [
        ({"LMOD_CMD": "/usr/share/lmod/lmod/libexec/lmod"}, "lmod"),
        ({"MODULESHOME": "/opt/modules/3.2.10.6"}, "nomod"),
    ],
)
def test_written_modules(facts, tmp_path, monkeypatch, env, modules_system):
    for name, value in {**env, "LOADEDMODULES": "PrgEnv-gnu/8.3:cray-hdf5-parallel/1.12"}.items():
        monkeypatch.setenv(name, value)
    system, environment = load(site_new.render(facts()), tmp_path)
    assert system["modules_system"] == modules_system
    if modules_system == "lmod":
        assert environment["modules"] == ["PrgEnv-gnu/8.3", "cray-hdf5-parallel/1.12"]
    else:
        assert system["partitions"][0]["prepare_cmds"] == [
            ". /opt/modules/3.2.10.6/init/bash",
            "module load PrgEnv-gnu/8.3",
            "module load cray-hdf5-parallel/1.12",
        ]


def test_hostile_text_stays_text(facts, tmp_path):
    found = facts()
    found["name"], found["host"] = "a" * 40, "login" * 12
    mount = Mount("/x", "nfs", HOSTILE)
    found["filesystems"] = [mounts.Filesystem("a", "/x" * 60, "nfs", mount, 10**9)]
    found["left_out"] = [(Mount(HOSTILE, HOSTILE, ""), HOSTILE)]
    found["modules_system"], found["modules"] = "lmod", ['a"b', "it's", "back\\slash\n", "é" * 99]
    system, environment = load(site_new.render(found), tmp_path)
    assert environment["modules"] == found["modules"]
    assert [fs.path for fs in read(system)] == ["/x" * 60]


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "../a", "-a", "1a", "a.b", "a|b", "é", "a\n", "a'", "{{a}}", "a:b"]
)
def test_names_that_are_refused(name):
    with pytest.raises(UserError, match="cannot be a system's name"):
        site_new.check_name(name)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Where the site's own configurations are."""
    monkeypatch.setenv("IOWATCH_SITE_DIR", str(tmp_path))
    folder = tmp_path / "site_configs"
    folder.mkdir()
    return folder


def test_names_that_are_taken(own):
    other = "site_configuration = {'systems': [{'name': 'inside'}]}"
    (own / "other.py").write_text(other)
    for name in ("generic", "settings", "local", "other", "inside"):
        with pytest.raises(UserError, match="exists already"):
            site_new.check_name(name)
    site_new.check_name("new_site-2")


@pytest.mark.parametrize("text", ["x = (", "x = 1", "site_configuration = []", "raise OSError"])
def test_broken_configuration_beside_is_named(own, text):
    (own / "broken.py").write_text(text)
    with pytest.raises(UserError, match=rf"{own}/broken.py is no site's configuration"):
        site_new.check_name("new")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own."""
    for name in ("site_configs", "reference_values", "src/benchio"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env.sh").touch()
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(places, "BENCHIO_SOURCE", tmp_path / "src/benchio")
    monkeypatch.delenv("IOWATCH_SITE_DIR", raising=False)
    monkeypatch.delenv("RFM_REFERENCE_PREFIX", raising=False)
    return tmp_path


def test_reference_values_are_where_the_checks_look(checkout, monkeypatch):
    other = checkout / "elsewhere"
    assert site_new.write_references("a") == checkout / "reference_values/a.yaml"
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(other))
    assert site_new.write_references("b") == other / "b.yaml"


def test_reference_values_begin_with_what_holds_on_any_machine(checkout):
    """Without them SlowOst could name no OST."""
    references = ReferenceFile(site_new.write_references("a"))
    own = {"SlowOst", "IorPeer", "IorPeerRead", "Metadata", "ReadBack", "MdtestPeer"}
    own |= {"GromacsTrajectory", "Cp2kRestart", "MeepState"}
    assert {check.name for check in CHECKS.values() if check.bounds} == own
    parameters = (("stripe_size", 1), ("local_size", (64, 64, 64)), ("writers", 8))
    bounds = references.of(Case("a", "fs2", "gnu", CHECKS["SlowOst"], parameters))
    assert bounds["ost_ratio"].lower == 0.5


def test_next_steps_are_as_they_are_typed_in_the_present_folder(checkout, monkeypatch):
    file, references = checkout / "site_configs/a.py", checkout / "reference_values/a.yaml"
    assert f"    source {checkout}/env.sh\n" in site_new.next_steps("a", file, references)
    monkeypatch.chdir(checkout)
    assert "    source env.sh\n" in site_new.next_steps("a", file, references)
