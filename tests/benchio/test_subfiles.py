"""A file that HDF5 has cut into subfiles, where its library can, and what becomes of it."""

import errno
import re
import shlex

import h5py
import numpy as np
import pytest
import reference_data
from benchio.traces import calls_on, rounds, watched
from conftest import RUN_ID, each, injected, run, run_directory

RANKS, COUNT, STRIPE = 3, 3, 2**17
SIZE = (32, 32, 192)  # 1.5 MiB, which go four times around the subfiles
IO, VERIFICATION, TIME_LIMIT = 3, 4, 5
#: What HDF5 moves at once: a row that does not follow another in memory and in the file would be a
#: message of its own.
WHOLE_BLOCKS = ["--grid", f"1x1x{RANKS}", "--halo", 0]
STUB = "hdf5.h5"


@pytest.fixture(scope="module")
def has_subfiling(benchio):
    return "\nsubfiling built into hdf5\n" in run([benchio, "--version"]).out


@pytest.fixture
def subfiling(has_subfiling, mpirun):
    """subfiling(directory, options..., stripe=..., env=...): a run with subfiles."""
    if not has_subfiling:
        pytest.skip(
            "benchio's HDF5 was built without subfiling: configure it over one of 1.14 or later "
            "with HDF5_ENABLE_SUBFILING_VFD, by cmake -S src/benchio -B build/benchio "
            "-DHDF5_ROOT=PREFIX -DBENCHIO_NETCDF=OFF, and run cmake --build build/benchio"
        )

    def start(directory, *options, stripe=STRIPE, env=None, **how):
        return mpirun(
            RANKS, "--backend", "hdf5", "--subfiles", COUNT, "--global-size",
            "x".join(map(str, SIZE)), "--warmup", 0, "--repeats", 2, "--run-id", RUN_ID,
            "--dir", directory, "--json", directory.parent / "result.json", *options,
            env={"H5FD_SUBFILING_STRIPE_SIZE": str(stripe), **(env or {})}, **how,
        )  # fmt: skip

    return start


def test_without_subfiling_it_is_refused(has_subfiling, mpirun, directory):
    """The refusal comes before anything is made."""
    if has_subfiling:
        pytest.skip("benchio's HDF5 was built with subfiling")
    assert "\nsubfiling not built in\n" in mpirun(1, "--version").out
    done = mpirun(2, "--backend", "hdf5", "--subfiles", 2, "--dir", directory)
    assert done.code == 6, done.err
    (said,) = done.errors
    assert re.match(r"HDF5 [\d.]+ was built without subfiling: benchio needs one of 1\.14", said)
    assert list(directory.iterdir()) == []


def part(number, directory):
    """Return a pattern of the name of a subfile, which has the inode of the stub."""
    return run_directory(directory) / f"{STUB}.subfile_*_{number}_of_{COUNT}"


def fused(folder):
    """The one file that the subfiles in a folder are, put together by HDF5's list of them."""
    (config,) = folder.glob(f"{STUB}.subfile_*.config")
    lines = config.read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if "=" in line)
    stripe, count = int(given["stripe_size"]), int(given["subfile_count"])
    parts = [(folder / name).read_bytes() for name in lines if "=" not in name]
    assert len(parts) == count
    whole = b"".join(
        one[turn : turn + stripe]
        for turn in range(0, max(map(len, parts)), stripe)
        for one in parts
    )
    path = folder / "fused.h5"
    path.write_bytes(whole)
    return path


@pytest.mark.parametrize(
    "options",
    [
        "--grid 1x1x3 --halo 0",
        "--grid 1x1x3 --halo 0 --collective no --flush",
        "--grid 1x3x1 --halo 1 --global-size 64x48x32",
        "--grid 1x1x3 --halo 0 --file-format latest --collective-metadata no",
        "--order strided --halo 0 --global-size 1536x8x8",
        "--variables 3 --grid 1x1x3 --halo 0",
    ],
)
def test_files_are_what_an_independent_reader_finds(
    subfiling, read_result, shim, directory, options
):
    """Copied once they are all closed, and read by another HDF5 that knows of no subfiles."""
    copied = directory.parent / "copied"
    words = options.split()
    how = injected(
        shim, "command", run_directory(directory) / STUB, RANK=0, CALL=2,
        COMMAND=f"cp -r {shlex.quote(str(run_directory(directory)))} {shlex.quote(str(copied))}",
    )  # fmt: skip
    # No multiple of an element: some of them are in two subfiles.
    stripe = 100001 if "latest" in options else STRIPE
    ranks = 1 + ("--flush" in options)  # for three subfiles
    how["env"]["H5FD_SUBFILING_IOC_PER_NODE"] = str(ranks)
    done = subfiling(directory, *words, stripe=stripe, **how)
    assert (done.code, done.errors) == (0, []), done.err
    assert list(directory.iterdir()) == []

    result = read_result(directory.parent / "result.json")
    assert result["run"]["access"]["subfiles"] == COUNT
    assert result["environment"]["variables"]["H5FD_SUBFILING_STRIPE_SIZE"] == str(stripe)
    (case,) = result["cases"]
    observed = {"count": COUNT, "stripe_size": stripe, "ranks": ranks}
    assert case["subfiles"] == {"requested": COUNT, "observed": observed}
    for rep in case["repetitions"]:
        assert rep["witness"]["method"] == "pread"
        assert rep["witness"]["bytes"] == result["run"]["bytes"]
        assert rep["file_bytes"] >= result["run"]["bytes"]

    size = tuple(result["run"]["file_size"])
    with reference_data.ONE_READER, h5py.File(fused(copied)) as file:
        names = sorted(file)
        assert names == (["data"] if len(names) == 1 else ["data1", "data2", "data3"])
        found = np.concatenate([np.asarray(file[name]) for name in names])
    expected = reference_data.array(size, reference_data.key_of(RUN_ID, "hdf5", 0, 2))
    assert np.array_equal(found, expected)


