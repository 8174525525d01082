"""Stripe settings and single OSTs in the checks; against the stand-in for Lustre."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDS = """
SlowOst:
  .*:
    ost_ratio: [1, -0.9, null, '1']
SharedFileWrite:
  .*:
    finish_fraction: [0, null, 0.999, '1']
"""
EACH = {"SlowOst": {"stripe_size": [1], "local_size": [8]}}


@pytest.fixture
def lustre(site, lustre_shim):
    """A site whose filesystems seem to be Lustre with four OSTs; has(place, sweep, variables) makes
    one, with an environment and a state of its own."""
    site.extras.update(type="lustre", osts=4)
    site.references = BOUNDS

    def has(place, sweep, variables=""):
        site.partitions[place] = {"environs": [f"{place}_env"], "sweep": sweep}
        site.injected[f"{place}_env"] = (
            f"LD_PRELOAD={lustre_shim} LUSTRE_STATE={site.folder}/{place} "
            f"PATH={ROOT}/tests/faults:{os.environ['PATH']} {variables}"
        )

    site.has = has
    return site


def calls(site, place):
    """Of lfs, a line each."""
    return (site.folder / f"{place}.log").read_text().splitlines()


def test_stripes_and_single_osts(lustre):
    striped = {**lustre.write, "stripe_count": [1, 4, -1], "stripe_size": [1, 8]}
    one = {**lustre.write, "stripe_count": [4], "stripe_size": [1]}
    lustre.has("striped", {"SharedFileWrite": striped})
    lustre.has("other", {"SharedFileWrite": one}, "LUSTRE_STRIPING='2 1048576 0'")
    lustre.has("slow", EACH, "LUSTRE_SLOW=2")
    lustre.has("failing", EACH, "LUSTRE_FAIL='error: no such OST'")
    done = lustre.iowatch("--quiet")
    assert done.returncode == 1, done.stdout
    tests = {}
    for test in lustre.report():
        tests.setdefault(test["partition"], []).append(test)
    assert not list(lustre.scratch.iterdir())

    # Every stripe setting has a directory of its own, set and observed.
    settings = [(count, size) for count in (1, 4, -1) for size in (1, 8)]
    found = {re.search("stripe_count=(.*)/stripe_size=([^/]*)", test["case_id"]).groups()
             for test in tests["striped"]}  # fmt: skip
    assert found == {(str(count), str(size)) for count, size in settings}
    assert {test["verdict"] for test in tests["striped"]} == {"ok"}
    said = calls(lustre, "striped")
    directories = {call.split()[-1] for call in said}
    assert sorted(call.rsplit(" ", 1)[0] for call in said) == sorted(
        f"setstripe -c {count} -S {mib * 2**20}" for count, mib in settings
    )
    assert len(directories) == 6
    assert all(path.startswith(f"{lustre.scratch}/iowatch.") for path in directories)

    # Other stripes than those asked for are no measurement.
    (test,) = tests["other"]
    assert test["verdict"] == "invalid"
    assert "count 2" in test["sentence"]

    # A slow OST is named.
    (test,) = tests["slow"]
    assert test["case_id"].endswith("/SlowOst/stripe_size=1/local_size=8x8x8/writers=2")
    assert [name for name in test["metrics"] if re.fullmatch(r"ost_\d+", name)] == [
        "ost_0", "ost_1", "ost_2", "ost_3",
    ]  # fmt: skip
    offsets = re.findall(r"setstripe -c 1 -S 1048576 -i (\d) ", "\n".join(calls(lustre, "slow")))
    assert offsets == list("0123" * 3), "rounds over all OSTs, none of them twice in a row"
    (sentence,) = re.findall(r"^ +(small:slow/.*)", done.stdout, re.MULTILINE)
    assert re.search(r"ost_ratio is 0\.0\d*, below its bound of 0.1 in ", sentence)
    assert re.search(r"; slow: OST 2 \(\d+ MiB/s, 0\.0\d of its peers\)$", sentence)
    kept = {file.name for file in Path(test["kept"]).iterdir()}
    assert {f"result.{r}.{ost}.json" for r in (1, 2, 3) for ost in range(4)} < kept

    # A failure on one OST ends the job, without a metric.
    (test,) = tests["failing"]
    assert test["verdict"] == "invalid"
    assert not any(value for value, *_ in test["metrics"].values())
    assert "error: no such OST" in test["sentence"]
    assert len(calls(lustre, "failing")) == 1


CONTRACT = """
system: small
title: No slow OST
criteria:
  - {name: A1, kind: slow_ost, filesystem: memory, at_least: 0.01}
"""


@pytest.mark.slow
def test_slow_ost_in_an_acceptance(lustre):
    lustre.has("memory", EACH)
    assert lustre.reframe("-r", "--mode=acceptance").returncode == 0
    (lustre.folder / "contract.yaml").write_text(CONTRACT)
    accepted = lustre._run("iowatch", "accept", "contract.yaml", "--output", "dossier.html")
    found = re.search(r"^pass: A1: \S+ %, at least 1.0 % committed; OST \d$", accepted.stdout, re.M)
    assert found, accepted.stdout
