"""IOR's results, as the real one gave them, under the law that benchio's must satisfy."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from cases import case as make_case
from cases import changed
from refusals import assert_refused

from iowatch.checks import CHECKS
from iowatch.ior import (
    API,
    layout_commands,
    layouts,
    listing_command,
    rate,
    read_options,
    require_layout,
    write_options,
)
from iowatch.result import InvalidResult
from iowatch.site import read_filesystem

DATA = Path(__file__).parents[1] / "data/ior"
SIZE = {"local_size": (16, 16, 16), "writers": 2}
CASE = make_case("IorPeer", "s:p/e", backend="mpiio", files="shared", **SIZE)
READ = changed(CASE, "IorPeerRead")
GOOD = [  # the rate is that of the last iteration: the first write warms up
    ("mpiio-4.0", CASE, 32.4155),
    ("mpiio-3.3", CASE, 3.798),
    ("mpiio-read-4.0", READ, 54.3529),
    ("mpiio-read-3.3", READ, 97.6682),
    ("hdf5-4.0", changed(CASE, backend="hdf5", files="process"), 11.4279),
    ("pnetcdf-4.0", changed(CASE, backend="pnetcdf"), 27.9531),
    ("posix-4.0", changed(CASE, backend="posix", files="process"), 97.1984),
]


@pytest.fixture
def read(tmp_path):
    """read(name, case, status="0", edit=..., said=...): the rate of a recorded run, changed."""

    def read(name, case, status="0", edit=None, said=""):
        text = (DATA / f"{name}.json").read_text()
        for old in tmp_path.iterdir():
            old.unlink()  # what is written over goes to the disk at once
        (tmp_path / "ior.json").write_text(edit(text) if edit else text)
        (tmp_path / "ior.out").write_text((DATA / f"{name}.out").read_text() + said)
        (tmp_path / "ior.code").write_text(f"{status}\n")
        return rate(tmp_path, "ior", case, 1, case.operation, "scratch")

    return read


def test_rate_and_options_of_runs_that_did_what_was_asked_for(read):
    for name, case, found in GOOD:
        assert read(name, case) == found, name
        line = json.loads((DATA / f"{name}.json").read_text())["Command line"]
        if case is READ:
            asked = read_options(case, 2, "scratch", f"{name}.json")
        else:
            asked = write_options(case, "scratch", f"{name}.json")
        assert f"ior {' '.join(asked)}" == line
    assert {case.backend for _, case, _ in GOOD} == set(API), "every library has a record"
    for check in ("IorPeer", "IorPeerRead"):
        assert set(CHECKS[check].backends) == set(API)


def test_wrong_data_give_no_rate(read):
    """Although the summary has one, and although 256 errors would be an exit status of 0."""
    said = "IOR: WARNING: Incorrect data on"
    for status in ("8", "0"):
        with pytest.raises(InvalidResult, match=rf"{said} write \(2 errors"):
            read("wrong-data-4.0", changed(CASE, backend="posix"), status)
        with pytest.raises(InvalidResult, match=rf"{said} read \(1 errors"):
            read("wrong-read-4.0", READ, status)


def test_a_sync_that_was_not_possible(read):
    case = changed(CASE, backend="hdf5")
    with pytest.raises(InvalidResult, match=r"ior WARNING: fsync\(\) not supported"):
        read("no-sync-3.3", case)


#: The values of IOR's summary that the law is about.
LAW = {
    *("api", "blockSize", "bwMiB", "collective", "deadlineForStonewall", "dryRun", "filePerProc"),
    *("nodes", "segmentCount", "tasks", "testFileName", "transferSize", "xsizeMiB", "access"),
    "totalTime",
}


def leaves(data):
    """What holds each value, and the name of the value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield from leaves(value) if isinstance(value, dict | list) else [(data, key)]


@pytest.mark.parametrize(
    ("name", "case", "more"),
    [("mpiio-4.0", CASE, {"fsync", "checkWrite"}),
     ("mpiio-read-4.0", READ, {"checkRead", "reorderTasks"})],
)  # fmt: skip
def test_a_value_that_changes_is_refused_or_changes_no_rate(read, name, case, more):
    data = json.loads((DATA / f"{name}.json").read_text())
    rate, refused = read(name, case), set()
    for within, key in list(leaves(data)):
        before = within[key]
        within[key] = "x" if isinstance(before, str) else 2 * before or 1
        try:
            assert read(name, case, edit=lambda text: json.dumps(data)) == rate, key
        except InvalidResult:
            refused.add(key)
        within[key] = before
    assert refused == LAW | more


