"""What else went on around a run: what is read of it, and what is said of a run that was slow."""

import json
import random
from pathlib import Path

import pytest
from nights import BLESSED, HDF5, ran, red, row_of, slow, tonight, unverified, well
from result_file import make_result
from shown import html, markdown

from iowatch.measure.context import QUANTITIES, compare, read
from iowatch.measure.context.nodes import node_busy
from iowatch.pages.export import document

DATA = Path(__file__).parents[1] / "data"
# What a job notes of Slurm: of squeue, scontrol and sinfo.
BEFORE = "job 11 1\njob 12 4\njob 13 2\nhidden (null)\nown 13\nhere 12\nhere 13\nnodes 7/1/0/8\n"
AFTER = "job 11 1\njob 13 2\nhidden (null)\nown 13\nhere 13\nnodes 3/5/0/8\n"


def recorded(name):
    """What a command has printed."""
    text = (DATA / "cephfs" / f"{name}.txt").read_text()
    return text.partition("--- stdout\n")[2].partition("--- stderr")[0]


@pytest.fixture
def noted(tmp_path):
    """noted(before_slurm=text, ...): what is read of a run whose job has noted that."""

    def run(**texts):
        for file in tmp_path.glob("context.*"):
            file.unlink()
        for name, text in texts.items():
            when, _, source = name.partition("_")
            file = tmp_path / f"context.{when}.{source.replace('_', '.')}"
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(tmp_path)

    return run


def test_jobs_of_slurm(noted):
    hidden, away = ("(null)", "accounts,jobs"), ("own 13\nhere 12\nhere 13\n", "")
    for texts, known in [
        # The most at either time.
        ((BEFORE, AFTER), {"jobs": 2, "jobs_on_nodes": 1, "nodes_in_use": 7}),
        (("", AFTER), {"jobs": 1, "jobs_on_nodes": 0, "nodes_in_use": 3}),
        ((BEFORE.replace(*hidden), AFTER.replace(*hidden)),
         {"nodes_in_use": 7, "unknown": "Slurm shows nobody the jobs of others (PrivateData)"}),
        ((BEFORE.replace(*away), ""), {"jobs": 3, "nodes_in_use": 7}),
    ]:  # fmt: skip
        when = zip(("before_slurm", "after_slurm"), texts, strict=True)
        assert noted(**{name: text for name, text in when if text}) == known


def test_ceph(noted):
    idle, busy = recorded("status-idle"), recorded("status-busy")
    perf = json.loads(recorded("osd-perf"))
    perf["osdstats"]["osd_perf_infos"][2]["perf_stats"]["commit_latency_ms"] = 340
    calm = {"ceph_down": 0, "ceph_displaced": 0, "ceph_recovery": 0}
    assert noted(before_ceph=idle, after_ceph=busy) == {**calm, "ceph_traffic": 0}, "that is ours"
    assert noted(before_ceph=busy) == {**calm, "ceph_traffic": pytest.approx(6.1, 0.01)}
    sick = json.loads(busy)
    sick["osdmap"]["num_up_osds"] -= 1
    sick["pgmap"] |= {"degraded_ratio": 0.2, "recovering_bytes_per_sec": 2**20}
    assert noted(after_ceph=json.dumps(sick), after_osds=json.dumps(perf)) == {
        "ceph_down": 1, "ceph_displaced": 0.2, "ceph_recovery": 1,
        "ceph_commit_ms": 340, "ceph_commit_ms_of": "osd.2",
    }  # fmt: skip


def lustre(state, *more):
    """What lctl has said before and after of a Lustre in this state, as a job notes it."""
    folder = DATA / "lustre" / "context"
    texts = {when: folder / f"{state}.{when}" for when in ("before", "after")}
    return {
        f"{when}_lustre": "\n".join([file.read_text(), *more])
        for when, file in texts.items()
        if file.exists()
    }


OST1 = "osc.lustre-OST0001-osc-ff11000111567000"


def test_lustre(noted):
    well = {"lustre_away": 0, "lustre_service_s": 5, "lustre_service_s_of": "MDT0000",
            "lustre_timeouts": 0}  # fmt: skip
    full = noted(**lustre("full"))
    assert full == {
        **well,
        # Microseconds over requests, of the second recording less the first.
        "lustre_wait_ms": pytest.approx(108_762_034 / 3145 / 1000),
        "lustre_wait_ms_of": "the longest for OST0000",
    }
    older = {name: text.replace("[usecs]", "[usec]") for name, text in lustre("full").items()}
    assert noted(**older) == full, "as until 2.15.51"
    other = {name: text.replace("[usecs]", "[secs]") for name, text in lustre("full").items()}
    assert noted(**other) == well, "no unit is guessed"

    away = {"lustre_away": 1, "lustre_away_of": "OST0003"}
    assert noted(**lustre("ost3-unmounted")).items() >= away.items()
    late = lustre("full")
    late["after_lustre"] = late["after_lustre"].replace("timeouts: 0", "timeouts: 3", 1)
    found = noted(**late)
    assert (found["lustre_timeouts"], found["lustre_timeouts_of"]) == (3, "MDT0000")


