"""Adopting a site: what its login node says, and the file that follows."""

import io
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from login_node import (
    CONFIG,
    ETHERNET,
    INFINIBAND,
    LUSTRE,
    PBS_PRO,
    SINFO,
    answer,
    files,
)

from iowatch.adopt import machine, mounts, site_new
from iowatch.adopt.machine import Nodes
from iowatch.adopt.mounts import Mount
from iowatch.adopt.probe import largest
from iowatch.base import places
from iowatch.base.files import UserError
from iowatch.cases.case import KIB, Case
from iowatch.cases.filesystem import SUITES
from iowatch.measure.checks import CHECKS
from iowatch.site.references import ReferenceFile
from iowatch.site.suites import read_filesystem

ROOT = Path(__file__).parents[2]
HOSTILE = (
    'x\nimport os; os.abort()  # {{ 7 * 7 }} {% raise %} """ \' \u2028 \0 \033[2J ' + "y" * 200
)
BENCHIO = (
    "benchio 0.1.0\ncompiler Cray Fortran : 15.0\nmpiio   CRAY MPICH 8\nhdf5    1.12\n"
    "netcdf  not built in\nposix   Linux 5.14\n"
)


# Nodes, links and software


def test_nodes_that_schedulers_name():
    assert machine.parse_sinfo(SINFO) == [
        Nodes(500, 128, "standard", 1440, default=True),
        Nodes(584, 128, "highmem", 2880),
        Nodes(5, 32, "gpu", 240),  # with and without hyperthreads
        Nodes(2, 128, "gpu", 240),
        Nodes(2, 128, "serial", 30),
        Nodes(1, 40, "interactive", None),
    ]
    for text in ("", "sinfo: error: Unable to contact slurm controller", "a|up|1|2"):
        assert machine.parse_sinfo(text) == []
    assert machine.parse_pbsnodes(PBS_PRO) == Nodes(2, 48)
    assert machine.parse_pbsnodes("pbsnodes: Server has no node list") is None


def test_node_counts_and_time_limit_are_within_the_partitions():
    for count, counts in {1: [1], 2: [1, 2], 7: [1, 2, 4], 5000: [2**n for n in range(9)]}.items():
        assert machine.Jobs("Slurm", "slurm", "srun", Nodes(count, 1)).node_counts == counts
    for limit, minutes in {10: 10, 1440: 30, None: 30}.items():
        assert machine.Jobs("", "", "", Nodes(1, 1, minutes=limit)).minutes == minutes


def slurm(accounting, mpi):
    return {"sinfo": SINFO, "scontrol": CONFIG.format(accounting, mpi), "qstat": "Version: 6.1.2"}


DATABASE, HERE = "accounting_storage/slurmdbd", os.cpu_count()


@pytest.mark.parametrize(
    ("texts", "is_open_mpi", "expected"),
    [
        (slurm(DATABASE, "pmix"), True, ("slurm", "srun", 128)),
        (slurm("accounting_storage/none", "pmi2"), True, ("squeue", "srun", 128)),
        (slurm("(null)", "none"), True, ("squeue", "mpirun", 128)),
        (slurm(DATABASE, "none"), False, ("slurm", "srun", 128)),
        ({"qstat": "pbs_version = 19.1.3", "pbsnodes": PBS_PRO, "aprun": ""}, False,
         ("pbs", "alps", 48)),
        ({"qstat": "pbs_version = 22.05"}, False, ("pbs", "mpirun", HERE)),
        ({}, False, ("local", "mpirun", HERE)),
    ],
)  # fmt: skip
def test_scheduler_and_launcher(commands, texts, is_open_mpi, expected):
    commands(**texts)
    jobs = machine.find_jobs(is_open_mpi)
    assert (jobs.scheduler, jobs.launcher, jobs.nodes.cores) == expected
    assert jobs.are_nodes_known == (jobs.scheduler == "local" or jobs.nodes.count > 1)
    assert len(jobs.others) == (5 if "scontrol" in texts else 0)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ({"qstat": "Version: 6.1.2"}, "qstat .*Torque, or another PBS"),
        ({"bsub": ""}, "bsub .*LSF"),
        ({"qconf": "", "qsub": "", "qstat": ""}, "qconf .*Grid Engine"),
        ({"oarsub": ""}, "oarsub .*OAR"),
        ({"flux": ""}, "flux .*Flux"),
    ],
)
def test_other_schedulers_are_refused(commands, texts, name):
    commands(**texts)
    command, scheduler = name.split(" .*")
    said = rf"^{command} is of a scheduler that site new does not know, {scheduler}: it knows"
    with pytest.raises(UserError, match=said):
        machine.find_jobs(False)


