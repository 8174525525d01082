"""The verdict on each criterion, from jobs made up."""

from dataclasses import replace

import pytest

from iowatch.acceptance.certify import certify
from iowatch.acceptance.contract import Contract, Criterion
from iowatch.acceptance.evidence import Evidence, Job
from iowatch.case import Case
from iowatch.site import Filesystem

HDF5 = Case("archer", "fs3", "cray", "write", "shared", "hdf5", -1, 1, (128, 128, 128), 48)
MPIIO = replace(HDF5, backend="mpiio")
PLACE = Filesystem(
    system="archer", partition="fs3", environs=("cray",), name="lustre", path="/fs3",
    types=("lustre",), peak=1000.0, osts=4, cached_reads=False, writers_per_node=24, sweeps={},
)  # fmt: skip


def rates(middle):
    """Ten of them, with that median, and 1 % around it."""
    return [middle * (1 + (place - 4.5) / 1000) for place in range(10)]


def job(case=MPIIO, rate=400.0, control=None, nodes=2, osts=None):
    measured = {} if osts else {case.backend: rates(rate)}
    if control:
        measured["mpiio"] = rates(control)
    return Job(case, nodes, "1", measured, osts or {}, {}, {})


def found(criterion, *jobs, expected=(), invalid=None):
    criterion = Criterion(**{"name": "A", "filesystem": "lustre", **criterion})
    evidence = Evidence(jobs=list(jobs), invalid=invalid or {})
    contract = Contract("archer", "Phase 2", 0.95, [criterion])
    return certify(contract, evidence, expected, [PLACE])[criterion]


BANDWIDTH = {"kind": "bandwidth", "at_least": 300.0}


def test_best_case_counts_with_all_its_jobs_and_is_named():
    best = replace(MPIIO, stripe_count=4)
    finding = found(BANDWIDTH, job(rate=200), job(best, 500), job(best, 500), job(rate=300))
    assert finding.measured == pytest.approx(500)
    assert (finding.repetitions, finding.jobs, finding.case) == (20, 2, str(best))
    assert finding.verdict == "pass"


def test_number_of_nodes_is_kept_to():
    jobs = [job(rate=500, nodes=4), job(replace(MPIIO, writers=24), 200, nodes=1)]
    assert found({**BANDWIDTH, "nodes": 1}, *jobs).measured == pytest.approx(200)
    assert (
        found({**BANDWIDTH, "nodes": 8}, *jobs).reason == "no such case was measured with 8 node(s)"
    )


def test_peak_is_the_filesystems():
    finding = found({"kind": "peak", "at_least": 0.5}, job(rate=600))
    assert (finding.verdict, finding.measured) == ("pass", pytest.approx(0.6))


def test_ratio_is_to_mpiio_in_the_same_rounds():
    ratio = {"kind": "ratio", "at_least": 0.9, "backend": "hdf5"}
    finding = found(ratio, job(HDF5, 200, control=400), job(rate=100))
    assert (finding.verdict, finding.measured) == ("fail", pytest.approx(0.5))


def test_scaling_is_from_few_nodes_to_many():
    scaling = {"kind": "scaling", "at_least": 0.6, "from_nodes": 1, "to_nodes": 4}
    one, four = replace(MPIIO, writers=24), replace(MPIIO, writers=96)
    finding = found(scaling, job(four, 700, nodes=4), job(one, 250, nodes=1))
    assert (finding.verdict, finding.measured) == ("pass", pytest.approx(0.7))
    assert finding.case == f"{one} and {four}"
    assert found(scaling, job(one, 250, nodes=1)).reason == "no case has these numbers of nodes"


def test_slow_ost_is_of_the_check_that_writes_to_each():
    each = replace(MPIIO, stripe_count=1, each_ost=True)
    osts = {0: [100.0], 1: [40.0], 2: [105.0], 3: [95.0]}
    slow = {"kind": "slow_ost", "at_least": 0.5}
    finding = found(slow, job(each, osts=osts), job(rate=900))
    assert (finding.verdict, finding.reason, finding.case) == ("fail", "OST 1", str(each))
    assert found(BANDWIDTH, job(each, osts=osts)).verdict == "not certified"


@pytest.mark.parametrize(
    "other",
    [
        {"instances": 2},
        {"ior_peer": True},
        {"operation": "read"},
        {"files": "process"},
        {"backend": "stream"},
        {"partition": "fs2"},
    ],
)
def test_other_cases_are_no_evidence(other):
    finding = found(BANDWIDTH, job(replace(MPIIO, **other), 900))
    assert (finding.verdict, finding.reason) == ("not certified", "no such case was measured")


def test_what_is_invalid_or_missing_is_said_and_not_certified():
    other = replace(MPIIO, stripe_count=4)
    broken = found(BANDWIDTH, job(), invalid={other: f"{other}: disk full"})
    assert (broken.verdict, broken.reason) == ("not certified", f"invalid: {other}: disk full")
    missing = found(BANDWIDTH, job(), expected=[MPIIO, other, HDF5])
    assert (missing.verdict, missing.reason) == ("not certified", f"not measured: {other}")
    elsewhere = found({**BANDWIDTH, "filesystem": "fs9"}, job())
    assert elsewhere.reason == "no filesystem 'fs9': there are lustre"
