"""`iowatch blame`, the whole way: two nights of one site, real ones, and a job in which the
environments of both take turns. A shim stands for the bad library, or for a slow filesystem."""

import json
import sqlite3
import sys
from contextlib import closing

import pytest
from conftest import compiled

pytestmark = pytest.mark.slow  # three sessions of ReFrame each, and many starts of mpirun

#: In both nights, and without the library of no effect.
SHIM = {"SLOW": "H5Fclose", "SLOW_S": "0.5"}
REFERENCES = """\
SharedFileWrite:
  small:.*:
    finish_fraction: [0, null, 0.9, '1']
"""
BLAME = ["-m", "iowatch", "blame", "backend=hdf5"]


@pytest.fixture(scope="module")
def slow_shim(tmp_path_factory):
    return compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))


def night(site, variables, code):
    """The only test of a night in an environment with these variables."""
    site.write["backend"] = ["hdf5"]
    site.references = REFERENCES
    site.environs = {"real": {"env_vars": [[name, value] for name, value in variables.items()]}}
    done = site.iowatch()
    assert done.returncode == code, done.stdout
    (test,) = site.report()
    assert test["verdict"] == ("defect" if code else "ok"), test["sentence"]
    return test


def sessions(site):
    with closing(sqlite3.connect(site.database)) as connection:
        return connection.execute("SELECT uuid FROM sessions").fetchall()


def test_the_change_that_carries_the_loss_is_named(site, slow_shim):
    good = night(site, SHIM, 0)
    red = night(site, {**SHIM, "HARMLESS": "2", "LD_PRELOAD": str(slow_shim)}, 1)
    before = sessions(site)

    done = site._run(sys.executable, *BLAME, "--rounds", "6")

    print(done.stdout)
    assert done.returncode == 0, done.stdout
    conclusion = done.stdout.splitlines()[-1]
    assert conclusion.startswith(
        f"{red['case_id']}: the variable LD_PRELOAD (not there before, {slow_shim} now) carries "
        "the loss: finish_fraction is "
    )
    assert conclusion.endswith("with it alone")
    assert "the variable HARMLESS (not there before, 2 now)" in done.stdout
    assert f" {good['kept'].split('/')[-2]} (good)\n" in done.stdout
    assert "note:" not in done.stdout
    # It is no part of the past, of a night, or of what an acceptance run may show.
    assert sessions(site) == before
    (folder,) = (line[13:] for line in done.stdout.splitlines() if line.startswith("raw results: "))
    kept = {file.name for file in (site.kept / folder).iterdir()}
    assert {"rfm_job.sh", "environment.3.sh", "result.6.3.json", "said.1.0"} <= kept
    results = [json.loads(file.read_text()) for file in (site.kept / folder).glob("result.*")]
    assert len({result["run"]["id"] for result in results}) == 24
    assert not [result for result in results if result["status"] != "ok"]


def test_what_is_slow_with_either_environment_is_the_filesystem(site, slow_shim):
    """What is not in the job scripts makes the same library slow: it stands for the filesystem."""
    preloaded = {"LD_PRELOAD": str(slow_shim)}
    night(site, preloaded, 0)
    site.environment = SHIM
    night(site, {**preloaded, "HARMLESS": "2"}, 1)

    done = site._run(sys.executable, *BLAME)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "no change carries the loss" in done.stdout
    assert "are equally slow now" in done.stdout
    assert "the cause is the filesystem, or something that no script says" in done.stdout

    site.environment = {}
    done = site._run(sys.executable, *BLAME)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "are equally fast now" in done.stdout
    assert done.stdout.endswith("what caused the loss has gone\n")
