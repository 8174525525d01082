"""ADIOS2's files, which are directories: what is in them, and what becomes of that."""

import errno
import re

import numpy as np
import pytest
import reference_data
from benchio.traces import calls_on, rounds, watched
from conftest import RUN_ID, each, injected, run, run_directory

IO, VERIFICATION, TIME_LIMIT = 3, 4, 5
EDGE = 48  # a block of 864 KiB
METADATA = {"md.0", "md.idx", "mmd.0", "profiling.json"}
FILE = "adios2.bp"


@pytest.fixture(scope="module")
def adios2(benchio, mpirun):
    """adios2(ranks, directory, options...): a run through ADIOS2."""
    if not re.search(r"(?m)^adios2 +\d+\.\d+", run([benchio, "--version"]).out):
        pytest.skip(
            "benchio was built without ADIOS2: install libadios2-mpi-fortran-dev of Debian 13, or "
            "name another by -DADIOS2_ROOT=PREFIX, and build it again"
        )

    def start(ranks, directory, *options, **how):
        return mpirun(
            ranks, "--backend", "adios2", "--local-size", EDGE, "--warmup", 0, "--repeats", 2,
            "--run-id", RUN_ID, "--dir", directory, "--json", directory.parent / "result.json",
            *options, **how,
        )  # fmt: skip

    return start


def blocks(size, grid, key):
    """The bytes of the blocks of all ranks, one after the other as BP5 puts them."""
    array = reference_data.array(size, key)
    extents = [extent // parts for extent, parts in zip(size, grid, strict=True)][::-1]
    for place in np.ndindex(*grid[::-1]):
        corners = zip(place, extents, strict=True)
        yield array[tuple(slice(at * n, (at + 1) * n) for at, n in corners)].tobytes()


#: Options, and the files with data of each directory.
MODES = {
    "shared": ("", 1),
    "subfiles": ("--subfiles 2", 2),
    "process": ("--subfiles {ranks}", -1),
    "files": ("--files process", 1),
}


@pytest.mark.parametrize("halo", [0, 1])
@pytest.mark.parametrize("ranks", [2, 4])
def test_files_are_what_an_independent_reader_finds(
    adios2, read_result, shim, new_directory, ranks, halo
):
    """As bytes, copied once the run has synced them: no ADIOS2 is asked."""

    def check(mode):
        options, count = MODES[mode]
        count = ranks if count < 0 else count
        directory = new_directory()
        copied, own = directory.parent / "copied", run_directory(directory)
        how = injected(
            shim, "command", own / "adios2*.bp" / "md.idx", RANK=0, CALL=2,
            COMMAND=f"cp -r {own} {copied}",
        )  # fmt: skip
        words = options.format(ranks=ranks).split()
        done = adios2(ranks, directory, *words, "--halo", halo, "--operation", "write,read", **how)
        assert (done.code, done.errors) == (0, []), done.err
        assert list(directory.iterdir()) == []

        result = read_result(directory.parent / "result.json")
        ran = result["run"]
        folders = sorted(copied.glob("adios2*.bp"))
        assert len(folders) == ran["file_count"]
        for number, folder in enumerate(folders):
            data = [folder / f"data.{part}" for part in range(count)]
            assert {path.name for path in folder.iterdir()} == METADATA | {p.name for p in data}
            assert all(path.stat().st_size for path in data)
            key = reference_data.key_of(RUN_ID, "adios2", number, 2)
            expected = b"".join(blocks(ran["file_size"], ran["grid"], key))
            assert b"".join(path.read_bytes() for path in data) == expected, folder

        assert re.fullmatch(r"\d+\.\d+\.\d+", result["libraries"]["adios2"])
        for case in result["cases"]:
            if case["operation"] == "write":
                is_cut = "--subfiles" in options
                assert case["hints"]["echoed"] == {
                    "Engine": "BP5Writer",
                    "AggregationType": "TwoLevelShm" if is_cut else "EveryoneWrites",
                    "NumAggregators": str(count),
                    "NumSubFiles": str(count),
                }
                observed = {"count": count, "ranks": count}
                if is_cut:
                    del case["subfiles"]["observed"]["stripe_size"]
                    assert case["subfiles"] == {"requested": count, "observed": observed}
                else:
                    assert case["subfiles"] is None
            for rep in case["repetitions"]:
                assert rep["witness"]["method"] == "through the library"
                assert rep["witness"]["bytes"] == ran["bytes"]
                assert rep["file_bytes"] == ran["bytes"]
                assert rep["witness"]["page_cache_fraction"] == 0

    each(MODES, check)


WAYS = [
    "--files gather --local-size 80",  # two slabs
    "--steps 3 --variables 2 --local-size 12x10x18",
    "--order random --local-size 16x4x4",
    "--transfer 4KiB --local-size 16",
    "--collective no --flush --halo 2",
    "--files 2 --grid 1x1x2",
    "--subfiles 3 --order strided --local-size 16x4x4 --steps 2",
]


def test_every_way_is_read_back_in_other_blocks(adios2, new_directory):
    def check(way):
        directory = new_directory()
        both = ["--backend", "mpiio,adios2", "--operation", "write,read"]
        done = adios2(4, directory, *both, *way.split())
        assert (done.code, done.errors) == (0, []), done.err
        assert list(directory.iterdir()) == []

    each(WAYS, check)


def test_what_is_kept_is_read_by_others(adios2, mpirun, read_result, directory):
    """Each directory with all that is in it, and no warm-up's."""
    options = ["--operation", "write-keep", "--files", 2, "--warmup", 1]
    assert adios2(4, directory, *options).code == 0
    own = run_directory(directory)
    names = {path.name for path in own.iterdir()}
    rounds_kept = {f"adios2.round{n}.{file:06}.bp" for n in (2, 3) for file in (0, 1)}
    assert names == rounds_kept | {"kept.nml"}

    def read():
        json = directory.parent / "read.json"
        done = mpirun(
            3, "--backend", "adios2", "--operation", "read-existing", "--dir", own, "--json", json
        )
        return done, json

    done, json = read()
    assert done.code == 0, done.err
    (case,) = read_result(json)["cases"]
    assert len(case["repetitions"]) == 2
    with (own / "adios2.round3.000001.bp/data.0").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(8))
    done, _ = read()
    assert done.code == VERIFICATION, done.err
    assert {path.name for path in own.iterdir()} >= names


