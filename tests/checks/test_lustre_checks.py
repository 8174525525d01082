"""Stripe settings and single OSTs in the checks; against the stand-in for Lustre."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agreed import contract
from cases import is_of_ost, verdict_of
from conftest import LOST_RANK

from iowatch.evidence.accept import judge
from iowatch.evidence.bundle import unpack
from iowatch.measure.kinds.slow_ost import OST

ROOT = Path(__file__).parents[2]
BOUNDS = """
SlowOst:
  .*:
    ost_ratio: [1, -0.9, null, '1']
    ost_read_ratio: [1, -0.999, null, '1']  # so small a file says nothing of speed
SharedFileWrite:
  .*:
    overhead_fraction: [0, null, 0.999, '1']
"""
EACH = {"SlowOst": {"stripe_size": [1], "local_size": [8]}}


@pytest.fixture
def lustre(site, lustre_shim):
    """A site whose filesystems seem to be Lustre with four OSTs, and whose nodes have two ranks
    each; has(place, suite, variables) makes one, with an environment and a state of its own."""
    site.extras.update(type="lustre", osts=[0, 1, 2, 3])
    site.references = BOUNDS

    def has(place, suite, variables=""):
        site.partitions[place] = {"environs": [f"{place}_env"], "suite": suite}
        site.injected[f"{place}_env"] = (
            f"LD_PRELOAD={lustre_shim} LUSTRE_STATE={site.folder}/{place} "
            f"LUSTRE_RANKS=2 PATH={ROOT}/tests/faults:{os.environ['PATH']} {variables}"
        )

    site.has = has
    return site


def calls(site, place):
    """Of lfs, a line each."""
    return (site.folder / f"{place}.log").read_text().splitlines()


def test_stripes_and_single_osts(lustre, lustre_shim, shim):
    lustre.extras["pools"] = {"fast": [1, 2]}
    lustre.extras["layouts"] = {"progressive": "-E 1M -c 1 -E 16M -c 2 -S 2M -E -1 -c -1 -S 4M"}
    striped = [
        {**lustre.write, "stripe_count": [-1], "stripe_size": [8]},
        {**lustre.write, "stripe_count": [2], "stripe_size": [1], "pool": ["fast"]},
        {**lustre.write, "layout": ["default", "progressive"]},
    ]
    lustre.has("striped", {"SharedFileWrite": striped})
    lustre.has("exchanged", EACH, "LUSTRE_INACTIVE=3")
    hung = 'FAULT=sleep FAULT_RANK=0 FAULT_THROUGH=0 FAULT_FILE="$own/target.1/$f"'
    lustre.has("hung", EACH, f"LD_PRELOAD={lustre_shim}:{shim} {hung}")
    lustre.partitions["hung"]["time_limit"] = "50s"
    done = lustre.reframe("-r", "-n", "SharedFileWrite|SlowOst", "-S", "repeats=2")
    tests = {}
    for test in lustre.report():
        tests.setdefault(test["partition"], []).append(test)
    assert not list(lustre.scratch.iterdir())

    def sentence(place):
        (test,) = tests[place]
        return test["sentence"]

    # Every layout has a directory of its own, set and observed; the default is nobody's to set.
    of_layout = {
        re.search("backend=mpiio/(.*)/local", test["case_id"])[1]: test for test in tests["striped"]
    }
    assert {name: test["provenance"]["layout"] for name, test in of_layout.items()} == {
        "stripe_count=-1/stripe_size=8": "4 OSTs in stripes of 8 MiB",
        "stripe_count=2/stripe_size=1/pool=fast": "2 OSTs of pool fast in stripes of 1 MiB",
        "layout=default": "1 OST in stripes of 4 MiB",
        "layout=progressive": (
            "up to 1 MiB 1 OST in stripes of 1 MiB; up to 16 MiB 2 OSTs in stripes of 2 MiB; "
            "then all OSTs in stripes of 4 MiB"
        ),
    }
    assert {verdict_of(test) for test in of_layout.values()} == {"ok"}, done.stdout
    assert {test["provenance"]["MDT"] for test in of_layout.values()} == {"0"}
    commands, directories = zip(
        *(call.rsplit(" ", 1) for call in calls(lustre, "striped")), strict=True
    )
    assert sorted(commands) == sorted([
        f"setstripe -c -1 -S {8 * 2**20}",
        "setstripe -c 2 -S 1048576 -p fast",
        f"setstripe {lustre.extras['layouts']['progressive']}",
    ])  # fmt: skip
    assert len({*directories}) == 3
    assert all(path.startswith(f"{lustre.scratch}/iowatch.") for path in directories)

    # An OST that another took the place of is named.
    offsets = re.findall(r"setstripe -c 1 -i (\d) ", "\n".join(calls(lustre, "exchanged")))
    assert offsets == list("0123"), "one start, and a directory for each"
    assert re.search(
        r"; OST 3 was not measured: rank 0 on \S+: .* on OST 0 instead of OST 3, ",
        sentence("exchanged"),
    )

    # A real hang: the start that it ends is followed by one without that OST.
    assert re.search(
        r"; OST 1 was not measured: rank \d: write: \S+/target\.1(/mpiio\.dat)?: no end after 5 s ",
        sentence("hung"),
    ), sentence("hung")
    osts = {
        place: {name for name, entry in test["metrics"].items() if entry[0] and is_of_ost(name)}
        for place, (test, *_) in tests.items()
    }
    every = {f"{prefix}{ost}" for prefix in OST.values() for ost in range(4)}
    assert osts["exchanged"] == every - {"ost_3", "ost_read_3"}
    assert osts["hung"] == every - {"ost_1", "ost_read_1"}


FAULTS = {
    "well": "none",
    "slow": "slow 12",
    "full": "full 7",
    "hangs": "hangs on 3 12",
    "alone": "hangs on 3 7 12",
    "late": "hangs on 3, ends late",
    "wrong": "cut off",
}


def test_each_ost_by_itself(site):
    """One start of benchio; what one OST cannot do is named, and is not the others' business."""
    site.extras.update(type="lustre", osts=[0, 3, 7, 12])
    site.references, site.suite, site.faults = BOUNDS, EACH, FAULTS
    site.write["nodes"] = [2]
    site.environs["late"] = {"env_vars": [["STAND_IN_SAYS", f"'{LOST_RANK}'"]]}
    done = site.iowatch("--quiet")
    assert done.returncode == 1, done.stdout
    tests = {test["environ"]: test for test in site.report()}
    assert {name: verdict_of(test) for name, test in tests.items()} == {
        "well": "ok", "slow": "regression (reference)", "full": "ok", "hangs": "ok",
        "alone": "failed (io_error)", "wrong": "failed (no_output)", "late": "ok",
    }, done.stdout  # fmt: skip
    (case,) = {test["case_id"].partition("/SlowOst/")[2] for test in tests.values()}
    assert case == "stripe_size=1/local_size=8x8x8/ranks=4"
    lost = {name: test["provenance"].get("OSTs not measured") for name, test in tests.items()}
    assert lost == {**dict.fromkeys(FAULTS), "full": "7", "hangs": "3 12", "late": "3"}
    measured = {
        name: {metric for metric, entry in test["metrics"].items() if entry[0] is not None}
        for name, test in tests.items()
    }
    osts = {name: {metric for metric in measured[name] if is_of_ost(metric)} for name in tests}

    def both(*numbers):
        return {f"{prefix}{ost}" for prefix in OST.values() for ost in numbers}

    assert osts == {
        "well": both(0, 3, 7, 12), "slow": both(0, 3, 7, 12), "full": both(0, 3, 12),
        "hangs": both(0, 7), "alone": set(), "wrong": set(), "late": both(0, 7, 12),
    }  # fmt: skip

    def sentence(name):
        return tests[name]["sentence"]

    assert sentence("slow").endswith(
        "; slow to write: OST 12 (0.37 MiB/s, 0.00 of its peers); slow to read: OST 12 "
        "(0.74 MiB/s, 0.00 of its peers)"
    )
    full = "OST 7 was not measured: rank 1: MPI_File_write_all: /f: ENOSPC"
    assert sentence("full").endswith(f"; {full}")
    assert re.search(
        r"; OST 3 was not measured: rank 0: write: \S+/target\.3/mpiio\.dat: no end after 12 s "
        r"\(--phase-limit\); OST 12 was not measured: rank 0: write: .*/target\.12/.* no end",
        sentence("hangs"),
    )
    assert sentence("alone").startswith("fewer than two OSTs can be compared; OST 3 was not ")
    assert "result.1.json is not readable JSON" in sentence("wrong")
    assert "; after its result was written: its launcher ended with 1: " in sentence("late")
    # What is green, and still to be known, is a note of the night.
    assert re.search(f"^note: .*: {re.escape(full)}$", done.stdout, re.MULTILINE), done.stdout

    kept = {
        name: {file.name for file in Path(test["kept"]).iterdir()} for name, test in tests.items()
    }
    assert {"result.1.json", "said.1"} < kept["well"]
    assert {"result.3.json", "said.1", "said.2", "said.3"} < kept["hangs"]
    assert not {"result.1.json", "result.2.json"} & kept["hangs"]
    job = Path(tests["well"]["kept"], "rfm_job.sh").read_text()
    assert job.count("--targets") == 1, "one start, unless one hangs"
    assert "--operation write,read " in job

    # Of a session that was declared to be without an OST.
    site.reframe("-r", "-n", "SlowOst", "-p", "^(well|full)$", "-S", "away=memory:7")
    tests = {test["environ"]: test for test in site.report()}
    assert {name: verdict_of(test) for name, test in tests.items()} == {
        "well": "failed (not_as_asked)", "full": "ok",
    }  # fmt: skip
    declared = "the session was declared to be without OST 7, which it could measure"
    assert sentence("well").endswith(declared)


