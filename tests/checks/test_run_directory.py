"""Where a job writes, as two users of one machine have it."""

import fcntl
import importlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import attrs
import pytest
from cases import PLACE

ROOT = Path(__file__).parents[2]
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


@pytest.fixture
def folder():
    """In memory: nobody may not enter pytest's folders."""
    with tempfile.TemporaryDirectory(prefix="iowatch-test.", dir="/dev/shm") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def job(folder, monkeypatch, benchio):
    """job(user, path, ...): where a job of this user writes below the folder, and what it says."""
    monkeypatch.syspath_prepend(ROOT)
    run_directory = importlib.import_module("reframe_checks.run_directory").run_directory
    copied = shutil.copy(benchio, folder)  # nobody may not enter root's home, either

    def job(user, path, kib=1, then="", takes_turns=False, names=1, known=(), is_well=True):
        place = attrs.evolve(PLACE, path=str(folder / path))
        lines = [
            "keep() { :; }",
            run_directory(place, (kib, names), not takes_turns, copied, dict(known)),
            'stat -c "%u %a %n" "$RUNDIR"',
            then,
        ]
        stage = tempfile.mkdtemp(dir=folder)
        os.chown(stage, user, user)
        done = subprocess.run(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "bash"],
            input="\n".join(lines), cwd=stage, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            return done.stderr.replace(f"{folder}/", "")
        assert is_well == (done.stderr == "")
        owner, mode, place = done.stdout.strip().replace(f"{folder}/", "").rsplit(" ", 2)
        assert (owner, mode) == (str(user), "700")
        assert (folder / place).exists() == bool(then), "the job has removed it"
        place = place.rpartition("/")[0]
        return place if is_well else f"{done.stderr}{place}\n".replace(f"{folder}/", "")

    return job


def make(place, mode, owner=0):
    place.mkdir()
    place.chmod(mode)
    os.chown(place, owner, owner)


def test_where_everybody_may_write_each_user_has_a_place(job, folder):
    make(folder / "shm", 0o1777)
    for _ in range(2):
        assert job(NOBODY, "shm/iowatch") == f"shm/iowatch.{NOBODY}"
        assert job(0, "shm/iowatch/") == "shm/iowatch.0"
    for user in (0, NOBODY):
        made = (folder / f"shm/iowatch.{user}").stat()
        assert (made.st_uid, made.st_mode & 0o7777) == (user, 0o700)

    # Who came first, by an earlier version or with intent, is neither in the way nor trusted.
    for owner, mode in ((0, 0o755), (NOBODY, 0o755), (NOBODY, 0o1777), (NOBODY, 0o777)):
        make(folder / "shm/iowatch", mode, owner)
        for user in (0, NOBODY):
            mine = "" if user == owner else f".{user}"
            if (user, mode) == (NOBODY, 0o777):
                assert "everybody may replace what is in it" in job(user, "shm/iowatch")
            else:
                assert job(user, "shm/iowatch") == f"shm/iowatch{mine}", (owner, mode, user)
        (folder / "shm/iowatch").rmdir()

    make(folder / "shm/iowatch", 0o1777)  # as an administrator may
    assert job(0, "shm/iowatch") == job(NOBODY, "shm/iowatch") == "shm/iowatch"


def test_jobs_of_two_users_take_turns(job, folder, monkeypatch):
    """The second waits for the first, but not for ever; a job that was killed holds nothing."""
    module = importlib.import_module("reframe_checks.run_directory")
    monkeypatch.setattr(module, "LOCK_S", 0.2)
    make(folder / "fs", 0o755)
    make(folder / "fs/iowatch", 0o1777)
    for first, second in ((0, NOBODY), (NOBODY, 0)):
        assert job(first, "fs/iowatch", takes_turns=True) == "fs/iowatch"
        lock = folder / "fs/iowatch" / module.LOCK
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            said = job(second, "fs/iowatch", takes_turns=True)
            assert "writing to fs/iowatch, and 0.2 s later it still" in said
            assert job(second, "fs/iowatch") == "fs/iowatch", "on a machine of its own"
        assert job(second, "fs/iowatch", takes_turns=True) == "fs/iowatch"
        lock.unlink()


