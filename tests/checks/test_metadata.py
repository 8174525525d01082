"""A night of `Metadata` with the real ReFrame and benchio; faults of names are in tests/faults."""

import json

from cases import verdict_of

from iowatch.measure.kinds.metadata import NAME_RATES

CASE = "small:memory/real/Metadata/items=30/ranks=2/files={}"


def test_a_night_of_names(site):
    site.suite = {"Metadata": {"items": [30], "files": ["shared", "process"], "nodes": [1]}}
    site.references = "Metadata: {'small:.*': {items_max: [1, 0, null, 1/s]}}"
    done = site.iowatch()
    assert done.returncode == 0, done.stdout
    tests = {test["case_id"]: test for test in site.report()}
    assert set(tests) == {CASE.format(files) for files in ("shared", "process")}
    for test in tests.values():
        assert verdict_of(test) == "ok", test["sentence"]
        metrics = test["metrics"]
        assert all(metrics[rate][0] > 0 for rate in ("items_max", *NAME_RATES.values()))
        assert metrics["items_max"][1:] == [1, 0, None, "1/s", "pass"]
        assert set(test["slowest"]) > {"create", "sync", "stat"}
        result = json.loads((site.kept / test["kept"] / "result.json").read_text())
        assert (result["run"]["items"], result["run"]["repeats"]) == (30, 5)
    table = [line for line in done.stdout.splitlines() if line.startswith("metadata ")]
    assert len(table) == 2
    assert all("30 items" in line and "/s" in line and line.endswith(" ok") for line in table)
    assert list(site.scratch.iterdir()) == []
