"""A night of what programs that learn do, with the real ReFrame and benchio."""

from cases import verdict_of


def test_a_night_of_learning(site):
    site.suite = {
        "SampleReads": {"items": [20], "sample": ["110KiB"], "per_file": [8], "nodes": [1]},
        "EnvironmentStart": {"items": [50], "nodes": [1]},
        "Checkpoint": {"items": [2], "sample": ["256KiB"], "nodes": [1]},
    }
    site.references = (
        "SampleReads: {'small:.*': {total_max: [1, 0, null, MiB/s]}}\n"
        "EnvironmentStart: {'small:.*': {files_max: [1, 0, null, 1/s]}}\n"
        "Checkpoint: {'small:.*': {stable_max: [1, 0, null, MiB/s]}}"
    )
    done = site.iowatch()
    assert done.returncode == 0, done.stdout
    tests = {test["case_id"]: test for test in site.report()}
    assert set(tests) == {
        "small:memory/real/SampleReads/items=20/sample=110KiB/per_file=8/ranks=2",
        "small:memory/real/EnvironmentStart/items=50/ranks=2",
        "small:memory/real/Checkpoint/items=2/sample=256KiB/ranks=2",
    }
    for test in tests.values():
        assert verdict_of(test) == "ok", test["sentence"]
        assert ("write" if "Checkpoint" in test["case_id"] else "read") in test["slowest"]
    rows = [line for line in done.stdout.splitlines() if line.endswith(" ok")]
    assert any("20 samples of 110KiB" in row and "samples, 8 a file" in row for row in rows), rows
    assert any("2 shards of 256KiB" in row and "checkpoint" in row for row in rows), rows
    assert any("50 files" in row and "/s" in row for row in rows), rows
    assert list(site.scratch.iterdir()) == []