def test_an_ost_of_lustre_that_this_client_has_deactivated(noted):
    """Its connection may be there, or not, and to root alone the flags are shown."""
    away = {"lustre_away": 1, "lustre_away_of": "OST0001 (deactivated)"}
    assert noted(**lustre("ost1-inactive"))["lustre_away_of"] == "OST0001", "from its state alone"
    whole = (DATA / "lustre/context/ost1-inactive.import").read_text()
    for state in ("DISCONN", "FULL"):
        text = whole.replace("state: DISCONN", f"state: {state}")
        assert noted(before_lustre=text).items() >= away.items(), state
    for text, of in (
        (whole.replace("IMPF_DEACTIVE, ", "").replace("DISCONN", "FULL"), "OST0001"),
        ((DATA / "lustre/context/full.import").read_text(), None),
    ):
        assert noted(before_lustre=text).get("lustre_away_of") == of
    assert noted(**lustre("ordinary-user", f"{OST1}.active=0")).items() >= away.items()


def test_connections_that_lustre_hides_are_not_known(noted):
    """Neither the counters nor `active` say that a server answers; `lfs check osts` does."""
    hidden = "Lustre shows this user no connection (lctl get_param, lfs check)"
    found = noted(**lustre("ordinary-user", f"{OST1}.active=1"))
    assert found["unknown"] == hidden
    assert "lustre_away" not in found
    assert found["lustre_wait_ms_of"] == "the longest for OST0002"
    name = "lustre-OST000{}-osc-ff11000111567000"
    for said, number in (
        ("{} active.", 0),
        ("{}: active", 0),
        ("{} inactive.", 1),
        ("check '{}': Input/output error (5)", 1),
        ("error: check '{}': Resource temporarily unavailable (11)", 1),
        ("error: check '{}': Permission denied (13)", 0),
    ):
        lines = [f"{name.format(0)} active.", said.format(name.format(3))]
        found = noted(**lustre("ordinary-user", *lines))
        assert found["lustre_away"] == number, said
        assert found.get("lustre_away_of") == ("OST0003" if number else None), said
    refused = f"error: check '{name.format(0)}': Permission denied (13)"
    assert noted(**lustre("ordinary-user", refused))["unknown"] == hidden


def test_nodes(noted, tmp_path):
    """Of each quantity the node that has most of it; of several starts of benchio alike."""
    node = {"host": "n1", "load": 0.5, "stolen": 0, "cpu_waiting": 0.1, "memory_waiting": None,
            "io_waiting": 0.25}  # fmt: skip
    for number, more in enumerate([{}, {"host": "n2", "load": 64}]):
        result = make_result()
        result["run"]["nodes"] = [node, node | more]
        (tmp_path / f"result.{number}.json").write_text(json.dumps(result))
    assert noted() == {
        "load": 64, "load_of": "n2", "stolen": 0, "cpu_waiting": 0.1, "cpu_waiting_of": "n1",
        "io_waiting": 0.25, "io_waiting_of": "n1",
    }  # fmt: skip


def test_a_suspended_round_is_no_rate_to_be_judged(tmp_path):
    """A round that warms up is judged by nobody."""
    result = make_result()
    warm, timed = result["cases"][0]["repetitions"][:2]
    (file := tmp_path / "result.json").write_text(json.dumps(result))
    assert (warm["warmup"], timed["warmup"], node_busy(tmp_path)) == (True, False, "")
    warm["suspended"] = 3.0
    file.write_text(json.dumps(result))
    assert node_busy(tmp_path) == ""
    timed["suspended"] = 8.2
    file.write_text(json.dumps(result))
    assert node_busy(tmp_path) == "its ranks were suspended in round 2 for 8 s"


