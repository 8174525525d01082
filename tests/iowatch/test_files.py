"""Files that are written whole, or not at all, whatever stands in their place."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from iowatch.base.files import UserError, make_folder, no_room, whole
from iowatch.base.locks import exclusive


def write(path, text="text"):
    with whole(path) as temporary:
        temporary.write_text(text)


HOST = socket.gethostname()
KILLED = """
import os, signal, sys
from pathlib import Path
from iowatch.base.files import whole
with whole(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_file_is_written_over_and_a_link_stays_one(tmp_path):
    path = tmp_path / "page.html"
    write(path, "old")
    write(path)
    assert (path.read_text(), names(tmp_path)) == ("text", {"page.html"})
    path.unlink()
    path.symlink_to("elsewhere.html")
    write(path)
    assert path.is_symlink()
    assert (tmp_path / "elsewhere.html").read_text() == "text"


@pytest.mark.parametrize(
    ("folder", "umask", "of_file", "of_folder"),
    [
        (0o2770, 0o007, 0o660, 0o2770),
        (0o2770, 0o022, 0o664, 0o2775),  # the usual umask, which the folder overrides
        (0o2775, 0o077, 0o660, 0o2770),
        (0o770, 0o022, 0o664, 0o775),  # what is made there is of that group, too
        (0o2755, 0o022, 0o644, 0o2755),
        (0o1777, 0o022, 0o664, 0o775),  # nobody else may write
        (0o700, 0o077, 0o600, 0o700),
    ],
)
def test_what_is_in_a_folder_of_a_group_its_members_may_write(
    tmp_path, folder, umask, of_file, of_folder
):
    tmp_path.chmod(folder)
    before = os.umask(umask)
    try:
        make_folder(tmp_path / "made" / "here")
        write(tmp_path / "page.html")
        with exclusive(tmp_path / "lock", "busy"):
            pass
        assert os.umask(umask) == umask, "it stays"
    finally:
        os.umask(before)
    for path, mode in (("made/here", of_folder), ("page.html", of_file), ("lock", of_file)):
        assert oct(stat.S_IMODE((tmp_path / path).stat().st_mode)) == oct(mode)


def test_folder_of_a_group_that_new_files_are_not_of_gives_it_nothing(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("another group's folder needs root")
    os.chown(tmp_path, -1, 65534)
    tmp_path.chmod(0o770)
    write(tmp_path / "page.html")
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o644


@pytest.mark.parametrize(("number", "what"), [(errno.ENOSPC, "room"), (errno.EDQUOT, "quota")])
def test_room_and_quota_are_tried_by_writing(tmp_path, monkeypatch, number, what):
    """What the disk has free says nothing of the quota of a home."""
    assert no_room(tmp_path, tmp_path / "nosuch") == ""

    def fsync(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    assert no_room(tmp_path) == f"no {what} is left on the disk of {tmp_path}"
    assert names(tmp_path) == set()


def test_link_that_waits_where_a_file_is_prepared_is_not_written_through(tmp_path):
    (tmp_path / "kept").write_text("precious")
    (tmp_path / f".page.html.{HOST}.{os.getpid()}").symlink_to("kept")
    write(tmp_path / "page.html")
    assert (tmp_path / "kept").read_text() == "precious"
    assert (tmp_path / "page.html").read_text() == "text"


def test_file_is_on_stable_storage_before_it_takes_the_place_of_the_last(tmp_path, monkeypatch):
    """And then its name: a power cut leaves one of the two, whole."""
    path, synced = tmp_path / "page.html", []

    def fsync(handle):
        synced.append((Path(f"/proc/self/fd/{handle}").readlink(), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with whole(path) as temporary:
        temporary.write_text("text")
    assert synced == [(temporary, False), (tmp_path, True)]


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    """But nothing of a process that is at work, of another host or of another file."""
    path = tmp_path / "page.html"
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(f".page.html.{HOST}.")
    pid = left.rpartition(".")[2]
    others = {
        f".page.html.{HOST}.{os.getppid()}",
        f".page.html.elsewhere.{pid}",
        f".age.html.{HOST}.{pid}",
        f".page.html.{HOST}.x",
    }
    for name in others:
        (tmp_path / name).write_text("")
    write(path)
    assert names(tmp_path) == {"page.html"} | others


def test_only_a_regular_file_is_written_over(tmp_path):
    for name, make in (
        ("folder", os.mkdir),
        ("pipe", os.mkfifo),
        ("device", lambda path: path.symlink_to("/dev/null")),
    ):
        make(tmp_path / name)
        before = (tmp_path / name).lstat()
        with pytest.raises(UserError, match=f"{name}: cannot be written: it is no regular file$"):
            write(tmp_path / name)
        assert (tmp_path / name).lstat() == before
    with pytest.raises(UserError, match=r"^/: cannot be written: it is no regular file$"):
        write(Path("/"))
    assert names(tmp_path) == {"folder", "pipe", "device"}


def test_file_that_cannot_be_written_stays_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(UserError, match=r"a\.html: cannot be written: Not a directory$"):
        write(path / "a.html")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match=r"loop: cannot be written: Too many levels of "):
        write(tmp_path / "loop")
    (tmp_path / "loop").unlink()
    full = OSError(errno.ENOSPC, "No space left on device")
    for raised, error, words in (
        (full, UserError, "cannot be written: No space left on device$"),
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
    ):

        def fail(*_, raised=raised):
            raise raised

        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(error, match=words):
            write(path)
        assert (path.read_text(), names(tmp_path)) == ("old", {"page.html"})
