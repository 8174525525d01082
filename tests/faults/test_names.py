"""Names that are not as they should be: benchio's --operation metadata must end without a rate."""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import ROOT, RUN_ID, Run, compiled, each, run_directory
from faults.attempts import IO, STATUS, TIME_LIMIT, VERIFICATION

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


@pytest.fixture(scope="session")
def names_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("names_shim.c", tmp_path_factory.mktemp("names"), "gcc")


@pytest.mark.parametrize("files", ["shared", "process"])
def test_what_is_wrong_with_a_name_ends_the_run(
    mpirun: Callable[..., Run], names_shim: Path, new_directory: Callable[[], Path], files: str
) -> None:
    """Without a rate, and nothing of it is left."""

    def check(fault: Fault) -> None:
        directory = new_directory()
        result = directory.parent / "result.json"
        done = mpirun(
            RANKS, "--operation", "metadata", "--items", ITEMS, "--files", files, "--repeats", 2,
            "--warmup", 0, "--run-id", RUN_ID, "--dir", directory, "--json", result,
            env={"NAMES_FAULT": fault.kind, "NAMES_NAME": fault.name},
            launcher=["-x", f"LD_PRELOAD={names_shim}"],
        )  # fmt: skip
        assert (done.code, len(done.errors)) == (fault.code, 1), done.err
        data = json.loads(result.read_text())
        assert (data["status"], data["cases"]) == (STATUS[fault.code], [])
        assert "operations/s" not in done.out
        error = data["error"]
        assert (error["call"], error["message"]) == (fault.call, fault.said)
        place = run_directory(directory)
        assert Path(error["path"]).is_relative_to(place)
        assert Path(error["path"]).match(fault.named or fault.name)
        assert list(directory.iterdir()) == []

    each(FAULTS, check)


def test_each_node_lists_all_names(
    mpirun: Callable[..., Run], library_shim: Path, new_directory: Callable[[], Path]
) -> None:
    """What was listed is counted, and not what there is."""
    directory = new_directory()
    result = directory.parent / "result.json"
    done = mpirun(
        RANKS, "--operation", "metadata", "--items", ITEMS, "--repeats", 1, "--warmup", 0,
        "--dir", directory, "--json", result, env={"LIBRARY_FAULT": "nodes"},
        launcher=["-x", f"LD_PRELOAD={library_shim}"],
    )  # fmt: skip
    assert done.code == 0, done.err
    (rep,) = json.loads(result.read_text())["cases"][0]["repetitions"]
    assert rep["phases"]["list"]["operations"] == RANKS * (2 * ITEMS * RANKS)
    assert rep["witness"]["other_node_fraction"] == 1


def test_what_a_client_remembers_is_no_fault(
    mpirun: Callable[..., Run], names_shim: Path, new_directory: Callable[[], Path]
) -> None:
    """A name that was removed on another node, for a while; a directory, for longer."""

    def check(case: tuple[str, str]) -> None:
        fault, files = case
        done = mpirun(
            RANKS, "--operation", "metadata", "--items", ITEMS, "--files", files, "--repeats", 2,
            "--warmup", 0, "--dir", new_directory(),
            env={"NAMES_FAULT": fault, "NAMES_NAME": "f000002.0000003"},
            launcher=["-x", f"LD_PRELOAD={names_shim}"],
        )  # fmt: skip
        assert done.code == 0, done.err

    each(itertools.product(["lingers", "remade"], ["shared", "process"]), check)


def test_a_hang_is_ended(
    mpirun: Callable[..., Run], names_shim: Path, directory: Path, tmp_path: Path
) -> None:
    """By the watchdog, which names the phase; the job removes what is left."""
    done = mpirun(
        RANKS, "--operation", "metadata", "--items", ITEMS, "--repeats", 1, "--dir", directory,
        "--json", tmp_path / "result.json", "--phase-limit", 2, "--run-id", RUN_ID,
        env={"NAMES_FAULT": "hangs", "NAMES_NAME": "g000000.0000011"},
        launcher=["-x", f"LD_PRELOAD={names_shim}"],
    )  # fmt: skip
    assert done.code == TIME_LIMIT
    place = run_directory(directory) / "metadata.round1"
    assert [line.partition(";")[0] for line in done.errors] == [
        f"rank 0: unlink: {place}: no end after 2 s (--phase-limit)"
    ]
    assert not (tmp_path / "result.json").exists()


def test_names_are_on_the_mdt_that_was_asked_for(
    mpirun: Callable[..., Run], lustre_shim: Path, new_directory: Callable[[], Path]
) -> None:
    """Their own directory, too: a filesystem may spread directories over its MDTs."""

    def start(**lustre: str) -> tuple[Run, dict[str, Any], list[str]]:
        directory = new_directory()
        result, state = directory.parent / "result.json", directory.parent / "state"
        done = mpirun(
            2, "--operation", "metadata", "--items", 3, "--repeats", 1, "--mdt-index", 2,
            "--run-id", RUN_ID, "--dir", directory, "--json", result,
            env={
                "PATH": f"{ROOT / 'tests/faults'}:{os.environ['PATH']}",
                "LUSTRE_STATE": str(state),
                **lustre,
            },
            launcher=["-x", f"LD_PRELOAD={lustre_shim}"],
        )  # fmt: skip
        assert list(directory.iterdir()) == []
        calls = state.with_suffix(".log").read_text().splitlines()
        assert calls == [f"mkdir -i 2 {run_directory(directory)}"]
        return done, json.loads(result.read_text()), calls

    done, result, _ = start()
    assert done.code == 0, done.err
    assert (
        result["run"]["filesystem"] | {"type": "lustre", "mdt_index": 2}
        == (result["run"]["filesystem"])
    )
    assert result["cases"][0]["layout"]["observed"]["stripe_count"] == 1, "as users get it"
    done, result, _ = start(LUSTRE_MDT_BELOW="1")
    assert (done.code, result["cases"]) == (IO, [])
    assert result["error"]["message"] == "the directory is on MDT 1, asked for: 2"
