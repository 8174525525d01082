"""A library ends its process: whoever it is, benchio says so, and reports what was verified."""

import contextlib
import re
import signal
import subprocess
from pathlib import Path

from conftest import (
    ROMIO,
    RUN_ID,
    each,
    files_of,
    finish,
    injected,
    needs_romio,
    run_directory,
    session_of,
)

LIBRARY = 7
CODE = " called it with code 9"
#: How, and on which rank of three.
ENDS = [
    ("MPI_Abort", 1, "shared"),
    ("exit", 2, "process"),
    ("_exit", 0, "shared"),
    ("_Exit", 2, "shared"),
    ("quick_exit", 0, "process"),
    ("abort", 1, "process"),
    *((sent.name, index % 3, "shared") for index, sent in enumerate(
        [signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL, signal.SIGABRT])),
]  # fmt: skip
SIZE = 64 * 64 * 48 * 8  # bytes of a rank in a round


def number(how):
    """What the shim takes: a signal by its number."""
    return signal.Signals[how].value if how.startswith("SIG") else how


def test_a_library_ends_the_process(mpirun, shim, read_result, new_directory):
    """In the third round. Rank 0 has the rounds, and clears up for ranks that are ended."""

    def check_end(case):
        how, rank, files = case
        directory = new_directory()
        path = run_directory(directory) / files_of("posix", 3 if files == "process" else 1)[0]
        pattern = str(path).replace(".000000", "*")
        # What comes to a file of all ranks is this rank's alone.
        fault = injected(shim, "end", pattern, RANK=rank, THROUGH=int(2.5 * SIZE), END=number(how))
        file = directory.parent / "result.json"
        done = mpirun(
            3, "--backend", "posix", "--files", files, "--local-size", "64x64x48", "--warmup", 0,
            "--repeats", 9, "--run-id", RUN_ID, "--dir", directory, "--json", file, **fault,
        )  # fmt: skip
        assert done.code == LIBRARY, done.err
        assert len(done.errors) == 1, done.err
        assert done.errors[0].startswith(f"rank {rank} on ")
        whose = f": {how}: {path.parent}/posix"
        assert whose in done.errors[0]
        assert "in 'write' of posix; 2 of 9 rounds done" in done.errors[0]
        by = "a crash in shim.so" if how.startswith("SIG") else "shim.so called it"
        assert by in done.errors[0]
        result = read_result(file)
        assert (result["status"], result["error"]["rank"]) == ("library_error", rank)
        assert result["error"]["call"] == how
        assert [rep["round"] for rep in result["cases"][0]["repetitions"]] == [1, 2]
        assert "write posix" in done.out, "the table of the rounds before"
        assert list(directory.iterdir()) == []

    each(ENDS, check_end, at_once=3)


@needs_romio
def test_romio_ends_the_process(mpirun, read_result, new_directory):
    """It takes these hints, and aborts or crashes."""

    def check_hint(case):
        hint, how = case
        directory = new_directory()
        file, hints = (directory.parent / name for name in ("result.json", "hints"))
        hints.write_text(hint + "\n")  # Open MPI 5 hands ROMIO none of those of an open
        done = mpirun(
            3, "--backend", "mpiio", "--local-size", 16, "--dir", directory, "--json", file,
            env={"OMPI_MCA_io": ROMIO, "ROMIO_HINTS": str(hints)},
        )  # fmt: skip
        assert done.code == LIBRARY, done.err
        error = read_result(file)["error"]
        assert error["call"] == how
        assert re.search(rf"mca_io_{ROMIO}\.so|libmpi\.so", error["message"])  # which it may be in
        assert list(directory.iterdir()) == []

    each([("cb_buffer_size 2147483648", "MPI_Abort"), ("cb_buffer_size 0", "SIGFPE")], check_hint)


def test_before_the_run_begins(mpirun, shim, directory):
    """As HDF5 ends a program that was compiled for another version of it."""
    done = mpirun(2, "--dir", directory, **injected(shim, "load", directory, END="abort"))
    assert done.code == LIBRARY, done.err
    assert "abort on " in done.errors[0]
    assert "shim.so called it, before the run began" in done.errors[0]


#: Where, what, and on which rank.
LATE = [
    ("finalize", "hang", "all"),
    ("finalize", "hang", 1),
    ("finalize", "MPI_Abort", 2),
    ("finalize", "SIGSEGV", 0),
    ("destructor", "hang", 1),
    ("destructor", "abort", 0),
]


def end_of(process):
    """Open MPI 4.1's mpirun may lock itself up over ranks that end without MPI_Finalize, in
    PMIx_server_finalize: it is enough that no rank is left. A job ends such a launcher."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(45)
    if process.returncode is None:
        ranks = [pid for pid in session_of(process) if "benchio" in names_of(pid)]
        assert ranks == []
        process.kill()
    return finish(process)


def names_of(pid):
    """The words of a command; none once the process has ended, though nobody has waited for it."""
    try:
        words = Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []
    return [Path(word).name for word in words[:1]]


def test_nothing_after_the_result_costs_it(launch, shim, read_result, new_directory):
    """A launcher may then say what it likes; benchio says what came, as a note."""

    def check_end(case):
        where, how, rank = case
        directory = new_directory()
        file = directory.parent / "result.json"
        fault = injected(shim, where, directory, RANK=rank, END=number(how))
        options = ("--local-size", 8, "--repeats", 1, "--dir", directory, "--json", file)
        done = end_of(launch(3, *options, **fault))
        assert read_result(file)["status"] == "ok"
        assert done.errors == []
        assert "write mpiio" in done.out
        notes = [line for line in done.err.splitlines() if line.startswith("benchio: note: ")]
        assert notes, done.err
        what = "end MPI: no end after 10 s" if how == "hang" else f": {how}: "
        assert what in notes[0]
        assert notes[0].endswith("; the run had ended before")
        if where == "destructor":
            assert done.code == 0, done.err
        assert list(directory.iterdir()) == []

    each(LATE, check_end, at_once=3)


def test_a_failure_stays_one_after_its_end(mpirun, shim, directory):
    """Of another status than success the exit code is kept, too."""
    how = injected(shim, "destructor", directory, RANK=0, END="_exit")
    done = mpirun(1, "--local-size", 0, "--dir", directory, **how)
    assert done.code == 2, done.err
