"""benchio beside IOR: through ReFrame, with the real IOR where there is one."""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in_ior.py")
REFERENCES = """
IorPeer: &peer
  $index: [case_id]
  small:.*: {ior_ratio: [1, -0.5, null, '1']}
IorPeerRead: *peer
"""


@pytest.fixture
def peer(site):
    """The site, where only IorPeer is asked for; without any IOR that this machine may have."""
    site.write = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
    site.sweep = {"IorPeer": site.write}
    site.references = REFERENCES
    (site.folder / "bin").mkdir()
    tools = [str(site.folder / "bin"), str(Path(sys.executable).parent)]
    without = [f for f in os.environ["PATH"].split(":") if not Path(f, "ior").exists()]
    site.environment["PATH"] = ":".join([*tools, *without])
    return site


def install(site, how):
    """Put a stand-in of IOR on PATH."""
    ior = site.folder / "bin/ior"
    ior.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "{how}" "$@"\n')
    ior.chmod(0o755)


def test_without_ior_it_is_skipped_with_the_reason(peer):
    done = peer.reframe("-r")
    assert "0 failure(s), 0 expected failure(s), 1 skipped" in done.stdout, done.stdout
    assert "there is no ior on PATH or in Spack: name its path as 'ior'" in done.stdout


@pytest.mark.slow
def test_a_night_that_asks_for_it_is_red_without_ior(peer):
    done = peer.iowatch()
    assert done.returncode == 1, done.stdout
    assert "write shared, IOR" in done.stdout
    assert "1 check(s) skipped or aborted" in done.stdout


def test_both_are_measured_in_turn(peer):
    install(peer, "1.0")
    peer.sweep = {
        "IorPeer": [
            {**peer.write, "backend": ["mpiio", "stream"]},
            {**peer.write, "backend": ["hdf5"], "files": ["process"]},
        ],
        "IorPeerRead": peer.write,
    }
    done = peer.reframe("-r", "-S", "repeats=3")
    assert done.returncode == 0, done.stdout
    cases = {test["case_id"].split("/", 2)[2]: test for test in peer.report()}
    ends = "count=none/size=none/local=16x16x16/writers=2/peer=ior"
    assert set(cases) == {
        f"write/shared/mpiio/{ends}",
        f"write/shared/stream/{ends}",
        f"write/process/hdf5/{ends}",
        f"read/shared/mpiio/{ends}",
    }
    for case, test in cases.items():
        figures = {name: entry[0] for name, entry in test["figures"].items()}
        assert figures["ior_max"] == figures["ior_median"] == 2 * 16**3 * 8 / 2**20  # in 1 s
        assert figures["ior_ratio"] == pytest.approx(figures["total_max"] / figures["ior_max"])
        assert test["figures"]["ior_ratio"][1:4] == [1, -0.5, None]
        output = Path(test["outputdir"])
        for kept in ("result", "ior", *(["read"] if case.startswith("read") else [])):
            assert len(list(output.glob(f"{kept}.*.json"))) == 3
    assert list(peer.scratch.iterdir()) == []


def test_less_than_half_as_fast_as_ior_is_a_regression(peer):
    install(peer, "1e-6")
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    (test,) = peer.report()
    assert test["verdict"] == "regression"
    assert "below its bound 0.5 in " in test["sentence"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("wrong data", "IOR: WARNING: Incorrect data on write (2 errors found)."),
        ("no sync", "IOR: fsync: 0, where 1 was asked for"),
    ],
)
def test_ior_that_failed_gives_no_figure(peer, how, said):
    install(peer, how)
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    (test,) = peer.report()
    assert (test["verdict"], test["sentence"]) == ("invalid", f"{test['case_id']}: {said}")
    assert list(peer.scratch.iterdir()) == []


def test_a_read_that_may_come_from_the_cache_of_one_node(peer):
    install(peer, "1.0")
    peer.extras["cached_reads"] = False
    peer.sweep = {"IorPeerRead": peer.write}
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    (test,) = peer.report()
    assert test["sentence"].endswith("the cache of the only node: ask for 2 nodes")


@pytest.mark.parametrize(("count", "verdict"), [(2, "ok"), (4, "invalid")])
def test_stripes_of_iors_files(peer, lustre_shim, count, verdict):
    """Of the stand-in for Lustre; lfs is asked of IOR's file for what benchio asks itself."""
    install(peer, "1.0")
    peer.extras.update(type="lustre", osts=4)
    state = f"{peer.folder}/state"
    peer.injected = {"cray": f"LD_PRELOAD={lustre_shim} LUSTRE_STATE={state}"}
    lfs = peer.folder / "bin/lfs"
    striping = f'LUSTRE_STRIPING="{count} 1048576 0" ' if count != 2 else ""
    lfs.write_text(f'#!/bin/sh\nLUSTRE_STATE={state} {striping}{ROOT}/tests/faults/lfs "$@"\n')
    lfs.chmod(0o755)
    peer.write.update(stripe_count=[2], stripe_size=[1])
    done = peer.reframe("-r", "-S", "repeats=2")
    (test,) = peer.report()
    assert test["verdict"] == verdict, done.stdout
    if verdict == "invalid":
        said = "IOR: (count, size) of (4, 1048576), where (2, 1048576) of 1 was asked for"
        assert test["sentence"] == f"{test['case_id']}: {said}"


@pytest.mark.skipif(shutil.which("ior") is None, reason="there is no ior on PATH")
def test_the_real_ior(peer):
    """Every library that both have; each process's file but for PnetCDF, where IOR has none."""
    peer.environment.pop("PATH")
    shared = {**peer.write, "backend": ["mpiio", "hdf5", "pnetcdf", "stream"]}
    process = {**peer.write, "backend": ["mpiio", "hdf5", "stream"], "files": ["process"]}
    peer.sweep = {"IorPeer": [shared, process], "IorPeerRead": [shared, process]}
    peer.references = REFERENCES.replace("-0.5", "-1")  # so small a file says nothing of speed
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 0, done.stdout
    tests = peer.report()
    assert len(tests) == 14
    for test in tests:
        assert test["figures"]["ior_max"][0] >= test["figures"]["ior_median"][0] > 0
    assert list(peer.scratch.iterdir()) == []
