"""Layouts that were asked for are set, observed and insisted on; against a stand-in for Lustre,
which answers as a real one did, and for the tools of other filesystems."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BACKENDS, ROOT, RUN_ID, Run, each, kept_file, run_directory

RECORDED = ROOT / "tests/data/lustre"
MIB = 2**20


@dataclass(frozen=True)
class Answer:
    """A small run on the stand-in: what it said, its result file, and the calls of lfs."""

    done: Run
    result: dict[str, Any]
    calls: list[str]
    directory: Path

    @property
    def observed(self) -> dict[str, Any]:
        """The layout of the first backend's file."""
        layout: dict[str, Any] = self.result["cases"][0]["layout"]["observed"]
        return layout


Ask = Callable[..., Answer]


@pytest.fixture
def ask(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    lustre_shim: Path,
    shim: Path,
    new_directory: Callable[[], Path],
) -> Ask:
    """ask("--stripe-count", 4, backends=..., faults={"FAULT": ...}, path=..., LUSTRE_...=...)"""

    def start(
        *options: object,
        backends: str = "mpiio",
        faults: dict[str, object] | None = None,
        path: str = "",
        hangs: bool = False,
        **lustre: str,
    ) -> Answer:
        directory = new_directory()
        result, state = directory.parent / "result.json", directory.parent / "state"
        own = run_directory(directory)
        env = {
            "PATH": path or f"{ROOT / 'tests/faults'}:{os.environ['PATH']}",
            "LUSTRE_STATE": str(state),
            **{name: str(value).format(own=own) for name, value in (faults or {}).items()},
            **lustre,
        }
        preload = f"{lustre_shim}:{shim}" if faults else str(lustre_shim)
        done = mpirun(
            2, "--backend", backends, "--local-size", 8, "--repeats", 1,
            "--run-id", RUN_ID, "--dir", directory, "--json", result,
            *options, env=env, launcher=["-x", f"LD_PRELOAD={preload}"],
        )  # fmt: skip
        assert hangs or list(directory.iterdir()) == [], done.err
        log = state.with_suffix(".log")
        calls = log.read_text().splitlines() if log.exists() else []
        read = read_result(result) if result.exists() else {}
        return Answer(done, read, calls, directory)

    return start


def test_what_was_asked_for_is_set_and_observed(ask: Ask) -> None:
    """Set once, on the run's own directory, whatever the number of files; observed of each."""
    plain = ("--stripe-count", 4, "--stripe-size", "8MiB")
    answer = ask(*plain, backends=",".join(BACKENDS))
    assert answer.done.code == 0, answer.done.err
    assert answer.calls == [f"setstripe -c 4 -S 8388608 {run_directory(answer.directory)}"]
    said = {"stripe_count": 4, "stripe_size": 8 * MIB, "pool": None}
    for case in answer.result["cases"]:
        assert case["target"] is None
        assert case["layout"]["requested"] == {**said, "setstripe": None}
        assert case["layout"]["echoed"] == said
        assert case["layout"]["observed"].items() >= {**said, "osts": [0, 1, 2, 3]}.items()
    assert answer.result["run"]["filesystem"]["mdt_index"] == 0

    answer = ask("--pool", "fast", "--stripe-count", -1, "--stripe-size", 2 * MIB)
    assert answer.done.code == 0, answer.done.err
    said = {"stripe_count": 2, "stripe_size": 2 * MIB, "pool": "fast", "osts": [1, 2]}
    assert answer.observed.items() >= said.items()

    answer = ask("--setstripe", "-E 1M -c 1 -E 16M -c 2 -S 2M -E -1 -c -1", "--mdt-index", 3)
    assert answer.done.code == 0, answer.done.err
    own = run_directory(answer.directory)
    options = "-E 1M -c 1 -E 16M -c 2 -S 2M -E -1 -c -1"
    assert answer.calls == [f"mkdir -i 3 {own}", f"setstripe {options} {own}"]
    layout = answer.result["cases"][0]["layout"]
    assert layout["requested"]["setstripe"] == options
    assert layout["echoed"] is None, "it has no one count"
    assert len(layout["observed"]["components"]) == 3
    assert answer.result["run"]["filesystem"]["mdt_index"] == 3


def test_layout_of_every_file_is_looked_at(ask: Ask) -> None:
    """Each by the first rank that shares it."""
    odd = {"LUSTRE_OF": "posix.000001.dat", "LUSTRE_STRIPING": "2 1048576 0"}
    answer = ask("--files", "process", "--stripe-count", 4, backends="posix", **odd)
    assert answer.done.code == 3, answer.done.err
    assert answer.result["error"]["path"].endswith("/posix.000001.dat")


