"""What a login node mounts, and which of it is measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iowatch.adopt import mounts
from iowatch.adopt.mounts import Mount
from iowatch.files import UserError

ROOT = Path(__file__).parents[2]
FINDMNT = (ROOT / "tests/data/findmnt.json").read_text(errors="surrogateescape")


def test_mounts_are_those_that_findmnt_says(commands):
    """Whatever is in their names; its JSON need not be UTF-8."""
    commands(findmnt=FINDMNT)
    listed = mounts.read_mounts()
    found = {mount.path: mount for mount in listed}
    assert len(listed) == len(found) == 19 - 1  # of two at one path the last
    source = "10.10.0.1@o2ib:10.10.0.2@o2ib:/fs2"
    assert found["/lus/fs 2"] == Mount("/lus/fs 2", "lustre", source, "0:50")
    assert found["/mnt/tab\tnew\nline\\back"].type == "ceph"
    assert found["/mnt/not\ufffdutf8é"].source == ""
    assert found["/over"].type == "beegfs"
    read_only = {path for path, mount in found.items() if mount.read_only}
    assert read_only == {"/apps", "/pub"}  # the filesystem, or only this mount of it
    assert found["/work"].device == found["/lus/fs3"].device
    assert found["/work"].source == "10.10.0.3@o2ib:/fs3/z01"


def test_what_is_of_interest(commands):
    commands(findmnt=FINDMNT)
    found = mounts.read_mounts()
    parallel = {
        mount.path: mounts.why_not(mount) for mount in mounts.of_interest(found, mounts.PARALLEL)
    }
    assert {path for path, why in parallel.items() if not why} == {
        "/lus/fs 2", "/work", "/gpfs/scratch", "/panfs/store", "/mnt/gv0", "/over", "/weka",
    }  # fmt: skip
    assert parallel["/home"].startswith("homes")
    assert parallel["/apps"] == parallel["/pub"] == "read-only"
    for path in ("/mnt/tab\tnew\nline\\back", "/mnt/not\ufffdutf8é"):
        assert "characters" in parallel[path]
    disks = [mount.path for mount in mounts.of_interest(found, mounts.DISKS)]
    assert disks == ["/"]  # neither /boot nor a container's overlay


def test_findmnt_that_is_missing_or_fails(commands, tmp_path):
    said = "^findmnt of util-linux 2.27 or later must say what is mounted: "
    with pytest.raises(UserError, match=said + "it is not on PATH$"):
        mounts.read_mounts()
    commands(findmnt="TARGET SOURCE FSTYPE OPTIONS")
    with pytest.raises(UserError, match=said + "Expecting value: line 1 column 1"):
        mounts.read_mounts()
    for script, why in (
        ("echo unrecognized option \"'--json'\" >&2; echo Try --help >&2; exit 1", "unrec.*json'$"),
        ("exit 3", "exit code 3$"),
        ("kill $$", "exit code -15$"),
    ):
        (tmp_path / "findmnt").write_text(f"#!/bin/sh\n{script}\n")
        with pytest.raises(UserError, match=said + why):
            mounts.read_mounts()
    (tmp_path / "findmnt").chmod(0)
    with pytest.raises(UserError, match=said + ".*Permission denied"):
        mounts.read_mounts()


def test_mounts_of_this_machine(tmp_path):
    """In a mount namespace that nobody else sees, and that ends with the process."""
    script = """
        mkdir "sp ace" 'back\\slash' over below part
        mount -t tmpfs 'a b' "sp ace"
        mount -t tmpfs first over
        mount -t tmpfs second over
        mount -t tmpfs -o ro backs 'back\\slash'
        mkdir "sp ace/sub"
        mount --bind "sp ace/sub" part
        mount -o remount,ro,bind part
        exec "$0" -c "$1"
    """
    read = (
        "import dataclasses, json; from iowatch.adopt.mounts import read_mounts;"
        "print(json.dumps([dataclasses.asdict(mount) for mount in read_mounts()]))"
    )
    command = ["unshare", "--mount", "--propagation", "private"]
    tried = subprocess.run([*command, "mount", "-t", "tmpfs", "x", tmp_path], capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"mounting needs root: {tried.stderr.decode().strip()}")
    done = subprocess.run(
        [*command, "sh", "-euc", script, sys.executable, read],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {mount["path"]: Mount(**mount) for mount in json.loads(done.stdout)}
    here = {
        mount.path.removeprefix(f"{tmp_path}/"): (mount.source, mount.read_only)
        for mount in found.values()
        if mount.path.startswith(f"{tmp_path}/")
    }
    assert here == {
        "sp ace": ("a b", False),
        "over": ("second", False),
        "back\\slash": ("backs", True),
        "part": ("a b", True),
    }
    assert found[f"{tmp_path}/part"].device == found[f"{tmp_path}/sp ace"].device
    assert {found[f"{tmp_path}/{name}"].type for name in here} == {"tmpfs"}


@pytest.mark.parametrize(
    ("path", "name"),
    [("/lus/fs 2", "fs_2"), ("/", "disk"), ("/scratch365", "scratch365"), ("/mnt/2024", "fs2024")],
)
def test_names_of_filesystems(path, name):
    assert mounts.name_of(Mount(path, "nfs", "")) == name


def test_types_are_those_that_benchio_has_a_name_for():
    source = (ROOT / "src/benchio/lib/filesystem.f90").read_text()
    names = set(mounts.STATFS.values()) | {"fuse"}
    assert [name for name in names if f"'{name}'" not in source] == []
    assert mounts.STATFS["nfs4"] == "nfs"
    for kind in ("fuse.glusterfs", "fuse.ceph-fuse", "fuse.daos"):
        assert mounts.STATFS[kind] == "fuse"


def test_parallel_filesystems_go_before_disks(mounted, tmp_path):
    there = mounted(("gpfs", "scratch"), ("nfs4", "home"), ("panfs", "b/scratch"))
    found, left_out = mounts.find_filesystems(there, [], tmp_path, is_local=True)
    assert [(fs.name, fs.path, fs.type) for fs in found] == [
        ("scratch", f"{tmp_path}/b/scratch/iowatch", "panfs"),
        ("scratch_2", f"{tmp_path}/scratch/iowatch", "gpfs"),
    ]
    assert [mount.path for mount, _ in left_out] == [f"{tmp_path}/home"]


def test_filesystems_without_stripes_are_known(mounted, tmp_path):
    """VAST is an NFS; what serves BeeGFS, GPFS, Weka or DAOS's dfuse has its own ways."""
    kinds = ("gpfs", "beegfs", "panfs", "wekafs", "fuse.daos", "nfs4", "fuse.glusterfs")
    there = mounted(*((kind, kind) for kind in kinds))
    found, left_out = mounts.find_filesystems(there, [], tmp_path, is_local=False)
    assert sorted(fs.mount.type for fs in found) == sorted(kinds)
    assert {fs.striped for fs in found} == {None}
    assert left_out == []


