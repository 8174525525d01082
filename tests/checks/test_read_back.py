"""ReadBack with the real ReFrame and benchio: night after night, what the last one has kept."""

import os
import shutil

import pytest
from cases import backend_of, verdict_of
from checks import replay

CASE = "small:memory/real/ReadBack/backend={}/local_size=16x16x16/ranks=2"
MPIIO, HDF5 = CASE.format("mpiio"), CASE.format("hdf5")
REFERENCES = """\
ReadBack:
  small:.*:
    total_max: [1, -0.999, 1.0e+9, MiB/s]
    overhead_fraction: [0, null, 0.999, '1']  # so small a file says nothing of it
"""
#: Ends all ranks in the midst of a write whose files are to be kept.
KILLED = """\
#!/bin/sh
case "$*" in
*write-keep*) exec timeout -s KILL 3 {benchio} "$@" --repeats 50 --settle 1 ;;
esac
exec {benchio} "$@"
"""
#: Its ranks do not start.
NO_RANK = """\
#!/bin/sh
case "$*" in *write-keep*) exit 1 ;; esac
exec {benchio} "$@"
"""


@pytest.fixture
def nights(site):
    """nights(day, backends): the verdict and sentence of each case on a night, by its backend."""
    site.suite.clear()
    site.references = REFERENCES

    def night(day, *backends):
        site.suite["ReadBack"] = {"backend": backends, "local_size": [16], "nodes": [1]}
        site.environment["IOWATCH_NIGHT"] = f"2026-11-{day:02}T010000"
        done = site.reframe("-r", "-n", "ReadBack", "-S", "repeats=1")
        tests = site.report()
        assert len(tests) == len(backends), done.stdout
        return {backend_of(test): test for test in tests}

    return night


def kept(site, case=MPIIO):
    """The nights of which there are files, each with its directory of a run."""
    folder = site.scratch / f"kept.{os.getuid()}" / case.replace("/", ",").replace(":", "@")
    return {night.name[8:10]: next(night.iterdir()) for night in sorted(folder.iterdir())}


def sentence(test, kind):
    assert verdict_of(test) == kind, test["sentence"]
    return test["sentence"]


def test_a_night_in_which_nothing_ran_is_not_the_first_one(nights, site):
    broken = site.folder / "broken"
    broken.write_text(NO_RANK.format(benchio=site.benchio))
    broken.chmod(0o755)
    site.environs["real"] = {"extras": {"benchio": str(broken)}}
    assert nights(1, "mpiio")["mpiio"]["state"] == "failed"
    site.environs.clear()
    sentence(nights(2, "mpiio")["mpiio"], "skipped (nothing_kept)")
    sentence(nights(3, "mpiio")["mpiio"], "ok")


def test_nights_read_what_the_last_one_has_kept(nights, site):
    first = nights(1, "mpiio", "hdf5")
    for backend in ("mpiio", "hdf5"):
        said = sentence(first[backend], "skipped (nothing_kept)")
        assert said.endswith("nothing was kept before: the next night reads what this one has")
    names = {file.name for file in kept(site, HDF5)["01"].iterdir()}
    assert names == {"mpiio.round2.dat", "hdf5.round2.h5", "kept.nml"}

    second = nights(2, "mpiio", "hdf5")
    for backend in ("mpiio", "hdf5"):
        sentence(second[backend], "ok")
        metrics = second[backend]["metrics"]
        assert {"total_max", "total_min", "read_s", "close_s"} <= set(metrics)
        assert ("ratio" in metrics) == (backend == "hdf5")
    assert list(kept(site)) == ["01", "02"], "the night may come again"
    before = kept(site)["02"]

    # A byte, of what the second night has written.
    file = kept(site, HDF5)["02"] / "hdf5.round2.h5"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    for _ in range(2):  # and again in the same night: by then there are newer files
        third = nights(3, "mpiio", "hdf5")
        sentence(third["mpiio"], "ok")
        said = sentence(third["hdf5"], "failed (corrupt)")
        assert f"{file}: 1 of " in said
        assert "elements differ from what was written" in said
        assert "/2026-11-02T010000/" in said
    assert list(kept(site)) == ["02", "03"]
    assert kept(site)["02"] == before

    # Somebody has brought back an older night in the place of the last: every byte of it is well.
    older, last = kept(site)["02"], kept(site)["03"]
    shutil.rmtree(last)
    shutil.copytree(older, last.parent / older.name)
    fourth = nights(4, "mpiio", "hdf5")
    said = sentence(fourth["mpiio"], "failed (corrupt)")
    assert said.endswith(
        "in the place of what 2026-11-03T010000 kept are the files of another run, "
        f"{older.name.removeprefix('benchio.')}"
    )
    sentence(fourth["hdf5"], "ok")


