"""ARCHER's configuration as it is, through qsub and aprun.

PBS is Slurm's own emulation, aprun and Lustre are stand-ins: this shows that the centre asks, runs,
verifies and judges there, not how ARCHER would answer. Its 24 ranks on a node are four here: on two
cores a night of so many does not end.
"""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from filesystems.centre import Centre

from iowatch.case import Case

MIB = 2**20
ARCHER = ROOT / "site_configs/archer.py"
OSTS = 4  # of the stand-in
SIZE = 8
PER_NODE = 4
GREEN, RED = {"ok", "suspect", "improvement"}, {"regression"}

#: Of the scripts that ReFrame makes of it, tests/checks/test_job_scripts.py has all.
pytestmark = pytest.mark.slow

Archer = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def archer(centre: Centre, lustre_shim: Path) -> Archer:
    """archer("archer:fs3", options...): the cases of a run of ReFrame's, which has to come to its
    end."""

    def start(system: str, *options: object) -> list[dict[str, Any]]:
        centre.name = "archer"
        centre.configuration = derived(centre, lustre_shim)
        centre.references = (ROOT / "reference_values/archer.yaml").read_text()
        centre.references = centre.references.replace(
            "128x128x128/ranks=48:", f"{SIZE}x{SIZE}x{SIZE}/ranks={2 * PER_NODE}:"
        )
        # Each look at the queue is a Perl program: ten a second take a core.
        centre.environment |= {"RFM_POLL_RATE_MAX": "1", "RFM_POLL_RATE_DECAY": "0"}
        done = centre.run(
            centre.reframe(*options, "--keep-stage-files", system=system), timeout=1200
        )
        assert re.search(r"Ran (\d+)/\1 test case", done.out), done.out + done.err
        cases = centre.cases()
        for case in cases:
            check(centre, case)
        return cases

    return start


def derived(centre: Centre, lustre_shim: Path) -> dict[str, Any]:
    """ARCHER's configuration but for what does not exist here: its modules, its paths, OSTs of
    which the stand-in has fewer; its ranks on a node, and its gigabytes."""
    config: dict[str, Any] = runpy.run_path(str(ARCHER))["site_configuration"]
    (system,), (environment,) = config["systems"], config["environments"]
    system["modules_system"] = "nomod"
    for partition in system["partitions"]:
        extras = partition["extras"]
        directory = centre.slurm.folder / "archer" / partition["name"]
        directory.mkdir(parents=True, exist_ok=True)
        extras.update(path=str(directory / "iowatch"), osts=list(range(OSTS)))
        extras["ranks_per_node"] = PER_NODE
        for given in extras["suites"]["nightly"].values():
            for values in given if isinstance(given, list) else [given]:
                if "local_size" in values:
                    values["local_size"] = [SIZE]
    # What the modules would bring.
    del environment["modules"]
    environment["extras"] = {"benchio": str(centre.benchio)}
    environment["env_vars"] = [
        ["PATH", f"{ROOT}/tests/filesystems/cray:{ROOT}/tests/faults:$PATH"],
        ["LUSTRE_SHIM", str(lustre_shim)],
    ]
    return config


def check(centre: Centre, case: dict[str, Any]) -> None:
    """Measured with so many ranks on each node, verified, and judged."""
    key = Case.parse(case["case_id"])
    assert case["state"] in (GREEN if case["result"] == "pass" else RED), case["sentence"]
    metrics = {name.split(":")[-1]: value[0] for name, value in case["perfvalues"].items()}
    may_be_none = ("sync_s", "overhead_fraction")  # of a library that is as fast as MPI-IO
    assert all(metrics[name] > 0 for name in key.metrics if name not in may_be_none), metrics
    assert all(metrics[name] >= 0 for name in key.metrics), metrics

    directory = Path(case["kept"])  # before anyone judged it
    nodes = key.ranks // PER_NODE
    script = (directory / "rfm_job.sh").read_text()
    assert f"#PBS -l select={nodes}:mpiprocs={PER_NODE}:ncpus={PER_NODE}\n" in script
    assert "#PBS -A z01\n" in script
    assert re.search(
        rf"^aprun -n {key.ranks} -N {PER_NODE} {centre.benchio} ", script, re.MULTILINE
    )
    results = sorted(directory.glob("result*.json"))
    assert results
    for file in results:
        ran = json.loads(file.read_text())["run"]
        assert (ran["ranks"], len(ran["hosts"])) == (key.ranks, nodes)
        assert ran["filesystem"]["type"] == "lustre"
    check_striping(directory, key, len(results))


def check_striping(directory: Path, key: Case, runs: int) -> None:
    """Every run of benchio lays out its own directory as its case says, once, and nothing else; of
    each OST by itself a directory of that."""
    log = directory / "lustre.log"
    calls = log.read_text().splitlines() if log.exists() else []
    own = r" /\S+/iowatch/iowatch\.\w{6}/benchio\.[\w-]+"
    wanted = []
    if key.check.by_target:
        wanted = [f"setstripe -c 1 -i {n} -S {MIB}{own}/target\\.{n}" for n in range(OSTS)]
    elif not key.layout:
        assert key.stripe_size
        wanted = [f"setstripe -c {key.stripe_count} -S {key.stripe_size * MIB}{own}"]
    assert len(calls) == len(wanted) * runs, calls
    for call, pattern in zip(calls, wanted * runs, strict=True):
        assert re.fullmatch(pattern, call), call


EXCERPT = (
    "SharedFileWrite.*backend=netcdf",
    "SharedFileWrite.*layout=default",
    "SharedFileRead.*backend=hdf5",
    "FilePerProcess",
    "SlowOst",
    "LibraryVersions",
)


def test_a_filesystem(archer: Archer) -> None:
    """One or two cases of each check, two of them against rates of the paper."""
    names = [word for name in EXCERPT for word in ("-n", name)]
    verdicts = {
        Case.parse(case["case_id"]): case["state"]
        for case in archer("archer:fs3", *names, "-S", "repeats=1")
    }
    assert len(verdicts) == 6
    shared = {verdict for key, verdict in verdicts.items() if key.backend == "netcdf"}
    assert shared == RED  # Tables 7 and 8
