"""Slow nodes: what the nights tell of each, which are measured next, and what a job has left."""

import json
import math
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from attrs import evolve
from cases import PLACE, case, changed
from nights import HDF5, ran, tonight
from result_file import make_result, turn_into_read

from iowatch.cases.verdict import OK, Reason, Verdict
from iowatch.judge.node_watch import judged, watch
from iowatch.judge.slow_nodes import NodeWatch, PeerRatios, due
from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.slow_node import CHOSEN, LOST_FILE, NODES_FILE, STARTS
from iowatch.measure.law import Job
from iowatch.measure.result import InvalidResult

NAMES = [f"n{number:02}" for number in range(24)]
CASE = changed(HDF5, "SlowNode", ranks=24)
SHELL = Path(__file__).parents[2] / "reframe_checks/job/nodes.sh"


def watched(left, nights=10, switches=None, spread=0.1):
    """The charts after so many nights of all nodes; `left` gives what is left of a node's rate on
    a night."""
    random, charts = Random(4), NodeWatch()
    for night in range(nights):
        ratios = {
            name: left(name, night) * random.lognormvariate(0, spread) for name in NAMES
        }  # fmt: skip
        charts.add(f"2026-11-{night + 1:02}T003000", [PeerRatios("alone write", ratios)], switches)
    return charts


def named(charts):
    return [unit for unit in charts.slow() if unit.is_named]


def test_node_at_half_is_named_with_its_interval_until_it_is_well_again():
    (unit,) = named(watched(lambda name, night: 0.5 if name == "n07" and night > 2 else 1.0))
    assert (unit.name, unit.since[:10]) == ("n07", "2026-11-04")
    assert unit.low < 0.5 < unit.high < 0.9
    assert 0.45 < unit.ratio < 0.55
    charts = watched(lambda name, night: 0.5 if name == "n07" and 2 < night < 9 else 1.0, 13)
    assert named(charts) == []


def test_one_bad_night_names_nobody():
    """It is measured again: that tells."""
    charts = watched(lambda name, night: 0.2 if (name, night) == ("n07", 9) else 1.0)
    assert [(unit.name, unit.is_named) for unit in charts.slow()] == [("n07", False)]
    charts = watched(lambda name, night: 0.2 if (name, night) == ("n07", 6) else 1.0)
    assert charts.slow() == []


def test_run_after_the_first_of_a_night_counts_for_nodes_in_doubt_alone():
    for ratios, is_in_doubt in (([1.1, 0.5, 0.5], False), ([0.5, 0.5], True)):
        charts = watched(lambda name, night: 1.0)
        for ratio in ratios:
            of_run = {name: ratio if name == "n07" else 1.0 for name in NAMES}
            charts.add("2026-11-11T003000", [PeerRatios("alone write", of_run)])
        assert ("n07" in charts.doubted()) == is_in_doubt


def test_node_that_is_a_little_slower_is_not_named_however_long():
    assert named(watched(lambda name, night: 0.95 if name == "n07" else 1.0, 28, spread=0.02)) == []


def test_slow_spells_of_healthy_nodes_name_nobody_and_hide_no_slow_one():
    random, spells = Random(7), dict.fromkeys(NAMES, 0.0)

    def left(name, night):
        spells[name] = 0.6 * spells[name] + random.gauss(0, 0.16)
        return math.exp(spells[name]) * (0.5 if name == "n07" and night > 60 else 1.0)

    units = [(unit.name, unit.since[8:10]) for unit in named(watched(left, 67, spread=0.05))]
    assert units == [("n07", "62")]


def test_switch_is_named_in_place_of_its_nodes_if_all_of_them_are_slow():
    switches = {name: f"s{number // 4}" for number, name in enumerate(NAMES)}
    below = NAMES[4:8]
    (unit,) = named(watched(lambda name, night: 0.5 if name in below else 1.0, 10, switches))
    assert (unit.subject, unit.nodes) == ("switch s1", tuple(below))
    units = named(watched(lambda name, night: 0.2 if name in below[:3] else 1.0, 10, switches))
    assert sorted(unit.subject for unit in units) == [f"node {name}" for name in below[:3]]


def test_slow_nodes_are_due_first_and_then_those_that_nobody_has_measured_for_longest():
    seen = {name: f"2026-11-{number + 1:02}" for number, name in enumerate(NAMES[:20])}
    chosen = due(NAMES, seen, ["n19", "gone"], 8, "tonight")
    assert chosen[0] == "n19"
    assert sorted(chosen[1:5]) == NAMES[20:]
    assert chosen[5:] == NAMES[:3]
    half = due(NAMES, dict.fromkeys(NAMES[:9], "2026-11-01"), NAMES[:9], 8, "tonight")
    assert sum(name in NAMES[:9] for name in half) == 4, "slow nodes need peers"
    assert due(NAMES, {}, [], 8, "tonight") != due(NAMES, {}, [], 8, "tomorrow")


