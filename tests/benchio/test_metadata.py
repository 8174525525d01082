"""`--operation metadata`: what it measures, and what it leaves."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, each

PHASES = ("mkdir", "create", "stat", "list", "rename", "read", "unlink", "rmdir")
RANKS, ITEMS = 3, 50
#: The file of item i holds 1 to 4 words of 8 bytes.
BYTES = RANKS * sum(8 * (1 + item % 4) for item in range(ITEMS))


@pytest.fixture
def in_memory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="iowatch-metadata.", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def test_every_phase_has_the_rate_of_its_operations(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    new_directory: Callable[[], Path],
    in_memory: Path,
    tmp_path: Path,
) -> None:
    """On a disk and in memory, in one directory and in one of each rank."""

    def check(case: tuple[str, Path]) -> None:
        files, directory = case
        file = tmp_path / f"{files}{directory.name}.json"
        done = mpirun(
            RANKS, "--operation", "metadata", "--items", ITEMS, "--files", files, "--repeats", 3,
            "--dir", directory, "--json", file,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert list(directory.iterdir()) == []
        result = read_result(file)
        assert (result["run"]["items"], result["run"]["bytes"]) == (ITEMS, BYTES)
        (one,) = result["cases"]
        assert (one["operation"], one["backend"], one["cache"]) == ("metadata", "posix", None)
        assert [rep["round"] for rep in one["repetitions"]] == [1, 2, 3, 4]
        # One list is of the node's first rank, of all names; or each rank's, of its partner's.
        wanted = dict.fromkeys(PHASES, RANKS * ITEMS) | {"list": RANKS * 2 * ITEMS}
        for rep in one["repetitions"]:
            phases = rep["phases"]
            assert set(phases) == {*PHASES, "sync"}
            assert {name: phases[name]["operations"] for name in PHASES} == wanted
            for name in PHASES:
                phase = phases[name]
                assert phase["rate"] == pytest.approx(phase["operations"] / phase["window"], 1e-6)
                assert phase["window"] >= phase["max"] > 0
            assert rep["witness"]["names"] == 2 * RANKS * ITEMS
            assert rep["witness"]["bytes"] == BYTES
            assert rep["rates"] == {}
        assert all(f"\n    {name} " in done.out for name in PHASES)

    each(
        [(files, place) for files in ("shared", "process") for place in (new_directory(),)]
        + [(files, in_memory) for files in ("shared", "process")],
        check,
        at_once=1,
    )


def test_who_looks_at_a_name_has_not_made_it(
    mpirun: Callable[..., Run], need: Callable[[str], str], directory: Path, tmp_path: Path
) -> None:
    """Nor given it its second name; and the names and what they hold were synced before. What they
    hold is another in each round."""
    trace = "trace=mkdir,openat,open,stat,newfstatat,lstat,rename,unlink,rmdir,syncfs,fsync,write"
    wrapper = tmp_path / "traced"
    wrapper.write_text(
        f'#!/bin/sh\nexec {need("strace")} -qq -y -e "{trace}" '
        f'-o {tmp_path}/trace.$OMPI_COMM_WORLD_RANK "$@"\n'
    )
    wrapper.chmod(0o755)
    done = mpirun(
        2, "--operation", "metadata", "--items", 3, "--repeats", 2, "--warmup", 0,
        "--dir", directory, launcher=[wrapper],
    )  # fmt: skip
    assert done.code == 0, done.err
    for rank, other in ((0, 1), (1, 0)):
        traced = (tmp_path / f"trace.{rank}").read_text().splitlines()
        calls, again = (
            [line for line in traced if f"/metadata.round{round_}" in line] for round_ in (1, 2)
        )
        first, second = (
            {line.partition(">, ")[2] for line in lines if line.startswith("write(")}
            for lines in (calls, again)
        )
        assert len(first | second) == 6, "3 items in 2 rounds"

        def of(call: str, names: str, calls: list[str] = calls) -> list[str]:
            return [line for line in calls if line.startswith(call) and names in line]

        assert len(of("mkdir", f"/d{rank:06}.")) == len(of("rmdir", f"/d{rank:06}.")) == 3
        assert len(of("rename", f"/f{rank:06}.")) == len(of("unlink", f"/g{rank:06}.")) == 3
        created = [line for line in of("open", f"/f{rank:06}.") if "O_EXCL" in line]
        opened = [line for line in of("open", f"/g{other:06}.") if "O_RDONLY" in line]
        assert len(created) == len(opened) == 3
        assert not of("open", f"/g{rank:06}.")
        looked = [line for line in calls if "stat" in line.partition("(")[0]]
        assert sum(f"/f{other:06}." in line for line in looked) == 6  # there, and then gone
        assert not any(f"/f{rank:06}." in line for line in looked)
        after = calls[calls.index(of("rmdir", f"/d{rank:06}.")[-1]) :]
        assert sum(f"/d{other:06}." in line for line in after if line in looked) == 3
        if rank == 0:
            synced = next(i for i, line in enumerate(calls) if line.startswith("syncfs"))
            assert max(map(calls.index, created)) < synced < calls.index(opened[0])
            assert calls[synced + 1].startswith("fsync("), "and then the names"