def test_users_own_directory_goes_before_the_root_of_the_filesystem(mounted, tmp_path, monkeypatch):
    there = mounted(("gpfs", "fs"), ("beegfs", "other"))
    (tmp_path / "fs/z01").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRATCH", "fs")  # not an absolute path
    monkeypatch.setenv("PROJECT", "/nowhere")
    (tmp_path / "other/group/z01").mkdir(parents=True)
    monkeypatch.setenv("WORK", f"{tmp_path}/other/group/z01")
    found, _ = mounts.find_filesystems(there, [], tmp_path, is_local=False)
    assert [fs.path for fs in found] == [
        f"{tmp_path}/fs/z01/iowatch",
        f"{tmp_path}/other/group/z01/iowatch",
    ]


def test_disk_is_the_last_resort_and_only_where_jobs_run_here(mounted, tmp_path):
    (found,), _ = mounts.find_filesystems(mounted(), [], tmp_path, is_local=True)
    assert (found.name, found.path, found.type) == ("disk", f"{tmp_path}/iowatch", "ext4")
    with pytest.raises(UserError, match="--path"):
        mounts.find_filesystems(mounted(), [], tmp_path, is_local=False)


def test_filesystem_without_a_writable_directory_is_left_out(mounted, tmp_path):
    there = mounted(("lustre", "fs2"), ("lustre", "fs3"))
    (tmp_path / "fs3").rmdir()
    (found,), ((mount, why),) = mounts.find_filesystems(there, [], tmp_path, is_local=False)
    assert found.name == "fs2"
    assert (Path(mount.path).name, why) == ("fs3", "no directory found that you may write to")


def test_homes_and_the_root_directory_are_no_place_to_write(mounted, tmp_path, monkeypatch):
    (tmp_path / "fs/z01").mkdir(parents=True)
    monkeypatch.setenv("HOME", f"{tmp_path}/fs/z01")
    monkeypatch.setenv("SCRATCH", "/")
    (found,), _ = mounts.find_filesystems(mounted(("gpfs", "fs")), [], tmp_path, is_local=True)
    assert found.path == f"{tmp_path}/fs/iowatch"
    (found,), _ = mounts.find_filesystems(mounted(), [], tmp_path, is_local=True)
    assert found.path == f"{tmp_path}/iowatch"


def test_directory_that_cannot_be_reached(mounted, tmp_path, monkeypatch):
    """For root there is none: a link to itself is one for everybody."""
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("WORK", f"{tmp_path}/loop")
    (found,), _ = mounts.find_filesystems(mounted(), [], tmp_path, is_local=True)
    assert found.path == f"{tmp_path}/iowatch"
    with pytest.raises(UserError, match="not a directory"):
        mounts.find_filesystems(mounted(), [tmp_path / "loop/new"], tmp_path, is_local=True)


def test_directories_that_are_asked_for(mounted, tmp_path):
    there = mounted(("lustre", "fs3"), ("fuse.sshfs", "remote"), ("dvs", "cray"))
    paths = [
        tmp_path / "fs3/new",
        tmp_path / "fs3",
        tmp_path / "remote",
        tmp_path / "cray",
        tmp_path,
    ]
    found, left_out = mounts.find_filesystems(there, paths, tmp_path, is_local=False)
    assert [(fs.name, fs.path, fs.type, fs.bound) for fs in found] == [
        ("fs3", f"{tmp_path}/fs3/new", "lustre", "link"),
        ("fs3_2", f"{tmp_path}/fs3", "lustre", "link"),
        ("remote", f"{tmp_path}/remote", "fuse", "link"),
        ("cray", f"{tmp_path}/cray", "unknown", "link"),
        ("disk", str(tmp_path), "ext4", "disk"),
    ]
    assert left_out == []


@pytest.mark.parametrize("path", ["not/there", "file", 'a"b', "$(reboot)", f"{'a' * 300}/b"])
def test_directories_that_cannot_be_measured(mounted, tmp_path, path):
    (tmp_path / "file").touch(0o755)
    with pytest.raises(UserError, match=r"^--path "):
        mounts.find_filesystems(mounted(), [tmp_path / path], tmp_path, is_local=True)
