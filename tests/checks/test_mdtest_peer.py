"""benchio beside mdtest: through ReFrame, with the real mdtest where there is one."""

import shutil
from pathlib import Path

import pytest
from cases import verdict_of
from checks.stand_ins import mdtest, set_back

from iowatch.measure.kinds.mdtest import MDTEST_RATES
from iowatch.measure.kinds.metadata import NAME_RATES

REFERENCES = """
MdtestPeer:
  small:.*: {items_max: [1, 0, null, 1/s], mdtest_create_rate: [1, 0, null, 1/s]}
"""
SHARED = {"items": [30], "files": ["shared"], "nodes": [1]}
EASY = {**SHARED, "files": ["process"], "io500": ["easy"]}
EVERY = [{**SHARED, "files": ["shared", "process"]}, EASY, {**SHARED, "io500": ["hard"]}]


@pytest.fixture
def peer(site):
    """The site, where only MdtestPeer is asked for; without any mdtest of this machine."""
    site.suite = {"MdtestPeer": SHARED}
    site.references = REFERENCES
    site.hide("mdtest")
    return site


def require_metrics(tests):
    """Of EVERY, without a fault."""
    cases = {test["case_id"].partition("/MdtestPeer/")[2]: test for test in tests}
    size = "items=30/ranks=2/files="
    assert set(cases) == {
        *(f"{size}shared", f"{size}process", f"{size}process/io500=easy"),
        f"{size}shared/io500=hard",
    }
    for case, test in cases.items():
        assert verdict_of(test) == "ok", test["sentence"]
        metrics = {name: entry[0] for name, entry in test["metrics"].items()}
        of_mdtest = {*MDTEST_RATES.values()} - ({"mdtest_read_rate"} if "easy" in case else set())
        assert {name for name in metrics if name.startswith("mdtest_")} - {"mdtest_ratio"} == (
            of_mdtest
        )
        rates = (*of_mdtest, *NAME_RATES.values(), "items_max", "mdtest_ratio")
        assert all(metrics[name] > 0 for name in rates), case
        for kept in ("result.*.json", "mdtest.*.out", "mdtest.*.code"):
            assert len(list(Path(test["kept"]).glob(kept))) == 2, (case, kept)


# Environment -> what is wrong with its mdtest, what its sentence says.
FAULTS = {
    "unmade": ("no directory", "mdtest: WARNING: Unable to create test directory path"),
    "hung": ("no rate", "the rate of 'File stat' is no number above 0: 0.000"),
}


def test_both_are_measured_in_turn_and_only_what_mdtest_was_asked_for_counts(peer):
    peer.partitions = {
        "memory": {"environs": ["peer"], "suite": {"MdtestPeer": EVERY}},
        "faults": {"environs": [*FAULTS, "without", "set-back"]},
    }
    for name, (fault, _) in {"peer": ("", ""), "set-back": ("", ""), **FAULTS}.items():
        mdtest(peer, name, fault)
    set_back(peer, "set-back")
    peer.injected["peer"] = ""  # the real benchio
    peer.faults = dict.fromkeys([*FAULTS, "without", "set-back"], "none")
    peer.partition = {"max_jobs": 4}
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    assert "there is no mdtest on PATH or in Spack: `spack install ior`, add the " in done.stdout
    tests = [test for test in peer.report() if test["result"] != "skip"]
    (skipped,) = [t for t in peer.report() if t["environ"] == "set-back"]
    assert verdict_of(skipped) == "unjudged (wrong_clock)", skipped["sentence"]
    require_metrics([test for test in tests if test["partition"] == "memory"])
    found = {test["environ"]: test for test in tests if test["partition"] == "faults"}
    assert set(found) == set(FAULTS)
    for name, (_, says) in FAULTS.items():
        assert found[name]["state"] == "failed"
        assert says in found[name]["sentence"], name
    assert list(peer.scratch.iterdir()) == []


@pytest.mark.skipif(shutil.which("mdtest") is None, reason="there is no mdtest on PATH")
def test_the_real_mdtest(peer):
    peer.environment.pop("PATH")
    peer.suite = {"MdtestPeer": EVERY}
    peer.injected = {"real": ""}
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 0, done.stdout
    require_metrics(peer.report())
    assert list(peer.scratch.iterdir()) == []
