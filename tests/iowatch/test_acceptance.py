"""Acceptance: the contract, and the verdict on each of its criteria from runs made up."""

import hashlib
from statistics import fmean, stdev

import numpy as np
import pytest
from cases import case, changed

from iowatch.acceptance.certify import (
    certify,
    judge_median,
    judge_repeatability,
    judge_scaling,
    judge_slowest,
)
from iowatch.acceptance.contract import Contract, Criterion, read
from iowatch.acceptance.evidence import Evidence, Exhibit
from iowatch.files import UserError
from iowatch.site import Filesystem

# The contract

LINE = "  - {name: A1, kind: peak, filesystem: fs3, at_least: 0.5}\n"
CONTRACT = f"""\
system: archer
title: Phase 2 storage
criteria:
{LINE}"""
WRONG = [  # what stands in the contract, what stands there instead, and what is said of it
    ("system: archer\n", "", "contract.yaml: needs system, title and criteria"),
    ("system: archer", "system: archer:fs3", "system is 'archer:fs3': give the whole system, and"),
    ("title:", "titel:", "contract.yaml: needs system, title and criteria"),
    (CONTRACT, "[", "contract.yaml: cannot be read"),
    ("0.5", "0.5, at_least: 0.7", "cannot be read: line 4: key 'at_least' stands"),
    ("system: archer", "system: archer\nconfidence: 95", "confidence is 95, not between"),
    (LINE, "  []", "is empty"),
    ("name: A1, ", "", "criterion 1: needs filesystem, kind, name"),
    ("kind: peak", "kind: peek", "kind is 'peek': there are bandwidth, peak"),
    ("kind: peak", "kind: [peak]", "kind is ['peak']: there are"),
    ("name: A1", "name: ", "criterion 1: its name is empty"),
    (LINE, LINE + LINE.replace("0.5", "0.7"), "two criteria are named 'A1'"),
    ("0.5", "9" * 400, "not a positive number"),
    ("0.5", ".nan", "not a positive number"),
    ("at_least", "atleast", "has no key atleast"),
    (", at_least: 0.5", "", "peak needs at_least"),
    ("at_least: 0.5", "at_least: 0.5, at_most: 2", "peak needs at_least, and no other"),
    ("at_least: 0.5", "at_least: -1", "at_least is -1, not a positive number"),
    ("kind: peak", "kind: repeatability", "repeatability needs at_most"),
    ("kind: peak", "kind: scaling", "from_nodes and to_nodes belong to scaling"),
    ("kind: peak", "kind: peak, from_nodes: 1, to_nodes: 2", "belong to scaling"),
    ("kind: peak", "kind: ratio", "ratio needs a backend other than mpiio"),
    ("kind: peak", "kind: peak, nodes: many", "nodes is 'many', not a number of nodes"),
]


