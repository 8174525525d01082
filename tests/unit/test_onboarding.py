"""The site's file that follows from what a login node says, and the names it may have."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from unit.login_node import CONFIG, INFINIBAND, SINFO, STRIPE_OLD, files

from iowatch.adopt import machine, mounts
from iowatch.adopt import site_new as onboarding
from iowatch.adopt.machine import OnboardingError
from iowatch.adopt.mounts import Mount
from iowatch.checks import CHECKS
from iowatch.site import read_filesystem

CONFIG_OF_RUFF = Path(__file__).parents[2] / "pyproject.toml"

HOSTILE = (
    'x\nimport os; os.abort()  # {{ 7 * 7 }} {% raise %} """ \' \u2028 \0 \033[2J ' + "y" * 200
)
BENCHIO = "benchio 0.1.0\nmpiio   CRAY MPICH 8\nhdf5    1.12\nnetcdf  not built in\nstream  Cray 15"


@pytest.fixture
def facts(tmp_path, monkeypatch, mounted, commands):
    """What `iowatch site new archer` finds on a Cray-like machine; change it before rendering."""
    config = CONFIG.format("accounting_storage/slurmdbd", "pmix")
    osts = "OBDS:\n0: fs-OST0000_UUID ACTIVE\n1: fs-OST0001_UUID ACTIVE\n"
    commands(sinfo=SINFO, scontrol=config, lfs=osts + STRIPE_OLD, benchio=BENCHIO)
    text = mounted(("lustre", "fs2"), ("gpfs", "epsrc"), ("wekafs", "weka"), ("nfs", "home"))
    (tmp_path / "mountinfo").write_text(text)
    files(tmp_path / "class", INFINIBAND)
    monkeypatch.setattr(onboarding, "ROOT", tmp_path)  # where no benchio is built
    monkeypatch.setattr(onboarding, "MOUNTINFO", tmp_path / "mountinfo")
    monkeypatch.setattr(onboarding, "LINKS", tmp_path / "class")
    monkeypatch.setattr(onboarding.socket, "gethostname", lambda: "eslogin003.site.org")
    for name in ("LMOD_CMD", "MODULES_CMD", "MODULESHOME", "LOADEDMODULES"):
        monkeypatch.delenv(name, raising=False)
    return lambda: onboarding.look("archer", [], onboarding.SITES)


def load(text, tmp_path):
    """What ReFrame gets of a file that is formatted as the project's own are."""
    file = tmp_path / "archer.py"
    file.write_text(text)
    for command in (["format", "--diff"], ["check"]):
        ruff = [Path(sys.executable).with_name("ruff"), *command, "--config", CONFIG_OF_RUFF]
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
    system, environment = load(onboarding.render(facts()), tmp_path)
    epsrc, fs2, weka = read(system)
    assert (epsrc.types, fs2.types, weka.types) == (("gpfs",), ("lustre",), ("unknown",))
    assert (epsrc.osts, fs2.osts, weka.osts) == (None, 2, None)
    assert fs2.path == f"{tmp_path}/fs2/iowatch"
    assert fs2.writers_per_node == 128
    assert fs2.peak == pytest.approx(256 * 112.5e9 / 8 / 2**20)
    nightly = fs2.settings("nightly", "SharedFileWrite")
    assert {(s.backend, s.stripe_count, s.stripe_size, s.local_size, s.nodes) for s in nightly} == {
        (backend, -1, 1, (128, 128, 128), nodes)
        for backend in ("mpiio", "hdf5")
        for nodes in (1, 2)
    }
    assert {s.stripe_count for s in fs2.settings("acceptance", "FilePerProcess")} == {1, -1}
    load_test = fs2.settings("acceptance", "SystemLoad")
    assert {(s.instances, s.stripe_count) for s in load_test} == {(1, -1), (2, -1), (4, -1)}
    reads = fs2.settings("nightly", "SharedFileRead")
    assert {(s.stripe_count, s.nodes) for s in reads} == {(-1, 2)}, "not from the node that wrote"
    assert [len(fs2.settings(sweep, "SlowOst")) for sweep in ("nightly", "acceptance")] == [1, 1]
    assert len(epsrc.cases("nightly")) == 4 + 2
    assert len(epsrc.cases("acceptance")) == 2 * 2 * 9 + 9 + 3 * 9 + 2 * 8
    partition = system["partitions"][0]
    assert partition["access"] == ["--partition=standard", "--exclusive"]
    assert (partition["scheduler"], partition["launcher"]) == ("slurm", "srun")
    assert (partition["max_jobs"], partition["time_limit"]) == (1, "30m")
    assert system["hostnames"] == [r"eslogin\d+"]
    assert partition["environs"] == [environment["name"]] == ["cray"]
    assert environment["extras"] == {"benchio": f"{tmp_path}/benchio"}


