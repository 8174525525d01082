"""Calls whose answer is wrong: benchio's --operation latency must end without a figure."""

import pytest
from conftest import compiled, each
from faults.attempts import IO, STATUS, VERIFICATION
from many_runs import Plan, run_many

OPTIONS = ["--operation", "latency", "--seconds", 1, "--repeats", 1, "--warmup", 0]
#: What names_shim.c does to the file of this name, the call that fails, and what benchio says.
FAULTS = [
    ("changed", "7", "pread", "1 of 512 elements differ from what was written", VERIFICATION),
    ("short", "7", "stat", "it has 4095 bytes, and 4096 were written", VERIFICATION),
    ("hidden", "7", "readdir", "32 names are listed", VERIFICATION),
    ("twice", "7", "readdir", "34 names are listed", VERIFICATION),
    ("stranger", "7", "readdir", "34 names are listed", VERIFICATION),
    ("lost", "7", "readdir", "32 names are listed", VERIFICATION),
    ("survives", "7", "create", "File exists", IO),
]


@pytest.fixture(scope="session")
def names_shim(tmp_path_factory):
    return compiled("names_shim.c", tmp_path_factory.mktemp("names"), "gcc")


def test_a_wrong_answer_voids_every_figure(names_shim, new_directory):
    """One wrong byte does, and nothing of the run is left."""

    def check(outcome):
        _, _, call, said, code = outcome.plan.of
        assert (outcome.done.code, len(outcome.done.errors)) == (code, 1), outcome.done.err
        assert (outcome.result["status"], outcome.result["cases"]) == (STATUS[code], [])
        assert "95 % interval" not in outcome.done.out
        assert outcome.call[0] == call
        assert outcome.error["message"].startswith(said)
        assert list(outcome.directory.iterdir()) == []

    plans = [
        Plan(
            1,
            OPTIONS,
            {"NAMES_FAULT": fault[0], "NAMES_NAME": fault[1]},
            group=number % 2,
            of=fault,
        )
        for number, fault in enumerate(FAULTS)
    ]
    each(run_many(plans, new_directory, names_shim), check, at_once=1)