def fails(folder, name, said):
    """A command that is there, and cannot be used."""
    (folder / name).write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    (folder / name).chmod(0o755)


def test_a_scheduler_that_does_not_answer_is_not_absent(commands, tmp_path):
    """Without it, a benchmark would run on the login node; a package alone is no cluster."""
    commands(sinfo="")
    with pytest.raises(UserError, match=r"^Slurm is here, and .* lists no partition that is up: "):
        machine.find_jobs(False)
    fails(tmp_path, "sinfo", "sinfo: error: Unable to contact slurm controller (connect failure)")
    said = "^Slurm is here, and .*failed: sinfo: error: Unable to contact .*: mend that, or take"
    with pytest.raises(UserError, match=said):
        machine.find_jobs(False)
    fails(tmp_path, "sinfo", "sinfo: fatal: Could not establish a configuration source")
    assert machine.find_jobs(False).scheduler == "local"
    fails(tmp_path, "qconf", "")
    fails(tmp_path, "qstat", 'error: fopen("/x/common/act_qmaster") failed: No such file')
    assert machine.find_jobs(False).scheduler == "local"
    fails(tmp_path, "qstat", 'error: ERROR! invalid option argument "--version"')
    with pytest.raises(UserError, match=r"^qconf is of a scheduler .*, Grid Engine: "):
        machine.find_jobs(False)


def test_compiler_and_libraries_of_benchio():
    benchio = machine.parse_benchio_version(BENCHIO)
    assert benchio == machine.Benchio("", ("mpiio", "hdf5", "posix"), "cray")
    assert machine.parse_benchio_version("") == machine.Benchio()


@pytest.mark.parametrize(
    ("env", "system", "init"),
    [
        ({"LMOD_CMD": "/lmod", "MODULES_CMD": "/m"}, "lmod", ""),
        ({"MODULES_CMD": "/modulecmd.tcl", "MODULESHOME": "/opt/modules"}, "envmod", ""),
        ({"MODULESHOME": "/opt/modules/3.2"}, "nomod", "/opt/modules/3.2/init/bash"),
        ({}, "nomod", ""),
    ],
)
def test_module_systems(commands, env, system, init):
    commands(modulecmd="")
    assert (machine.modules_system(env), machine.init_modules(env)) == (system, init)


def test_links(tmp_path):
    assert machine.link_rates(tmp_path) == {}
    files(tmp_path, ETHERNET)
    assert machine.link_rates(tmp_path) == {"eth0": 25, "eth1": 25}
    files(tmp_path, INFINIBAND)
    assert machine.link_rates(tmp_path) == {"mlx5_0:1": 100, "hfi1_0:2": 12.5}


# The site's file


@dataclass
class Usage:
    """Stands in for what shutil.disk_usage says of a large filesystem."""

    free: int


@pytest.fixture
def facts(tmp_path, monkeypatch, mounted, commands):
    """What `iowatch site new archer` finds on a Cray-like machine; change it before rendering."""
    commands(**slurm(DATABASE, "pmix"), benchio=BENCHIO)
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
    """What ReFrame gets of a file: its system and its environment."""
    file = tmp_path / "archer.py"
    file.write_text(text)
    config = runpy.run_path(str(file))["site_configuration"]
    return (*config["systems"], *config["environments"])


def assert_tidy(text, tmp_path):
    """A written file is formatted as the project's are."""
    file = tmp_path / "archer.py"
    file.write_text(text)
    for command in (["format", "--diff"], ["check"]):
        ruff = [Path(sys.executable).with_name("ruff"), *command]
        ruff += ["--config", ROOT / "pyproject.toml", file]
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def read(system):
    """Its filesystems, as the checks read them: every key is there and right."""
    return [
        read_filesystem(system["name"], part["name"], part["environs"], part["extras"], ["x.py"])
        for part in system["partitions"]
    ]


@pytest.fixture
def filesystems(facts, tmp_path):
    """filesystems(lfs_answers, mdts): those of the file that is written now."""

    def write(answers=None, mdts=1):
        if answers is not None:
            answer(tmp_path, "lfs", {**LUSTRE, **answers}, mdts)
        return read(load(site_new.render(facts()), tmp_path)[0])

    return write


