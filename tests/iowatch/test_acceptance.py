"""Acceptance: the contract, and the verdict on each of its criteria from runs made up."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import agreed
import attrs
import pytest
from acceptance import NUMBERS, false_passes
from agreed import RULES, criterion, session, storage
from attrs import evolve
from cases import case, changed
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from reported import reported
from reported import session as reported_session

from iowatch.base.documents import document
from iowatch.base.files import UserError
from iowatch.base.records import COUNT, key
from iowatch.cases.filesystem import Filesystem, Setting
from iowatch.cases.run import Run, night_id
from iowatch.cases.verdict import OK
from iowatch.evidence.contract import read, read_exclusions
from iowatch.evidence.criteria.by_session import fewest, judge_sessions
from iowatch.evidence.criteria.criterion import KINDS
from iowatch.evidence.criteria.rates import OfArray
from iowatch.evidence.dossier import Judged
from iowatch.evidence.exhibits import Evidence, Exhibit, ReadBackRun
from iowatch.evidence.gather import raw_results_of
from iowatch.evidence.plan import plan
from iowatch.evidence.terms import Exclusion
from iowatch.judge.change import interval_rank
from iowatch.measure.checks import CHECKS
from iowatch.past.raw_results import Moved
from iowatch.site.site import Site

ROOT = Path(__file__).parents[2]


# The contract

PEAK = "name: A1, kind: peak, filesystem: fs3, at_least: 0.5"
FACTS = "path: /fs3, type: lustre, osts: 4, peak: 30000, peak_from: data sheet, servers_memory: 512"
LINE = f"  - {{{PEAK}}}\n"
STORAGE = f"filesystems:\n  fs3: {{{FACTS}}}\n"
CONTRACT = agreed.contract(
    PEAK, system="archer", title="Phase 2 storage", confidence=None, filesystems={"fs3": FACTS},
    begins="2026-11-22", sessions=7, hours_apart=12, reruns="failed", least_nodes=2,
    times_memory=2, machine="reserved", may_exclude="[centre, supplier]",
)  # fmt: skip
#: What stands in the place of `kind: peak`, and what is said of it.
WRONG_KINDS = {
    "kind: peek": "criterion 1: kind is 'peek', not one of bandwidth, degraded, ior",
    "kind: [peak]": "kind is ['peak'], not one of",
    "kind: scaling, from_nodes: 2, to_nodes: 2": "to_nodes is 2, and from_nodes 2",
    # Else what is on one node would escape least_nodes.
    "kind: peak, from_nodes: 1": "criterion 1 (peak): there is no key from_nodes: is nodes meant?",
    "kind: repeatability": "there is no key at_least: is at_most meant?",
    "kind: ratio": "criterion 1 (ratio): has no backend",
    "kind: ratio, backend: mpiio": "backend is 'mpiio', not hdf5, netcdf, pnetcdf, adios2 or posix",
    "kind: ior, files: shared, io500: easy": "io500 easy has files process and backend posix",
    "kind: peak, files: one": "files is 'one', not shared, process, node, gather or a number of",
    "kind: peak, nodes: 1": "by the rules fewer than 2 count for nothing",
}
WRONG = [  # what stands in the contract, what stands there instead, and what is said of it
    *(("kind: peak", kind, said) for kind, said in WRONG_KINDS.items()),
    ("system: archer\n", "", "contract.yaml: has no system"),
    ("system: archer", "system: archer:fs3", "system is 'archer:fs3', not a whole system: name"),
    ("rules:", "rule:", "contract.yaml: there is no key rule: is rules meant"),
    (CONTRACT, "[]", "contract.yaml: is [], not a mapping with system, title, rules, "),
    ("system: archer", "system: archer\nconfidence: 95", "confidence is 95, not a number from 0.5"),
    (LINE, "  []", "criteria is [], not a list of criteria"),
    (LINE, LINE + LINE.replace("0.5", "0.7"), "two criteria are named 'A1'"),
    ("name: A1", 'name: "A1\\npass: A2"', r"name is 'A1\npass: A2', not a name"),
    ("  fs3:", "  1: {path: /a, type: b}\n  '1': {path: /b, type: b}\n  fs3:",
     "contract.yaml: two filesystems are named '1'"),
    ("0.5", "1.0e-320", "at_least is 1e-320, not a positive number from 1e-12 to 1e12"),
    ("begins: 2026-11-22", "begins: 0001-01-01 00:00:00 +14:00", "begins is 0001-01-01"),
    ("begins: 2026-11-22", "begins: soon", "begins is 'soon', not a day such as 2026-11-22"),
    ("sessions: 7", "sessions: 1000000000", "sessions is 1000000000, not a number of sessions, 10"),
    ("sessions: 7", "sessions: 5", "sessions is 5: with confidence 0.95, fewer than 6 can decide"),
    ("fs3: {path", "fs2: {path", "criterion 1: filesystems has no fs3: add it with path and type"),
    (", peak: 30000", "", "criterion 1: filesystems has no peak of fs3"),
    ("path: /fs3", "path: /fs3/../fs2", "path is '/fs3/../fs2', not an absolute path without .."),
    (STORAGE, "filesystems: [fs3]\n", "filesystems is ['fs3'], not a mapping"),
    (", servers_memory: 512", "", "filesystems has no servers_memory of fs3"),
    (", peak_from: data sheet", "", "has a peak without peak_from: say where"),
]  # fmt: skip


def test_a_contract_is_read_and_one_that_says_too_little_is_an_error(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    contract = read(path)
    assert (contract.system, contract.confidence) == ("archer", 0.95)
    assert contract.criteria == [criterion("peak", at_least=0.5)]
    assert contract.rules.begins == datetime(2026, 11, 22, tzinfo=UTC)
    assert contract.filesystems["fs3"].peak == 30000
    # What it says is printed and signed: one line that can be written.
    path.write_text(CONTRACT.replace("Phase 2 storage", '"Phase 2\\n\\ud800"'))
    assert read(path).title == "Phase 2 ?"
    # One whose only criterion has no interval needs no six sessions.
    one = CONTRACT.replace("sessions: 7", "sessions: 1").replace("kind: peak", "kind: slow_ost")
    path.write_text(one)
    assert read(path).rules.sessions == 1
    path.write_text(CONTRACT.replace("kind: peak", "kind: metadata, phase: stat"))
    assert read(path).criteria[0].phase == "stat"
    path.write_text(CONTRACT.replace("kind: peak", "kind: ior, io500: easy"))
    assert (read(path).criteria[0].files, read(path).criteria[0].backend) == ("process", "posix")

    def attempt(old, new):
        assert old in CONTRACT
        path.write_text(CONTRACT.replace(old, new))
        read(path)

    wanted = [((old, new), re.escape(said)) for old, new, said in WRONG]
    wanted.append(((CONTRACT, one.replace("osts: 4, ", "")), "criterion 1: filesystems has no ost"))
    assert_refused(UserError, attempt, wanted)


@given(st.floats(1e-12, 1e12), st.sampled_from(["bandwidth", "repeatability"]))
def test_a_bound_that_is_accepted_can_be_kept_and_broken(tmp_path_factory, bound, kind):
    path = tmp_path_factory.getbasetemp() / "contract.yaml"
    side = "at_most" if kind == "repeatability" else "at_least"
    path.write_text(agreed.contract(f"kind: {kind}, {side}: {bound:.17e}"))
    (criterion,) = read(path).criteria
    assert criterion.committed == bound
    assert criterion.is_kept(bound)
    beyond = math.nextafter(bound, math.inf if side == "at_most" else 0)
    assert not criterion.is_kept(beyond)
    values = {str(number): bound for number in range(6)}
    assert judge_sessions(criterion, values, 0.5).verdict == "pass"
    assert judge_sessions(criterion, dict.fromkeys(values, beyond), 0.5).verdict == "fail"


def test_the_page_on_contracts_has_one_that_is_read(tmp_path):
    text = (ROOT / "docs/howto/acceptance.md").read_text("utf-8")
    (exclusions,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "exclusions.yaml").write_text(exclusions)
    rules = read(ROOT / "docs/examples/contract.yaml").rules
    assert read_exclusions(tmp_path / "exclusions.yaml", rules)[0].by == ("centre", "supplier")


def test_a_session_is_excluded_by_all_whom_the_contract_names_or_not_at_all(tmp_path):
    path = tmp_path / "excluded.yaml"
    path.write_text("- {session: a1, by: [supplier, centre], why: the power failed}\n")
    assert read_exclusions(path, RULES) == [
        Exclusion(session="a1", by=("centre", "supplier"), why="the power failed")
    ]
    nobody = evolve(RULES, may_exclude=())
    with pytest.raises(UserError, match="entry 1: the contract says that nobody may"):
        read_exclusions(path, nobody)
    both = "by: [centre, supplier]"
    for text, said in (
        ("- {session: a1, by: [centre], why: slow}",
         "is by centre, and by the contract's may_exclude it takes centre and supplier"),
        (f"- {{session: a1, {both}, why: }}", "why is None, not a text"),
        (f"- {{session: a1, {both}}}", "entry 1: has no why"),
        ("session: a1", "not a list of entries with session, by, why"),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            read_exclusions(path, RULES)


# Judging sessions


def judged(bound, values, kind="bandwidth", confidence=0.95):
    values = {str(number): value for number, value in enumerate(values)}
    return judge_sessions(bounded(kind, bound), values, confidence)


def bounded(kind, bound):
    return criterion(kind, **{"at_most" if kind == "repeatability" else "at_least": bound})


RATES = [95.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0, 104.0, 106.0]


def test_the_verdict_rests_on_the_whole_interval_of_the_median_over_sessions():
    verdicts = {bound: judged(bound, RATES).verdict for bound in (90, 96, 97, 100, 104, 110)}
    assert verdicts == {
        90: "pass", 96: "pass", 97: "pass", 100: "not conclusive", 104: "not conclusive",
        110: "fail",
    }  # fmt: skip
    found = judged(90, RATES)
    # Order statistics: the median lies between the 2nd and 9th of 10 with 97.9 %.
    assert (found.measured, found.low, found.high) == (100.5, 97.0, 104.0)
    assert len(found.values) == 10
    lower_is_better = {
        bound: judged(bound, RATES, "repeatability").verdict for bound in (104, 100, 96)
    }
    assert lower_is_better == {104: "pass", 100: "not conclusive", 96: "fail"}


def test_the_interval_of_a_median_is_exact():
    for confidence in (0.5, 0.9, 0.95, 0.99):
        least = fewest(confidence)
        assert interval_rank(least - 1, confidence) == 0
        assert interval_rank(least, confidence) == 1
    # Ranks of tables of the binomial distribution.
    assert [interval_rank(count, 0.95) for count in (5, 6, 8, 9, 10, 15, 20)] == [
        0, 1, 1, 2, 2, 4, 6,
    ]  # fmt: skip


def test_a_margin_is_positive_on_the_right_side():
    for kind, bound in (("bandwidth", 67), ("repeatability", 201)):
        measured = judged(bound, RATES, kind).measured
        assert bounded(kind, bound).margin(measured) == pytest.approx(0.5)
        assert bounded(kind, measured).goodness(measured) == 0


def test_a_kind_of_criterion_is_one_class(tmp_path, monkeypatch):
    """Contract, plan, verdict and dossier ask the class, and nothing else knows of it."""
    monkeypatch.setitem(KINDS, "worst", None)  # gone after the test

    @attrs.frozen(kw_only=True)
    class Worst(OfArray):
        kind = "worst"
        unit = "MiB/s in the worst round"
        rounds: int = key(COUNT, default=10)

        def rate(self, run):
            return min(run.rates[run.case.backend][: self.rounds])

        def amount(self, value):
            return f"{value:.0f} MiB/s"

    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT.replace(PEAK, "name: W, kind: worst, filesystem: fs3, at_least: 300"))
    assert read(path).criteria == [Worst(name="W", filesystem="fs3", committed=300.0)]
    path.write_text(CONTRACT.replace("kind: peak", "kind: worst, round: 3"))
    with pytest.raises(UserError, match=r"criterion 1 \(worst\): there is no key round: is rounds"):
        read(path)
    runs = always(rate=400)
    finding = found({"kind": "worst", "at_least": 300}, runs)
    assert (finding.verdict, finding.measured) == ("pass", min(rates_around(400)))
    worst = criterion("worst", filesystem="lustre", at_least=300)
    contract = agreed.agreed(worst, filesystems={"lustre": storage()})
    assert planned(contract).lines[-1].startswith("A1: 2 cases; the first session chooses one")
    evidence = Evidence(sessions=[session()], exhibits=runs, replaced=["a run by another"])
    judged_ = Judged(contract=contract, exclusions=[], evidence=evidence, findings={worst: finding})
    assert judged_.lines[-2:] == [
        "1 run was replaced by re-runs; the dossier names them",
        "pass: A1: 398 MiB/s (398 MiB/s to 398 MiB/s), at least 300 MiB/s committed",
    ]
    assert "worst (write shared, mpiio, lustre, best of all cases), MiB/s in the worst round" in (
        judged_.page(agreed.sealed(), tmp_path)
    )


def test_how_many_sessions_would_settle_it():
    few = judged(50, RATES[:5])
    assert (few.verdict, few.low) == ("not conclusive", None)
    assert few.reason == "5 sessions are too few to judge by: it takes 6"
    # 2 of 10 are below, so 3 of 15: the interval of 15 begins with the 4th.
    assert "a test of about 15 sessions like these would settle it" in judged(98, RATES).reason
    more = [95.0, 96.0, 97.0, *range(98, 110)]
    assert judged(98, more).verdict == "pass"
    assert judged(98, more[:-1]).verdict == "not conclusive"
    assert judged(100.5, RATES).reason.startswith("too near to the committed value")


def test_the_slowest_ost_is_that_of_its_best_rate():
    slow_ost = criterion("slow_ost", at_least=0.5)
    for rates, verdict, measured in (
        ({0: [100.0, 90.0], 1: [40.0, 30.0], 2: [110.0, 100.0]}, "fail", 40 / 105),
        ({0: [100.0], 1: [30.0, 60.0], 2: [110.0]}, "pass", 60 / 105),
        ({0: [100.0]}, "not certified", None),
    ):
        run = Exhibit(case=EACH, nodes=2, session="1", rates={}, osts={"write": rates})
        finding = slow_ost.conclude(None, {"1": [run]})
        assert (finding.verdict, finding.measured) == (verdict, pytest.approx(measured)), rates
    assert finding.reason == "fewer than two OSTs can be compared"


# From exhibits to findings

HDF5 = case(
    "SharedFileWrite", "archer:fs3/cray", stripe_count=-1, stripe_size=1,
    local_size=(128, 128, 128), ranks=48,
)  # fmt: skip
MPIIO = changed(HDF5, backend="mpiio")
EACH = changed(MPIIO, check="SlowOst")
PLACE = Filesystem(
    system="archer", partition="fs3", environs=("cray",), name="lustre", path="/fs3",
    types=("lustre",), peak=1000.0, osts=(0, 1, 2, 3), cached_reads=False, ranks_per_node=24,
    keep_days=60, suites={},
)  # fmt: skip
FACTS_OF_LUSTRE = {
    "path": "/fs3", "osts": 4, "peak": 1000.0, "peak_from": "data sheet", "servers_memory": 1.0,
}  # fmt: skip
BANDWIDTH = {"kind": "bandwidth", "at_least": 300.0}


SESSIONS = [str(number) for number in range(1, 8)]


def rates_around(middle):
    """Ten of them, with that median, and 1 % around it."""
    return [middle * (1 + (place - 4.5) / 1000) for place in range(10)]


def exhibit(of=MPIIO, rate=400.0, control=None, nodes=2, osts=None, session="1", ior=()):
    measured = {} if osts else {of.backend: rates_around(rate)}
    if control:
        measured["mpiio"] = rates_around(control)
    return Exhibit(case=of, nodes=nodes, session=session, rates=measured, osts=osts or {}, ior=ior)


def always(*args, **values):
    """The same run in each session."""
    return [exhibit(*args, **values, session=session) for session in SESSIONS]


def found(
    keys, *runs, cases=(), failed=None, rules=RULES, facts=None, sessions=SESSIONS,
    degraded=(), places=(PLACE,), **evidence,
):  # fmt: skip
    judged = criterion(**{"filesystem": "lustre", **keys})
    exhibits = [one for run in runs for one in (run if isinstance(run, list) else [run])]
    evidence = Evidence(
        sessions=[
            *map(session, sessions),
            *(replace(session(name), away={"lustre": [2]}) for name in degraded),
        ],
        exhibits=[one for one in exhibits if one.session in {*sessions, *degraded}],
        failed=failed or {},
        cases={one.case: one.nodes for one in exhibits} | dict.fromkeys(cases, 2),
        places=list(places),
        **evidence,
    )
    facts = FACTS_OF_LUSTRE | (facts or {})
    contract = agreed.agreed(judged, rules=rules, filesystems={"lustre": storage(**facts)})
    return judged.certify(contract, evidence)


def test_the_first_session_chooses_the_best_case_and_the_others_judge_it():
    best = changed(MPIIO, stripe_count=4)
    runs = [always(rate=200), always(best, 500)]
    finding = found(BANDWIDTH, *runs)
    assert (finding.verdict, finding.measured) == ("pass", pytest.approx(500))
    assert (finding.case, finding.chosen, list(finding.values)) == (str(best), "1", SESSIONS[1:])
    # What was best by luck on that day is what the others judge.
    lucky = [exhibit(rate=900), *always(rate=200)[1:]]
    assert found(BANDWIDTH, lucky, always(best, 500)).verdict == "fail"
    # Of one case there is nothing to choose.
    alone = found(BANDWIDTH, always())
    assert (alone.verdict, alone.chosen, list(alone.values)) == ("pass", "", SESSIONS)

    runs = [always(rate=500, nodes=4), always(changed(MPIIO, ranks=24), 200, nodes=1)]
    assert found({**BANDWIDTH, "nodes": 1}, *runs).measured == pytest.approx(200)
    none = found({**BANDWIDTH, "nodes": 8}, *runs)
    assert none.reason == "no such case was measured with 8 nodes"


def test_a_session_has_one_value_however_many_repetitions():
    """Repetitions of one job share what other users do: ten of them are not ten witnesses."""
    rates = dict(zip(SESSIONS, (310, 320, 310, 290, 320, 310, 330), strict=True))
    runs = [exhibit(rate=rate, session=session) for session, rate in rates.items()]
    finding = found(BANDWIDTH, runs)
    assert finding.verdict == "not conclusive"
    assert list(finding.values.values()) == pytest.approx(list(rates.values()))
    few = found(BANDWIDTH, always(), sessions=SESSIONS[:3])
    assert (few.verdict, few.reason) == ("not conclusive", "3 of the 7 sessions were measured")
    none = found(BANDWIDTH, always(), sessions=[])
    assert (none.verdict, none.reason) == ("not conclusive", "0 of the 7 sessions were measured")


def test_what_is_not_good_enough_seldom_passes_however_many_cases_there_are_to_choose_from():
    """Seeded; `make bench` has more of it."""
    for cases in NUMBERS:
        found = false_passes(cases, 0.2, is_shared=cases == 12, trials=50)
        assert found["iowatch"] <= 0.025, (cases, found)
        assert found["repetitions"] > 0.1, "what the rule is there for"


SLOW = {"kind": "slow_ost", "at_least": 0.5}
NAMES = case("Metadata", "archer:fs3/cray", items=50, files="shared")
PHASE = {"kind": "metadata", "at_least": 10000}
SCALING = {"kind": "scaling", "at_least": 0.6, "from_nodes": 1, "to_nodes": 4}


def of_names():
    """A run of names in each session, which creates fast and does the rest slowly."""
    rates = {"create": [12000.0] * 5, "items": [900.0] * 5}
    return [Exhibit(case=NAMES, nodes=2, session=name, rates=rates) for name in SESSIONS]


def test_what_each_kind_of_criterion_compares_with():
    one, four = changed(MPIIO, ranks=24), changed(MPIIO, ranks=96)
    at_scale = always(four, 700, nodes=4), always(one, 250, nodes=1)
    osts = {0: [100.0], 1: [40.0], 2: [105.0], 3: [95.0]}
    each = always(EACH, osts={"write": osts, "read": {ost: [100.0] for ost in osts}})
    peer = changed(MPIIO, check="IorPeer", files="shared")
    hard = changed(peer, backend="posix", local_size=(5876, 64, 64), io500="hard")
    ior_hard = {"kind": "ior", "backend": "posix", "io500": "hard", "at_least": 3}
    load = changed(MPIIO, check="SystemLoad", instances=4)
    many = changed(MPIIO, check="FilePerProcess", files="process", backend="posix")
    n_to_n = {**BANDWIDTH, "files": "process", "backend": "posix"}
    for keys, runs, verdict, measured, of in [
        ({"kind": "peak", "at_least": 0.5}, [always(rate=600)], "pass", 0.6, MPIIO),
        # Of MPI-IO in the same rounds, not of the case of MPI-IO.
        ({"kind": "ratio", "at_least": 0.9, "backend": "hdf5"},
         [always(HDF5, 200, control=400), always(rate=100)], "fail", 0.5, HDF5),
        (SCALING, at_scale, "pass", 0.7, f"{one} and {four}"),
        ({"kind": "repeatability", "at_most": 0.01}, [always()], "pass", 0.003, MPIIO),
        (SLOW, [each, always(rate=900)], "fail", 0.4, EACH),
        ({**SLOW, "operation": "read"}, [each], "pass", 1, EACH),
        ({"kind": "ior", "at_least": 300}, [always(peer, 400, ior=rates_around(350))],
         "pass", 350, peer),
        (ior_hard, [always(hard, 4, ior=rates_around(3.5)),
                    always(changed(peer, backend="posix"), 900, ior=rates_around(800))],
         "pass", 3.5, hard),
        ({**BANDWIDTH, "instances": 4}, [always(load, 350), always(rate=900)], "pass", 350, load),
        (n_to_n, [always(many), always(rate=100)], "pass", 400, many),
        ({**PHASE, "phase": "create"}, [of_names(), always()], "pass", 12000, NAMES),
        ({**PHASE, "phase": "items"}, [of_names(), always()], "fail", 900, NAMES),
    ]:  # fmt: skip
        finding = found(keys, *runs)
        assert (finding.verdict, finding.case) == (verdict, str(of)), keys
        assert finding.measured == pytest.approx(measured, rel=0.02), keys
    assert found(SLOW, each).reason == "the slowest is OST 1"
    assert found(SCALING, at_scale[1]).reason == "no case has these numbers of nodes"


WITHOUT = [f"w{name}" for name in SESSIONS]  # sessions without an OST, each after another


def without(of, rates):
    """A run of a case in each session without an OST."""
    return [exhibit(of, rate, session=name) for name, rate in zip(WITHOUT, rates, strict=False)]


def test_what_is_left_without_an_ost_is_compared_session_by_session():
    degraded = {"kind": "degraded", "at_least": 0.6, "away": 1}
    osts = {"write": {0: [100.0], 1: [100.0], 3: [100.0]}}
    shown = [exhibit(EACH, osts=osts, session=name) for name in (*SESSIONS, *WITHOUT)]
    # Both kinds of sessions have good days and bad ones, the same.
    rates = (310, 600, 310, 290, 900, 310, 330)
    whole = [exhibit(rate=rate, session=name) for name, rate in zip(SESSIONS, rates, strict=True)]
    left = without(MPIIO, [0.7 * rate for rate in rates])
    finding = found(degraded, whole, left, shown, degraded=WITHOUT)
    assert (finding.verdict, finding.low, finding.high) == ("pass", *[pytest.approx(0.7)] * 2)
    assert list(finding.values) == WITHOUT
    assert {one.session for one in finding.exhibits} == {*SESSIONS, *WITHOUT}
    low = found({**degraded, "at_least": 0.8}, whole, left, shown, degraded=WITHOUT)
    assert low.verdict == "fail"
    # The first of those that had all OSTs chooses, whatever is best without one.
    best = changed(MPIIO, stripe_count=4)
    other = [*always(best, 9000), *without(best, [1000] * 7)]
    finding = found(degraded, whole, left, shown, other, degraded=WITHOUT)
    assert (finding.verdict, finding.case, finding.chosen) == ("fail", str(best), "1")
    assert list(finding.values) == WITHOUT[1:]

    few = found(degraded, whole, left[:3], shown, degraded=WITHOUT[:3])
    said = "3 of the 7 sessions without 1 OST were measured"
    assert (few.verdict, few.reason) == ("not conclusive", said)
    none = found(degraded, whole, shown)
    assert none.reason == "0 of the 7 sessions without 1 OST were measured"
    # Nothing but SlowOst shows that the OST was away.
    unseen = found(degraded, whole, left, degraded=WITHOUT)
    assert unseen.reason == "the suite has no SlowOst, which would show what is away"
    said = "the session was declared to be without OST 2, which it could measure"
    there = {("w3", EACH): said}
    lie = found(degraded, whole, left, shown[:-1], degraded=WITHOUT, failed=there)
    assert lie.reason == f"failed: {EACH} of session w3: {said}"
    # They are no sessions of any other criterion.
    assert list(found(BANDWIDTH, whole, left, degraded=WITHOUT).values) == SESSIONS


def test_a_death_is_survived_if_what_was_kept_last_is_read_back():
    survival = {"kind": "survival", "at_least": 1}
    reads = changed(MPIIO, check="ReadBack")
    when = datetime(2026, 11, 20, tzinfo=UTC)

    def run(hour, kept=True, read="", why="", lost=False, death="", failed=()):
        """Of a session that keeps files under the name of its hour."""
        began = when + timedelta(hours=hour)
        one = replace(session(str(hour)), began=began, death=death, has_failed=frozenset(failed))
        return ReadBackRun(
            case=reads, session=one, night=str(hour), has_kept=kept, read=read, why_not=why,
            is_lost=lost,
        )  # fmt: skip

    def judged(*runs):
        return found(survival, always(), cases=[reads], read_back=list(runs))

    client = {"death": "lustre:client", "failed": ["lustre"]}
    server = {"death": "lustre:server"}
    first, torn, well = run(1), run(2, False, "1", **client), run(3, read="1")
    gone, differs = "what {} kept is gone", "1 element differs"
    of = f"{reads} of session"
    for runs, verdict, reason in [
        ([first, torn, well], "pass", ""),
        # Files that it came to keep all the same are those that must be there.
        ([first, run(2, True, "1", **client), run(3, read="2")], "pass", ""),
        ([first, run(2, True, "1", **client), well], "fail", f"{of} 3: {gone.format(2)}"),
        ([first, torn, run(3, read="")], "fail", f"{of} 3: {gone.format(1)}"),
        ([replace(first, id="a1"), torn, replace(well, read_id="b2")], "fail",
         f"{of} 3: in the place of what 1 kept are the files of another run, b2"),
        ([first, torn, run(3, read="1", why=differs, lost=True)], "fail",
         f"{of} 3: {differs}"),
        # A session that kept files anew is the last to read those before: it counts too.
        ([first, run(2, True, "1", **server), run(3, read="2")], "pass", ""),
        ([first, run(2, True, "1", differs, True, **server), run(3, read="2")], "fail",
         f"{of} 2: {differs}"),
        ([first, run(2, True, "", **server), run(3, read="2")], "fail",
         f"{of} 2: {gone.format(1)}"),
        # What says nothing of the files decides nothing, nor what did not look at them.
        ([first, torn, run(3, read="1", why="the clock")], "not certified",
         f"failed: {of} 3: the clock"),
        ([first, torn, run(3, read=None), run(4, read="1")], "pass", ""),
        ([first, torn], "not conclusive", "0 of 1 death were seen and survived"),
        ([first], "not conclusive", "0 of 1 death were seen and survived"),
        ([run(1, False), torn, run(3)], "not certified",
         "nothing was kept before session 2: measure one without --death"),
        ([first, run(2, True, "1", death="lustre:client"), run(3, read="2")], "not certified",
         "no run has failed in session 2: nothing died in it"),
        ([first, run(2, True, "1", death="fs2:client"), run(3, read="2")], "not conclusive",
         "0 of 1 death were seen and survived"),
    ]:  # fmt: skip
        finding = judged(*runs)
        assert finding.verdict == verdict, reason
        assert reason in finding.reason
    assert judged(first, torn, well).measured == 1
    assert judged(first, torn, run(3, read="")).measured == 0
    none = found(survival, always())
    assert none.reason == "the suite has no ReadBack, which would read what was kept"


def test_the_filesystem_is_the_one_of_the_contract_whatever_the_site_calls_it():
    """Whoever runs the test writes the site's file."""
    each = always(EACH, osts={"write": {ost: [100.0] for ost in (0, 1, 3)}})
    reads = {**BANDWIDTH, "operation": "read"}, always(changed(MPIIO, check="SharedFileRead"))
    memory = evolve(RULES, times_memory=2)
    of_site = "lustre is {} by the site's file, and {}"
    for (keys, run), site, reason in [
        ((BANDWIDTH, always()), {}, ""),
        ((BANDWIDTH, always()), {"path": "/fs3/iowatch"}, ""),
        ((BANDWIDTH, always()), {"types": ("tmpfs",)},
         of_site.format("tmpfs", "lustre by the contract")),
        ((BANDWIDTH, always()), {"types": ("lustre", "tmpfs")},
         of_site.format("lustre or tmpfs", "lustre by the contract")),
        ((BANDWIDTH, always()), {"path": "/fs30/iowatch"},
         of_site.format("at /fs30/iowatch", "not below /fs3")),
        ((BANDWIDTH, always()), {"path": "/fs3/../nvme/iowatch"},
         of_site.format("at /fs3/../nvme/iowatch", "not below /fs3")),
        ((SLOW, each), {"osts": (0, 1, 3)},
         "lustre has 3 OSTs by the site's file, and 4 by the contract"),
        (reads, {}, ""),
        (reads, {"cached_reads": True},
         "what is read of lustre may come from a client's cache, by 'cached_reads' of the site's "
         "file"),
    ]:  # fmt: skip
        rules = memory if keys is reads[0] else RULES
        places = [evolve(PLACE, **site)]
        finding = found(keys, run, facts={"servers_memory": 0.1}, rules=rules, places=places)
        assert finding.reason == reason
        assert reason or finding.verdict == "pass"