def test_every_file_is_synced_once_it_is_closed(adios2, need, directory):
    """By benchio, for ADIOS2 syncs nothing."""
    traces = directory.parent / "traces"
    done = adios2(2, directory, "--subfiles", 2, launcher=watched(need, traces))
    assert done.code == 0, done.err
    for name in {*METADATA, "data.0", "data.1"}:
        rounds_of_file = rounds(calls_on(traces, name))
        assert len(rounds_of_file) == 2, name
        for calls in rounds_of_file:
            wrote = [call.time for call in calls if call.kind == "write"]
            closed = [call.time for call in calls if call.kind == "close"]
            (synced,) = (call.time for call in calls if call.kind == "sync")
            assert wrote, name
            assert min(time for time in closed if time > max(wrote)) < synced, name


ZEROS = 'dd if=/dev/zero of="$FAULT_PATH" bs=4096 seek=3 count=1 conv=notrunc status=none'
EXCHANGE = (
    'other=${FAULT_PATH%0}1; mv "$FAULT_PATH" "$FAULT_PATH.x"; mv "$other" "$FAULT_PATH"; '
    'mv "$FAULT_PATH.x" "$other"'
)
ATTACKS = {
    "a byte": ("flip", "", "data.0", [VERIFICATION]),
    "zeros": ("command", ZEROS, "data.0", [VERIFICATION]),
    "two exchanged": ("command", EXCHANGE, "data.0", [VERIFICATION]),
    "half of it": ("truncate", "", "data.1", [IO]),
    "all of it": ("command", 'rm "$FAULT_PATH"', "data.1", [IO]),
    "another's index": ("command", 'rm "$FAULT_PATH"', "md.idx", [IO, TIME_LIMIT]),
}  # fmt: skip