DEFAULT = ("default", None, None, None)


def values(fs, suite, check, *names):
    """The combinations of these parameters in what a suite measures."""
    settings = (dict(setting.parameters) for setting in fs.settings(suite, CHECKS[check]))
    return {tuple(map(setting.get, names)) for setting in settings}


def stripes(fs, suite, check):
    return values(fs, suite, check, "layout", "stripe_count", "stripe_size", "pool")


#: The commands of other schedulers.
OTHERS = {"pbs": {"qstat": "pbs_version = 22"}, "local": {}}


@pytest.mark.parametrize("scheduler", ["slurm", *OTHERS])
def test_written_site(facts, commands, tmp_path, monkeypatch, golden, scheduler):
    """The file as it is written, and what the checks read in it."""
    if scheduler in OTHERS:
        for name in ("sinfo", "qstat"):
            (tmp_path / name).unlink()
        monkeypatch.setattr(machine.os, "cpu_count", lambda: 6)
        commands(**OTHERS[scheduler])
    found = facts()
    system, _ = load(site_new.render(found), tmp_path)
    reads = [fs.settings("nightly", CHECKS["SharedFileRead"]) for fs in read(system)]
    assert {one.nodes for settings in reads for one in settings} <= {2}, "not as who wrote"
    profiles = [fs.settings("nightly", CHECKS["IoProfile"])[0] for fs in read(system)]
    assert all(one.nodes * one.ranks_per_node >= 12 for one in profiles)
    # As if the machine's filesystems were in its root directory: lines break where paths are long.
    found["benchio"] = replace(found["benchio"], program="/opt/benchio")
    for number, fs in enumerate(found["filesystems"]):
        path, mount = (text.removeprefix(str(tmp_path)) for text in (fs.path, fs.mount.path))
        mount = replace(fs.mount, path=mount)
        found["filesystems"][number] = replace(fs, path=path, mount=mount)
    found["left_out"] = [
        (replace(mount, path=mount.path.removeprefix(str(tmp_path))), why)
        for mount, why in found["left_out"]
    ]
    text = site_new.render(found)
    assert_tidy(text, tmp_path)
    golden(f"site-{scheduler}.txt", text)


def test_written_site_of_every_lustre(facts, filesystems, tmp_path):
    """Whatever its default, and with some of its OSTs: what is written loads and means that."""
    for file in sorted((ROOT / "tests/data/lustre").glob("getstripe-dir-*.txt")):
        _, fs2, _ = filesystems({"getstripe -d": file.stem, "osts": "osts-client-inactive"})
        text = (tmp_path / "archer.py").read_text()
        assert (fs2.osts, fs2.pools) == ((0, 2, 3), {"fast": (2,)})
        plain = stripes(fs2, "nightly", "SharedFileWrite") - {DEFAULT}
        assert plain == {(None, 1, size, "fast") for *_, size, _ in plain}
        assert "Left out, because not active on this client: OST 1." in text
        is_named = '"layouts": {' in text
        assert is_named == (file.stem[14:] in ("over", "pfl", "dom")), file
        if is_named:
            assert_tidy(text, tmp_path)
    _, fs2, _ = filesystems({})
    pools = {(None, 1, 4, "fast"), (None, -1, 4, "fast")}
    assert stripes(fs2, "nightly", "SharedFileWrite") == {DEFAULT, *pools}, "no pools are mixed"
    assert stripes(fs2, "nightly", "IorPeer") == {(None, -1, 4, "fast")}
    assert fs2.mdts == ()
    _, fs2, _ = filesystems({}, mdts=2)
    assert fs2.mdts == (0, 1)
    for suite in ("nightly", "acceptance"):
        assert values(fs2, suite, "Metadata", "mdt") == {(0,), (1,)}


def test_layout_that_is_shown_as_an_example_is_what_the_site_reads(filesystems, tmp_path):
    filesystems({"getstripe -d": "getstripe-dir-pfl"})
    lines = (tmp_path / "archer.py").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if '# "layouts": {' in line)
    last = next(number for number in range(first, len(lines)) if lines[number].endswith("# },"))
    lines[first : last + 1] = [line.replace("# ", "", 1) for line in lines[first : last + 1]]
    _, fs2, _ = read(load("\n".join(lines), tmp_path)[0])
    assert fs2.layouts == {"as_default": "-E 1M -c 1 -S 1M -E 16M -c 2 -S 2M -E -1 -c -1 -S 4M"}


