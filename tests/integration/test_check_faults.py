"""Faults of benchio, and below it: each fails its check, gives no figure and leaves no file."""

import re

import pytest

REFERENCES = """
SharedFileWrite:
  $index: [case_id]
  .*:
    ratio: [0.9, -0.5, null]
"""

FAULTS = {
    "cut_off": ("cut off", "invalid", "result.json is not readable JSON"),
    "no_rate": ("no rate", "invalid", "'total' is a required property"),
    "no_result": ("no result", "invalid", "benchio: error: stand-in: wrote nothing"),
    "late": ("fails at the end", "invalid", "benchio: error: stand-in: failed after its result"),
    "too_fast": ("too fast", "too_fast", "above the physical ceiling of 1000000 MiB/s"),
    "slow_hdf5": ("slow hdf5", "regression", "ratio is 0.1, below its bound 0.45"),
    "none": ("none", "ok", "1 figure(s) within"),
}


def test_every_fault_has_its_verdict_and_sentence(site):
    site.faults = {name: fault for name, (fault, *_) in FAULTS.items()}
    site.write["backend"] = ["hdf5"]
    site.references = REFERENCES
    done = site.reframe("-r")
    assert done.returncode == 1, done.stdout
    found = {test["environ"]: test for test in site.report()}
    assert set(found) == set(FAULTS)
    for name, (_, verdict, sentence) in FAULTS.items():
        test = found[name]
        assert test["verdict"] == verdict
        assert sentence in test["sentence"]
        assert (test["result"] == "pass") == (verdict == "ok")
        if verdict != "ok":
            assert test["sentence"] in test["fail_reason"]
    assert found["slow_hdf5"]["figures"]["ratio"] == [
        pytest.approx(0.1), 0.9, -0.5, None, "1", "fail",
    ]  # fmt: skip
    assert not list(site.scratch.iterdir())


# Of shim.c: what happens to the file of the case's backend, and a regular expression for what the
# sentence then says after the case.
INJECTED = {
    "flipped": ("flip FAULT_BYTES=4194304", "verification_error"),
    "halved": ("truncate FAULT_BYTES=4194304", "bytes of data were written"),
    "closed": ("open FAULT_ERRNO=13 FAULT_RANK=all", "io_error"),
    "failing": ("write FAULT_ERRNO=5 FAULT_RANK=all", "io_error"),
    "full": ("write FAULT_ERRNO=28 FAULT_RANK=0", "io_error"),
    "quota": ("short FAULT_RANK=0", "io_error"),
    "unsynced": ("sync FAULT_ERRNO=28 FAULT_RANK=all", "io_error"),
    "unclosed": ("close FAULT_ERRNO=28 FAULT_RANK=all", "bytes of data were written"),
    "killed": ("kill FAULT_RANK=0", r"signal 9 \(Killed\)"),  # which left no result: mpirun's words
}


def test_every_fault_below_benchio_fails_the_check_and_leaves_no_file(site, shim):
    site.write.update(backend=["mpiio", "hdf5", "netcdf"], local_size=[64])
    site.injected = {
        name: f"LD_PRELOAD={shim} FAULT={fault}" for name, (fault, _) in INJECTED.items()
    }
    done = site.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    found = {(test["environ"], test["backend"]): test for test in site.report()}
    assert set(found) == {(name, backend) for name in INJECTED for backend in site.write["backend"]}
    for (name, _), test in found.items():
        assert (test["result"], test["verdict"]) == ("fail", "invalid"), test["sentence"]
        said = test["sentence"].removeprefix(f"{test['case_id']}: ")
        assert re.search(INJECTED[name][1], said), said
        assert not [value for value, *_ in test["figures"].values() if value is not None]
    assert not list(site.scratch.iterdir())
