"""Other ranks read what a run has kept, in other blocks; and see what was done to it meanwhile."""

import errno
import itertools
import os
import shutil

from conftest import BACKENDS, RECORD, RUN_ID, each, files_of, injected, kept_file, run_directory
from many_runs import Plan, run_many

IO, VERIFICATION, USAGE, TIME_LIMIT = 3, 4, 2, 5
ALL = ",".join(BACKENDS)
KEEP = ["--operation", "write-keep", "--warmup", 1, "--repeats", 2]


def contents(kept):
    return {file.name: file.read_bytes() for file in kept.iterdir()}


#: How four ranks write, and who reads it: so many ranks, and their grid.
READERS = [
    ("--files shared --local-size 7x5x6", [(1, ""), (2, "1x1x2"), (6, "3x2x1")]),
    ("--files shared --local-size 6x5x7 --chunk 5x4x3", [(3, "")]),
    ("--files process --global-size 9x8x30", [(4, ""), (6, "")]),
    ("--files 2 --global-size 9x8x31", [(2, "1x1x1"), (3, "")]),
    ("--files node --local-size 8", [(3, "")]),
    ("--files gather --local-size 8", [(3, "1x3x1")]),
    ("--instances 2 --local-size 8", [(2, "")]),
]


def write(ranks, *options, of=None, run_id=RUN_ID):
    """A run that keeps its files."""
    return Plan(ranks, ["--backend", ALL, *KEEP, *options], run_id=run_id, of=of)


def read(ranks, kept, *options, of=None):
    words = ["--backend", ALL, "--operation", "read-existing", *options]
    return Plan(ranks, words, directory=kept, of=of)


def test_any_ranks_read_what_others_have_kept(read_result, new_directory):
    reads = []
    plans = [write(4, *options.split(), of=readers) for options, readers in READERS]
    for outcome in run_many(plans, new_directory):
        assert outcome.done.code == 0, outcome.done.err
        wrote = outcome.result
        assert wrote["run"]["operations"] == ["write-keep"]
        assert wrote["run"]["existing"] is None
        for one in wrote["cases"]:
            unlinks = ["unlink" in rep["phases"] for rep in one["repetitions"]]
            assert unlinks == [True, False, False], "what warms up is not kept"
        before = contents(outcome.own)
        count = wrote["run"]["file_count"]
        names = [files_of(backend, count, n) for backend in BACKENDS for n in (2, 3)]
        assert set(before) == {RECORD}.union(*names)
        for ranks, grid in outcome.plan.of:
            json = outcome.directory.parent / f"{ranks}.json"
            options = ["--json", json, *(["--grid", grid] if grid else [])]
            reads.append(read(ranks, outcome.own, *options, of=(wrote, before, json)))

    def check(outcome):
        wrote, before, json = outcome.plan.of
        assert outcome.done.code == 0, outcome.done.err
        result = read_result(json)
        ran = result["run"]
        assert ran["operations"] == ["read-existing"]
        assert (ran["repeats"], ran["warmup"], ran["ranks"]) == (2, 0, outcome.plan.ranks)
        assert ran["existing"] == {
            "id": RUN_ID, "started": wrote["started"], "ranks": 4,
            "hosts": wrote["run"]["hosts"],
        }  # fmt: skip
        same = ("files", "file_count", "file_size", "local_size", "global_size", "bytes")
        assert {key: ran[key] for key in same} == {key: wrote["run"][key] for key in same}
        assert [one["operation"] for one in result["cases"]] == ["read"] * len(BACKENDS)
        for one in result["cases"]:
            assert one["cache"]["other_node_byte_fraction"] == 0, "this host has written it"
            assert [rep["witness"]["bytes"] for rep in one["repetitions"]] == [ran["bytes"]] * 2
        assert contents(outcome.directory) == before, "nothing is changed"

    each(run_many(reads, new_directory), check, at_once=1)


def flip(file, other):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def truncate(file, other):
    file.write_bytes(file.read_bytes()[:-2000])


def remove(file, other):
    file.unlink()


def swap(file, other):
    of_round_2 = file.with_name(file.name.replace("round3", "round2"))
    file.rename(file.with_name("third"))
    of_round_2.rename(file)
    file.with_name("third").rename(of_round_2)


def replace(file, other):
    shutil.copy(other / file.name, file)


