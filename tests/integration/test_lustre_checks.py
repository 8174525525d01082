"""Stripe settings and single OSTs in the checks; against the stand-in for Lustre."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lustre(site, lustre_shim):
    """A site whose only filesystem seems to be Lustre with four OSTs."""
    site.extras.update(type="lustre", osts=4)
    site.injected = {
        "cray": f"LD_PRELOAD={lustre_shim} LUSTRE_STATE={site.folder}/state "
        f"PATH={ROOT}/tests/faults:{os.environ['PATH']}"
    }
    return site


def test_every_stripe_setting_has_a_directory_of_its_own_set_and_observed(lustre):
    lustre.write.update(stripe_count=[1, 4, -1], stripe_size=[1, 8])
    done = lustre.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 0, done.stdout
    found = {re.search("count=.*/size=[^/]*", test["case_id"])[0] for test in lustre.report()}
    assert found == {f"count={count}/size={size}" for count in (1, 4, -1) for size in (1, 8)}
    calls = (lustre.folder / "state.log").read_text().splitlines()
    assert len(calls) == 6
    directories = [call.split()[-1] for call in calls]
    assert sorted(call.rsplit(" ", 1)[0] for call in calls) == sorted(
        f"setstripe -c {count} -S {mib * 2**20}" for count in (1, 4, -1) for mib in (1, 8)
    )
    assert len(set(directories)) == 6
    assert all(path.startswith(f"{lustre.scratch}/iowatch.") for path in directories)
    assert not list(lustre.scratch.iterdir())


def test_other_stripes_than_asked_for_are_invalid(lustre):
    lustre.write.update(stripe_count=[4], stripe_size=[1])
    lustre.injected["cray"] += " LUSTRE_STRIPING='2 1048576 0'"
    done = lustre.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1
    (test,) = lustre.report()
    assert test["verdict"] == "invalid"
    assert "count 2" in test["sentence"]


SLOW_OST = """
SlowOst:
  $index: [case_id]
  .*:
    ost_ratio: [1, -0.9, null, '1']
"""


CONTRACT = """
system: small
title: No slow OST
criteria:
  - {name: A1, kind: slow_ost, filesystem: memory, at_least: 0.01}
"""


def test_slow_ost_is_named(lustre):
    lustre.sweep = {"SlowOst": {"stripe_size": [1], "local_size": [8]}}
    lustre.references = SLOW_OST
    assert lustre.reframe("-r", "--mode=acceptance").returncode == 0
    (lustre.folder / "contract.yaml").write_text(CONTRACT)
    accepted = lustre._run("iowatch", "accept", "contract.yaml", "--output", "dossier.html")
    assert re.search(r"^pass: A1: \S+ %, at least 1.0 % committed; OST \d$", accepted.stdout, re.M)
    (test,) = lustre.report()
    assert test["case_id"].endswith("/count=1/size=1/local=8x8x8/writers=2/offset=each")
    assert [name for name in test["figures"] if re.fullmatch(r"ost_\d+", name)] == [
        "ost_0", "ost_1", "ost_2", "ost_3",
    ]  # fmt: skip
    log = (lustre.folder / "state.log").read_text()
    offsets = re.findall(r"setstripe -c 1 -S 1048576 -i (\d) ", log)
    assert offsets == list("0123" * 3), "rounds over all OSTs, none of them twice in a row"

    lustre.injected["cray"] += " LUSTRE_SLOW=2"
    done = lustre.iowatch()
    assert done.returncode == 1
    (sentence,) = re.findall(r"^ +(small:memory.*)", done.stdout, re.MULTILINE)
    assert re.search(r"ost_ratio is 0\.0\d*, below its bound 0.1 in ", sentence)
    assert re.search(r"; slow: OST 2 \(\d+ MiB/s, 0\.0\d of its peers\)$", sentence)


def test_failure_on_one_ost_ends_the_job_without_a_figure(lustre):
    lustre.sweep = {"SlowOst": {"stripe_size": [1], "local_size": [8]}}
    lustre.references = SLOW_OST
    lustre.injected["cray"] += " LUSTRE_FAIL='error: no such OST'"
    assert lustre.reframe("-r").returncode == 1
    (test,) = lustre.report()
    assert test["verdict"] == "invalid"
    assert not any(value for value, *_ in test["figures"].values())
    assert "error: no such OST" in test["sentence"]
    assert len((lustre.folder / "state.log").read_text().splitlines()) == 1
    assert not list(lustre.scratch.iterdir())