def test_others_write_one_file_in_turn(subfiling, read_result, directory):
    """And what HDF5 wrote is read back through it, too."""
    done = subfiling(
        directory, *WHOLE_BLOCKS, "--backend", "hdf5,mpiio,posix", "--operation", "write,read"
    )
    assert done.code == 0, done.err
    cases = read_result(directory.parent / "result.json")["cases"]
    assert [bool(case["subfiles"]) for case in cases] == [
        case["backend"] == "hdf5" for case in cases
    ]
    assert {case["operation"] for case in cases} == {"write", "read"}


def test_every_part_is_synced_once_it_is_closed(subfiling, need, directory):
    """The subfiles, the stub and the list: by benchio, for HDF5 syncs nothing."""
    traces = directory.parent / "traces"
    done = subfiling(directory, *WHOLE_BLOCKS, launcher=watched(need, traces))
    assert done.code == 0, done.err
    text = "".join(trace.read_text() for trace in traces.iterdir())
    names = {*re.findall(rf"/({re.escape(STUB)}[\w.]*)[>\"]", text)}
    files = [(name, calls) for name in names for calls in rounds(calls_on(traces, name))]
    assert len(files) == 2 * (COUNT + 2), names
    for name, calls in files:
        wrote = [call.time for call in calls if call.kind == "write"]
        closed = [call.time for call in calls if call.kind == "close"]
        (synced,) = (call.time for call in calls if call.kind == "sync")
        assert wrote, name
        assert min(time for time in closed if time > max(wrote)) < synced, name


def test_variables_that_would_scatter_the_files_are_refused(subfiling, directory, tmp_path):
    def check(name):
        done = subfiling(directory, env={name: str(tmp_path)})
        assert done.code == 2, done.err
        assert f"getenv: {name}: this variable is set" in done.errors[0]

    each(
        [
            "H5FD_SUBFILING_SUBFILE_PREFIX",
            "H5FD_SUBFILING_CONFIG_FILE_PREFIX",
            "H5FD_SUBFILING_IOC_SELECTION_CRITERIA",
        ],
        check,
    )
    assert list(directory.iterdir()) == []


def test_a_subfile_without_bytes_is_no_subfile(subfiling, directory):
    """In stripes of 32 MiB, which are HDF5's unless told otherwise, all is in the first."""
    done = subfiling(directory, *WHOLE_BLOCKS, stripe=2**25)
    assert done.code == IO, done.err
    assert re.search(r"_2_of_3: the subfile is empty: .* stripes of 33554432 bytes", done.errors[0])
    assert list(directory.iterdir()) == []


EXCHANGE = (
    'one=$FAULT_PATH; other=${one%_2_of_3}_3_of_3; mv "$one" "$one.x"; '
    'mv "$other" "$one"; mv "$one.x" "$other"'
)
ZEROS = 'dd if=/dev/zero of="$FAULT_PATH" bs=4096 count=1 conv=notrunc status=none'
ATTACKS = {
    "a byte": ("flip", "", 2, VERIFICATION),
    "half of it": ("truncate", "", 2, IO),
    "all of it": ("command", 'rm "$FAULT_PATH"', 2, IO),
    "two exchanged": ("command", EXCHANGE, 2, VERIFICATION),
    "zeros": ("command", ZEROS, 3, VERIFICATION),
}  # fmt: skip


@pytest.mark.parametrize("operation", ["write", "write,read"])
def test_what_becomes_of_a_subfile_after_the_sync(
    subfiling, read_result, shim, new_directory, operation
):
    """HDF5 has no checksum of data, and the subfiles are as many and as large as before."""

    def check(attack):
        fault, command, number, code = ATTACKS[attack]
        directory = new_directory()
        how = injected(shim, fault, part(number, directory), COMMAND=command, RANK="all")
        done = subfiling(directory, *WHOLE_BLOCKS, "--operation", operation, **how)
        assert done.code == code, f"{attack}: {done.err}"
        assert len(done.errors) == 1, done.err
        assert "MiB/s" not in done.out
        assert read_result(directory.parent / "result.json")["cases"] == []
        left = [*directory.rglob("*")]
        assert left == [], attack

    each(ATTACKS, check)


def test_a_write_that_fails_leaves_nothing(subfiling, shim, new_directory):
    """HDF5 1.17 says nothing of it, and waits for ever."""

    def check(fault):
        directory = new_directory()
        how = injected(
            shim, fault, part(2, directory), ERRNO=errno.ENOSPC, RANK="all", THROUGH=2**18
        )
        done = subfiling(directory, *WHOLE_BLOCKS, "--phase-limit", 3, **how)
        assert done.code in (IO, TIME_LIMIT), done.err
        assert len(done.errors) == 1, done.err
        assert "MiB/s" not in done.out
        assert [*directory.rglob("*")] == []

    each(["write", "short", "sleep", "sync", "sleep-in-sync"], check)


def test_a_full_filesystem(subfiling, shim, tmpfs):
    """The small write of the watchdog says what neither statfs nor HDF5 says."""
    directory = tmpfs("size=1m")
    how = injected(shim, "space", directory / "none")
    done = subfiling(directory, *WHOLE_BLOCKS, "--phase-limit", 3, **how)
    assert done.code == TIME_LIMIT, done.err
    assert "beside it fails: No space left on device" in done.errors[0]
    assert list(directory.iterdir()) == []