def link(file, other):
    """To the same bytes in another place, which may be another disk."""
    file.replace(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


DAMAGES = {flip: VERIFICATION, truncate: IO, remove: IO, swap: VERIFICATION, replace: VERIFICATION}
DAMAGES[link] = IO


def test_what_was_done_to_kept_files_is_named(new_directory):
    """A bit, a truncated file, one that is missing, two that were swapped, one of another night, a
    link, of every library; the message tells which file, and of which run it was."""
    size = ["--local-size", "16x16x8"]
    night, other = run_many([write(3, *size), write(3, *size, run_id="other")], new_directory)
    assert night.done.code == other.done.code == 0, other.done.err

    plans = []
    for damage, backend in itertools.product(DAMAGES, BACKENDS):
        kept = new_directory() / "kept"
        shutil.copytree(night.own, kept)
        damage(kept / kept_file(backend, 3), other.own)
        plans.append(read(3, kept, of=(damage, backend, contents(kept))))

    def check(outcome):
        damage, backend, before = outcome.plan.of
        assert outcome.done.code == DAMAGES[damage], (damage.__name__, outcome.done.err)
        named = kept_file(backend, 2 if damage is swap else 3)
        assert str(outcome.directory / named) in outcome.said
        assert f"written, and confirmed, by run {RUN_ID} of 20" in outcome.said
        assert contents(outcome.directory) == before, "it is evidence"

    each(run_many(plans, new_directory), check, at_once=1)


def test_a_record_that_cannot_be_believed(mpirun, new_directory):
    """The format of a record is tested in src/benchio/test/test_kept_files.f90."""
    directory = new_directory()
    done = mpirun(
        3, *KEEP, "--files", "process", "--local-size", 8, "--run-id", RUN_ID, "--dir", directory
    )
    assert done.code == 0, done.err
    kept = run_directory(directory)

    def refused(ranks, *options):
        done = mpirun(ranks, "--operation", "read-existing", *options, "--dir", kept)
        (said,) = done.errors
        return done.code, said

    code, said = refused(2)
    assert code == USAGE
    assert "3 files were kept, and 2 ranks are too few to read them" in said
    code, said = refused(3, "--backend", "hdf5")
    assert code == USAGE
    assert "no files of hdf5 were kept; there are files of mpiio" in said
    record = kept / RECORD
    text = record.read_text()
    record.write_text(text.replace(RUN_ID, "night"))
    code, said = refused(3)
    assert code == IO
    assert f"{record}: it was changed or cut off" in said
    record.unlink()
    code, said = refused(3)
    assert code == IO
    assert f"{record}: it cannot be opened" in said


def test_a_run_that_fails_keeps_nothing(mpirun, shim, directory):
    """The rounds that were well go, too: a record would come after them."""
    options = ["--operation", "write-keep", "--warmup", 0, "--repeats", 3, "--run-id", RUN_ID]
    file = run_directory(directory) / kept_file("hdf5", 3)  # mpiio's is there by then
    done = mpirun(
        2, "--backend", "mpiio,hdf5", "--local-size", 64, *options, "--dir", directory,
        **injected(shim, "write", file, ERRNO=errno.ENOSPC, RANK="all"),
    )  # fmt: skip
    assert done.code == IO, done.err
    assert str(file) in done.errors[0]
    assert list(directory.iterdir()) == []


def test_a_record_that_cannot_be_written(mpirun, shim, new_directory):
    """Fails the run, even one that its time limit has ended: nothing was kept."""

    def check(options):
        directory = new_directory()
        record = run_directory(directory) / f"{RECORD}.*.tmp"
        done = mpirun(
            2, "--local-size", 8, "--operation", "write-keep", "--warmup", 0, *options,
            "--run-id", RUN_ID, "--dir", directory,
            **injected(shim, "write", record, ERRNO=errno.ENOSPC, THROUGH=0),
        )  # fmt: skip
        assert done.code == IO, done.err
        assert f"{RECORD}: {os.strerror(errno.ENOSPC)}" in done.errors[0]
        assert "MiB/s" not in done.out
        assert list(directory.iterdir()) == []

    each([["--repeats", 2], ["--repeats", 10_000, "--time-limit", 1]], check)


def test_the_rounds_before_a_time_limit_are_kept(mpirun, read_result, directory):
    written, read_again = directory.parent / "written.json", directory.parent / "read.json"
    words = ["--operation", "write-keep", "--warmup", 0, "--repeats", 10_000, "--time-limit", 1]
    done = mpirun(
        2, "--local-size", 8, *words, "--run-id", RUN_ID, "--dir", directory, "--json", written
    )
    assert done.code == TIME_LIMIT, done.err
    words = ["--operation", "read-existing", "--dir", run_directory(directory)]
    done = mpirun(2, *words, "--json", read_again)
    assert done.code == 0, done.err
    rounds = [len(read_result(file)["cases"][0]["repetitions"]) for file in (written, read_again)]
    assert 0 < rounds[0] == rounds[1]