def test_a_run_of_which_no_session_is_on_record_certifies_nothing_unless_both_excuse_it():
    """Else whoever does not like what he sees kills the session, and begins another."""
    night = "2026-11-20T010000"
    lost = [f"{night}/{str(MPIIO).replace('/', ',')}+2"]
    assert found(BANDWIDTH, always(), lost=lost).reason == (
        f"of the run {lost[0]} no session is on record: it was killed or deleted, or still runs"
    )
    assert found(BANDWIDTH, always(), lost=lost, excused={night}).verdict == "pass"
    other = [lost[0].replace("mpiio", "hdf5")]
    assert found(BANDWIDTH, always(), lost=other).verdict == "pass"


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
    findings = {str(other): found(BANDWIDTH, always(other, 900)) for other in others}
    findings[str(EACH)] = found(BANDWIDTH, always(EACH, osts={"write": {0: [900.0], 1: [900.0]}}))
    verdicts = {name: (one.verdict, one.reason) for name, one in findings.items()}
    assert verdicts == dict.fromkeys(verdicts, ("not certified", "no such case was measured"))


def test_what_the_rules_call_too_small_counts_for_nothing():
    nodes = evolve(RULES, least_nodes=4)
    few = found(BANDWIDTH, always(), rules=nodes)
    assert few.verdict == "not certified"
    assert f"{MPIIO} is on 2 nodes, and fewer than 4 count for nothing" in few.reason
    assert found(BANDWIDTH, always(nodes=4), rules=nodes).verdict == "pass"
    # 48 ranks of 16 MiB write 0.75 GiB.
    memory = evolve(RULES, times_memory=2)
    small = found(BANDWIDTH, always(), rules=memory)
    assert small.verdict == "not certified"
    assert "is of 0.75 GiB, and what is less than 2 times the servers' memory of 1" in small.reason
    assert found(BANDWIDTH, always(), rules=memory, facts={"servers_memory": 0.3}).case
    large = changed(MPIIO, local_size=(256, 256, 256))
    assert found(BANDWIDTH, always(large), always(rate=900), rules=memory).case == str(large)
    # Names are small; what a scaling begins with is on purpose, and so is what one OST gets.
    assert found({**PHASE, "phase": "create"}, of_names(), rules=memory).verdict == "pass"
    both = evolve(RULES, least_nodes=4, times_memory=2)
    one, four = changed(MPIIO, ranks=24), changed(large, ranks=96)
    runs = [always(four, 700, nodes=4), always(one, 250, nodes=1)]
    assert found(SCALING, *runs, rules=both).verdict == "pass"
    slow = {"kind": "slow_ost", "at_least": 0.1}
    runs = always(EACH, osts={"write": {0: [100.0], 1: [40.0]}}, nodes=1)
    assert found(slow, runs, rules=both).verdict == "pass"