def test_all_osts_that_are_not_all_and_what_users_get(site):
    site.extras.update(type="lustre", osts=[0, 1, 2, 3])
    plain = {"backend": ["hdf5"], "local_size": [8], "nodes": [1]}
    site.suite = {
        "SharedFileWrite": [
            {**plain, "stripe_count": [-1], "stripe_size": [4]},
            {**plain, "layout": ["default"]},
        ]
    }
    site.faults = {"all": "none", "fewer": "fewer"}
    done = site.iowatch("--quiet")
    tests = {(test["environ"], "default" in test["case_id"]): test for test in site.report()}
    assert {verdict_of(test) for test in tests.values()} == {"ok"}, done.stdout
    missing = "striped over 3 of 4 OSTs: OST 2 is missing"
    assert [of for of, test in tests.items() if test["sentence"].endswith(f"; {missing}")] == [
        ("fewer", False)
    ]
    assert tests["fewer", False]["provenance"]["note"] == missing
    assert {of: test["provenance"]["layout"] for of, test in tests.items()} == {
        ("all", False): "4 OSTs in stripes of 4 MiB",
        ("all", True): "1 OST in stripes of 1 MiB",
        ("fewer", False): "3 OSTs in stripes of 4 MiB",
        ("fewer", True): "1 OST in stripes of 1 MiB",
    }
    assert re.search(f"^note: .*: {missing}$", done.stdout, re.MULTILINE), done.stdout

    # A contract judges no stripes that are missing, and says them.
    site.reframe("-r", "--mode=acceptance", "-n", "SharedFileWrite", "-p", "fewer")
    (verified,) = [test for test in site.report() if test["sentence"].endswith(missing)]
    contract_judges = "it is verified; a contract, or the next night, judges it"
    assert f"{contract_judges}; {missing}" in verified["sentence"]


