"""`iowatch blame`, the whole way: two nights of one site, real ones, and a job in which the
environments of both take turns. A shim stands for the bad library."""

import json
import sys

import pytest
from cases import verdict_of
from checks import replay
from conftest import compiled

#: In both nights, and without the library of no effect.
SHIM = {"SLOW": "H5Fclose", "SLOW_S": "0.5"}
REFERENCES = """\
SharedFileWrite:
  small:.*:
    overhead_fraction: [0, null, 0.9, '1']
"""


def night(site, variables, code):
    """The only test of a night in an environment with these variables."""
    # With 8 MiB a rank, the overhead of a healthy library is small on a busy machine too.
    site.write.update(backend=["hdf5"], local_size=["128x128x64"])
    site.references = REFERENCES
    site.environs = {"real": {"env_vars": [[name, value] for name, value in variables.items()]}}
    done = site.iowatch()
    assert done.returncode == code, done.stdout
    (test,) = site.report()
    assert verdict_of(test) == ("regression (slow_library)" if code else "ok"), test["sentence"]
    return test


def test_environments_take_turns_in_the_order_of_the_plan(site):
    """Another one comes first in each round: who comes first may find the filesystem fresh."""
    plan = {
        "case": "small:memory/real/SharedFileWrite/backend=hdf5/local_size=8x8x8/ranks=2",
        "kept": str(site.folder),
        "ranks_per_node": 2,
        "variants": [{"command": "benchio", "program": "benchio", "environment": []}] * 3,
        "result": "result.json",
        "run_id": "4711",
        "repeats": 1,
        "turns": [[2, 0, 1], [0, 1, 2], [1, 2, 0]],
    }
    (site.folder / "plan.json").write_text(json.dumps(plan))
    of = ("-n", "EnvironmentsInTurn", "-S", f"EnvironmentsInTurn.plan={site.folder}/plan.json")
    done = site.reframe("--dry-run", "--keep-stage-files", *of)
    assert done.returncode == 0, done.stdout
    (script,) = (site.folder / "run" / "stage").rglob("EnvironmentsInTurn*/rfm_job.sh")
    assert "\nTURNS=(2,0,1 0,1,2 1,2,0)\n" in script.read_text()


@pytest.mark.slow  # three sessions of ReFrame, and many starts of mpirun
def test_the_change_that_carries_the_loss_is_named(site, tmp_path_factory):
    slow_shim = compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))
    good = night(site, SHIM, 0)
    red = night(site, {**SHIM, "HARMLESS": "2", "LD_PRELOAD": str(slow_shim)}, 1)
    before = replay.sessions(site.database)

    done = site._run(sys.executable, "-m", "iowatch", "blame", "backend=hdf5", "--rounds", "6")

    assert done.returncode == 0, done.stdout
    conclusion = done.stdout.splitlines()[-1]
    assert conclusion.startswith(
        f"{red['case_id']}: the variable LD_PRELOAD (not there before, {slow_shim} now) carries "
        "the loss: overhead_fraction is "
    ), done.stdout
    assert conclusion.endswith("with it alone")
    assert "the variable HARMLESS (not there before, 2 now)" in done.stdout
    assert f" {good['kept'].split('/')[-2]} (good)\n" in done.stdout
    assert "note:" not in done.stdout
    # It is no part of the past, of a night, or of what an acceptance run may show.
    assert replay.sessions(site.database) == before
    (folder,) = (line[13:] for line in done.stdout.splitlines() if line.startswith("raw results: "))
    kept = {file.name for file in (site.kept / folder).iterdir()}
    assert {"rfm_job.sh", "environment.3.sh", "result.6.3.json", "said.1.0"} <= kept
    results = [json.loads(file.read_text()) for file in (site.kept / folder).glob("result.*")]
    assert len({result["run"]["id"] for result in results}) == 24
    assert not [result for result in results if result["status"] != "ok"]