def test_recorded_layouts_are_read_whole(ask: Ask) -> None:
    """Of a directory that gives its files any of them, without that it was asked for: every byte
    of what Lustre stores means what its own program says of it."""
    names = sorted(file.stem.split("-")[2] for file in RECORDED.glob("xattr-file-*.txt"))
    assert len(names) == 10

    def check(name: str) -> None:
        answer = ask(LUSTRE_LAYOUT=name)
        assert answer.done.code == 0, answer.done.err
        assert answer.calls == [], "nothing is set"
        assert answer.result["cases"][0]["layout"]["requested"] is None
        text = (RECORDED / f"getstripe-yaml-{name}.txt").read_text()
        said = yaml.safe_load(text.split("--- stdout\n")[1].split("--- stderr")[0])
        expected = [component(entry) for entry in said.get("components", [said])]
        assert answer.observed["components"] == expected
        (holder,) = [one for one in expected if one["is_instantiated"]]
        keys = ("stripe_count", "stripe_size", "pool", "osts")
        assert {key: answer.observed[key] for key in keys} == {key: holder[key] for key in keys}
        assert answer.observed["said"] is None

    each(names, check)


def component(said: dict[str, Any]) -> dict[str, Any]:
    """A component of the result file as `lfs getstripe -y` says it."""
    layout = said.get("sub_layout", said)
    end = said.get("lcme_extent.e_end", "EOF")
    words = layout["lmm_pattern"].split(",")
    return {
        "first_byte": said.get("lcme_extent.e_start", 0),
        "end_byte": None if end == "EOF" else end,
        "pattern": words[-1],
        "stripe_count": layout["lmm_stripe_count"],
        "stripe_size": layout["lmm_stripe_size"],
        "pool": layout.get("lmm_pool"),
        "osts": [entry["l_ost_idx"] for entry in layout.get("lmm_objects", [])],
        "is_instantiated": said.get("lcme_flags", "init") == "init",
    }


FOUR = ("--stripe-count", 4)

# Options, what the filesystem does, words of the error.
ERRORS: list[tuple[tuple[object, ...], dict[str, str], str]] = [
    (
        (*FOUR, "--stripe-size", "1MiB"),
        {"STRIPING": "2 1048576 0"},
        "the file has stripe count 2, asked for: stripe count 4, stripe size 1048576",
    ),
    (
        (*FOUR, "--stripe-size", "1MiB"),
        {"STRIPING": "4 2097152 0"},
        "the file has stripe size 2097152, asked for: stripe count 4, stripe size 1048576",
    ),
    (("--stripe-count", -1), {"STRIPING": "1 1048576 0"}, "the file has stripe count 1, asked for"),
    (("--pool", "fast"), {"STRIPING": "1 1048576 0"}, "the file has pool (none), asked for: pool"),
    (("--stripe-count", 400), {}, "the file has stripe count 4, asked for: stripe count 400"),
    (FOUR, {"LAYOUT": "garbage"}, "the layout cannot be observed"),
    (("--setstripe", "-C 8"), {"LAYOUT": "none"}, "the layout cannot be observed"),
    # What lfs refuses, in its own words and without the pages of help that come with them.
    (FOUR, {"SAYS": "setstripe-err-perm"}, "exit status 13: lfs setstripe: unable to open "),
    (FOUR, {"SAYS": "setstripe-err-nolustre"}, "exit status 25: lfs setstripe: setstripe error"),
    (
        ("--stripe-count", 3000),
        {},
        "exit status 4: lfs setstripe setstripe: invalid stripe count '3000'",
    ),
    (("--pool", "nosuch"), {}, "does not exist: No such file or directory (2)"),
    (("--mdt-index", 7), {"MDT": "0", "FAIL": "no MDT"}, "lfs mkdir: exit status 22: no MDT"),
]


def test_other_layouts_than_asked_for_are_errors(ask: Ask) -> None:
    """Also one that nobody can see, and one that lfs refuses."""

    def check(case: tuple[tuple[object, ...], dict[str, str], str]) -> None:
        options, filesystem, said = case
        if "LAYOUT" in filesystem:  # as if lfs did nothing
            filesystem = {**filesystem, "SAYS": "setstripe-err-count-too-many"}
        answer = ask(*options, **{f"LUSTRE_{name}": value for name, value in filesystem.items()})
        assert answer.done.code == 3, answer.done.err
        assert answer.result["cases"] == []
        error = answer.result["error"]
        assert said in error["message"], error
        assert len(error["message"]) < 300
        called = "layout" if "the " in said else "mkdir" if "mkdir" in said else "lfs setstripe"
        assert error["call"] == called

    each(ERRORS, check)


