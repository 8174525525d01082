"""Striping that was asked for is set, observed and insisted on; against a stand-in for Lustre."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, ROOT, RUN_ID, Run, each, run_directory


@dataclass(frozen=True)
class Answer:
    """A small run on the stand-in: what it said, its result file, and the calls of lfs."""

    done: Run
    result: dict[str, Any]
    calls: list[str]
    directory: Path


Ask = Callable[..., Answer]


@pytest.fixture
def ask(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    lustre_shim: Path,
    new_directory: Callable[[], Path],
) -> Ask:
    """ask("--stripe-count 4", LUSTRE_...=...)"""

    def start(options: str, **lustre: str) -> Answer:
        directory = new_directory()
        result, state = directory.parent / "result.json", directory.parent / "state"
        env = {
            "PATH": f"{ROOT / 'tests/faults'}:{os.environ['PATH']}",
            "LUSTRE_STATE": str(state),
            **lustre,
        }
        done = mpirun(
            2, "--backend", ",".join(BACKENDS), "--local-size", 8, "--repeats", 1,
            "--run-id", RUN_ID, "--dir", directory, "--json", result,
            *options.split(), env=env, launcher=["-x", f"LD_PRELOAD={lustre_shim}"],
        )  # fmt: skip
        assert list(directory.iterdir()) == []
        log = state.with_suffix(".log")
        calls = log.read_text().splitlines() if log.exists() else []
        return Answer(done, read_result(result), calls, directory)

    return start


def test_what_was_asked_for_is_set_and_observed(ask: Ask) -> None:
    """Set once, on the run's own directory, whatever the number of files; observed of each."""

    def check(layout: str) -> None:
        answer = ask("--stripe-count 4 --stripe-size 8 --stripe-offset 2", LUSTRE_LAYOUT=layout)
        assert answer.done.code == 0, answer.done.err
        assert answer.calls == [f"setstripe -c 4 -S 8388608 -i 2 {run_directory(answer.directory)}"]
        stripes = {"count": 4, "size": 8388608, "offset": 2}
        striping = {"requested": stripes, "echoed": None, "observed": stripes}
        assert [case["striping"] for case in answer.result["cases"]] == [striping] * len(BACKENDS)

    each(["v1", "v3", "composite"], check)


def test_all_osts(ask: Ask) -> None:
    answer = ask("--stripe-count -1")
    assert answer.done.code == 0, answer.done.err
    assert answer.result["cases"][0]["striping"]["observed"]["count"] == 4


def test_striping_is_observed_without_being_asked_for(ask: Ask) -> None:
    answer = ask("", LUSTRE_STRIPING="3 1048576 1")
    assert answer.done.code == 0, answer.done.err
    assert answer.result["cases"][0]["striping"]["requested"] is None
    assert answer.result["cases"][0]["striping"]["observed"]["count"] == 3
    assert answer.calls == []


FOUR = "--stripe-count 4"

# Options, what the filesystem does, words of the error.
ERRORS: list[tuple[str, dict[str, str], list[str]]] = [
    (f"{FOUR} --stripe-size 1", {"STRIPING": "2 1048576 0"}, ["count 2", "asked for: count 4"]),
    (
        f"{FOUR} --stripe-size 1",
        {"STRIPING": "4 2097152 0"},
        ["size 2097152", "asked for: count 4"],
    ),
    (FOUR, {"LAYOUT": "garbage"}, ["cannot be observed"]),
    ("--stripe-count 400", {"FAIL": "error: too many stripes"}, ["too many stripes"]),
]


def test_other_striping_than_asked_for_is_an_error(ask: Ask) -> None:
    """Also one that nobody can see, and one that lfs refuses: its words are quoted."""

    def check(case: tuple[str, dict[str, str], list[str]]) -> None:
        options, filesystem, said = case
        answer = ask(options, **{f"LUSTRE_{name}": value for name, value in filesystem.items()})
        assert answer.done.code == 3
        assert answer.result["cases"] == []
        error = answer.result["error"]
        assert [words for words in said if words not in error["message"]] == [], error
        assert (error["call"] == "lfs setstripe") == ("FAIL" in filesystem), error

    each(ERRORS, check)


def test_stripes_are_refused_off_lustre(
    mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """And not ignored."""

    def check(option: str) -> None:
        directory = new_directory()
        done = mpirun(2, "--local-size", 8, *option.split(), "--dir", directory)
        assert done.code == 3, done.err
        assert len(done.errors) == 1, done.err
        assert "not lustre" in done.errors[0]
        assert list(directory.iterdir()) == []

    each(["--stripe-count 2", "--stripe-size 4", "--stripe-offset 0"], check)
