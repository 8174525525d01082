"""benchio beside IOR: through ReFrame, with the real IOR where there is one."""

import shutil
from pathlib import Path

import pytest
from cases import verdict_of
from checks.stand_ins import GROMACS, gromacs, ior, set_back

REFERENCES = """
IorPeer: &peer
  small:.*: {ior_ratio: [1, -0.5, null, '1']}
IorPeerRead: *peer
"""

#: IO500's patterns, small.
EASY = {"backend": ["posix"], "files": ["process"], "local_size": [64], "io500": ["easy"]}
HARD = {"backend": ["posix"], "local_size": ["5876x4x1"], "io500": ["hard"]}
IO500 = [{**pattern, "nodes": [1]} for pattern in (EASY, HARD)]


@pytest.fixture
def peer(site):
    """The site, where only IorPeer is asked for; without any IOR that this machine may have."""
    site.write = {"backend": ["mpiio"], "local_size": [16], "nodes": [1]}
    site.suite = {"IorPeer": site.write}
    site.references = REFERENCES
    site.hide("ior")
    return site


# Environment -> its IOR, its verdict, what its sentence says. `late`: mpirun of Open MPI 4 fails
# though the program has not, and where it has done other things.
IORS = {
    "fast": ("1e-6", "regression (reference)", "below its bound of 0.5 in "),
    "wrong": ("wrong data", "failed (corrupt)", "IOR: WARNING: Incorrect data on write (2 errors"),
    "set-back": ("1.0", "unjudged (wrong_clock)", " was set back by "),
    "late": ("1.0", "ok", ""),
    "late-calls": ("other calls", "failed (not_as_asked)", "IOR: bytes of a call: 16384, where"),
}


def test_both_are_measured_in_turn_and_only_what_ior_verified_counts(peer):
    peer.partitions = {
        "memory": {
            "environs": ["peer"],
            "suite": {
                "IorPeer": [
                    {**peer.write, "backend": ["mpiio", "posix"]},
                    {**peer.write, "backend": ["hdf5"], "files": ["process"]},
                    IO500[1],
                ],
                "IorPeerRead": peer.write,
            },
        },
        "faults": {"environs": [*IORS, "without"]},
        # A read may come from the cache of one node.
        "cached": {
            "environs": ["peer"],
            "extras": {"cached_reads": False},
            "suite": {"IorPeerRead": peer.write},
        },
    }
    for name, how in (("peer", "1.0"), *((name, how) for name, (how, *_) in IORS.items())):
        ior(peer, name, how)
    set_back(peer, "set-back")
    peer.injected["peer"] = ""  # the real benchio
    peer.faults = dict.fromkeys([*IORS, "without"], "none")
    peer.partition = {"max_jobs": 4}
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 1, done.stdout
    assert "4 failure(s), 0 expected failure(s), 2 skipped" in done.stdout
    assert "there is no ior on PATH or in Spack: `spack install ior`, add the " in done.stdout
    tests = [test for test in peer.report() if verdict_of(test) != "skipped (not_installed)"]
    assert list(peer.scratch.iterdir()) == []

    here = "small:memory/peer/"
    cases = {t["case_id"].removeprefix(here): t for t in tests if t["partition"] == "memory"}
    size = "local_size=16x16x16/ranks=2"
    assert set(cases) == {
        f"IorPeer/backend=mpiio/{size}/files=shared",
        f"IorPeer/backend=posix/{size}/files=shared",
        f"IorPeer/backend=hdf5/{size}/files=process",
        f"IorPeerRead/backend=mpiio/{size}/files=shared",
        "IorPeer/backend=posix/local_size=5876x4x1/ranks=2/files=shared/io500=hard",
    }
    for case, test in cases.items():
        assert (test["result"], verdict_of(test)) == ("pass", "ok"), test["sentence"]
        metrics = {name: entry[0] for name, entry in test["metrics"].items()}
        moved = 2 * (4 * 47008 if "hard" in case else 16**3 * 8)
        assert metrics["ior_max"] == metrics["ior_median"] == moved / 2**20  # in 1 s
        best = metrics["total_max" if "Read" in case else "stable_max"]  # IOR syncs as well
        assert metrics["ior_ratio"] == pytest.approx(best / metrics["ior_max"])
        assert test["metrics"]["ior_ratio"][1:4] == [1, -0.5, None]
        kept = Path(test["kept"])
        for name in ("result", "ior", *(["read"] if "Read" in case else [])):
            assert len(list(kept.glob(f"{name}.*.json"))) == 2, (case, name)

    found = {t["environ"]: t for t in tests if t["partition"] == "faults"}
    assert set(found) == set(IORS)
    for name, (_, verdict, says) in IORS.items():
        result = {"ok": "pass", "unjudged": "skip"}.get(verdict.partition(" ")[0], "fail")
        assert (found[name]["result"], verdict_of(found[name])) == (result, verdict), name
        assert says in found[name]["sentence"], name
    assert not Path(found["wrong"]["kept"], "ior.2.json").exists(), "the first failure ends the job"
    (test,) = [test for test in tests if test["partition"] == "cached"]
    assert test["sentence"].endswith("the cache of the only node: ask for 2 nodes")