def test_without_lfs(ask: Ask, tmp_path: Path) -> None:
    """It is not there, may not be run, or does not end: one sentence."""
    if shutil.which("lfs"):
        pytest.skip("there is a real lfs here")
    (tmp_path / "lfs").write_text("#!/bin/sh\n")

    def check(case: tuple[str, str]) -> None:
        path, said = case
        answer = ask(*FOUR, path=path)
        assert answer.done.code == 3, answer.done.err
        message = answer.result["error"]["message"]
        assert message == f"the program lfs cannot be run on this node: {said}"

    path = os.environ["PATH"]
    each([(path, "No such file or directory"), (f"{tmp_path}:{path}", "Permission denied")], check)

    answer = ask(*FOUR, "--phase-limit", 2, hangs=True, LUSTRE_HANGS="1")
    assert answer.done.code == 5, answer.done.err
    assert "make the run's directory" in answer.done.errors[0]


# Operations, what fails of target 2, and what is said of it.
FULL = {"FAULT": "write", "FAULT_THROUGH": 0, "FAULT_RANK": "all", "FAULT_ERRNO": errno.ENOSPC}
FAILING: list[tuple[str, dict[str, object], dict[str, str], str]] = [
    ("write", {}, {"LUSTRE_INACTIVE": "2"}, "Lustre has put the file on OST 3 instead of OST 2"),
    ("write,read", FULL, {}, "a small write beside it fails: No space left on device"),
    ("read", {**FULL, "FAULT_ERRNO": errno.EDQUOT}, {}, "beside it fails: Disk quota exceeded"),
]


def test_targets_one_by_one(ask: Ask) -> None:
    """Each has a directory of its own, laid out once, and all take turns in every round; one that
    fails is named and left out, and says nothing of the others."""

    def check(case: tuple[str, dict[str, object], dict[str, str], str]) -> None:
        operations, faults, lustre, said = case
        if faults:
            faults = {**faults, "FAULT_FILE": "{own}/target.2/*"}
        answer = ask(
            "--targets", "3,2,0", "--stripe-size", "1MiB", "--operation", operations,
            "--repeats", 3, "--warmup", 0,
            backends="mpiio,posix", faults=faults, **lustre,
        )  # fmt: skip
        assert answer.done.code == 0, answer.done.err
        own = run_directory(answer.directory)
        assert answer.calls == [
            f"setstripe -c 1 -i {ost} -S 1048576 {own}/target.{ost}" for ost in (3, 2, 0)
        ]
        assert answer.result["status"] == "ok"
        positions: dict[str, list[int]] = {}
        for one in answer.result["cases"]:
            target = one["target"]
            if target["name"] == "2":
                assert said in target["error"]["message"], target
                assert str(target["error"]["path"]).startswith(f"{own}/target.2/")
                assert one["repetitions"] == []
                continue
            assert target["error"] is None
            requested = {"stripe_count": 1, "stripe_size": MIB, "pool": None, "setstripe": None}
            assert one["layout"]["requested"] == requested
            assert one["layout"]["observed"]["osts"] == [int(target["name"])]
            assert [rep["round"] for rep in one["repetitions"]] == [1, 2, 3]
            positions[f"{one['backend']} {target['name']}"] = [
                rep["position"] for rep in one["repetitions"]
            ]
        assert positions == {
            "mpiio 3": [1, 6, 3], "mpiio 0": [5, 4, 1],
            "posix 3": [2, 5, 4], "posix 0": [6, 3, 2],
        }  # fmt: skip
        assert "target 2 was left out from then on: rank " in answer.done.out
        assert re.search(r"^write mpiio   2 failed$", answer.done.out, re.MULTILINE) or (
            operations == "read"
        )

    each(FAILING, check)