@pytest.mark.parametrize("operation", ["write", "write,read"])
def test_what_becomes_of_a_file_after_the_sync(adios2, read_result, shim, new_directory, operation):
    """The engine has no checksum of data."""

    def check(attack):
        fault, command, name, codes = ATTACKS[attack]
        directory = new_directory()
        path = run_directory(directory) / FILE / name
        how = injected(shim, fault, path, COMMAND=command, RANK="all")
        options = ["--subfiles", 2, "--operation", operation, "--keep-corrupt", 0]
        done = adios2(2, directory, *options, "--phase-limit", 3, **how)
        assert done.code in codes, f"{attack}: {done.err}"
        assert len(done.errors) == 1, done.err
        assert "MiB/s" not in done.out
        assert read_result(directory.parent / "result.json")["cases"] == []
        assert [*directory.rglob("*")] == [], attack

    each(ATTACKS, check)


def test_wrong_data_stay_where_they_are(adios2, shim, directory):
    path = run_directory(directory) / FILE / "data.0"
    done = adios2(2, directory, **injected(shim, "flip", path, RANK="all"))
    assert done.code == VERIFICATION, done.err
    (said,) = done.errors
    assert f"witness: {path.parent}: 1 of " in said
    assert f"kept: {run_directory(directory)}" in said
    assert path.exists()


@pytest.mark.parametrize("options", ["", "--subfiles 2", "--files process"])
def test_a_write_that_fails_leaves_nothing(adios2, read_result, shim, new_directory, options):
    """Not even what ranks have made that then wait for ever."""

    def check(fault):
        directory = new_directory()
        path = run_directory(directory) / "adios2*.bp" / "data.*"
        how = injected(shim, fault, path, ERRNO=errno.ENOSPC, RANK="all", THROUGH=2**18)
        done = adios2(2, directory, *options.split(), "--phase-limit", 3, **how)
        assert done.code in (IO, TIME_LIMIT), done.err
        assert len(done.errors) == 1, done.err
        assert "MiB/s" not in done.out
        assert [*directory.rglob("*")] == []

    each(["open", "write", "short", "sleep", "sync", "sleep-in-sync"], check)


@pytest.mark.parametrize("options", ["", "--subfiles 2", "--files process"])
def test_a_full_filesystem(adios2, shim, tmpfs, options):
    """It is an error, and no figure."""
    directory = tmpfs("size=1m")
    how = injected(shim, "space", directory / "none")
    done = adios2(2, directory, *options.split(), "--phase-limit", 3, **how)
    assert done.code in (IO, TIME_LIMIT), done.err
    (said,) = done.errors
    assert "beside it fails: No space left on device" in said
    assert "MiB/s" not in done.out
    assert [*directory.rglob("*")] == []


def test_directories_of_any_name(adios2, mpirun, tmp_path):
    """But those with a backslash, which the library takes for a slash: it makes others."""

    def check(name):
        directory = tmp_path / name / "files"
        directory.mkdir(parents=True)
        done = adios2(2, directory, "--local-size", 8, "--subfiles", 2)
        if "\\" in name:
            assert done.code == IO, done.err
            assert 'ADIOS2 takes "\\" for "/"' in done.errors[0]
        else:
            assert done.code == 0, done.err
        assert [*directory.iterdir()] == []

    each(["a b", "ä%s:$x'\"", "data.0", "a*?[b]{c}~,;=#&|<>(!\t\n", "a\\b"], check)


def test_more_subfiles_than_ranks(adios2, directory):
    done = adios2(2, directory, "--subfiles", 3)
    assert done.code == IO, done.err
    assert "ADIOS2 has made fewer files with data than asked for: 3" in done.errors[0]
    assert [*directory.rglob("*")] == []
