"""Names that are not as they should be: benchio's --operation metadata must end without a rate."""

import itertools
import os
from typing import NamedTuple

from conftest import ROOT, each, run_directory
from faults.attempts import IO, STATUS, TIME_LIMIT, VERIFICATION, places
from many_runs import Plan, result_of, run_many

RANKS = 3
ITEMS = 20


class Fault(NamedTuple):
    """What names_shim.c does to a name, and what benchio has to say of it."""

    kind: str
    name: str
    call: str
    said: str
    named: str = ""  # in the error, where it is another name
    code: int = VERIFICATION


FAULTS = [
    Fault("lost", "f000001.0000007", "stat", "it is missing"),
    Fault("short", "f000002.0000000", "stat", "it has not the size that its maker gave it"),
    Fault("directory", "f000000.0000019", "stat", "it is no regular file"),
    Fault(
        "changed", "f000000.0000003", "read",
        "it has not the content that its maker gave it", "g000000.0000003",
    ),
    Fault("twice", "f000001.0000000", "readdir", "it is listed twice"),
    Fault("twice", "d000002.0000019", "readdir", "it is listed twice"),
    Fault("instead", "f000001.0000007", "readdir", "it is listed twice", "f000001.0000000"),
    Fault("hidden", "d000001.0000004", "readdir", "it is not listed"),
    Fault("stranger", "d000001.0000004", "readdir", "nobody has made it", ".nfs0001"),
    Fault("stale", "", "readdir", "it is still listed", "f00000?.0000000"),
    Fault("unrenamed", "f000002.0000005", "read", "it is missing", "g000002.0000005"),
    Fault("copied", "f000002.0000005", "readdir", "it is still listed"),
    Fault("survives", "g000000.0000011", "readdir", "it is still listed"),
    Fault("unseen", "g000000.0000011", "lstat", "it is still there"),
    Fault("remains", "d000001.0000019", "readdir", "it is still listed"),
    Fault("full", "d000001.0000002", "mkdir", "No space left on device", code=IO),
]  # fmt: skip
FILES = ("shared", "process")


def plan(files="shared", repeats=1, env=None, group="", of=None):
    options = [
        "--operation", "metadata", "--items", ITEMS, "--files", files, "--repeats", repeats,
        "--warmup", 0,
    ]  # fmt: skip
    return Plan(RANKS, options, env or {}, group=group, of=of)


def test_what_is_wrong_with_a_name_ends_the_run(names_shim, new_directory):
    """Without a rate, and nothing of it is left."""

    def check(outcome):
        fault, done = outcome.plan.of, outcome.done
        assert (done.code, len(done.errors)) == (fault.code, 1), done.err
        assert (outcome.result["status"], outcome.result["cases"]) == (STATUS[fault.code], [])
        assert "operations/s" not in done.out
        call, path = outcome.call
        assert (call, outcome.error["message"]) == (fault.call, fault.said)
        assert path.is_relative_to(outcome.own)
        assert path.match(fault.named or fault.name)
        assert list(outcome.directory.iterdir()) == []

    plans = [  # of several starts at one time, for some only wait
        plan(files, 2, {"NAMES_FAULT": fault.kind, "NAMES_NAME": fault.name}, number % 4, fault)
        for number, (fault, files) in enumerate(itertools.product(FAULTS, FILES))
    ]
    each(run_many(plans, new_directory, names_shim), check, at_once=1)


def test_each_node_lists_all_names(library_shim, new_directory):
    """What was listed is counted, and not what there is."""
    (outcome,) = run_many([plan(env={"LIBRARY_FAULT": "nodes"})], new_directory, library_shim)
    assert outcome.done.code == 0, outcome.done.err
    (rep,) = outcome.result["cases"][0]["repetitions"]
    assert rep["phases"]["list"]["operations"] == RANKS * (2 * ITEMS * RANKS)
    assert rep["witness"]["other_node_byte_fraction"] == 1


def test_what_a_client_remembers_is_no_fault(names_shim, new_directory):
    """A name that was removed on another node, for a while; a directory, for longer."""
    plans = [
        plan(files, 2, {"NAMES_FAULT": fault, "NAMES_NAME": "f000002.0000003"}, fault + files)
        for fault, files in itertools.product(["lingers", "remade"], FILES)
    ]
    for outcome in run_many(plans, new_directory, names_shim):
        assert outcome.done.code == 0, f"{outcome}: {outcome.done.err}"


def test_a_hang_is_ended(mpirun, names_shim, directory):
    """By the watchdog, which names the phase; the job removes what is left. Mostly rank 0 ends it,
    and on a busy machine the others may say the same."""
    limit = 2
    done = mpirun(
        RANKS, *plan().options, *places(directory), "--phase-limit", limit,
        env={"NAMES_FAULT": "hangs", "NAMES_NAME": "g000000.0000011"},
        launcher=["-x", f"LD_PRELOAD={names_shim}"],
    )  # fmt: skip
    assert done.code == TIME_LIMIT
    place = run_directory(directory) / "metadata.round1"
    assert {line.partition(";")[0].partition(": ")[2] for line in done.errors} == {
        f"unlink: {place}: no end after {limit} s (--phase-limit)"
    }
    assert not result_of(directory).exists()


def test_names_are_on_the_mdt_that_was_asked_for(lustre_shim, new_directory):
    """Their own directory, too: a filesystem may spread directories over its MDTs."""
    path = f"{ROOT}/tests/faults:{os.environ['PATH']}"
    stand_in = {"PATH": path, "LUSTRE_STATE": "{beside}/state"}
    options = [*plan().options, "--mdt-index", 2]
    right, wrong = outcomes = run_many(
        [Plan(2, options, stand_in | below) for below in ({}, {"LUSTRE_MDT_BELOW": 1})],
        new_directory,
        lustre_shim,
    )
    for outcome in outcomes:
        assert list(outcome.directory.iterdir()) == []
        (call,) = (outcome.directory.parent / "state.log").read_text().splitlines()
        assert call == f"mkdir -i 2 {outcome.own}"
    assert right.done.code == 0, right.done.err
    filesystem = right.result["run"]["filesystem"]
    assert filesystem.items() >= {"type": "lustre", "mdt_index": 2}.items()
    assert right.result["cases"][0]["layout"]["observed"]["stripe_count"] == 1, "as users get it"
    assert (wrong.done.code, wrong.result["cases"]) == (IO, [])
    assert wrong.error["message"] == "the directory is on MDT 1, asked for: 2"