def test_a_target_that_fails_later(ask: Ask) -> None:
    """What it did before counts. Where none is left, the run has failed."""
    fails = {**FULL, "FAULT_THROUGH": 20000, "FAULT_FILE": "{own}/target.1/*"}
    options = ("--repeats", 6, "--warmup", 1)
    answer = ask("--targets", "0,1", *options, faults=fails)
    assert answer.done.code == 0, answer.done.err
    good, bad = answer.result["cases"]
    assert len(good["repetitions"]) == 7
    rounds = [rep["round"] for rep in bad["repetitions"]]
    assert rounds == list(range(1, len(rounds) + 1))
    assert 0 < len(rounds) < 7
    assert bad["target"]["error"]["call"].startswith("MPI_File_write")

    answer = ask("--targets", "0,1", *options, faults={**fails, "FAULT_FILE": "{own}/target.?/*"})
    assert answer.done.code == 3, answer.done.err
    assert answer.result["cases"] == []
    assert answer.result["error"]["message"].startswith("every target has failed, this one: ")


def test_a_target_that_is_exchanged_later(ask: Ask) -> None:
    """As when it fills up in the night: it is looked at in every round."""
    now_on_0 = "echo '{own}/target.1 plain 1 1048576 0 -' >> $LUSTRE_STATE"
    answer = ask(
        "--targets", "0,1", "--stripe-size", "1MiB", "--repeats", 4,
        faults={
            "FAULT": "command", "FAULT_RANK": "all", "FAULT_CALL": 3, "FAULT_COMMAND": now_on_0,
            "FAULT_FILE": "{own}/target.1/mpiio.dat",
        },
    )  # fmt: skip
    assert answer.done.code == 0, answer.done.err
    good, bad = answer.result["cases"]
    assert [len(case["repetitions"]) for case in (good, bad)] == [5, 2]
    assert "has put the file on OST 0 instead of OST 1" in bad["target"]["error"]["message"]


def test_wrong_data_are_never_only_a_targets(ask: Ask) -> None:
    answer = ask(
        "--targets", "0,1",
        faults={"FAULT": "flip", "FAULT_RANK": "all", "FAULT_FILE": "{own}/target.1/mpiio.dat"},
    )  # fmt: skip
    assert answer.done.code == 4, answer.done.err
    assert "/target.1/mpiio.dat" in answer.result["error"]["path"]
    assert answer.result["cases"] == []


