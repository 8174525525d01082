"""A place is one filesystem: what is there instead is refused before anything is made.

The filesystems are files on loop devices, mounted where nobody else sees them.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import verdict_of

REFUSED = "failed (wrong_filesystem)"


def sh(*words):
    subprocess.run([str(word) for word in words], check=True)


class Disk(NamedTuple):
    """A file with an ext4, and the UUID of that."""

    image: Path
    uuid: str

    def mount(self, point, options="rw"):
        sh("mount", "-o", f"loop,{options}", self.image, point)


@pytest.fixture
def disk(own_mounts, tmp_path, need):
    """disk(name): a new one. What is mounted goes with the test."""
    made, before = [], {*Path("/proc/self/mounts").read_text().splitlines()}

    def make(name):
        image = tmp_path / f"{name}.ext4"
        with image.open("wb") as file:
            file.truncate(2**26)
        sh(need("mkfs.ext4"), "-q", image)
        said = subprocess.run(["blkid", "-o", "value", "-s", "UUID", image], capture_output=True)
        made.append(Disk(image, said.stdout.decode().strip()))
        return made[-1]

    loop = subprocess.run(["losetup", "-f"], capture_output=True, text=True)
    if loop.returncode:
        pytest.skip(f"there is no loop device here: {loop.stderr.strip()}")
    yield make
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line not in before:
            sh("umount", line.split()[1].replace("\\040", " "))
    for each in made:
        each.image.unlink()


@pytest.fixture
def place(site, tmp_path):
    """Where a site's disk is to be mounted, for paths one and two levels below."""
    point = tmp_path / "scratch"
    point.mkdir()
    site.extras |= {"type": "ext4", "path": str(point / "iowatch")}
    site.references = "general: {'.*': {total_max: [1, -0.999, null]}}\n"
    return point


def verdicts(site, *options):
    """What the cases of a session came to."""
    done = site.reframe("-r", "-S", "repeats=1", *options)
    return {(test["partition"], verdict_of(test)): test for test in site.report()}, done.stdout


def the_one(site, *options):
    (((_, verdict), test),) = verdicts(site, *options)[0].items()
    return verdict, test["sentence"]


def test_a_place_that_is_another_filesystem_is_red_until_the_site_says_so(site, disk, place):
    ours, other = disk("ours"), disk("other")
    (place.parent / "run").mkdir(exist_ok=True)
    site.partitions = {
        "near": {},
        "deep": {"extras": {"path": str(place / "a/iowatch")}},
        "linked": {"extras": {"path": str(place.parent / "link/iowatch")}},
    }
    link = place.parent / "link"
    ours.mount(place)
    (place / "a").mkdir()
    link.symlink_to(place)
    for _ in range(2):  # a first night, and one after a reboot: another device, other options
        found, said = verdicts(site)
        assert {verdict for _, verdict in found} == {"ok"}, said
        sh("umount", place)
        other.mount(place.parent / "run")  # takes the loop device that was ours
        ours.mount(place, "noatime")
        sh("umount", place.parent / "run")
    expected = f"ext4 {ours.uuid} at {place} on {os.uname().nodename}"
    met = found["near", "ok"]["provenance"]
    assert met["filesystem"] == expected
    assert met["mount source"].startswith("/dev/loop")

    sh("umount", place)
    (place / "a").mkdir()
    there = sorted(place.rglob("*"))
    found, said = verdicts(site)
    assert {*found} == {(name, REFUSED) for name in site.partitions}, said
    for test in found.values():
        assert f"was known to be on {expected}, mounted from /dev/loop" in test["sentence"]
        assert re.search(r" is on \S+ .*, mounted from .* and was known", test["sentence"])
    assert sorted(place.rglob("*")) == there, "nothing is made in a bare mount point"

    other.mount(place)  # of the same type, and at the same place
    site.partitions = {"near": {}}
    present = f"ext4 {other.uuid} at {place}"
    verdict, sentence = the_one(site)
    assert verdict == REFUSED
    assert f"{present} on " in sentence
    assert [*place.iterdir()] == [place / "lost+found"]
    checked = site._run("iowatch", "site", "check", "--system", "small").stdout
    assert re.search(rf"^FIX directory  .*{ours.uuid}.*'mounted' in the extras", checked, re.M)

    site.extras["mounted"] = present
    assert the_one(site)[0] == "ok", "by the site's word"
    del site.extras["mounted"]
    assert the_one(site)[0] == "ok", "which is on record now"
    checked = site._run("iowatch", "site", "check", "--system", "small").stdout
    assert re.search(
        rf"^ok  directory .*{present} on \S+, mounted from /dev/loop", checked, re.M
    ), checked