def test_many_osts_stay_readable(filesystems, tmp_path):
    def written(osts, gone):
        rows = (f"{n}: fs2-OST{n:04x}_UUID {'IN' * (n in gone)}ACTIVE\n" for n in range(osts))
        return filesystems({"osts": "OBDS:\n" + "".join(rows)})[1].osts

    every_third = tuple(range(0, 200, 3))
    assert written(200, set(range(200)) - {*every_third}) == every_third
    gone = {5, 17, *range(40, 60)}
    assert written(100, gone) == tuple(n for n in range(100) if n not in gone)
    text = (tmp_path / "archer.py").read_text()
    assert '"osts": [*range(5), *range(6, 17), *range(18, 40), *range(60, 100)],' in text
    assert_tidy(text, tmp_path)


def test_peak_is_asked_for_and_never_invented(facts, tmp_path, monkeypatch):
    monkeypatch.setattr(site_new, "LINKS", tmp_path / "none")
    found = facts()
    text = site_new.render(found)
    assert "LINK" not in text
    with pytest.raises(UserError, match=r"^x.py, partition archer:epsrc, extras: peak is None"):
        read(load(text, tmp_path)[0])
    no_peak = site_new.without_peak(found["filesystems"])
    steps = site_new.next_steps("archer", Path("a"), Path("b"), no_peak)
    assert "write the 'peak' of epsrc, fs2, weka" in steps
    epsrc, *_ = read(load(site_new.render(site_new.look("archer", [], 100)), tmp_path)[0])
    assert epsrc.peak == pytest.approx(256 * 100e9 / 8 / 2**20)
    for link in (0, -1, float("inf"), float("nan")):
        with pytest.raises(UserError, match=r"^--link .*: must be above 0"):
            site_new.new_site("other", [], link, None)


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
        questions = capsys.readouterr().out.count("Gbit/s of a node's links together")
        assert questions == len(typed.splitlines())


@given(
    st.sampled_from(list(site_new.USUAL_SIZES.values())),
    st.integers(1, 40_000),
    st.integers(4, 17).map(lambda power: 10**power),
)
def test_all_ranks_together_take_at_most_half_of_the_room(usual, ranks, room):
    def fits(edge):
        return 2 * 8 * ranks * edge**3 <= room

    edges = site_new.edges(usual, ranks, room)
    if any(map(fits, usual)):
        assert edges == [edge for edge in usual if fits(edge)]
    else:  # the largest that fits, or the smallest of all
        (edge,) = edges
        assert fits(edge) or edge == 16
        assert not fits(2 * edge) or edge == 256


def test_sizes_are_smaller_where_there_is_little_room(facts, filesystems, tmp_path, monkeypatch):
    """128 x 256 ranks in an acceptance test, and 2 nodes of them every night."""
    assert "smaller than usual" not in site_new.render(facts())
    answer(tmp_path, "lfs", {**LUSTRE, "quota": "quota-after1"})
    comments = " ".join(site_new.render(facts()).replace("#", " ").split())
    assert "because fs2 has 1.0 PB free, 3.1 MB left of your quota; confirm that" in comments
    for free, nightly, acceptance in ((10**12, 128, 64), (10**9, 32, 16)):
        monkeypatch.setattr(mounts.shutil, "disk_usage", lambda path, free=free: Usage(free))
        epsrc, *_ = filesystems({})
        for suite, edge in (("nightly", nightly), ("acceptance", acceptance)):
            assert values(epsrc, suite, "SharedFileWrite", "local_size") == {((edge,) * 3,)}
        peers = epsrc.settings("acceptance", CHECKS["IorPeer"])
        assert bool(peers) == (nightly == 128), "IO500's ior-easy would not fit"


@pytest.mark.parametrize("free", [10**7, 5 * 10**7, 10**8, 2 * 10**8])
@pytest.mark.parametrize("sinfo", ["compute*|up|infinite|4|1:2:1", ""])
def test_draft_passes_its_own_check(facts, commands, tmp_path, monkeypatch, free, sinfo):
    """With whatever room, and beside a benchio without a library."""
    (tmp_path / "qstat").unlink(missing_ok=True)
    commands(sinfo=sinfo)
    if not sinfo:
        (tmp_path / "sinfo").unlink()
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(mounts.shutil, "disk_usage", lambda path: Usage(free))
    for place in read(load(site_new.render(site_new.fitting(facts())), tmp_path)[0]):
        for suite in SUITES:
            assert largest(place, suite, "kib") * KIB <= free, suite
            named = {backend for case in place.cases(suite) for backend in case.backends}
            assert named.isdisjoint({"netcdf", "pnetcdf"}), suite