def test_data_of_another_target(
    ask: Ask, mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """Of the same run, backend, file and round: no two files of a run are alike."""
    before = new_directory()
    done = mpirun(
        2, "--local-size", 8, "--warmup", 0, "--repeats", 1, "--operation", "write-keep",
        "--run-id", RUN_ID, "--dir", before,
    )  # fmt: skip
    assert done.code == 0, done.err
    first = run_directory(before) / kept_file("mpiio", 1)
    for target, code in ((0, 0), (1, 4)):
        answer = ask(
            "--targets", "0,1",
            faults={
                "FAULT": "command", "FAULT_COMMAND": f'cp {first} "$FAULT_PATH"',
                "FAULT_RANK": "all", "FAULT_FILE": f"{{own}}/target.{target}/mpiio.dat",
            },
        )  # fmt: skip
        assert answer.done.code == code, answer.done.err


def test_a_target_that_hangs_is_named(ask: Ask) -> None:
    answer = ask(
        "--targets", "0,1", "--phase-limit", 1, "--collective", "no",
        faults={"FAULT": "sleep", "FAULT_THROUGH": 0, "FAULT_FILE": "{own}/target.1/mpiio.dat"},
    )  # fmt: skip
    assert answer.done.code == 5, answer.done.err
    assert "write: " in answer.done.errors[0]
    assert "/target.1/mpiio.dat: no end after 1 s" in answer.done.errors[0]


# Four stripes of 64 KiB in turn, of 512 KiB.
STRIPED = ("--stripe-count", 4, "--stripe-size", "64KiB", "--local-size", 32, "--warmup", 0)


def test_an_ost_that_is_full_is_named(ask: Ask) -> None:
    """Of a file with several: a small write beside the file may meet another OST. By the rank that
    failed first, once, though all fail."""

    def check(case: tuple[str, tuple[object, ...], str]) -> None:
        backend, options, said = case
        answer = ask(*STRIPED, *options, backends=backend, LUSTRE_FULL="3")
        assert answer.done.code == 3, answer.done.err
        message = answer.result["error"]["message"]
        assert message.count("OST 3") == 1, message
        assert message.endswith(said), message

    none = "fails: No space left on device"
    beside = f"; a small write beside it succeeds; of its 4 stripes, that on OST 3 {none}"
    each(
        [
            ("mpiio", (), beside),
            ("mpiio", ("--files", "process"), beside),
            ("hdf5", (), beside),
            # The errno is known, and still not of which OST.
            ("posix", (), f"No space left on device; of its 4 stripes, that on OST 3 {none}"),
        ],
        check,
    )


def test_an_ost_that_hangs_is_named(ask: Ask) -> None:
    """A small write beside the file meets none of its stripes."""
    answer = ask(*STRIPED, "--phase-limit", 2, backends="posix", hangs=True, LUSTRE_DEAD="2")
    assert answer.done.code == 5, answer.done.err
    said = "; a small write beside it succeeds; of its 4 stripes, that on OST 2 does not end"
    assert answer.done.errors[0].endswith(f"no end after 2 s (--phase-limit){said}")
    assert list(answer.directory.iterdir()) == []


GPFS_SAYS = """\
file name:            {file}
metadata replication: 1 max 2
data replication:     1 max 2
storage pool name:    nvme
fileset name:         root
"""

# statfs, a line of the mount table, a tool, what it says, what is observed of stripe size and pool.
OTHERS = [
    ("0x47504653", "gpfs0 {dir} gpfs rw", "mmlsattr", GPFS_SAYS, (4096, "nvme")),
    ("0x47504653", "gpfs0 {dir} gpfs rw", "", "", (4096, None)),
    ("0x19830326", "beegfs {dir} beegfs rw", "beegfs", "Stripe pattern: RAID0\n", (None, None)),
    ("0x19830326", "beegfs {dir} beegfs rw", "beegfs-ctl", "+ Chunksize: 512K\n", (None, None)),
    ("0x6969", "vast:/export {dir} nfs4 rw,nconnect=8", "", "", (None, None)),
    ("0x1234", "weka/default {dir} wekafs rw", "", "", (None, None)),
    ("0x65735546", "dfuse {dir} fuse.daos rw", "", "", (None, None)),
]


def test_other_filesystems_say_what_they_can(ask: Ask, tmp_path: Path) -> None:
    """And have no layouts that benchio could set. One rank asks, once, of one file."""

    def check(case: tuple[str, str, str, str, tuple[int | None, str | None]]) -> None:
        magic, mounted, tool, says, (size, pool) = case
        folder = tmp_path / f"{magic}-{tool}"
        folder.mkdir()
        mounted = mounted.format(dir=tmp_path)
        table = ["disk / ext4 rw 0 0", f"{mounted} 0 0", f"other {tmp_path}x nfs rw 0 0"]
        (folder / "mounts").write_text("\n".join(table) + "\n")
        says = says.format(file="mpiio.dat")
        if tool:
            (folder / "said").write_text(says)
            script = f'#!/bin/sh\necho "$*" >> {folder}/calls\ncat {folder}/said\n'
            (folder / tool).write_text(script)
            (folder / tool).chmod(0o755)
        lustre = {"LUSTRE_MAGIC": magic, "LUSTRE_MOUNTS": str(folder / "mounts")}
        path = f"{folder}:{os.environ['PATH']}"
        answer = ask("--files", "process", path=path, **lustre)
        assert answer.done.code == 0, answer.done.err
        kind = mounted.split()[2]
        filesystem = answer.result["run"]["filesystem"]
        assert (filesystem["mount_type"], filesystem["mdt_index"]) == (kind, None)
        remote = kind in ("nfs4", "wekafs", "fuse.daos")
        source = mounted.split()
        said = says or (" ".join([source[0], *source[2:]]) if remote else None)
        assert answer.observed == {
            "stripe_count": None, "stripe_size": size, "pool": pool, "osts": [],
            "components": [], "said": said,
        }  # fmt: skip
        if tool:
            file = run_directory(answer.directory) / "mpiio.000000.dat"
            (call,) = (folder / "calls").read_text().splitlines()
            assert call.endswith(str(file))

        if remote:
            refused = ask("--targets", "1", path=path, **lustre)
            assert refused.done.code == 3, refused.done.err
            assert "benchio can set one on Lustre and CephFS only" in refused.done.errors[0]

    each(OTHERS, check)


def test_layouts_are_refused_where_there_are_none(
    mpirun: Callable[..., Run], new_directory: Callable[[], Path]
) -> None:
    """And not ignored, nor by a dry run."""

    def check(options: tuple[object, ...]) -> None:
        directory = new_directory()
        done = mpirun(2, "--local-size", 8, *options, "--dir", directory)
        assert done.code == 3, done.err
        assert len(done.errors) == 1, done.err
        assert "a layout was asked for, but the directory is on " in done.errors[0]
        assert list(directory.iterdir()) == []

    each([("--stripe-count", 2, "--dry-run"), ("--setstripe", "-c 4")], check)