def test_what_was_kept_must_be_where_it_was_kept(site, disk, place):
    """Moved to another disk, with a link in its place: a file, a run, or the folder of the case."""
    disk("ours").mount(place)
    site.suite = {"ReadBack": {"backend": ["mpiio"], "local_size": [8], "nodes": [1]}}
    assert the_one(site)[0] == "skipped (nothing_kept)"
    assert the_one(site)[0] == "ok"
    kept = place / "iowatch" / f"kept.{os.getuid()}"
    for pattern in ("*/*/benchio.*/*.dat", "*/*/benchio.*", "*"):  # the last that there is
        what = max(kept.glob(pattern))
        moved, before = site.scratch / what.name, what.with_name(f"before.{what.name}")
        sh("cp", "-a", what, moved)
        what.rename(before)
        what.symlink_to(moved)
        verdict, sentence = the_one(site)
        assert verdict == REFUSED, (what, sentence)
        assert "tmpfs at /dev/shm on" in sentence
        if what.is_symlink():  # else the job has kept new ones
            what.unlink()
            before.rename(what)


def test_mount_options_and_sources_of_all_sorts(site, disk, tmp_path):
    """A source with a blank, a device that does not wait for its medium, and one that is full."""
    ours, stable = disk("ours"), disk("stable")
    for name in ("blank", "nobarrier", "stable", "full"):
        (tmp_path / name).mkdir()
    sh("mount", "-t", "tmpfs", "-o", "size=64m", "my disk", tmp_path / "blank")
    sh("mount", "-t", "tmpfs", "-o", "size=1m", "a full disk", tmp_path / "full")
    ours.mount(tmp_path / "nobarrier", "nobarrier")
    stable.mount(tmp_path / "stable")
    site.partitions = {
        name: {"extras": {"path": str(tmp_path / name / "iowatch"), "type": ["ext4", "tmpfs"]}}
        for name in ("blank", "nobarrier", "stable", "full")
    }
    site.write["local_size"] = [64]
    found, said = verdicts(site)
    assert {*found} == {
        ("blank", "ok"), ("nobarrier", "ok"), ("stable", "ok"), ("full", "failed (io_error)")
    }, said  # fmt: skip
    assert "but only 1" in found["full", "failed (io_error)"]["sentence"]
    assert found["blank", "ok"]["provenance"]["mount source"] == "my disk"
    note = found["nobarrier", "ok"]["provenance"]["note"]
    assert f"{tmp_path}/nobarrier is mounted with nobarrier" in note
    assert "note" not in found["stable", "ok"]["provenance"]


def test_a_cache_below_the_filesystem_makes_a_read_suspect(site, disk, tmp_path, place):
    ours = disk("ours")
    site.extras["cached_reads"] = False
    site.suite = {"SharedFileRead": {"backend": ["mpiio"], "local_size": [32], "nodes": [1]}}
    ours.mount(place)
    assert the_one(site)[0] == "failed (cached_read)"
    sh("umount", place)
    done = subprocess.run(
        ["losetup", "-f", "--show", "--direct-io=on", ours.image], capture_output=True, text=True
    )
    device = done.stdout.strip()
    try:
        if done.returncode or (
            Path("/sys/block", Path(device).name, "loop/dio").read_text() != "1\n"
        ):
            pytest.skip(f"there is no direct I/O of loop devices here: {done.stderr}")
        sh("mount", device, place)
        assert the_one(site)[0] == "ok"
        sh("umount", place)
    finally:
        if device:
            sh("losetup", "-d", device)
