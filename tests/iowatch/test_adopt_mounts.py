"""What a login node mounts, and which of it is measured."""

from pathlib import Path

import pytest

from iowatch.adopt import mounts
from iowatch.adopt.mounts import Mount
from iowatch.base.files import UserError

ROOT = Path(__file__).parents[2]
FINDMNT = (ROOT / "tests/data/findmnt.json").read_text(errors="surrogateescape")


def test_mounts_are_those_that_findmnt_says(commands):
    """Whatever is in their names; its JSON need not be UTF-8."""
    commands(findmnt=FINDMNT)
    listed = mounts.read_mounts()
    by_path = {mount.path: mount for mount in listed}
    assert len(listed) == len(by_path) == 19 - 1  # of two at one path the last
    source = "10.10.0.1@o2ib:10.10.0.2@o2ib:/fs2"
    assert by_path["/lus/fs 2"] == Mount("/lus/fs 2", "lustre", source, "0:50")
    assert by_path["/mnt/not\ufffdutf8é"].source == ""
    assert by_path["/over"].type == "beegfs"
    read_only = {path for path, mount in by_path.items() if mount.read_only}
    assert read_only == {"/apps", "/pub"}, "the filesystem, or only this mount of it"
    assert by_path["/work"].device == by_path["/lus/fs3"].device
    # What is of interest
    parallel = {
        mount.path: mounts.why_not(mount).partition(" ")[0]
        for mount in mounts.of_interest(listed, mounts.PARALLEL)
    }
    usable = ("/lus/fs 2", "/work", "/gpfs/scratch", "/panfs/store", "/mnt/gv0", "/over", "/weka")
    assert parallel == {
        **dict.fromkeys(usable, ""), "/home": "homes", "/apps": "read-only", "/pub": "read-only",
        "/mnt/tab\tnew\nline\\back": "its", "/mnt/not\ufffdutf8é": "its",
    }  # fmt: skip
    disks = [mount.path for mount in mounts.of_interest(listed, mounts.DISKS)]
    assert disks == ["/"], "neither /boot nor a container's overlay"


def test_findmnt_that_is_missing_or_fails(commands, tmp_path):
    def assert_named(why):
        reason = f"^findmnt of util-linux 2.27 or later must say what is mounted: {why}"
        with pytest.raises(UserError, match=reason):
            mounts.read_mounts()

    assert_named("findmnt is not on PATH$")
    commands(findmnt="TARGET SOURCE FSTYPE OPTIONS")
    assert_named("Expecting value: line 1 column 1")
    for script, why in (
        ("echo unrecognized option \"'--json'\" >&2; echo Try --help >&2; exit 1", "unrec.*json'$"),
        ("exit 3", ".*exit code 3$"),
    ):
        (tmp_path / "findmnt").write_text(f"#!/bin/sh\n{script}\n")
        assert_named(why)
    (tmp_path / "findmnt").chmod(0)
    assert_named(".*Permission denied")


def test_names_and_types():
    for path, name in (
        ("/lus/fs 2", "fs_2"), ("/", "disk"), ("/scratch365", "scratch365"), ("/m/2024", "fs2024")
    ):  # fmt: skip
        assert mounts.name_of(Mount(path, "nfs", "")) == name
    source = (ROOT / "src/benchio/lib/storage/filesystem.f90").read_text()
    unknown = {name for name in mounts.STATFS.values() if f"'{name}'" not in source}
    assert unknown == set(), "benchio has a name for each type"
    assert mounts.STATFS["nfs4"] == "nfs"
    for kind in ("fuse.glusterfs", "fuse.ceph-fuse", "fuse.daos"):
        assert mounts.STATFS[kind] == "fuse"


