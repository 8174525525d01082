"""A centre's own ReFrame: its configuration and its checks beside ours."""

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from iowatch.base.places import extended

ROOT = Path(__file__).parents[2]
HELLO = """\
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Hello(rfm.RunOnlyRegressionTest):
    valid_systems = ["small"]
    valid_prog_environs = ["*"]
    executable = "echo hello"
    variables = {"OLD": "1"}

    @rfm.core.builtins.sanity_function
    def assert_hello(self):
        return sn.assert_found("hello", self.stdout)
"""


@pytest.fixture
def centre(site):
    """Its files: a partition like ours and one to log in to, neither with extras of iowatch."""
    site.faults = {"gnu": "none"}
    site._write()
    config = runpy.run_path(str(site.folder / "small.py"))["site_configuration"]
    (partition,) = config["systems"][0]["partitions"]
    (environ,) = config["environments"] = config["environments"][-1:]
    ours = partition.pop("extras"), environ.pop("extras")
    login = {**partition, "name": "login", "extras": {"type": "login", "nodes": 2}}
    login["environs"] = ["plain"]
    config["systems"][0]["partitions"].append(login)
    every = {"name": "gnu", "cc": "gcc", "env_vars": [["ANY", "1"]]}
    config["environments"] += [every, {"name": "plain"}]
    (site.folder / "centre.py").write_text(f"site_configuration = {config!r}\n")
    (site.folder / "checks").mkdir()
    (site.folder / "checks" / "hello.py").write_text(HELLO)
    return site, *ours


def with_files(site, *names):
    files = [f"{ROOT}/site_configs/settings.py", *(f"{site.folder}/{name}" for name in names)]
    site.environment["RFM_CONFIG_FILES"] = ":".join(files)


def ran(site):
    """The place of each check of the last session that passed."""
    tests = site._last_stored()["runs"][-1]["testcases"]
    names = ((test["name"].split()[0], test["partition"], test["result"]) for test in tests)
    return sorted(name for name in names if name[0] != "BuiltBenchio")


def test_partitions_that_are_not_ours_are_the_centre_s(centre):
    site, partition, environ = centre
    both = ["-c", f"{site.folder}/checks", "-r"]
    with_files(site, "centre.py")
    alone = site.reframe(*both)
    assert alone.returncode == 0, alone.stdout
    hello = [("Hello", place, "pass") for place in ("login", "memory")]
    assert ran(site) == hello
    assert "hello.py:5: WARNING: the use of 'variables' is deprecated" in alone.stdout
    night = site.iowatch()
    assert (night.returncode, night.stdout) == (
        2,
        "iowatch: error: --system small: none of its partitions has the extras of iowatch: "
        "`iowatch docs howto/site` says how to give them, also where another file defines it\n",
    )

    extras = {"memory": partition}, {"gnu": environ}
    (site.folder / "ours.py").write_text(
        "from iowatch.base.places import extended\n"
        f"site_configuration = extended({str(site.folder / 'centre.py')!r}, 'small', *{extras!r})\n"
    )
    with_files(site, "centre.py", "ours.py")
    site.references = None  # the file stays as it is
    (site.folder / "small.yaml").rename(site.folder / "values.yaml")
    night = site.iowatch()
    assert night.returncode == 2
    assert night.stdout.startswith(
        f"iowatch: error: {site.folder}/small.yaml cannot be used as reference values: there is no"
    )
    assert not site.kept.exists(), "before any job"
    (site.folder / "values.yaml").rename(site.folder / "small.yaml")
    together = site.reframe(*both)
    assert together.returncode == 0, together.stdout
    ours = [(name, "memory", "pass") for name in ("LibraryVersions", "SharedFileWrite")]
    assert ran(site) == [*hello, *ours]
    night = site.iowatch("--quiet")
    assert night.returncode == 0, night.stdout
    assert ran(site) == ours
    script = max(site.kept.glob("*/*SharedFileWrite*/rfm_job.sh"))
    assert "ANY=1" not in script.read_text(), "the environment that is for this system"
    with_files(site, "ours.py")  # which has what it needs of the other
    listed = site.reframe("-L", "-n", "Hello|SharedFileWrite")
    assert listed.returncode == 0, listed.stdout


def test_names_that_the_centre_does_not_know_are_one_line(centre):
    site, *_ = centre
    file = site.folder / "centre.py"
    for arguments, said in (
        ((file, "small", {"fs3": {}}), "has no 'fs3' to add to: mend the name"),
        (("/no/file.py", "small", {}), "no configuration of ReFrame: FileNotFoundError: "),
    ):
        with pytest.raises(SystemExit, match=re.escape(said)):
            extended(*arguments)
    (site.folder / "ours.py").write_text(
        "from iowatch.base.places import extended\n"
        f"site_configuration = extended({str(file)!r}, 'smal', {{}})\n"
    )
    with_files(site, "centre.py", "ours.py")
    for done in (site.iowatch(), site.reframe("-l")):
        assert len(done.stdout.splitlines()) == 1, done.stdout
        assert "has no system 'smal': mend the name" in done.stdout


def test_centre_s_resources_are_asked_for(site):
    site.partitions = {
        "memory": {
            "scheduler": "slurm",
            "resources": [
                {"name": "qos", "options": ["--qos={qos}"]},
                {"name": "slots", "options": ["--slots={count}"]},
            ],
            "extras": {
                "extra_resources": {"qos": {"qos": "io"}, "slots": {"count": "{ranks}"}}
            },
        }
    }  # fmt: skip
    done = site.reframe("--dry-run", "-n", "SharedFileWrite")
    assert done.returncode == 0, done.stdout
    (script,) = site.folder.rglob("*SharedFileWrite*/rfm_job.sh")
    ranks = re.search(r"ranks=(\d+)", done.stdout)[1]
    asked = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"#SBATCH --qos=io", f"#SBATCH --slots={ranks}"} <= {*asked}, asked


def test_no_night_looks_at_the_processors_of_nodes(site):
    """ReFrame submits a job to each partition for that, where a centre wants it so."""
    site.faults = {"gnu": "none"}
    site._write()
    config = runpy.run_path(str(site.folder / "small.py"))["site_configuration"]
    nodes = {"name": "nodes", "scheduler": "slurm", "launcher": "srun", "environs": ["plain"]}
    config["systems"][0]["partitions"].append(nodes)
    config["environments"].append({"name": "plain"})
    options = {"remote_detect": True, "topology_prefix": f"{site.folder}/topology"}
    config["general"] = [options]
    (site.folder / "centre.py").write_text(f"site_configuration = {config!r}\n")
    with_files(site, "centre.py")
    submitted = site.folder / "submitted"
    sbatch = site.program("slurm", "sbatch", f"touch {submitted}; exit 1")
    site.environment["PATH"] = f"{sbatch.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    night = site.iowatch("--quiet")
    assert (night.returncode, submitted.exists()) == (0, False), night.stdout
    alone = site.reframe("-r", "-n", "LibraryVersions")
    assert submitted.exists(), alone.stdout