RATE = '"bwMiB": 32.4155'
NO_RATE = "results that are no rate of these bytes: 1, where 0"
SUMMARIES = [
    ('"tasks": 2', '"tasks": 1', "tasks: 1, where 2"),
    ('"segmentCount": 1', '"segmentCount": 2', "bytes of a task: 65536, where 32768"),
    *((RATE, f'"bwMiB": {rate}', NO_RATE) for rate in ("64.8310", '"inf"', "Infinity", "0.0000")),
    ('"access": "write"', '"access": "read"', "accesses: ['read', 'read'], where"),
    ('"Results"', '"Result"', "is no summary that is known: KeyError"),
    ("}", "", "is not readable JSON"),
]


def test_summary_that_is_not_what_was_asked_for(read):
    def attempt(old, new):
        assert old in (DATA / "mpiio-4.0.json").read_text()
        read("mpiio-4.0", CASE, edit=lambda text: text.replace(old, new))

    wanted = [((old, new), re.escape(said)) for old, new, said in SUMMARIES]
    assert_refused(InvalidResult, attempt, wanted)


def test_complaints_are_heard(read):
    def attempt(said):
        read("pnetcdf-4.0", changed(CASE, backend="pnetcdf"), said=f"{said}\n")

    heard = ("WARNING: fsync(9) failed", "ERROR: cannot write", "ior ERROR: x")
    assert_refused(InvalidResult, attempt, [(it, re.escape(f"IOR: {it}")) for it in heard])


def test_failed_exit_and_missing_files(read, tmp_path):
    with pytest.raises(InvalidResult, match="its exit status is 255"):
        read("mpiio-4.0", CASE, status="255")
    with pytest.raises(InvalidResult, match="its exit status is missing"):
        rate(tmp_path, "none", CASE, 1, "write", "scratch")
    (tmp_path / "none.code").write_text("0")
    with pytest.raises(InvalidResult, match=r"none.json is not readable JSON: .*No such file"):
        rate(tmp_path, "none", CASE, 1, "write", "scratch")


def test_options_for_other_nodes_and_large_blocks():
    """Each task reads what another node has written; a block above a gibibyte is in planes."""
    for writers, on_node, option in ((4, 4, " -Q 1 "), (8, 4, " -Q 4 ")):
        case = changed(READ, writers=writers)
        assert option in " ".join(read_options(case, on_node, "f", "s"))
    asked = " ".join(write_options(changed(CASE, local_size=(512, 512, 1536)), "f", "s"))
    assert f"-b {3 * 2**30} -t {2**30} " in asked


def test_patterns_of_io500():
    """Its calls and places in the file, by the rules for ior-easy and ior-hard."""
    easy = changed(CASE, backend="posix", files="process", local_size=(64, 64, 64), io500="easy")
    hard = changed(CASE, backend="posix", local_size=(5876, 10, 3), io500="hard")
    asked = [" ".join(write_options(case, "f", "s")) for case in (easy, hard)]
    assert "-a POSIX -F -b 2097152 -t 2097152 -g " in asked[0]
    assert "-a POSIX -b 47008 -t 47008 -s 30 -g " in asked[1]
    commands = [" ".join(case.check.command_line(case)) for case in (easy, hard)]
    assert commands[0].endswith("--local-size 64x64x64 --transfer 2097152 --halo 0")
    assert commands[1].endswith("--local-size 5876x10x3 --transfer 47008 --halo 0 --grid 2x1x1")


# The layout of its files

LUSTRE = Path(__file__).parents[1] / "data/lustre"
EXTRAS = {
    "filesystem": "fs", "path": "/fs/x", "peak": 1e5, "cached_reads": False, "keep_days": 60,
    "writers_per_node": 4, "sweeps": {"nightly": {}, "acceptance": {}},
}  # fmt: skip


STRIPED = {"osts": [0, 1, 2, 3], "pools": {"fast": [1, 2]}}


def filesystem(kind, **extras):
    return read_filesystem("s", "p", ["e"], {**EXTRAS, "type": kind, **extras}, ["s.py"])


ON_LUSTRE = filesystem("lustre", **STRIPED, layouts={"progressive": "-E 64M -c 1 -E -1 -c 4"})
ON_CEPH = filesystem(["ceph", "fuse"], **STRIPED)


def listed(*names):
    """What `lfs getstripe` says of several files, as it was recorded on a real Lustre."""
    texts = [(LUSTRE / f"getstripe-file-{name}.txt").read_text() for name in names]
    return "".join(t.partition("--- stdout\n")[2].partition("--- stderr")[0] for t in texts)