#: What the commands say of a user with 1000 of 1004 KiB, if they are asked with these arguments:
#: recorded forms, made-up names.
QUOTAS = {
    "lfs": (
        r"quota -q -[ug] 65534 /dev/shm/\S+/iowatch\.\w{6}",
        "     /mnt/a-filesystem-with-a-long-name\n      1000*  1004  0  3d2h  2  0  0  -",
    ),
    "quota": (
        r"-w -p -[ug] 65534 -f /dev/shm",
        "Disk quotas for user a (uid 7): \n     Filesystem  blocks   quota   limit   grace\n"
        "      /dev/loop0    1000       0    1004       0       4       0       0       0",
    ),
}


def test_quota_is_asked_before_anything_is_written(job, folder, monkeypatch):
    """Stand-ins for the commands: the smallest of what is left counts."""
    make(folder / "fs", 0o777 | 0o1000)
    tools = folder / "tools"
    make(tools, 0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    def says(name, text, asked=".*"):
        script = f"grep -qxE -e '{asked}' <<< \"$*\" || exit 64\n{text}\n"
        (tools / name).write_text(f"#!/bin/bash\n{script}")
        (tools / name).chmod(0o755)

    for name, (asked, text) in QUOTAS.items():

        def leaves(used, limit, name=name, asked=asked, text=text):
            said = text.replace("1000", str(used)).replace("1004", str(limit))
            says(name, f"/bin/cat <<'EOF'\n{said}\nEOF", asked)

        leaves(1000, 1004)
        assert job(NOBODY, "fs/iowatch", 4) == f"fs/iowatch.{NOBODY}"
        wanted = r"left: 5 KiB will be written, and that of (user|group) 65534 has room for 4 KiB"
        assert re.search(wanted, job(NOBODY, "fs/iowatch", 5))
        leaves(2**33, 2**33 + 5368709120)  # more than 32 bits
        assert job(NOBODY, "fs/iowatch", 5) == f"fs/iowatch.{NOBODY}"
        leaves(1000, 0)
        assert job(NOBODY, "fs/iowatch", 5) == f"fs/iowatch.{NOBODY}", "it has no limit"
        says(name, "echo 'Permission denied.' >&2; exit 1")
        assert job(NOBODY, "fs/iowatch", 5) == f"fs/iowatch.{NOBODY}", "nobody knows"
    (tools / "quota").unlink()
    says(
        "getfattr",
        f'case "$*" in *quota.max_bytes*{folder}) echo 8000 ;; *rbytes*) echo 5000 ;; *) exit 1 ;; '
        "esac",
    )
    assert job(NOBODY, "fs/iowatch", 2) == f"fs/iowatch.{NOBODY}"
    assert job(NOBODY, "fs/iowatch", 3).strip().endswith("has room for 2 KiB")


#: What the commands say of a user who has 9 of 12 files, and the arguments that they are given.
FILES = {
    "lfs quota": ("lfs", "quota -q -u", "/lus 52428800 0 0 - 9* 10 12 -", "user 65534"),
    "lfs project": (
        *("lfs", "(quota -q -p|project -d)", "1007 P 0 0 0 - 9 0 12 -"),
        "project 1007",
    ),
    "quota": (
        *("quota", "-w -p -g", "\n\n  my disk  5 0 0 0 9 0 12 0"),
        "group 65534",
    ),
    "getfattr": ("getfattr", ".*(max_files|rentries)", "9", "/dev/shm"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_quota_of_files_is_one_too(job, folder, monkeypatch, name):
    command, asked, text, whose = FILES[name]
    make(folder / "fs", 0o777 | 0o1000)
    tool = folder / command
    said = f"printf '{text}'"
    if name == "getfattr":
        said = (
            'case "$*" in *max_files*/dev/shm) echo 12 ;; *rentries*) echo 9 ;; *) exit 1 ;; esac'
        )
    tool.write_text(f"#!/bin/bash\ngrep -qE -e '{asked}' <<<\"$*\" || exit 1\n{said}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert job(NOBODY, "fs/iowatch", names=3) == f"fs/iowatch.{NOBODY}"
    refused = f"no quota is left: 4 files will be made, and that of {whose} has room for 3 files\n"
    assert job(NOBODY, "fs/iowatch", names=4) == refused


def test_the_limit_of_a_project_is_a_quota(job, folder, monkeypatch):
    """A stand-in for `stat`: XFS and ext4 show it as the size of the directories of a project, in
    which 100 of 4 KiB blocks and 9 names are left. Nobody else may ask for it."""
    make(folder / "fs", 0o1777)
    tool = folder / "stat"
    tool.write_text(
        '#!/bin/bash\ncase "$*" in\n*-f*/iowatch.*) echo 4096 100 9 1000 50 ;;\n'
        '*-f*) echo 4096 9999 999 99999 5000 ;;\n*) exec /usr/bin/stat "$@" ;;\nesac\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert job(NOBODY, "fs", 400, names=9) == "fs"
    of_project = "that of the project of fs has room for"
    assert f"401 KiB will be written, and {of_project} 400 KiB" in job(NOBODY, "fs", 401)
    assert f"10 files will be made, and {of_project} 9 files" in job(NOBODY, "fs", names=10)


HERE = f"on {platform.node()}"


@pytest.mark.parametrize(
    ("known", "is_it"),
    [
        ([], True),
        ([f"tmpfs at /dev/shm {HERE}"], True),
        (["tmpfs at /dev/shm"], True),
        (["tmpfs at /dev/shm on another"], True),
        (["ext4 u-u-i-d at /dev/shm on a", "tmpfs at /dev/shm on b"], True),
        ([f"ext4 u-u-i-d at /dev/shm {HERE}"], False),
        ([f"tmpfs at /dev {HERE}", "tmpfs at /dev/shm on b"], False),
        (["tmpfs at /dev/shm/iowatch on another"], False),
        (["ext4 u-u-i-d at /dev/shm on another"], False),
        (["lustre shm at /dev/shm"], False),
    ],
)
def test_a_filesystem_is_known_again(job, folder, known, is_it):
    """A shared one everywhere; of another host's own the type and the mount point."""
    before = {*folder.iterdir()}
    said = job(0, "new/iowatch" if not is_it else "iowatch", known=dict.fromkeys(known, "/dev/sda"))
    if is_it:
        assert said == "iowatch"
    else:
        now = f"tmpfs at /dev/shm {HERE}"
        assert said == (
            f"{HERE}, new/iowatch is on {now}, mounted from tmpfs, and was known to be on "
            f"{known[0]}, mounted from /dev/sda: mount that, or, if the place is another one from "
            f"now on, set 'mounted' in the extras of its partition to '{now}' "
        )
        assert len({*folder.iterdir()} - before) == 1, "the stage alone is made"


def test_what_another_user_could_replace_is_refused(job, folder):
    make(folder / "shm", 0o1777)
    make(folder / "shm/iowatch.0", 0o777, NOBODY)
    assert job(0, "shm/iowatch") == (
        "shm/iowatch.0: another user's: have it removed, or name another 'path' in the site's "
        "configuration\n"
    )
    (folder / "shm/iowatch.0").rmdir()
    make(folder / "elsewhere", 0o755)
    for target in ("elsewhere", "nowhere"):
        (folder / "shm/iowatch.0").symlink_to(folder / target)
        assert "shm/iowatch.0: a link, which may lead anywhere: rem" in job(0, "shm/iowatch")
        (folder / "shm/iowatch.0").unlink()
    make(folder / "open", 0o777)
    assert "open/iowatch: everybody may replace it: chmod +t" in job(0, "open/iowatch")
    assert "open: everybody may replace what is in it: chmod +t it" in job(0, "open")
    assert list((folder / "elsewhere").iterdir()) == []


def test_in_a_folder_of_the_site_whoever_comes_first_makes_it_for_all(job, folder):
    assert job(0, "iowatch") == job(NOBODY, "iowatch") == "iowatch"
    assert (folder / "iowatch").stat().st_mode & 0o7777 == 0o1777
    (folder / "linked").symlink_to("iowatch")
    assert job(NOBODY, "linked") == "linked", "it is the site's"
    assert job(0, "not/there").startswith(f"{HERE}: mkdir: cannot create directory ")
    make(folder / "theirs", 0o755)
    assert "Permission denied" in job(NOBODY, "theirs")


def test_only_ones_own_leftovers_are_removed(job, folder):
    make(folder / "iowatch", 0o1777)

    def leave(name, owner, days=3):
        make(folder / "iowatch" / name, 0o700, owner)
        mark = folder / "iowatch" / name / ".iowatch"
        mark.touch()
        os.chown(mark, owner, owner)
        os.utime(mark, (time.time() - days * 86400,) * 2)

    def left_by_job_of(user):
        assert job(user, "iowatch") == "iowatch"
        return sorted(left.name for left in (folder / "iowatch").iterdir())

    leave("iowatch.aaaaaa", 0)
    leave("iowatch.bbbbbb", NOBODY)
    assert left_by_job_of(NOBODY) == ["iowatch.aaaaaa"]
    leave("iowatch.bbbbbb", NOBODY)
    leave("iowatch.cccccc", 0, days=1.9)
    assert left_by_job_of(0) == ["iowatch.bbbbbb", "iowatch.cccccc"], "root could remove all"
    assert left_by_job_of(NOBODY) == ["iowatch.cccccc"]


def test_what_cannot_be_removed_is_tried_again_and_told(job, folder):
    make(folder / "iowatch", 0o1777)
    old = folder / "iowatch/iowatch.aaaaaa"
    make(old, 0o700, NOBODY)
    make(old / "theirs", 0o755)
    (old / "theirs/file").touch()
    (old / "ours").touch()
    mark = old / ".iowatch"
    mark.touch()
    os.chown(mark, NOBODY, NOBODY)
    os.utime(mark, (time.time() - 3 * 86400,) * 2)
    for _ in range(2):
        said = job(NOBODY, "iowatch", is_well=False)
        assert re.fullmatch(
            r"what a job has left in iowatch/iowatch.aaaaaa cannot be removed: .*theirs/file.*: "
            "Permission denied\niowatch\n",
            said,
        )
        assert {path.name for path in old.iterdir()} == {"theirs", ".iowatch"}
    (old / "theirs/file").unlink()
    (old / "theirs").rmdir()
    assert job(NOBODY, "iowatch") == "iowatch"
    assert not old.exists()


def test_a_dataset_that_syncs_nothing_is_told(job, folder, monkeypatch):
    tool = folder / "zfs"
    tool.write_text('#!/bin/bash\n[ "$*" = "get -H -o value sync tmpfs" ] && echo disabled\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    job(0, "iowatch")
    (notes,) = folder.glob("tmp*/notes")
    assert notes.read_text().startswith("tmpfs has sync=disabled: a sync there waits for nothing")


def test_files_with_wrong_data_stay_for_a_while(job, folder):
    """As long as raw results: a job of a later night removes them."""
    make(folder / "iowatch", 0o1777)
    run = '"$RUNDIR"/benchio.run-1'
    wrong = f"mkdir {run}; touch {run}/wrong_data.txt {run}/mpiio.dat"
    job(NOBODY, "iowatch", then=wrong)
    (kept,) = (folder / "iowatch").iterdir()
    files = {".iowatch.evidence", "benchio.run-1", "wrong_data.txt", "mpiio.dat"}
    assert {file.name for file in kept.rglob("*")} == files
    for days, stays in ((59, True), (61.1, False)):
        os.utime(kept / ".iowatch.evidence", (time.time() - days * 86400,) * 2)
        job(NOBODY, "iowatch")
        assert kept.exists() == stays
