import errno
import os
import re

import pytest

from iowatch.night.session import locked
from iowatch.site import UsageError


def test_second_night_is_refused_and_says_who_is_at_work(tmp_path):
    folder = tmp_path / "results"  # not there yet
    with locked("archer", folder):
        sentence = (
            r"archer: a night is still at work, since \d{4}-\d\d-\d\d \d\d:\d\d UTC, "
            rf"process {os.getpid()} on \S+; nothing was run"
        )
        with pytest.raises(UsageError) as refused, locked("archer", folder):
            pass
        assert re.fullmatch(sentence, str(refused.value))
        with locked("cirrus", folder):
            pass
    with locked("archer", folder):
        pass


def test_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), locked("archer", tmp_path):
        raise ZeroDivisionError
    with locked("archer", tmp_path):
        pass


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "results").write_text("a file")
    with (
        pytest.raises(UsageError, match=r"results.*: cannot be written, nothing was run: "),
        locked("archer", tmp_path / "results" / "new"),
    ):
        pass


def test_disk_that_is_full(tmp_path, monkeypatch):
    def full(handle, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    sentence = r"archer\.lock: cannot be written, nothing was run: No space left on device$"
    with pytest.raises(UsageError, match=sentence), locked("archer", tmp_path):
        pass
    monkeypatch.undo()
    with locked("archer", tmp_path):
        pass


def test_former_owner_is_forgotten(tmp_path):
    file = tmp_path / "nightly.archer.lock"
    file.write_text("since long ago, process 1 on a machine with a long name\n" * 9)
    with locked("archer", tmp_path):
        (line,) = file.read_text().splitlines()
        assert f"process {os.getpid()} on " in line
    assert file.read_text() == ""