def test_layouts_as_a_real_lustre_lists_them():
    kib, mib = 2**10, 2**20
    for name, size, found in [
        ("c1", mib, (1, mib, None)),
        ("c4", mib, (4, mib, None)),
        ("all", mib, (4, 4 * mib, None)),
        ("pool", mib, (2, 2 * mib, "fast")),
        ("over", mib, (8, mib, None)),
        # Of several components, the one that has most of the file.
        ("pfl", 64 * kib, (1, mib, None)),
        ("pfl", 4 * mib, (2, 2 * mib, None)),
        ("pfl", 64 * mib, (-1, 4 * mib, None)),
        ("dom", 64 * kib, (0, 64 * kib, None)),
        ("dom", mib, (2, mib, None)),
    ]:
        (layout,) = layouts(listed(name), size)
        assert tuple(layout.values()) == found, (name, size)
    several = layouts(listed("c1", "pfl", "pool", "c2"), 4 * mib)
    assert [layout["stripe_count"] for layout in several] == [1, 2, 2, 2]
    assert layouts("", mib) == []


CEPH = """\
# file: /ceph/iowatch.x/ior.0000000{}
ceph.file.layout="stripe_unit=4194304 stripe_count={} object_size=4194304 pool=fast"

"""


def test_the_law_of_its_layout(tmp_path):
    size = {"local_size": (128, 128, 64), "writers": 2}  # 16 MiB
    striped = changed(CASE, **size, stripe_count=-1, stripe_size=4)
    pool = {"stripe_count": 2, "stripe_size": 2, "pool": "fast"}
    each = {"files": "process"}
    ceph = {**pool, "stripe_size": 4}
    for case, text, place, said in [
        (striped, listed("all"), ON_LUSTRE, ""),
        (striped, listed("c1"), ON_LUSTRE, "stripe count of IOR's files: 1, where -1"),
        (changed(CASE, **size, **pool), listed("c2"), ON_LUSTRE, "stripe size of IOR"),
        (changed(CASE, **size, **pool, **each), listed("pool", "pool"), ON_LUSTRE, ""),
        (changed(CASE, **size, **pool, **each), listed("pool"), ON_LUSTRE,
         r"the layouts of 1 file are listed, and it has written 2: see listing$"),
        (changed(CASE, **size, layout="default"), listed("pfl"), ON_LUSTRE, ""),
        (changed(CASE, **size, **ceph), CEPH.format(0, 2), ON_CEPH, ""),
        (changed(CASE, **size, **ceph, **each), CEPH.format(0, 2) + CEPH.format(1, 4), ON_CEPH,
         "stripe count of IOR's files: 4, where 2 was asked for"),
    ]:  # fmt: skip
        (tmp_path / "listing").write_text(text)
        refused = pytest.raises(InvalidResult, match=f"^IOR: {said}")
        with refused if said else contextlib.nullcontext():
            require_layout(tmp_path / "listing", case, place)


def test_its_files_get_the_layout_that_benchios_have():
    stripes = {"stripe_count": -1, "stripe_size": 8}
    for parameters, place, command in [
        (stripes, ON_LUSTRE, "lfs setstripe -c -1 -S 8388608"),
        ({**stripes, "pool": "fast"}, ON_LUSTRE, "lfs setstripe -c -1 -S 8388608 -p fast"),
        ({"layout": "progressive"}, ON_LUSTRE, "lfs setstripe -E 64M -c 1 -E -1 -c 4"),
        ({"layout": "default"}, ON_LUSTRE, None),
        ({"layout": "default"}, ON_CEPH, None),
        ({}, filesystem("gpfs", osts=None), None),
        # An object has a whole number of stripes.
        (stripes, ON_CEPH, 'setfattr -n ceph.dir.layout -v "stripe_unit=8388608 stripe_count=4 '
         'object_size=8388608"'),
        ({**stripes, "stripe_size": 3, "pool": "fast"}, ON_CEPH, "setfattr -n ceph.dir.layout "
         '-v "stripe_unit=3145728 stripe_count=2 object_size=3145728 pool=fast"'),
    ]:  # fmt: skip
        told = [f'{command} "$RUNDIR" || exit 1'] if command else []
        assert layout_commands(changed(CASE, **parameters), place) == told
    assert listing_command("F*", ON_LUSTRE) == "lfs getstripe F*"
    assert "-n ceph.file.layout F*" in listing_command("F*", ON_CEPH)