@pytest.mark.slow
def test_an_ost_that_is_away_in_an_acceptance(lustre):
    """On purpose, and declared before: then what is left is judged. Else nothing is certified.

    What is judged elsewhere knows no more of pools and layouts than the evidence says.
    """
    lustre.extras |= {"pools": {"fast": [1, 2]}, "layouts": {"two": "-E 1M -c 1 -E -1 -c 2 -S 4M"}}
    away = lustre.folder / "away"
    every = {**lustre.write, "stripe_count": [-1], "stripe_size": [1]}
    lustre.has("memory", {**EACH, "SharedFileWrite": every}, f"LUSTRE_INACTIVE=$(cat {away})")
    session = ("--suite", "acceptance", "--quiet")
    three = ("--away", "memory:3")

    def measure(gone, *declared, code=0):
        away.write_text(str(gone))
        done = lustre.iowatch(*session, *declared)
        assert done.returncode == code, done.stdout

    def verdicts(begins="2020-01-01"):
        text = contract(
            "kind: slow_ost, at_least: 0.01",
            "kind: slow_ost, operation: read, at_least: 0.01",
            "kind: degraded, away: 1, at_least: 0.0001",
            filesystems={"memory": "path: /dev/shm, type: lustre, osts: 4"},
            **{"machine": "reserved", "begins": begins, "reruns": "failed"},
        )
        (lustre.folder / "contract.yaml").write_text(text)
        done = lustre._run(
            "iowatch", "accept", "judge", "contract.yaml", "--output", "dossier.html"
        )
        return done.stdout

    for said, options in (
        ("--away memory:9: small has no such OST as FILESYSTEM:OST: there are memory:0, memory:1,",
         (*session, "--away", "memory:9")),
        ("--away is for an acceptance test: add --suite acceptance", three),
    ):  # fmt: skip
        done = lustre.iowatch(*options)
        assert (done.returncode, said in done.stdout) == (2, True), done.stdout

    for _ in range(2):
        measure(-1)
        measure(3, *three)
    said = verdicts()
    assert "2 of 2 sessions count, of 4 on record\n" in said, said
    assert "2 of 2 sessions count that were without 1 OST of memory\n" in said
    assert set(re.findall(r"^pass: (A\d): ", said, re.M)) == {"A1", "A2", "A3"}, said
    page = (lustre.folder / "dossier.html").read_text()
    assert "yes: it was declared to be without OST 3 of memory" in page
    plan = lustre._run("iowatch", "accept", "plan", "contract.yaml").stdout
    assert "jobs: 4 sessions of 3, that is 12" in plan
    assert "and as many sessions without 1 OST of memory" in plan
    elsewhere = lustre.folder / "elsewhere"
    elsewhere.mkdir()
    unpack(lustre.folder / "evidence.tar", elsewhere)
    evidence = judge(elsewhere).evidence
    assert not evidence.failed
    (place,) = evidence.places
    assert (place.pools, place.layouts) == ({"fast": (1, 2)}, lustre.extras["layouts"])

    # It is away, and nobody has said so; it is there, and somebody has said that it is not.
    later = datetime.now(UTC).isoformat(timespec="seconds")
    measure(3)
    measure(-1, *three, code=1)
    said = verdicts(later)
    assert re.search(r"^not certified: A1: .*; failed: .*: OST 3 was not measured: ", said, re.M)
    assert re.search(
        r"^not certified: A3: .*; failed: .*the session was declared to be without OST 3, which "
        "it could measure$", said, re.M
    ), said  # fmt: skip
    # As what a job was begun, so it counts: whoever kills the session cannot resume it as another.
    uuid = re.search(r"of session (\S+): .*which it could measure$", said, re.M)[1]
    assert lustre._run("reframe", f"--delete-stored-sessions={uuid}").returncode == 0
    measure(-1, "--resume")
    assert re.search(r"^not certified: A3: .*; of the run \S+ no session is", verdicts(later), re.M)
