"""What the real mdtest said, under the law that benchio's results must satisfy; its metrics."""

import json
import re
import shlex
from pathlib import Path

import pytest
from cases import case as make_case
from cases import changed
from refusals import assert_refused
from result_file import make_result, turn_into_names

from iowatch.measure.kinds.ior import output_of
from iowatch.measure.kinds.mdtest import mdtest_metrics, options, rates
from iowatch.measure.kinds.metadata import METADATA_KIND
from iowatch.measure.result import InvalidResult, read_result

RANKS = 4
DATA = Path(__file__).parents[1] / "data/mdtest"
SHARED = make_case("MdtestPeer", "s:p/e", items=30, files="shared", ranks=2)
GOOD = {
    "shared": SHARED,
    "easy": changed(SHARED, files="process", io500="easy"),
    "hard": changed(SHARED, io500="hard"),
}


@pytest.fixture
def read(tmp_path):
    """read(name, edit=..., status="0"): the rates of a recorded run, changed."""

    def read(name, edit=None, status="0"):
        text = (DATA / f"{name}.out").read_text()
        (tmp_path / "mdtest.1.out").write_text(edit(text) if edit else text)
        (tmp_path / "mdtest.1.code").write_text(f"{status}\n")
        case = GOOD.get(name, SHARED)
        asked = shlex.split(" ".join(options(case, 2, "scratch/mdtest")))
        return rates(output_of(tmp_path, "mdtest.1", "mdtest"), case, 1, asked)

    return read


def test_rates_of_runs_that_did_what_was_asked_for(read):
    for name in GOOD:
        said = (DATA / f"{name}.out").read_text()
        rows = dict(re.findall(r"^   (\w+ \w+) +([0-9.]+)", said, re.MULTILINE))
        expected = {"create": "File creation", "stat": "File stat", "unlink": "File removal"}
        expected |= {"read": "File read"} if name != "easy" else {}
        assert read(name) == {phase: float(rows[row]) for phase, row in expected.items()}, name
    # Version 3.3 has a colon after a name, and no quotes in the command line.
    assert read("shared", lambda text: re.sub(r"(File \w+)", r"\1 :", text).replace("'", ""))
    # The files of another node, if there is one.
    assert "-N 2" in " ".join(options(changed(SHARED, ranks=4), 2, "x"))
    assert "-N 0" in " ".join(options(changed(SHARED, ranks=1), 1, "x"))


def replaced(old, new):
    return lambda text: re.sub(old, new, text, flags=re.MULTILINE)


REFUSED = [
    ("no-directory", "WARNING: Unable to create test directory path"),
    (("shared", None, "255"), "its exit status is 255; see mdtest.1.out"),
    (("shared", lambda text: f"{text}WARNING: unable to stat file x\n"), "WARNING: unable to stat"),
    (
        ("shared", replaced("scratch/mdtest'", "elsewhere'")),
        "command line: -F .* -d elsewhere, where -F .* -d scratch/mdtest was asked for",
    ),
    (("shared", replaced("^Command.*", "")), "command line: None, where"),
    (("shared", replaced("60 files", "59 files")), "tasks and files: 2 tasks, 59 files, where"),
    (("shared", replaced(r"on 1 node\(s\)", "on 2 node(s)")), "nodes: 2, where 1"),
    (("shared", replaced("of 1 iter", "of 2 iter")), "iterations: 2, where 1"),
    (("shared", replaced(r"(File removal +)\S+", r"\1nan")), "'File removal' is no number .* nan"),
    (("shared", replaced(r"(File creation +)\S+", r"\1--")), "'File creation' is no number .* --"),
    (("shared", replaced("^ +File read.*", "")), "'File read' is no number above 0: missing"),
]


def test_what_is_not_what_was_asked_for_is_refused(read):
    assert_refused(InvalidResult, read, [(given, f"mdtest: .*{says}") for given, says in REFUSED])


def test_benchio_beside_mdtest(tmp_path):
    """The best of both; of benchio's files with their sync."""
    data = make_result(["posix"], repeats=5, local_size=(1, 1, 1))
    turn_into_names(data, 10)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(data))
    reps = read_result(path).measurements[0].repetitions
    found = METADATA_KIND.metrics_of_rounds(reps, SHARED) | mdtest_metrics(reps, [
        {"create": 20.0, "stat": 7.0, "unlink": 1.0}, {"create": 40.0, "stat": 5.0, "unlink": 3.0},
    ])  # fmt: skip
    assert [found[f"mdtest_{name}_rate"] for name in ("create", "stat", "unlink")] == [40, 7, 3]
    # The fastest round creates in half of the time; the sync is of all rounds.
    reps = data["cases"][0]["repetitions"]
    seconds = [rep["phases"]["create"]["window"] + rep["phases"]["sync"]["window"] for rep in reps]
    assert found["mdtest_ratio"] == pytest.approx(10 * RANKS / min(seconds) / 40)
    assert found["create_rate"] == pytest.approx(10 * RANKS / 0.25)