def test_a_program_that_was_never_there_is_left_out_and_one_that_is_lost_is_amber(peer):
    peer.faults = dict.fromkeys(["never", "lost"], "none")
    program = ior(peer, "lost", "1.0")
    first = peer.reframe("-r", "-S", "repeats=1")
    assert first.returncode == 0, first.stdout
    why = (
        "there is no ior on PATH or in Spack: `spack install ior`, add the module that brings it "
        "to environment '{}', or name its path as 'ior' in the extras of that environment"
    )
    tests = {test["environ"]: test for test in peer.report()}
    ends = {name: verdict_of(test) for name, test in tests.items()}
    assert ends == {"never": "skipped (not_installed)", "lost": "ok"}
    assert why.format("never") in tests["never"]["sentence"]
    assert not list(peer.kept.glob("*/*never,IorPeer*"))

    peer.environs.clear()
    # What the site's file promises is a fault from the first night.
    program.unlink()
    peer.faults["other"] = "none"
    peer.environs["other"] = {"extras": {"ior": str(program)}}
    second = peer.reframe("-r", "-S", "repeats=1")
    assert second.returncode == 1, second.stdout
    tests = {test["environ"]: test for test in peer.report()}
    ends = {name: verdict_of(test) for name, test in tests.items()}
    assert ends == {
        "never": "skipped (not_installed)",
        "lost": "unjudged (not_installed)",
        "other": "failed (not_installed)",
    }
    assert why.format("lost") in tests["lost"]["sentence"]
    said = f"there is no program {program}, which the extras of environment 'other'"
    assert said in tests["other"]["sentence"]


def test_layout_of_the_files_of_ior_and_of_an_application(peer, lustre_shim):
    """Of the stand-in for Lustre, where benchio reads layouts without lfs, which is asked of the
    others' files only, and says what was recorded of real ones. IOR is found on PATH, too."""
    ior(peer, "bin", "1.0")
    peer.extras.update(type="lustre", osts=[0, 1, 2, 3])
    peer.partition = {"max_jobs": 4}
    for name, layout in (("two", "c2"), ("four", "c4")):
        gromacs(peer, name, f'exec {GROMACS} "$@"')
        lfs = peer.recorded_lfs(name, layout, lustre_shim)
        path = f"{lfs.parent}:{peer.folder}/programs/bin:{peer.environment['PATH']}"
        peer.environs[name]["env_vars"] = [["PATH", path]]
    layouts = {"stripe_count": [2], "stripe_size": [1]}, {"layout": ["default"]}
    peer.suite = {
        "IorPeer": [{**peer.write, **layout} for layout in layouts],
        "GromacsTrajectory": [{"nodes": [1], **layout} for layout in layouts],
    }
    done = peer.reframe("-r", "--mode=record", "-S", "repeats=1")
    tests = {
        (test["name"].split()[0], test["environ"], "default" in test["case_id"]): test
        for test in peer.report()
    }
    invalid = {of for of, test in tests.items() if verdict_of(test) == "failed (wrong_layout)"}
    assert invalid == {(name, "four", False) for name in peer.suite}, done.stdout
    others = {verdict_of(test) for of, test in tests.items() if of not in invalid}
    assert (len(tests), others) == (8, {"ok", "unjudged (no_reference)"})
    for name, program in (("IorPeer", "IOR"), ("GromacsTrajectory", "GROMACS")):
        sentence = tests[name, "four", False]["sentence"]
        assert f"stripe count of {program}'s files: 4, where 2 was asked for" in sentence
    # The directory that they write to has the layout of the case, or nobody has set one.
    asked = (peer.folder / "state.two.log").read_text().splitlines()
    set_up = [call for call in asked if call.startswith("setstripe") and "benchio." not in call]
    start = f"setstripe -c 2 -S 1048576 {peer.scratch}/iowatch."
    assert [call.startswith(start) for call in set_up] == [True, True]


@pytest.mark.skipif(shutil.which("ior") is None, reason="there is no ior on PATH")
def test_the_real_ior(peer):
    """Every library that both have; each process's file but for PnetCDF, where IOR has none; and
    IO500's patterns."""
    peer.environment.pop("PATH")
    shared = {**peer.write, "backend": ["mpiio", "hdf5", "pnetcdf", "posix"]}
    process = {**peer.write, "backend": ["mpiio", "hdf5", "posix"], "files": ["process"]}
    every = [shared, process, *IO500]
    peer.suite = {"IorPeer": every, "IorPeerRead": every}
    peer.references = REFERENCES.replace("-0.5", "-0.999")  # so small a file says nothing of speed
    done = peer.reframe("-r", "-S", "repeats=2")
    assert done.returncode == 0, done.stdout
    tests = peer.report()
    assert len(tests) == 18
    for test in tests:
        assert test["metrics"]["ior_max"][0] >= test["metrics"]["ior_median"][0] > 0
    assert list(peer.scratch.iterdir()) == []