def test_ranks_waited_if_others_took_the_processors_while_processes_waited(tmp_path):
    def said(*runs):
        for number, nodes in enumerate(runs):
            result = make_result()
            result["run"]["nodes"] = nodes
            (tmp_path / f"result.{number}.json").write_text(json.dumps(result))
        found = node_busy(tmp_path)
        for file in tmp_path.iterdir():
            file.unlink()
        return found

    busy = {"host": "n1", "load": 8, "stolen": 0, "cpu_waiting": 0.9, "others": 0.6}
    quiet = busy | {"others": 0.05}
    silent = {name: busy[name] for name in ("host", "stolen", "cpu_waiting")}
    others = "its ranks waited for the processors of n1, of whose time others took "
    for runs, sentence in [
        ([[busy]], f"{others}60%"),
        ([[busy | {"host": "n2", "others": 0.1}, busy]], f"{others}60%"),
        # Its own ranks share processors, which is how this machine is.
        ([[busy | {"cpu_waiting": 1, "others": 0.2}]], ""),
        # A neighbour on a large node, which has processors for all; a slow disk.
        ([[busy | {"cpu_waiting": 0.1}]], ""),
        ([[busy | {"others": 0, "cpu_waiting": 0.05, "io_waiting": 1}]], ""),
        # The host's other machines are others; a kernel without PSI says nothing of who waited.
        ([[busy | {"others": 0.1, "stolen": 0.3, "cpu_waiting": None}]], f"{others}40%"),
        # Of several starts of benchio the median; of an older one, or a mute kernel, nothing.
        ([[busy], [quiet], [quiet]], ""),
        ([[busy], [busy], [quiet]], f"{others}60%"),
        ([[busy | {"others": None}]], ""),
        ([[silent]], ""),
        ([], ""),
    ]:
        assert said(*runs) == sentence, runs


@pytest.mark.parametrize("source", ["slurm", "lustre", "ceph", "osds"])
def test_garbage_is_nothing_known(noted, tmp_path, source):
    """Nor does it cost what others have said."""
    for number, text in enumerate(["{", "[]", '{"run": {"nodes": [{"host": 1, "load": "x"}]}}']):
        (tmp_path / f"result.{number}.json").write_text(text)
    for garbage in (
        random.Random(1).randbytes(10000), b"[" * 100000, b"{}", b"null", b"nodes x/y",
        b'{"pgmap": {"a": 1}}', b"osc.x-OST0000-x.import=\n timeouts: x\n services: x",
    ):  # fmt: skip
        given = {f"{when}_{source}": garbage for when in ("before", "after")}
        other = "slurm" if source != "slurm" else "osds"
        given[f"before_{other}"] = AFTER if other == "slurm" else recorded("osd-perf")
        found = noted(**given)
        assert {"jobs", "ceph_commit_ms"} & found.keys(), found
        assert all(value >= 0 for name, value in found.items() if name in QUANTITIES)
    assert noted(before_ceph_part=b"{") == {
        "unknown": "Ceph (ceph status) failed, or gave no answer in time"
    }


def nights(*jobs):
    return [{"jobs": number, "load": 0.1} for number in jobs]


def test_unusual_is_what_is_clearly_above_most_good_nights():
    usual = nights(*range(90, 131, 2))
    for jobs, said in ((212, "other jobs on the system: 212, usually 94 to 126"), (135, "")):
        found = compare({"jobs": jobs, "load": 0.2}, usual)
        assert [*found.unusual] == ([said] if said else [])
        words = ["" if said else "other jobs on the system", QUANTITIES["load"].words]
        assert [*found.usual] == [*filter(None, words)]
    busiest = compare({"load": 64.0, "load_of": "n7"}, usual).unusual
    assert [*busiest] == [f"{QUANTITIES['load'].words}: 64 (n7), usually 0.1"]
    waited = compare({"memory_waiting": 0.305}, [{"memory_waiting": 0.0}] * 5).unusual
    assert [*waited] == [f"{QUANTITIES['memory_waiting'].words}: 30.5 %, usually 0 %"]

    # With too few nights nobody knows what is usual: what is there is said.
    new = compare({"jobs": 212, "load": 0.2, "unknown": "Slurm hides"}, usual[:4])
    assert [*new.unusual] == ["other jobs on the system: 212"]
    assert (new.usual, new.unknown) == ([], "Slurm hides")


def test_it_stands_beside_what_was_slow_and_changes_nothing():
    before = [ran(ago=ago, system_context={"jobs": 90 + ago}) for ago in range(30, 0, -1)]
    busy = {"jobs": 212.0, "ceph_down": 0.0, "unknown": "Slurm's <hidden>"}
    said = "other jobs on the system: 212, usually 94 to 117"
    for make in (red, slow, unverified):
        night = tonight(*before, make(system_context=busy), blessed={HDF5: BLESSED})
        without = tonight(*well(nights=30), make(), blessed={HDF5: BLESSED})
        (row,), (alone,) = night.cases, without.cases
        assert (night.why, night.colour) == (without.why, without.colour)
        assert (row.sentence, [*row.around.unusual]) == (alone.sentence, [said])
        assert f"- {row.name}: {said}" in markdown(night).replace("\\", "")
        assert "<li>not known: Slurm&#39;s &lt;hidden&gt;</li>" in html(night)
        assert "What else went on" not in markdown(without)
    assert row_of(*before, ran(system_context=busy)).around is None, "it was not slow"
    assert document(ran(system_context=busy))["system_context"] == busy
