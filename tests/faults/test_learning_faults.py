"""Files that are not as they were written: samples, startup and checkpoint end without a rate."""

from typing import NamedTuple

from conftest import each
from faults.attempts import IO, STATUS, VERIFICATION
from many_runs import Plan, run_many

RANKS = 3
SAMPLES = ["--operation", "samples", "--items", 20, "--sample", 1200, "--per-file", 7]
STARTUP = ["--operation", "startup", "--items", 40]
CHECKPOINT = ["--operation", "checkpoint", "--items", 2, "--sample", 1200]


class Spoilt(NamedTuple):
    """What names_shim.c does to a file between its write and its read, and what benchio says."""

    kind: str
    name: str
    options: list[object]
    said: str
    code: int = VERIFICATION


SPOILT = [
    Spoilt(
        "changed", "s0000001", SAMPLES,
        "it has not the content that its maker gave it in sample 0; its first wrong byte is 0",
    ),
    Spoilt(
        "changed", "f0000033", STARTUP,
        "it has not the content that its maker gave it; its first wrong byte is 0",
    ),
    Spoilt(
        "changed", "s0000004", CHECKPOINT,
        "it has not the content that its maker gave it; its first wrong byte is 0",
    ),
    Spoilt(
        "changed", "s0000006", CHECKPOINT,
        "it has not the content that its maker gave it; its first wrong byte is 0",
    ),
    Spoilt("lost", "s0000001", SAMPLES, "it is missing"),
    Spoilt("lost", "f0000033", STARTUP, "it is missing"),
    Spoilt("short", "s0000001", SAMPLES, "it has not the size that its maker gave it"),
    Spoilt("short", "f0000033", STARTUP, "it has not the size that its maker gave it"),
    Spoilt("full", "d1", [*STARTUP[:-1], 300], "No space left on device", IO),
]  # fmt: skip


def test_what_is_wrong_with_a_file_ends_the_run(names_shim, new_directory):
    """Without a rate. Wrong files stay, with what was said of them; others go."""

    def check(outcome):
        spoilt, done = outcome.plan.of, outcome.done
        assert (done.code, len(done.errors)) == (spoilt.code, 1), done.err
        assert (outcome.result["status"], outcome.result["cases"]) == (STATUS[spoilt.code], [])
        assert "reads/s" not in done.out
        call, path = outcome.call
        assert path.match(spoilt.name if spoilt.code != IO else "*")
        kept = f"; kept: {outcome.own}" if spoilt.code != IO and outcome.plan.group != "0" else ""
        assert outcome.error["message"] == spoilt.said + kept
        if kept:
            assert call == "read"
            noted = (outcome.own / "wrong_data.txt").read_text()
            assert outcome.said == noted.strip()
        else:
            assert list(outcome.directory.iterdir()) == []

    plans = [
        Plan(
            RANKS, [*spoilt.options, "--repeats", 1, "--warmup", 0, "--keep-corrupt", keep],
            {"NAMES_FAULT": spoilt.kind, "NAMES_NAME": spoilt.name}, group=keep, of=spoilt,
        )
        for spoilt in SPOILT for keep in ("0", "1GiB")
    ]  # fmt: skip
    each(run_many(plans, new_directory, names_shim), check, at_once=1)


def test_no_node_reads_what_it_has_made(library_shim, new_directory):
    """Where there are several; the witness is on another node, too."""
    env = {"LIBRARY_FAULT": "nodes"}
    plans = [Plan(RANKS, [*options, "--repeats", 1], env) for options in (SAMPLES, STARTUP)]
    plans += [
        Plan(len(nodes), [*CHECKPOINT, "--repeats", 1], env | {"LIBRARY_NODES": ",".join(nodes)})
        for nodes in ("01", "0011", "000111")
    ]
    for outcome in run_many(plans, new_directory, library_shim):
        assert outcome.done.code == 0, outcome.done.err
        *_, one = outcome.result["cases"]
        assert one["cache"]["other_node_byte_fraction"] == 1
        for rep in one["repetitions"]:
            assert rep["witness"]["other_node_byte_fraction"] == 1
            assert rep["witness"]["bytes"] == outcome.result["run"]["bytes"]
