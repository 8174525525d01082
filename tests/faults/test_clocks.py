"""A clock that is too coarse for what it times gives no rate, whichever operation it is of."""

import re

import pytest
from conftest import compiled
from faults.attempts import no_rate
from many_runs import Plan, run_many

STEP_NS = 4_000_000
SMALL = ["--local-size", 16]

#: What is timed by such a clock, on how many ranks; options of each.
OPERATIONS = [
    (2, ["--operation", "write,read", "--backend", "mpiio,posix", *SMALL]),
    (2, ["--files", "process", "--instances", 2, *SMALL]),
    (2, ["--operation", "metadata", "--items", 10]),
    (2, ["--operation", "samples", "--items", 10]),
    (2, ["--operation", "startup", "--items", 10]),
    (2, ["--operation", "checkpoint", "--items", 1]),
    (1, ["--operation", "latency", "--seconds", 2]),
]
ONCE = ["--warmup", 0, "--repeats", 1]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def clock_shim(tmp_path_factory):
    return compiled("clock_shim.c", tmp_path_factory.mktemp("clock"), "gcc")


def test_no_rate_is_of_less_than_a_hundred_steps_of_any_ranks_clock(clock_shim, new_directory):
    """One rank's is enough, and it is named; nothing of the run is left."""
    plans = [
        Plan(
            ranks, [*options, *ONCE], env={"CLOCK_STEP_NS": STEP_NS, "CLOCK_RANK": ranks - 1},
            of=options,
        )
        for ranks, options in OPERATIONS
    ]  # fmt: skip
    for outcome in run_many(plans, new_directory, clock_shim):
        assert outcome.done.code == 1, outcome
        assert (outcome.result["status"], outcome.result["cases"]) == ("internal_error", [])
        error = outcome.error
        assert (error["call"], error["rank"]) == ("clock", outcome.plan.ranks - 1), outcome
        # A busy machine may hide some of them.
        assert re.match(r"it goes in steps of \d\.\d\dE-0[123] s, or differs by ", error["message"])
        assert no_rate(outcome.done)
        assert list(outcome.directory.iterdir()) == []


def test_ranks_of_a_node_have_one_clock(clock_shim, new_directory):
    """As not in containers with a namespace of time each: the span from the first rank that begins
    to the last that ends would be of both clocks."""
    env = {"CLOCK_STEP_NS": 1, "CLOCK_AHEAD_S": 1000}
    plans = [Plan(2, ONCE, env={**env, "CLOCK_RANK": rank}, group=rank) for rank in (0, 1)]
    for outcome in run_many(plans, new_directory, clock_shim):
        said = outcome.error["message"]
        assert re.match(r"it goes in steps of (1.00E\+03|9.9\dE\+02) s, or differs by that", said)
        assert (outcome.done.code, outcome.result["cases"]) == (1, [])


def test_a_clock_that_is_fine_enough_says_its_step(clock_shim, new_directory):
    fine, coarse, still = run_many(
        [Plan(2, ONCE, env={"CLOCK_STEP_NS": step}) for step in (1, 1000, 0)],
        new_directory,
        clock_shim,
    )
    steps = [
        outcome.result["cases"][0]["repetitions"][0]["clock_step"] for outcome in (fine, coarse)
    ]
    assert steps[0] < 1e-6
    assert 0.99e-6 < steps[1] < 1e-5
    assert still.error["message"].endswith(
        "too much for write of 0.00E+00 s; see which clocksource the kernel has"
    )


def test_the_median_of_single_calls_is_of_ten_steps(clock_shim, new_directory):
    """All of them together would take long enough."""
    options = ["--operation", "latency", "--seconds", 1, *ONCE]
    (outcome,) = run_many(
        [Plan(1, options, env={"CLOCK_STEP_NS": 1000})], new_directory, clock_shim
    )
    assert outcome.error["call"] == "clock", outcome.done.out