def test_a_contract_is_read_and_one_that_says_too_little_is_an_error(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    contract = read(path)
    assert (contract.system, contract.confidence) == ("archer", 0.95)
    assert contract.criteria == [Criterion("A1", "peak", "fs3", at_least=0.5)]
    assert contract.criteria[0].committed == 0.5
    assert contract.checksum == hashlib.sha256(CONTRACT.encode()).hexdigest()

    unsaid = []
    for old, new, wanted in WRONG:
        assert old in CONTRACT
        path.write_text(CONTRACT.replace(old, new))
        try:
            said = f"accepted: {read(path)}"
        except UserError as err:
            said = str(err)
        if wanted not in said:
            unsaid.append((old, new, said))
    assert unsaid == []


# Judging repeated values

RATES = [95.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0, 104.0, 106.0]
SCALING = {"name": "S", "kind": "scaling", "filesystem": "fs3"}


def bandwidth(bound, rates=RATES):
    criterion = Criterion("A1", "bandwidth", "fs3", at_least=bound)
    return judge_median(criterion, rates, 1, 0.95)


def steady(values, bound):
    criterion = Criterion("R", "repeatability", "fs3", at_most=bound)
    return judge_repeatability(criterion, values, 1, 0.95)


def test_the_verdict_on_a_median_rests_on_the_whole_interval():
    verdicts = {bound: bandwidth(bound).verdict for bound in (90, 96, 97, 100, 104, 110)}
    assert verdicts == {
        90: "pass", 96: "pass", 97: "pass", 100: "not conclusive", 104: "not conclusive",
        110: "fail",
    }  # fmt: skip
    found = bandwidth(90)
    # Order statistics: the median lies between the 2nd and 9th of 10 with 97.9 %.
    assert (found.measured, found.low, found.high) == (100.5, 97.0, 104.0)
    assert (found.repetitions, found.jobs) == (10, 1)


def test_a_margin_is_positive_on_the_right_side():
    least = Criterion("A1", "bandwidth", "fs3", at_least=67)
    assert bandwidth(67).margin(least) == pytest.approx(0.5)
    most = Criterion("R", "repeatability", "fs3", at_most=0.1)
    assert steady(RATES, 0.1).margin(most) > 0.6


def test_how_many_repetitions_more_would_settle_it():
    few = bandwidth(50, RATES[:5])
    assert few.verdict == "not conclusive"
    assert few.reason == (
        "5 repetitions are too few for a confidence interval; about 1 repetitions more would "
        "settle it"
    )
    # 2 of 10 are below, so 3 of 15: the interval of 15 begins with the 4th.
    assert bandwidth(98).reason == "about 5 repetitions more would settle it"
    more = [95.0, 96.0, 97.0, *range(98, 110)]
    assert bandwidth(98, more).verdict == "pass"
    assert bandwidth(98, more[:-1]).verdict == "not conclusive"
    assert bandwidth(100.5).reason.startswith("too near to the committed value")


def test_scaling_is_relative_to_linear_by_a_bootstrap_that_is_the_same_each_time():
    scaling = Criterion(**SCALING, at_least=0.8, from_nodes=2, to_nodes=8)
    found = judge_scaling(scaling, RATES, [3.6 * rate for rate in RATES], 2, 0.95)
    assert (found.verdict, found.measured) == ("pass", pytest.approx(0.9))
    assert 0.83 < found.low < 0.9 < found.high < 0.97
    assert found == judge_scaling(scaling, RATES, [3.6 * rate for rate in RATES], 2, 0.95)
    assert judge_scaling(scaling, RATES, RATES, 2, 0.95).verdict == "fail"
    assert judge_scaling(scaling, RATES, RATES[:1], 2, 0.95).verdict == "not conclusive"
    equal = Criterion(**SCALING, at_least=0.99, from_nodes=1, to_nodes=1)
    few = judge_scaling(equal, RATES[:5], RATES, 2, 0.95)
    assert (few.verdict, few.low) == ("not conclusive", None)
    assert few.reason.endswith("; about 1 repetitions more would settle it")


def test_repeatability_is_standard_deviation_over_mean():
    assert steady(RATES, 0.1).measured == pytest.approx(stdev(RATES) / fmean(RATES), rel=0.01)
    assert steady(RATES, 0.1).verdict == "pass"
    assert steady([*RATES[:5], *[10 * rate for rate in RATES[5:]]], 0.1).verdict == "fail"
    near = steady(RATES, 0.05)
    assert near.verdict == "not conclusive"
    assert near.reason == "about 9 repetitions more would settle it"
    assert steady(RATES[:1], 0.1).reason == "one repetition has no spread"
    # Of 95 % intervals of what varies a little more than committed, 2.5 % lie wholly on the wrong
    # side.
    for count in (2, 5, 10):
        rng = np.random.default_rng(1)
        verdicts = [steady(rng.normal(100, 10, count), 0.0999).verdict for _ in range(1000)]
        assert 5 <= verdicts.count("pass") <= 45, count
        assert 5 <= verdicts.count("fail") <= 45, count


def test_the_slowest_ost_is_named():
    slow = Criterion("O", "slow_ost", "fs3", at_least=0.5)
    rates = {0: [100.0, 90.0], 1: [40.0, 30.0], 2: [110.0, 100.0], 3: [90.0, 100.0]}
    found = judge_slowest(slow, rates, 3)
    assert (found.verdict, found.reason) == ("fail", "OST 1")
    assert found.measured == pytest.approx(0.4)
    assert (found.low, found.high, found.jobs) == (None, None, 3)
    assert judge_slowest(slow, {**rates, 1: [60.0]}, 1).verdict == "pass"
    alone = judge_slowest(slow, {0: [100.0]}, 1)
    assert (alone.verdict, alone.reason) == ("not certified", "1 OST has no peers")


# From exhibits to findings

HDF5 = case(
    "SharedFileWrite", "archer:fs3/cray", stripe_count=-1, stripe_size=1,
    local_size=(128, 128, 128), writers=48,
)  # fmt: skip
MPIIO = changed(HDF5, backend="mpiio")
EACH = changed(MPIIO, check="SlowOst")
PLACE = Filesystem(
    system="archer", partition="fs3", environs=("cray",), name="lustre", path="/fs3",
    types=("lustre",), peak=1000.0, osts=(0, 1, 2, 3), cached_reads=False, writers_per_node=24,
    keep_days=60, sweeps={},
)  # fmt: skip
BANDWIDTH = {"kind": "bandwidth", "at_least": 300.0}


def rates_around(middle):
    """Ten of them, with that median, and 1 % around it."""
    return [middle * (1 + (place - 4.5) / 1000) for place in range(10)]


def exhibit(of=MPIIO, rate=400.0, control=None, nodes=2, osts=None):
    measured = {} if osts else {of.backend: rates_around(rate)}
    if control:
        measured["mpiio"] = rates_around(control)
    return Exhibit(of, nodes, "1", measured, osts or {}, {}, {})


def found(criterion, *exhibits, expected=(), invalid=None):
    criterion = Criterion(**{"name": "A", "filesystem": "lustre", **criterion})
    evidence = Evidence(exhibits=list(exhibits), invalid=invalid or {})
    contract = Contract("archer", "Phase 2", 0.95, [criterion])
    return certify(contract, evidence, expected, [PLACE])[criterion]


def test_the_best_case_counts_with_all_its_runs_and_only_with_the_nodes_asked_for():
    best = changed(MPIIO, stripe_count=4)
    runs = [exhibit(rate=200), exhibit(best, 500), exhibit(best, 500), exhibit(rate=300)]
    finding = found(BANDWIDTH, *runs)
    assert (finding.verdict, finding.measured) == ("pass", pytest.approx(500))
    assert (finding.repetitions, finding.jobs, finding.case) == (20, 2, str(best))
    runs = [exhibit(rate=500, nodes=4), exhibit(changed(MPIIO, writers=24), 200, nodes=1)]
    assert found({**BANDWIDTH, "nodes": 1}, *runs).measured == pytest.approx(200)
    none = found({**BANDWIDTH, "nodes": 8}, *runs)
    assert none.reason == "no such case was measured with 8 node(s)"


def test_what_each_kind_of_criterion_compares_with():
    peak = found({"kind": "peak", "at_least": 0.5}, exhibit(rate=600))
    assert (peak.verdict, peak.measured) == ("pass", pytest.approx(0.6))

    # Of MPI-IO in the same rounds, not of the case of MPI-IO.
    ratio = {"kind": "ratio", "at_least": 0.9, "backend": "hdf5"}
    finding = found(ratio, exhibit(HDF5, 200, control=400), exhibit(rate=100))
    assert (finding.verdict, finding.measured) == ("fail", pytest.approx(0.5))

    scaling = {"kind": "scaling", "at_least": 0.6, "from_nodes": 1, "to_nodes": 4}
    one, four = changed(MPIIO, writers=24), changed(MPIIO, writers=96)
    finding = found(scaling, exhibit(four, 700, nodes=4), exhibit(one, 250, nodes=1))
    assert (finding.verdict, finding.measured) == ("pass", pytest.approx(0.7))
    assert finding.case == f"{one} and {four}"
    alone = found(scaling, exhibit(one, 250, nodes=1))
    assert alone.reason == "no case has these numbers of nodes"

    osts = {0: [100.0], 1: [40.0], 2: [105.0], 3: [95.0]}
    osts = {"write": osts, "read": {ost: [100.0] for ost in osts}}
    slow = {"kind": "slow_ost", "at_least": 0.5}
    finding = found(slow, exhibit(EACH, osts=osts), exhibit(rate=900))
    assert (finding.verdict, finding.reason, finding.case) == ("fail", "OST 1", str(EACH))
    assert found({**slow, "operation": "read"}, exhibit(EACH, osts=osts)).verdict == "pass"


def test_other_cases_are_no_evidence():
    others = [
        changed(MPIIO, check="SystemLoad", instances=2),
        changed(MPIIO, check="IorPeer", files="shared"),
        changed(MPIIO, check="IoProfile"),
        changed(MPIIO, check="SharedFileRead"),
        changed(MPIIO, check="FilePerProcess", files="process"),
        changed(MPIIO, check="FilePerProcess", backend="posix", files="process"),
        changed(MPIIO, place="archer:fs2/cray"),
        changed(MPIIO, collective=False),
        HDF5,
    ]
    findings = {str(other): found(BANDWIDTH, exhibit(other, 900)) for other in others}
    findings[str(EACH)] = found(BANDWIDTH, exhibit(EACH, osts={0: [900.0], 1: [900.0]}))
    verdicts = {name: (one.verdict, one.reason) for name, one in findings.items()}
    assert verdicts == dict.fromkeys(verdicts, ("not certified", "no such case was measured"))


def test_what_is_invalid_or_missing_is_said_and_not_certified():
    other = changed(MPIIO, stripe_count=4)
    broken = found(BANDWIDTH, exhibit(), invalid={other: f"{other}: disk full"})
    assert (broken.verdict, broken.reason) == ("not certified", f"invalid: {other}: disk full")
    missing = found(BANDWIDTH, exhibit(), expected=[MPIIO, other, HDF5])
    assert (missing.verdict, missing.reason) == ("not certified", f"not measured: {other}")
    elsewhere = found({**BANDWIDTH, "filesystem": "fs9"}, exhibit())
    assert elsewhere.reason == "no filesystem 'fs9': there are lustre"