def test_what_failed_or_is_missing_is_said_and_not_certified():
    other = changed(MPIIO, stripe_count=4)
    broken = found(BANDWIDTH, always(), always(other)[1:], failed={("1", other): "disk full"})
    said = f"failed: {other} of session 1: disk full"
    assert (broken.verdict, broken.reason) == ("not certified", said)
    missing = found(BANDWIDTH, always(), always(other)[:3], cases=[HDF5])
    said = f"not measured: {other} and 3 more of session 4"
    assert (missing.verdict, missing.reason) == ("not certified", said)
    elsewhere = found({**BANDWIDTH, "filesystem": "fs9"}, always())
    assert elsewhere.reason == "no filesystem 'fs9': there are lustre"


# The plan


def planned(contract, nights=()):
    suite = {
        "SharedFileWrite": [Setting.make(CHECKS["SharedFileWrite"], values) for values in SUITE]
    }
    each = {"SlowOst": [Setting.make(CHECKS["SlowOst"], OSTS)]}
    place = evolve(PLACE, suites={"acceptance": suite | each, "nightly": {}})
    site = Site(
        system="archer", filesystems=(place,), is_whole=True, prefix=Path("/"), stage=Path("/"),
        database=Path("/results.db"), promises={},
    )  # fmt: skip
    return plan(contract, site, nights)