#: What is mounted, other directories, variables, and where files will be, with name and type.
CHOSEN = {
    "parallel filesystems go before disks, and homes are left out": (
        [("gpfs", "scratch"), ("nfs4", "home"), ("panfs", "b/scratch")], [], {},
        [("b/scratch/iowatch", "scratch", "panfs"), ("scratch/iowatch", "scratch_2", "gpfs")],
        ["home"],
    ),
    "the user's own directory goes before the root of the filesystem": (
        [("gpfs", "fs"), ("beegfs", "other")], ["fs/z01", "other/group/z01"],
        {"WORK": "{}/other/group/z01", "SCRATCH": "fs", "PROJECT": "/nowhere"},
        [("fs/z01/iowatch", "fs", "gpfs"), ("other/group/z01/iowatch", "other", "beegfs")], [],
    ),
    "homes and the root directory are no place to write": (
        [("gpfs", "fs")], ["fs/z01"], {"HOME": "{}/fs/z01", "SCRATCH": "/"},
        [("fs/iowatch", "fs", "gpfs")], [],
    ),
    "a disk is the last resort": ([], [], {"SCRATCH": "/"}, [("iowatch", "disk", "ext4")], []),
    # For root only a link to itself cannot be reached.
    "a directory that cannot be reached": (
        [], [], {"WORK": "{}/loop"}, [("iowatch", "disk", "ext4")], []
    ),
    "a filesystem of a type that is not known": (
        [("dvs", "cray"), ("lustre", "fs2"), ("autofs", "auto")], [], {},
        [("fs2/iowatch", "fs2", "lustre")], ["cray"],
    ),
    "a filesystem without a directory to write to": (
        [("lustre", "fs2"), ("lustre", "gone")], [], {}, [("fs2/iowatch", "fs2", "lustre")],
        ["gone"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOSEN)
def test_what_is_measured(mounted, tmp_path, monkeypatch, case):
    given, directories, variables, expected, left_out = CHOSEN[case]
    there = mounted(*given)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for name in directories:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    if "gone" in left_out:
        (tmp_path / "gone").rmdir()
    chosen, others = mounts.find_filesystems(there, [], tmp_path, is_local=True)
    assert [(fs.path, fs.name, fs.type) for fs in chosen] == [
        (f"{tmp_path}/{path}", *rest) for path, *rest in expected
    ]
    assert [mount.path for mount, _ in others] == [f"{tmp_path}/{name}" for name in left_out]
    assert all(why in ("homes have quotas and other users", "of an unknown type",
               "no directory found that you may write to") for _, why in others)  # fmt: skip


def test_filesystems_without_stripes_are_known(mounted, tmp_path):
    """VAST is an NFS; what serves BeeGFS, GPFS, Weka or DAOS's dfuse has its own ways."""
    kinds = ("gpfs", "beegfs", "panfs", "wekafs", "fuse.daos", "nfs4", "fuse.glusterfs")
    there = mounted(*((kind, kind) for kind in kinds))
    chosen, left_out = mounts.find_filesystems(there, [], tmp_path, is_local=False)
    assert sorted(fs.mount.type for fs in chosen) == sorted(kinds)
    assert ({fs.striped for fs in chosen}, left_out) == ({None}, [])


def test_directories_that_are_asked_for(mounted, tmp_path):
    there = mounted(("lustre", "fs3"), ("fuse.sshfs", "remote"), ("dvs", "cray"))
    paths = [tmp_path / name for name in ("fs3/new", "fs3", "remote", "cray", "")]
    chosen, left_out = mounts.find_filesystems(there, paths, tmp_path, is_local=False)
    assert [(fs.name, fs.path, fs.type, fs.bound) for fs in chosen] == [
        ("fs3", f"{tmp_path}/fs3/new", "lustre", "link"),
        ("fs3_2", f"{tmp_path}/fs3", "lustre", "link"),
        ("remote", f"{tmp_path}/remote", "fuse", "link"),
        ("cray", f"{tmp_path}/cray", "unknown", "link"),
        ("disk", str(tmp_path), "ext4", "disk"),
    ]
    assert left_out == []


def test_directories_that_cannot_be_measured(mounted, tmp_path):
    there = mounted()
    (tmp_path / "file").touch(0o755)
    (tmp_path / "loop").symlink_to("loop")
    for path in ("not/there", "file", "loop/new", 'a"b', "$(reboot)", f"{'a' * 300}/b"):
        with pytest.raises(UserError, match=r"^--path "):
            mounts.find_filesystems(there, [tmp_path / path], tmp_path, is_local=True)
    with pytest.raises(UserError, match="--path"):
        mounts.find_filesystems(there, [], tmp_path, is_local=False)
