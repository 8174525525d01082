"""Striping that was asked for is set, observed and insisted on; against a stand-in for Lustre."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Run

Ask = Callable[..., tuple[Run, dict[str, Any] | None]]


@pytest.fixture
def ask(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    lustre_shim: Path,
    tmp_path: Path,
) -> Ask:
    """ask(options..., LUSTRE_...=...): a small run in `files`, its result, on the stand-in."""
    directory = tmp_path / "files"
    directory.mkdir()

    def start(*options: object, **lustre: str) -> tuple[Run, dict[str, Any] | None]:
        result = tmp_path / "result.json"
        env = {
            "PATH": f"{ROOT / 'tests/faults'}:{os.environ['PATH']}",
            "LUSTRE_STATE": str(tmp_path / "state"),
            **lustre,
        }
        done = mpirun(
            2, "--local-size", 8, "--repeats", 1, "--dir", directory, "--json", result, *options,
            env=env, launcher=["-x", f"LD_PRELOAD={lustre_shim}"],
        )  # fmt: skip
        assert list(directory.iterdir()) == []
        return done, read_result(result) if result.exists() else None

    return start


@pytest.mark.parametrize("layout", ["v1", "v3", "composite"])
def test_what_was_asked_for_is_set_and_observed(ask: Ask, tmp_path: Path, layout: str) -> None:
    done, result = ask(
        "--stripe-count", 4, "--stripe-size", 8, "--stripe-offset", 2, LUSTRE_LAYOUT=layout
    )
    assert done.code == 0, done.err
    assert result is not None
    calls = (tmp_path / "state.log").read_text().splitlines()
    assert calls[0] == f"setstripe -c 4 -S 8388608 -i 2 {tmp_path / 'files'}"
    assert len([call for call in calls if call.startswith("setstripe")]) == 1
    stripes = {"count": 4, "size": 8388608, "offset": 2}
    assert result["cases"][0]["striping"] == {
        "requested": stripes,
        "echoed": None,
        "observed": stripes,
    }


def test_all_osts(ask: Ask) -> None:
    done, result = ask("--stripe-count", -1)
    assert done.code == 0, done.err
    assert result is not None
    assert result["cases"][0]["striping"]["observed"]["count"] == 4


def test_striping_is_observed_without_being_asked_for(ask: Ask, tmp_path: Path) -> None:
    done, result = ask(LUSTRE_STRIPING="3 1048576 1")
    assert done.code == 0, done.err
    assert result is not None
    assert result["cases"][0]["striping"]["requested"] is None
    assert result["cases"][0]["striping"]["observed"]["count"] == 3
    assert not (tmp_path / "state.log").exists()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("2 1048576 0", "count 2"),
        ("4 2097152 0", "size 2097152"),
    ],
)
def test_other_striping_than_asked_for_is_an_error(ask: Ask, found: str, said: str) -> None:
    done, result = ask("--stripe-count", 4, "--stripe-size", 1, LUSTRE_STRIPING=found)
    assert done.code == 3
    assert result is not None
    assert result["cases"] == []
    assert said in result["error"]["message"]
    assert "asked for: count 4" in result["error"]["message"]


def test_striping_that_nobody_can_see_is_an_error(ask: Ask) -> None:
    done, result = ask("--stripe-count", 4, LUSTRE_LAYOUT="garbage")
    assert done.code == 3
    assert result is not None
    assert "cannot be observed" in result["error"]["message"]


def test_lfs_that_fails_is_quoted(ask: Ask) -> None:
    done, result = ask("--stripe-count", 400, LUSTRE_FAIL="error: too many stripes")
    assert done.code == 3
    assert result is not None
    assert result["error"]["call"] == "lfs setstripe"
    assert "too many stripes" in result["error"]["message"]


def test_stripes_are_refused_off_lustre(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    done = mpirun(2, "--local-size", 8, "--stripe-size", 4, "--dir", tmp_path)
    assert done.code == 3
    assert "not lustre" in done.errors[0]
    assert list(tmp_path.iterdir()) == []