SIZE = (128, 128, 128)
OSTS = {"stripe_size": 1, "local_size": SIZE, "ranks_per_node": 24}
SUITE = [
    {
        "backend": backend, "stripe_count": count, "stripe_size": 1, "local_size": SIZE,
        "nodes": 2, "ranks_per_node": 24,
    }
    for backend in ("mpiio", "hdf5")
    for count in (4, -1)
]  # fmt: skip


def test_a_plan_says_what_the_test_costs_and_what_it_can_show(documented):
    contract = agreed.agreed(
        criterion("bandwidth", "A1", "lustre", at_least=300),
        criterion("ratio", "A2", "lustre", at_least=0.9, backend="hdf5"),
        criterion("slow_ost", "A3", "lustre", at_least=0.5),
        criterion("repeatability", "A4", "lustre", at_most=0.2),
        filesystems={"lustre": storage()},
    )
    made = planned(contract)
    assert made.decidable
    written = documented(document(acceptance_plan=made))["acceptance_plan"]
    assert (written["sessions"], written["session"]["jobs"], len(written["criteria"])) == (7, 5, 4)
    text = "\n".join(made.lines)
    # 48 ranks of 16 MiB: 11 rounds of MPI-IO, and 11 of both where HDF5 is; 4 on each of 4 OSTs.
    size = 7 * (2 * 768 * (11 + 22) + 768 * 16) / 2**20
    for part in (
        "jobs: 7 sessions of 5, that is 35",
        f"written: {size:.3g} TiB",
        "the last begins 3 days after the first or later",
        "of 5 cases no rate is on record",
        "A1: 2 cases; the first session chooses one and 6 sessions judge it. If it",
        # Six of six are above the committed value: (0.83)^6.
        "a probability of 33 %, where sessions vary by 10.0 % (assumed",
        "for 90 % it takes 24 sessions",
        "A3: 1 case; the best rate of each OST over all sessions counts",
        "A4: 2 cases; the first session chooses one and 6 sessions judge it",
    ):
        assert part in text

    # Of a case that hardly varied on record, the same shows much more.
    nights = [night(MPIIO, day, 400 * (1 + 0.02 * (-1) ** day)) for day in range(1, 9)]
    text = "\n".join(planned(contract, nights).lines)
    assert "a probability of 100 %, where sessions vary by 2.1 % (as in 8 nights" in text
    assert "of 4 cases no rate is on record" in text

    few = evolve(contract, rules=evolve(RULES, sessions=6))
    made = planned(few)
    assert not made.decidable
    assert "too few for a verdict: it takes 7 sessions" in made.lines[5]
    elsewhere = criterion("bandwidth", "A5", "fs9", at_least=300)
    made = planned(evolve(contract, criteria=[elsewhere]))
    assert not made.decidable
    assert "A5: the suite has no case that it is about and that counts by the rules" in made.lines


def night(of, day, rate):
    began = datetime(2026, 11, day, 1, tzinfo=UTC)
    metrics = {"stable_max": rate, "stable_median": rate, "ratio": 1.0}
    return Run(of, began, OK, "", metrics, night_id(began), str(day))


def test_evidence_is_gathered_from_where_results_were_moved_to(tmp_path):
    (tmp_path / "new/runs/2026-03-01T010000/a,case").mkdir(parents=True)
    kept = f"{tmp_path}/old/runs/2026-03-01T010000/a,case"
    one = reported(case(), system="local", suite="acceptance", kept=kept)
    found = raw_results_of(reported_session(one), "local", Moved(tmp_path / "new"))
    assert [str(folder.relative_to(tmp_path)) for folder in found] == [
        "new/runs/2026-03-01T010000/a,case"
    ]
