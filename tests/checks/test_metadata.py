"""`Metadata` with the real ReFrame and benchio: a night, and one that meets a fault."""

import json

import pytest
from cases import verdict_of
from conftest import compiled

from iowatch.kinds.metadata import NAME_RATES

CASE = "small:memory/{}/Metadata/items=30/ranks=2/files={}"
NAMES = {"items": [30], "files": ["shared", "process"], "nodes": [1]}
REFERENCES = """
Metadata:
  small:.*: {items_max: [1, 0, null, 1/s]}
"""


@pytest.fixture
def names(site):
    site.suite = {"Metadata": NAMES}
    site.references = REFERENCES
    return site


def test_a_night_of_names(names):
    done = names.iowatch()
    assert done.returncode == 0, done.stdout
    tests = {test["case_id"]: test for test in names.report()}
    assert set(tests) == {CASE.format("real", files) for files in ("shared", "process")}
    for test in tests.values():
        assert verdict_of(test) == "ok", test["sentence"]
        metrics = test["metrics"]
        assert all(metrics[rate][0] > 0 for rate in ("items_max", *NAME_RATES.values()))
        assert metrics["items_max"][1:] == [1, 0, None, "1/s", "pass"]
        assert set(test["slowest"]) > {"create", "sync", "stat"}
        result = json.loads((names.kept / test["kept"] / "result.json").read_text())
        assert (result["run"]["items"], result["run"]["repeats"]) == (30, 5)
    table = [line for line in done.stdout.splitlines() if line.startswith("names ")]
    assert len(table) == 2
    assert all("30 items" in line and "/s" in line and line.endswith(" ok") for line in table)
    assert list(names.scratch.iterdir()) == []


def test_a_name_that_is_lost_fails(names, tmp_path):
    """And has no rate; nothing stays on the filesystem."""
    shim = compiled("names_shim.c", tmp_path, "gcc")
    names.suite = {"Metadata": {**NAMES, "files": ["shared"]}}
    fault = [["NAMES_FAULT", "lost"], ["NAMES_NAME", "f000001.0000007"], ["LD_PRELOAD", str(shim)]]
    names.environs = {"real": {"env_vars": fault}}
    done = names.iowatch()
    assert done.returncode == 1, done.stdout
    (test,) = names.report()
    assert test["state"] == "failed"
    assert "stat" in test["sentence"]
    assert test["sentence"].endswith("f000001.0000007: it is missing"), test["sentence"]
    assert "items_max" not in test["metrics"]
    assert list(names.scratch.iterdir()) == []