def test_written_comments_name_what_was_left_out(facts):
    text = onboarding.render(facts())
    assert "# - highmem 584 x 128 cores\n" in text
    assert "/home, nfs: homes have quotas" in text
    assert text.count("onfirm") >= 5
    assert "?" not in text


@pytest.mark.parametrize("scheduler", ["local", "pbs", "lsf"])
def test_written_site_of_other_schedulers(facts, commands, tmp_path, monkeypatch, scheduler):
    (tmp_path / "sinfo").unlink()
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 6)
    commands(**{"pbs": {"qstat": "pbs_version = 22"}, "lsf": {"bsub": ""}}.get(scheduler, {}))
    system, _ = load(onboarding.render(facts()), tmp_path)
    assert {part["scheduler"] for part in system["partitions"]} == {scheduler}
    access = [part.get("access") for part in system["partitions"]]
    assert access == [None if scheduler == "local" else []] * 3
    for fs in read(system):
        assert {setting.nodes for setting in fs.settings("acceptance", "SharedFileWrite")} == {1}
        assert {setting.instances for setting in fs.settings("acceptance", "SystemLoad")} == {1, 2}


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
    system, environment = load(onboarding.render(facts()), tmp_path)
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
    found["filesystems"] = [mounts.Filesystem("a", "/x" * 60, "nfs", mount, "1 GB")]
    found["left_out"] = [(Mount(HOSTILE, HOSTILE, ""), HOSTILE)]
    found["modules_system"], found["modules"] = "lmod", ['a"b', "it's", "back\\slash\n", "é" * 99]
    system, environment = load(onboarding.render(found), tmp_path)
    assert environment["modules"] == found["modules"]
    assert [fs.path for fs in read(system)] == ["/x" * 60]


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "../a", "-a", "1a", "a.b", "a|b", "é", "a\n", "a'", "{{a}}", "a:b"]
)
def test_names_that_are_refused(tmp_path, name):
    with pytest.raises(OnboardingError, match="cannot be a system's name"):
        onboarding.check_name(name, tmp_path)


def test_names_that_are_taken(tmp_path):
    other = "site_configuration = {'systems': [{'name': 'inside'}]}"
    (tmp_path / "other.py").write_text(other)
    for name in ("generic", "settings", "local", "other", "inside"):
        with pytest.raises(OnboardingError, match="exists already"):
            onboarding.check_name(name, tmp_path)
    onboarding.check_name("new_site-2", tmp_path)


@pytest.mark.parametrize("text", ["x = (", "x = 1", "site_configuration = []", "raise OSError"])
def test_broken_configuration_beside_is_named(tmp_path, text):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(OnboardingError, match=rf"{tmp_path}/broken.py is no site's configuration"):
        onboarding.check_name("new", tmp_path)


def test_no_folder(tmp_path):
    with pytest.raises(OnboardingError, match="there is no folder"):
        onboarding.check_name("new", tmp_path / "none")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own."""
    for name in ("site_configs", "reference_values"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(onboarding, "ROOT", tmp_path)
    monkeypatch.setattr(onboarding, "SITES", tmp_path / "site_configs")
    monkeypatch.delenv("RFM_REFERENCE_PREFIX", raising=False)
    return tmp_path


def test_reference_values_are_where_the_checks_look(checkout, monkeypatch):
    sites, other = checkout / "site_configs", checkout / "elsewhere"
    other.mkdir()
    assert onboarding.write_references("a", sites) == checkout / "reference_values/a.yaml"
    assert onboarding.write_references("a", other) == other / "a.yaml"
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(other))
    assert onboarding.write_references("b", sites) == other / "b.yaml"
    references = yaml.safe_load((other / "b.yaml").read_text())
    assert references == {check: {"$index": ["case_id"]} for check in CHECKS}


def test_next_steps_are_as_they_are_typed_in_the_present_folder(checkout, monkeypatch):
    file, references = checkout / "site_configs/a.py", checkout / "reference_values/a.yaml"
    assert f"    source {checkout}/env.sh\n" in onboarding.next_steps("a", file, references)
    monkeypatch.chdir(checkout)
    assert "    source env.sh\n" in onboarding.next_steps("a", file, references)
