"""The disk of the results is full, has no inodes left, or is read-only: the night after is well,
but for what it says of a night of which nothing could be stored."""

import subprocess
from contextlib import suppress

import pytest


@pytest.fixture
def disk(tmpfs, site):
    """A small disk of its own for what ReFrame writes."""
    folder = tmpfs("size=4m,nr_inodes=500")
    site.faults = {"gnu": "none"}
    site.environment = {
        "RFM_PREFIX": str(folder),
        "RFM_SQLITE_DB_FILE": str(folder / "results.db"),
    }
    return folder


def fill(folder):
    """To the last byte, and then to the last block of what is there."""
    with suppress(OSError), (folder / "full").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def take_inodes(folder):
    with suppress(OSError):
        for number in range(1000):
            (folder / f"inode{number}").touch()


def free(folder):
    for file in [folder / "full", *folder.glob("inode*")]:
        file.unlink(missing_ok=True)


def remount(how):
    return lambda folder: subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "mend"),
    [
        pytest.param(fill, free, id="full"),
        pytest.param(take_inodes, free, id="no inodes"),
        pytest.param(remount("ro"), remount("rw"), id="read-only"),
    ],
)
def test_night_after_a_spoiled_disk_is_well(site, disk, spoil, mend):
    for is_first in (True, False):  # nothing is on record, or a night is
        spoil(disk)
        spoiled = site.iowatch("--quiet")
        assert spoiled.returncode in (1, 2), spoiled.stdout
        assert "Traceback" not in spoiled.stdout
        mend(disk)
        well = site.iowatch("--quiet")
        anew = "history begins anew" in well.stdout
        if "is not in the results database: its session was killed" in well.stdout:
            assert "1 problem with the night" in well.stdout, "nothing is on record of the last"
            well = site.iowatch("--quiet")
        assert well.returncode == 0, (is_first, spoiled.stdout, well.stdout)
        assert "0 problems with the night" in well.stdout
        assert anew is is_first


def test_disk_that_fills_up_while_the_night_runs(site, disk):
    """ReFrame makes a database of 0 bytes then, if there is none."""
    database = disk / "results.db"

    def fill_up():
        # Never the disk of the machine.
        site.partition["prepare_cmds"] = [
            f"mountpoint -q {disk} && cat /dev/zero > {disk}/full 2> /dev/null"
        ]
        done = site.iowatch("--quiet")
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stdout
        built = f"gnu does not build or run: no room is left on the disk of {disk}/stage/"
        assert built in done.stdout
        assert "make setup" not in done.stdout
        free(disk)
        del site.partition["prepare_cmds"]
        return done.stdout

    spoiled = fill_up()
    assert database.stat().st_size == 0, spoiled
    well = site.iowatch("--quiet")
    assert well.returncode == 0, (spoiled, well.stdout)
    assert "was empty, as a full disk leaves it" in well.stdout
    nights = database.read_bytes()
    spoiled = fill_up()
    assert len(database.read_bytes()) >= len(nights), spoiled
