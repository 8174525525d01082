"""Layouts that were asked for are set, observed and insisted on; against a stand-in for Lustre,
which answers as a real one did, and for the tools of other filesystems."""

import errno
import os
import re
import shutil
from dataclasses import replace

import pytest
import yaml
from conftest import BACKENDS, ROOT, each
from faults.attempts import IO, TIME_LIMIT, VERIFICATION, check_left
from many_runs import Plan, run_many

RECORDED = ROOT / "tests/data/lustre"
MIB = 2**20
PATH = os.environ["PATH"]
STAND_IN = ROOT / "tests/faults"  # for lfs


def asking(*options, backends="mpiio", faults=None, path=f"{STAND_IN}:{PATH}", **lustre):
    """A small run on the stand-in, with faults of shim.c and settings of lustre_shim.c."""
    env = {"PATH": path, "LUSTRE_STATE": "{beside}/state", **(faults or {})}
    env |= {f"LUSTRE_{name}": value for name, value in lustre.items()}
    small = ("--backend", backends, "--local-size", 8, "--repeats", 1)
    return Plan(2, [*small, *options], env)


def calls_of(answer):
    """Of lfs."""
    log = answer.directory.parent / "state.log"
    return log.read_text().splitlines() if log.exists() else []


def observed(answer):
    """The layout of the first backend's file."""
    return answer.result["cases"][0]["layout"]["observed"]


@pytest.fixture
def ask(lustre_shim, shim, new_directory):
    """ask(code, plans...): the answers to all of them, each of which ended with the exit code."""

    def start(code, *plans):
        answers = run_many(plans, new_directory, lustre_shim, shim)
        for answer in answers:
            assert answer.done.code == code, f"{answer}\n{answer.done.err}"
            assert len(answer.done.errors) == (code > 0), answer.done.err
            check_left(answer)
            assert code == 0 or answer.result["cases"] == []
        return answers

    return start


def test_what_was_asked_for_is_set_and_observed(ask):
    """Set once, on the run's own directory, whatever the number of files; observed of each."""
    words = "-E 1M -c 1 -E 16M -c 2 -S 2M -E -1 -c -1"
    plain, pooled, composite = ask(
        0,
        asking("--stripe-count", 4, "--stripe-size", "8MiB", backends=",".join(BACKENDS)),
        asking("--pool", "fast", "--stripe-count", -1, "--stripe-size", 2 * MIB),
        asking("--setstripe", words, "--mdt-index", 3),
    )
    assert calls_of(plain) == [f"setstripe -c 4 -S 8388608 {plain.own}"]
    said = {"stripe_count": 4, "stripe_size": 8 * MIB, "pool": None}
    for case in plain.result["cases"]:
        assert case["target"] is None
        assert case["layout"]["requested"] == {**said, "setstripe": None}
        assert case["layout"]["echoed"] == said
        assert case["layout"]["observed"].items() >= {**said, "osts": [0, 1, 2, 3]}.items()
    assert plain.result["run"]["filesystem"]["mdt_index"] == 0

    said = {"stripe_count": 2, "stripe_size": 2 * MIB, "pool": "fast", "osts": [1, 2]}
    assert observed(pooled).items() >= said.items()

    assert calls_of(composite) == [
        f"mkdir -i 3 {composite.own}",
        f"setstripe {words} {composite.own}",
    ]
    layout = composite.result["cases"][0]["layout"]
    assert layout["requested"]["setstripe"] == words
    assert layout["echoed"] is None, "it has no one count"
    assert len(layout["observed"]["components"]) == 3
    assert composite.result["run"]["filesystem"]["mdt_index"] == 3


def test_the_layout_of_every_file_is_looked_at(ask):
    """Each by the first rank that shares it."""
    odd = {"OF": "posix.000001.dat", "STRIPING": "2 1048576 0"}
    options = ("--files", "process", "--stripe-count", 4)
    (answer,) = ask(IO, asking(*options, backends="posix", **odd))
    assert answer.error["path"].endswith("/posix.000001.dat")