# What all runs tell


def on_nodes(ago, left, of=CASE, **more):
    ratios = {name: left.get(name, 1.0) * (1 + 0.01 * math.sin(ago + n)) for n, name in
              enumerate(NAMES)}  # fmt: skip
    by_kind = {"alone write": ratios, "together write": ratios}
    return ran(of, ago, by_node={"ratios": by_kind, **more})


def test_runs_of_other_checks_are_evidence_of_less_weight():
    per_process = changed(HDF5, "FilePerProcess", files="process")
    slow, well = {"n03": 0.5}, {}
    own = [on_nodes(ago, well) for ago in range(20, 10, -1)]
    nights_of = {}
    for kind, of in (("own", CASE), ("others", per_process)):
        nights_of[kind] = next(
            count
            for count in range(1, 11)
            if named(watch([*own, *(on_nodes(ago, slow, of) for ago in range(10, 10 - count, -1))]))
        )
    assert nights_of["own"] < nights_of["others"] <= 10


def test_night_names_the_node_with_its_interval_and_the_layer():
    runs = [on_nodes(ago, {"n03": 0.5} if ago < 7 else {}) for ago in range(20, 0, -1)]
    verdict = judged(watch(runs), {}, Verdict(OK, "fine"))
    assert str(verdict.outcome) == "regression (slow_node)"
    last = on_nodes(0, {"n03": 0.5})
    last = replace(last, outcome=verdict.outcome, sentence=verdict.sentence, result="fail")
    night = tonight(*runs, last)
    (alarm,) = night.alarms
    assert alarm.sentence.startswith("node n03 of fs3: at 0.50 of its peers [0.4")
    assert " since 2026-11-14, by " in alarm.sentence
    top = night.summary.headline
    assert "node n03 at 0.50 of its peers [0.4" in top.banner
    assert (top.layer, top.reason) == ("node", Reason.SLOW_NODE)
    assert top.next_step == "scontrol update nodename=n03 state=drain reason='slow I/O'"
    assert night.red_alarms == [alarm]


def test_node_that_fails_is_named_at_once():
    lost = {"n05": "rank 3 on n05: pwrite: /x: Input/output error"}
    verdict = judged(watch([]), lost, Verdict(OK, "fine"))
    assert verdict.is_red
    assert verdict.sentence == f"node n05 failed: {lost['n05']}"
    last = on_nodes(0, {}, lost=lost)
    last = replace(last, outcome=verdict.outcome, sentence=verdict.sentence, result="fail")
    (alarm,) = tonight(last).alarms
    assert alarm.sentence == f"node n05 of fs3: failed beside nodes that did not: {lost['n05']}"


# What a job has left


@pytest.fixture
def job(tmp_path):
    """A job of four nodes: a round of all, and a turn of each but for the last, which has failed
    in it; `job.folder` has its files to spoil."""
    of = case("SlowNode", local_size=(64, 64, 64), ranks=4)
    nodes, slow = [f"n{number}" for number in range(4)], {"n2": 0.5}

    def write(name, hosts, operations, existing=""):
        data = make_result(["posix"], len(hosts), repeats=1, run_id=_id(name), started=BEGAN)
        run = data["run"]
        run |= {"hosts": hosts, "files": "process", "operations": operations}
        run["file_count"] = len(hosts)
        every = data["cases"]
        if operations != ["write-keep"]:
            back = make_result(["posix"], len(hosts), repeats=1)
            turn_into_read(back, suspect=False)
            every = [*every[: len(operations) - 1], *back["cases"]]
        if existing:
            run["existing"] = {"id": existing, "started": BEGAN, "ranks": 1, "hosts": ["n0"]}
        for measured in every:
            measured["repetitions"] = measured["repetitions"][1:]
            (rep,) = measured["repetitions"]
            if operations == ["write-keep"]:
                rep["phases"].pop("unlink")
            each = [rep["nodes"]["mib"]["each"][0] / len(hosts)] * len(hosts)
            rep["nodes"]["mib"] |= {"nodes": len(hosts), "each": each}
            for phase in rep["nodes"].keys() - {"mib"}:
                second = rep["nodes"][phase]["each"][0]
                seconds = [second / slow.get(host, 1.0) for host in hosts]
                rep["nodes"][phase] |= {"nodes": len(hosts), "each": seconds}
        data["cases"] = every
        (tmp_path / name).write_text(json.dumps(data))
        with (tmp_path / STARTS).open("a") as starts:
            starts.write(f"{name} {len(hosts)}\n")

    def _id(name):
        return "-".join(["ab", *name.removesuffix(".json").split(".")[1:]])

    write("result.1.1.json", nodes, ["write", "read"])
    for turn, host in enumerate(nodes[:3], 1):
        write(f"result.alone.{turn}.json", [host], ["write-keep"])
        write(f"result.read.{turn}.json", [nodes[turn % 3]], ["read-existing"], f"ab-alone-{turn}")
    (tmp_path / LOST_FILE).write_text("n3 rank 0 on n3: pwrite: /x: Input/output error\n")
    (tmp_path / NODES_FILE).write_text("\n".join(nodes))
    return Job(folder=tmp_path, case=of, filesystem=evolve(PLACE, cached_reads=True),
               run_id="ab", made=MADE, nodes=4)  # fmt: skip