def test_written_modules(facts, tmp_path, monkeypatch):
    modules = ["PrgEnv-gnu/8.3", "cray-hdf5-parallel/1.12"]
    monkeypatch.setenv("LOADEDMODULES", ":".join(modules))
    monkeypatch.setenv("MODULESHOME", "/opt/modules/3.2.10.6")
    system, environment = load(site_new.render(facts()), tmp_path)
    assert (system["modules_system"], environment.get("modules")) == ("nomod", None)
    assert system["partitions"][0]["prepare_cmds"] == [
        ". /opt/modules/3.2.10.6/init/bash", *(f"module load {name}" for name in modules)
    ]  # fmt: skip
    monkeypatch.setenv("LMOD_CMD", "/usr/share/lmod/lmod/libexec/lmod")
    system, environment = load(site_new.render(facts()), tmp_path)
    assert (system["modules_system"], environment["modules"]) == ("lmod", modules)


def test_hostile_text_stays_text(facts, tmp_path):
    found = facts()
    found["name"], found["host"] = "a" * 40, "login" * 12
    mount = Mount("/x", "nfs", HOSTILE)
    found["filesystems"] = [
        mounts.Candidate(name="a", path="/x" * 60, type="nfs", mount=mount, free=10**9)
    ]
    found["left_out"] = [(Mount(HOSTILE, HOSTILE, ""), HOSTILE)]
    found["modules_system"], found["modules"] = "lmod", ['a"b', "it's", "back\\slash\n", "é" * 99]
    text = site_new.render(found)
    assert_tidy(text, tmp_path)
    system, environment = load(text, tmp_path)
    assert environment["modules"] == found["modules"]
    assert [fs.path for fs in read(system)] == ["/x" * 60]


# The names it may have, and where it is written


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own, and where the site's own configurations are."""
    for name in ("site_configs", "reference_values", "src/benchio"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env.sh").touch()
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(places, "BENCHIO_SOURCE", tmp_path / "src/benchio")
    monkeypatch.delenv("IOWATCH_SITE_DIR", raising=False)
    monkeypatch.delenv("RFM_REFERENCE_PREFIX", raising=False)
    return tmp_path


def test_names_that_are_refused(checkout):
    for name in ["", "a b", "a/b", "../a", "-a", "1a", "a.b", "a|b", "é", "a\n", "a'", "{{a}}"]:
        with pytest.raises(UserError, match="cannot be a system's name"):
            site_new.check_name(name)
    other = "site_configuration = {'systems': [{'name': 'inside'}]}"
    file = checkout / "site_configs/other.py"
    file.write_text(other)
    for name in ("generic", "other", "inside"):
        with pytest.raises(UserError, match="exists already"):
            site_new.check_name(name)
    site_new.check_name("new_site-2")
    for text in ("x = (", "x = 1", "site_configuration = []", "raise OSError"):
        file.write_text(text)
        with pytest.raises(UserError, match=rf"{file} is no site's configuration"):
            site_new.check_name("new")


def test_reference_values_are_where_the_checks_look(checkout, monkeypatch):
    """They begin with what holds on any machine: without it SlowOst could name no OST. Those that
    there are stay."""
    file = site_new.write_references("a")
    assert file == checkout / "reference_values/a.yaml"
    parameters = (("stripe_size", 1), ("local_size", (64, 64, 64)), ("ranks", 8))
    bounds = ReferenceFile(file).bounds_of(Case("a", "fs2", "gnu", CHECKS["SlowOst"], parameters))
    assert bounds["ost_ratio"].lower == 0.5
    file.write_text("SharedFileWrite: {} # mine\n")
    assert site_new.write_references("a") == file
    assert file.read_text() == "SharedFileWrite: {} # mine\n"
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(checkout / "elsewhere"))
    assert site_new.write_references("b") == checkout / "elsewhere/b.yaml"


def test_next_steps_are_as_they_are_typed_in_the_present_folder(checkout, monkeypatch):
    file, references = checkout / "site_configs/a.py", checkout / "reference_values/a.yaml"
    assert f"    source {checkout}/env.sh\n" in site_new.next_steps("a", file, references)
    monkeypatch.chdir(checkout)
    assert "    source env.sh\n" in site_new.next_steps("a", file, references)