@pytest.mark.slow
def test_what_is_gone(nights, site):
    """All of it once is not known to be a fault, and twice is; one file is at once."""
    sentence(nights(1, "mpiio")["mpiio"], "skipped (nothing_kept)")
    shutil.rmtree(kept(site)["01"].parent)
    said = sentence(nights(2, "mpiio")["mpiio"], "failed (files_gone)")
    assert "what 2026-11-01T010000 kept below" in said
    assert "the night before there was nothing either: exempt kept.*" in said
    sentence(nights(3, "mpiio")["mpiio"], "ok")
    shutil.rmtree(site.scratch / f"kept.{os.getuid()}")
    said = sentence(nights(4, "mpiio")["mpiio"], "unjudged (files_gone)")
    assert "has somebody cleaned the filesystem?" in said
    sentence(nights(5, "mpiio")["mpiio"], "ok")
    shutil.rmtree(kept(site)["05"].parent)
    said = sentence(nights(6, "mpiio")["mpiio"], "unjudged (files_gone)")
    assert "what 2026-11-05T010000 kept below" in said, "though the fourth is there"
    assert "has somebody cleaned the filesystem?" in said
    file = kept(site)["06"] / "mpiio.round2.dat"
    file.unlink()
    said = sentence(nights(7, "mpiio")["mpiio"], "failed (io_error)")
    assert str(file) in said
    assert "No such file" in said


def test_two_sites_on_one_filesystem_and_a_clock_that_was_set_back(nights, site):
    """Neither reads or removes what is not its own, and an earlier night what a later one kept."""
    sentence(nights(1, "mpiio")["mpiio"], "skipped (nothing_kept)")
    site.environment |= {"RFM_PREFIX": str(site.folder / "other")}
    nights(2, "mpiio")
    del site.environment["RFM_PREFIX"]
    sentence(nights(4, "mpiio")["mpiio"], "ok")
    (file,) = site.kept.glob("*-04T*/*/last")
    assert "/2026-11-01T010000/" in file.read_text()
    sentence(nights(5, "mpiio")["mpiio"], "ok")
    assert list(kept(site)) == ["02", "04", "05"]

    said = sentence(nights(3, "mpiio")["mpiio"], "unjudged (wrong_clock)")
    assert "2026-11-05T010000 has kept files and is later than this night, 2026-11-03T0" in said
    assert list(kept(site)) == ["02", "04", "05"]


@pytest.mark.slow
def test_only_the_first_night_of_all_is_left_out(nights, site):
    """Else nobody would notice that nothing is ever kept. What a wrong clock has dated later than
    now is no night before."""

    def lose_all():
        shutil.rmtree(site.scratch / f"kept.{os.getuid()}")
        (runs,) = site.folder.rglob("runs")
        shutil.rmtree(runs)

    sentence(nights(1, "mpiio")["mpiio"], "skipped (nothing_kept)")
    lose_all()
    (only,) = replay.sessions(site.database)
    replay.move(site.database, only, 9999 * replay.DAY)
    sentence(nights(2, "mpiio")["mpiio"], "skipped (nothing_kept)")
    lose_all()
    sentence(nights(3, "mpiio")["mpiio"], "unjudged (nothing_kept)")


@pytest.mark.slow
def test_a_night_that_is_killed_as_it_writes(nights, site):
    sentence(nights(1, "mpiio")["mpiio"], "skipped (nothing_kept)")
    real = site.benchio
    site.benchio = site.folder / "killed"
    site.benchio.write_text(KILLED.format(benchio=real))
    site.benchio.chmod(0o755)
    sentence(nights(2, "mpiio")["mpiio"], "failed (no_output)")
    torn = kept(site)["02"]
    assert list(torn.iterdir()), "it was killed as it wrote"
    assert not (torn / "kept.nml").exists()
    site.benchio = real
    sentence(nights(3, "mpiio")["mpiio"], "ok")  # of the first night
    assert list(kept(site)) == ["01", "03"]
    sentence(nights(4, "mpiio")["mpiio"], "ok")
    assert list(kept(site)) == ["03", "04"]