MADE = datetime(2026, 11, 20, 1, tzinfo=UTC)
BEGAN = f"{MADE:%Y-%m-%dT%H:%M:%S}.000Z"


def test_job_says_of_each_node_how_it_is_beside_its_peers(job):
    (job.folder / CHOSEN).write_text("Slurm chose the nodes\n")
    measured = CHECKS["SlowNode"].read(job, 1)
    ratios = measured.by_node["ratios"]
    assert ratios["together write"] == {"n0": 1, "n1": 1, "n2": 0.5, "n3": 1}
    assert ratios["alone write"] == ratios["alone read"] == {"n0": 1, "n1": 1, "n2": 0.5}
    assert measured.metrics["slowest_node_ratio"] == 0.5
    failed = "node n3 failed: rank 0 on n3: pwrite: /x: Input/output error"
    assert measured.notes == ["Slurm chose the nodes", failed]
    assert set(CHECKS["SlowNode"].metrics_for(job.case)) == set(measured.metrics)


def _spoil_nodes(job):
    (job.folder / NODES_FILE).write_text("n0\nn1\nn2")


def _spoil_round(job):
    starts = job.folder / STARTS
    starts.write_text(starts.read_text().replace("result.1.1.json 4\n", ""))


def _spoil_read(job):
    file = job.folder / "result.read.2.json"
    file.write_text(file.read_text().replace("ab-alone-2", "ab-alone-1"))


def _spoil_most(job):
    (job.folder / LOST_FILE).write_text("n0 a\nn1 b\nn2 c\n")


@pytest.mark.parametrize("spoil", [_spoil_nodes, _spoil_round, _spoil_read, _spoil_most])
def test_job_without_a_node_or_a_round_or_with_others_files_counts_nothing(job, spoil):
    spoil(job)
    with pytest.raises(InvalidResult):
        CHECKS["SlowNode"].read(job, 1)


def test_node_that_hangs_is_left_out_and_the_others_go_on(tmp_path):
    """The shell of a job, with what stands for benchio: it names the node that is to fail."""
    stub = """
printf '%s\\n' a b c d e f g b > nodes; echo 0 > exit_code
FIRST=(d x) PER_NODE=2 ROUNDS=2 GROUP=4 BUDGET_S=60 STARTS=starts LOST_FILE=lost
fails() { case "${WHERE[0]}," in *[=,]"$1",*) return 0 ;; *) return 1 ;; esac; }
write_and_read() {
    fails c && { echo "benchio: error: rank 1 on c: pwrite: /f: it hangs" >&2; return 5; }
    echo "${WHERE[0]}" >> groups
}
write_alone() { echo "w ${WHERE[0]}" >> alone; ! fails a; }
read_alone() { echo "r ${WHERE[0]}" >> alone; }
forget() { :; }
"""
    script = f"cd {tmp_path}\n{stub}\n{SHELL.read_text()}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (tmp_path / "exit_code").read_text() == "0\n", done.stderr
    lost = (tmp_path / "lost").read_text().splitlines()
    assert lost == ["c rank 1 on c: pwrite: /f: it hangs", "a it came to no end"]
    lines = (tmp_path / "groups").read_text().splitlines()
    groups = [line.partition("=")[2].split(",") for line in lines]
    assert len(groups) == 4
    for turn in (groups[:2], groups[2:]):
        assert sorted(node for group in turn for node in group) == [*"abdefg"]
    assert groups[:2] != groups[2:], "they rotate"
    alone = [
        line.replace("--nodelist=", "") for line in (tmp_path / "alone").read_text().split("\n")
    ]
    assert alone[:5] == ["w d", "r a", "w a", "w b", "r e"], "the first is due, and a fails"
    assert not {"r a", "w c", "r c"} & {*alone[2:]}