def test_recorded_layouts_are_read_whole(ask):
    """Of a directory that gives its files any of them, without that it was asked for: every byte
    of what Lustre stores means what its own program says of it."""
    names = sorted(file.stem.split("-")[2] for file in RECORDED.glob("xattr-file-*.txt"))
    assert len(names) == 10

    def check(case):
        name, answer = case
        assert calls_of(answer) == [], "nothing is set"
        assert answer.result["cases"][0]["layout"]["requested"] is None
        text = (RECORDED / f"getstripe-yaml-{name}.txt").read_text()
        said = yaml.safe_load(text.split("--- stdout\n")[1].split("--- stderr")[0])
        expected = [component(entry) for entry in said.get("components", [said])]
        assert observed(answer)["components"] == expected
        (holder,) = [one for one in expected if one["is_instantiated"]]
        keys = ("stripe_count", "stripe_size", "pool", "osts")
        assert {key: observed(answer)[key] for key in keys} == {key: holder[key] for key in keys}
        assert observed(answer)["said"] is None

    answers = ask(0, *(asking(LAYOUT=name) for name in names))
    each(zip(names, answers, strict=True), check)


def component(said):
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
ERRORS = [
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


def test_other_layouts_than_asked_for_are_errors(ask):
    """Also one that nobody can see, and one that lfs refuses."""

    def asked(options, filesystem):
        if "LAYOUT" in filesystem:  # as if lfs did nothing
            filesystem = {**filesystem, "SAYS": "setstripe-err-count-too-many"}
        return asking(*options, **filesystem)

    def check(case):
        (_, _, said), answer = case
        error = answer.error
        assert said in error["message"], error
        assert len(error["message"]) < 300
        called = "layout" if "the " in said else "mkdir" if "mkdir" in said else "lfs setstripe"
        assert error["call"] == called

    answers = ask(IO, *(asked(options, filesystem) for options, filesystem, _ in ERRORS))
    each(zip(ERRORS, answers, strict=True), check)


def test_without_lfs(ask, tmp_path):
    """It is not there, or may not be run: one sentence."""
    if shutil.which("lfs"):
        pytest.skip("there is a real lfs here")
    (tmp_path / "lfs").write_text("#!/bin/sh\n")
    paths = (PATH, f"{tmp_path}:{PATH}")
    missing, forbidden = ask(IO, *(asking(*FOUR, path=path) for path in paths))
    said = "the program lfs cannot be run on this node: "
    assert missing.error["message"] == f"{said}No such file or directory"
    assert forbidden.error["message"] == f"{said}Permission denied"


def test_hangs_are_named(new_directory, lustre_shim, shim):
    """Of one target, and of an OST: a small write beside the file meets none of its stripes."""
    faults = {"FAULT": "sleep", "FAULT_THROUGH": 0, "FAULT_FILE": "{own}/target.1/mpiio.dat"}
    hangs = {
        "/target.1/mpiio.dat: no end after 1 s": asking(*TWO, "--collective", "no", faults=faults),
        "; a small write beside it succeeds; of its 4 stripes, that on OST 2 does not end": asking(
            *STRIPED, backends="posix", DEAD=2
        ),
    }
    plans = [
        replace(plan, options=[*plan.options, "--phase-limit", 1], group=said, of=said)
        for said, plan in hangs.items()
    ]
    for outcome in run_many(plans, new_directory, lustre_shim, shim):
        assert outcome.done.code == TIME_LIMIT, outcome.done.err
        assert outcome.plan.of in outcome.said


def test_lfs_that_hangs(mpirun, lustre_shim, directory):
    state = directory.parent / "state"
    env = {"PATH": f"{STAND_IN}:{PATH}", "LUSTRE_STATE": str(state), "LUSTRE_HANGS": "1"}
    done = mpirun(
        2, *FOUR, "--phase-limit", 1, "--dir", directory, env=env,
        launcher=["-x", f"LD_PRELOAD={lustre_shim}"],
    )  # fmt: skip
    assert done.code == TIME_LIMIT, done.err
    (said,) = done.errors
    assert "make the run's directory" in said


# Operations, what fails of target 2, and what is said of it.
FULL = {"FAULT": "write", "FAULT_THROUGH": 0, "FAULT_RANK": "all", "FAULT_ERRNO": errno.ENOSPC}
OF_2 = {"FAULT_FILE": "{own}/target.2/*"}
FAILING = [
    ("write", None, {"INACTIVE": 2}, "Lustre has put the file on OST 3 instead of OST 2"),
    ("write,read", FULL | OF_2, {}, "a small write beside it fails: No space left on device"),
    (
        "read", {**FULL, "FAULT_ERRNO": errno.EDQUOT} | OF_2, {},
        "beside it fails: Disk quota exceeded",
    ),
]  # fmt: skip


def test_targets_one_by_one(ask):
    """Each has a directory of its own, laid out once, and all take turns in every round; one that
    fails is named and left out, and tells nothing of the others."""
    targets = ("--targets", "3,2,0", "--stripe-size", "1MiB", "--repeats", 3, "--warmup", 0)

    def check(case):
        (operations, _, _, said), answer = case
        assert calls_of(answer) == [
            f"setstripe -c 1 -i {ost} -S 1048576 {answer.own}/target.{ost}" for ost in (3, 2, 0)
        ]
        assert answer.result["status"] == "ok"
        positions = {}
        for one in answer.result["cases"]:
            target = one["target"]
            if target["name"] == "2":
                assert said in target["error"]["message"], target
                assert str(target["error"]["path"]).startswith(f"{answer.own}/target.2/")
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

    plans = [
        asking(*targets, "--operation", operations, backends="mpiio,posix", faults=faults, **lustre)
        for operations, faults, lustre, _ in FAILING
    ]
    each(zip(FAILING, ask(0, *plans), strict=True), check)


TWO = ("--targets", "0,1")


def test_a_target_that_fails_later(ask):
    """What it did before counts. Where none is left, the run has failed."""
    fails = {**FULL, "FAULT_THROUGH": 20000}
    options = (*TWO, "--repeats", 6, "--warmup", 1)
    (answer,) = ask(0, asking(*options, faults=fails | {"FAULT_FILE": "{own}/target.1/*"}))
    good, bad = answer.result["cases"]
    assert len(good["repetitions"]) == 7
    rounds = [rep["round"] for rep in bad["repetitions"]]
    assert rounds == list(range(1, len(rounds) + 1))
    assert 0 < len(rounds) < 7
    assert bad["target"]["error"]["call"].startswith("MPI_File_write")

    (answer,) = ask(IO, asking(*options, faults=fails | {"FAULT_FILE": "{own}/target.?/*"}))
    assert answer.error["message"].startswith("every target has failed, this one: ")


def test_a_target_that_is_exchanged_later(ask):
    """As when it fills up in the night: it is looked at in every round."""
    now_on_0 = "echo '{own}/target.1 plain 1 1048576 0 -' >> $LUSTRE_STATE"
    faults = {
        "FAULT": "command", "FAULT_RANK": "all", "FAULT_CALL": 3, "FAULT_COMMAND": now_on_0,
        "FAULT_FILE": "{own}/target.1/mpiio.dat",
    }  # fmt: skip
    (answer,) = ask(0, asking(*TWO, "--stripe-size", "1MiB", "--repeats", 4, faults=faults))
    good, bad = answer.result["cases"]
    assert [len(case["repetitions"]) for case in (good, bad)] == [5, 2]
    assert "has put the file on OST 0 instead of OST 1" in bad["target"]["error"]["message"]


def test_wrong_data_are_never_only_a_targets(ask):
    faults = {"FAULT": "flip", "FAULT_RANK": "all", "FAULT_FILE": "{own}/target.1/mpiio.dat"}
    (answer,) = ask(VERIFICATION, asking(*TWO, faults=faults))
    assert "/target.1/mpiio.dat" in answer.error["path"]


def test_data_of_another_target(ask, tmp_path):
    """Of the same run, backend, file and round: no two files of a run are alike."""

    def copy(target, command):
        file = f"{{own}}/target.{target}/mpiio.dat"
        faults = {"FAULT": "command", "FAULT_COMMAND": command, "FAULT_FILE": file}
        return asking(*TWO, "--warmup", 0, faults=faults | {"FAULT_RANK": "all"})

    first = tmp_path / "first"
    ask(0, copy(0, f'cp "$FAULT_PATH" {first}'), copy(0, f'cp {first} "$FAULT_PATH"'))
    ask(VERIFICATION, copy(1, f'cp {first} "$FAULT_PATH"'))


# Four stripes of 64 KiB in turn, of 512 KiB.
STRIPED = ("--stripe-count", 4, "--stripe-size", "64KiB", "--local-size", 32, "--warmup", 0)


def test_an_ost_that_is_full_is_named(ask):
    """Of a file with several: a small write beside the file may meet another OST. By the rank that
    failed first, once, though all fail."""
    none = "fails: No space left on device"
    beside = f"; a small write beside it succeeds; of its 4 stripes, that on OST 3 {none}"
    cases = [
        ("mpiio", (), beside),
        ("mpiio", ("--files", "process"), beside),
        ("hdf5", (), beside),
        # The errno is known, and still not of which OST.
        ("posix", (), f"No space left on device; of its 4 stripes, that on OST 3 {none}"),
    ]
    plans = [asking(*STRIPED, *options, backends=backend, FULL=3) for backend, options, _ in cases]
    for case, answer in zip(cases, ask(IO, *plans), strict=True):
        message = answer.error["message"]
        assert message.count("OST 3") == 1, (case, message)
        assert message.endswith(case[-1]), (case, message)


GPFS_SAYS = """\
file name:            mpiio.dat
metadata replication: 1 max 2
data replication:     1 max 2
storage pool name:    nvme
fileset name:         root
"""

REMOTE = ("nfs4", "wekafs", "fuse.daos")

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


def test_other_filesystems_say_what_they_can(ask, tmp_path):
    """And have no layouts that benchio could set. One rank asks, once, of one file."""

    def asked(number, options=("--files", "process")):
        magic, mounted, tool, says, _ = OTHERS[number]
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        table = []
        for line in ("disk / ext4 rw", mounted, "other {dir}x nfs rw"):
            source, point, kind, how = line.format(dir=tmp_path).split()
            table.append(f"9 1 0:9 / {point} {how} shared:1 - {kind} {source} ro\n")
        (folder / "mounts").write_text("".join(table))
        if tool:
            (folder / "said").write_text(says)
            script = f'#!/bin/sh\necho "$*" >> {folder}/calls\ncat {folder}/said\n'
            (folder / tool).write_text(script)
            (folder / tool).chmod(0o755)
        mounts = folder / "mounts"
        return asking(*options, path=f"{folder}:{PATH}", MAGIC=magic, MOUNTS=mounts)

    def check(case):
        number, answer = case
        _, mounted, tool, says, (size, pool) = OTHERS[number]
        source, _, *kind = mounted.split()
        filesystem = answer.result["run"]["filesystem"]
        assert (filesystem["mount_type"], filesystem["mdt_index"]) == (kind[0], None)
        assert observed(answer) == {
            "stripe_count": None, "stripe_size": size, "pool": pool, "osts": [],
            "components": [],
            "said": says or (" ".join([source, *kind]) + ",ro" if kind[0] in REMOTE else None),
        }  # fmt: skip
        if tool:
            (call,) = (tmp_path / str(number) / "calls").read_text().splitlines()
            assert call.endswith(str(answer.own / "mpiio.000000.dat"))

    numbers = range(len(OTHERS))
    each(enumerate(ask(0, *(asked(number) for number in numbers))), check)
    remote = [number for number in numbers if OTHERS[number][1].split()[2] in REMOTE]
    for answer in ask(IO, *(asked(number, ("--targets", "1")) for number in remote)):
        assert "benchio can set one on Lustre and CephFS only" in answer.error["message"]
