"""What fails must be said, once, and must leave neither a figure nor a file.

Every fault meets every backend, and on both MPI-IO components those that go through it: they
report different things."""

import errno
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, FILES, OPEN_MPI, THROUGH_MPIIO, Run, files_of, finish, injected

RANKS = 3
SIZE = (64, 64, 96)  # of each rank's block
BYTES = RANKS * 64 * 64 * 96 * 8
IO, VERIFICATION, TIME_LIMIT = 3, 4, 5
STATUS = {IO: "io_error", VERIFICATION: "verification_error"}
KILLED = 137

Attempt = Callable[..., "Failure"]


def no_rate(done: Run) -> bool:
    return "MiB/s" not in done.out and "MiB/s" not in done.err


class Failure:
    """A run that had to fail, checked for what every failed run must show."""

    def __init__(self, done: Run, result: dict[str, Any], directory: Path) -> None:
        self.code, self.directory = done.code, directory
        assert done.code in STATUS, f"exit code {done.code}\n{done.out}\n{done.err}"
        assert len(done.errors) == 1, done.err
        found = re.fullmatch(r"rank (\d+): (\w+): (/[^:]*): (.+)", done.errors[0])
        assert found, done.errors[0]
        self.rank, self.call, self.path = int(found[1]), found[2], Path(found[3])
        self.message = found[4]
        assert 0 <= self.rank < RANKS
        assert self.path.is_relative_to(directory)
        assert no_rate(done)

        assert result["status"] == STATUS[done.code]
        assert result["cases"] == []
        assert result["error"] == {
            "rank": self.rank,
            "call": self.call,
            "path": str(self.path),
            "message": self.message,
        }


WAYS = [(name, component) for name in THROUGH_MPIIO for component in ("romio321", "ompio")]


@pytest.fixture(params=[*WAYS, ("stream", "")], ids=lambda way: "-".join(filter(None, way)))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A backend and the MPI-IO component below it."""
    if request.param[1]:
        monkeypatch.setitem(OPEN_MPI, "OMPI_MCA_io", request.param[1])
    return request.param


@pytest.fixture
def backend(way: tuple[str, str]) -> str:
    return way[0]


@pytest.fixture
def io_component(way: tuple[str, str]) -> str:
    return way[1]


@pytest.fixture
def attempt(
    mpirun: Callable[..., Run],
    read_result: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
    backend: str,
) -> Attempt:
    """attempt(directory, options...): a run of a few MiB that must fail, within a minute."""

    def start(directory: Path, *options: str, **how: Any) -> Failure:
        file = tmp_path / "result.json"
        done = mpirun(RANKS, *few_mib(backend, directory, file), *options, **how)
        return Failure(done, read_result(file), directory)

    return start


def few_mib(backend: str, directory: Path, result: Path) -> list[object]:
    return [
        "--backend", backend, "--local-size", "x".join(map(str, SIZE)), "--warmup", 0,
        "--repeats", 2, "--dir", directory, "--json", result,
    ]  # fmt: skip


@pytest.fixture
def inject(attempt: Attempt, backend: str, shim: Path) -> Attempt:
    """inject("flip", directory): such a run with a fault."""

    def start(fault: str, directory: Path, options: Sequence[str] = (), **more: object) -> Failure:
        how = injected(shim, fault, directory / FILES[backend], BYTES, **more)
        return attempt(directory, *options, **how)

    return start


@pytest.fixture
def survive(
    mpirun: Callable[..., Run], shim: Path, backend: str, directory: Path, tmp_path: Path
) -> Callable[..., Run]:
    """survive("write", ERRNO=...): a run that a fault of one rank may hang, until the watchdog ends
    it; there is then no result file. Checked for what such a run must show."""

    def start(fault: str, *options: object, file: str = FILES[backend], **more: object) -> Run:
        result = tmp_path / "result.json"
        done = mpirun(
            RANKS, *few_mib(backend, directory, result), "--phase-limit", 3, *options,
            **injected(shim, fault, directory / file, BYTES, **more),
        )  # fmt: skip
        assert no_rate(done)
        assert len(done.errors) == 1, done.err
        assert not result.exists() or json.loads(result.read_text())["cases"] == []
        assert list(directory.iterdir()) == []
        return done

    return start


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    return files


def test_missing_directory(attempt: Attempt, tmp_path: Path) -> None:
    failure = attempt(tmp_path / "nosuch")
    assert failure.code == IO
    assert "No such file or directory" in failure.message
    assert not failure.directory.exists()


def test_read_only_filesystem(attempt: Attempt, tmpfs: Callable[[str], Path], backend: str) -> None:
    failure = attempt(tmpfs("ro"))
    assert failure.code == IO
    assert failure.path == failure.directory / FILES[backend]
    assert list(failure.directory.iterdir()) == []
    # NetCDF has only the latter for whatever MPI_File_open says
    assert re.search("(?i)read.only|permission denied", failure.message), failure.message


def test_too_little_space_is_seen_before_the_first_write(
    attempt: Attempt, tmpfs: Callable[[str], Path]
) -> None:
    failure = attempt(tmpfs("size=4m"))
    assert failure.code == IO
    assert failure.path == failure.directory
    assert re.search(r"(?i)free", failure.message), failure.message


def test_full_filesystem(
    inject: Attempt, tmpfs: Callable[[str], Path], backend: str, io_component: str
) -> None:
    """As when others fill it meanwhile. OMPIO reports success: size or verification must tell."""
    failure = inject("space", tmpfs("size=4m"))
    assert failure.code == IO or (failure.code == VERIFICATION and io_component != "romio321")
    assert failure.path == failure.directory / FILES[backend], "not even tried"
    assert list(failure.directory.iterdir()) == []


def test_flipped_byte(inject: Attempt, directory: Path) -> None:
    failure = inject("flip", directory)
    assert failure.code == VERIFICATION
    assert list(directory.iterdir()) == []


def test_truncated_file(inject: Attempt, directory: Path) -> None:
    """A read beyond the end reports success and touches nothing: the size is looked at first."""
    failure = inject("truncate", directory)
    assert failure.code == IO
    assert list(directory.iterdir()) == []


# What of the fault benchio may see: the error, or that the data are not what they should be.
SEEN = (IO, VERIFICATION)


@pytest.mark.parametrize("call", ["open", "write", "sync", "close"])
def test_filesystem_full_at_a_call(survive: Callable[..., Run], call: str) -> None:
    done = survive(call, ERRNO=errno.ENOSPC, RANK="all")
    assert done.code in SEEN, done.err


def test_open_fails_on_a_rank_that_did_not_create(survive: Callable[..., Run]) -> None:
    """The file is there by then, and must go."""
    done = survive("open", ERRNO=errno.EIO, RANK=1)
    assert done.code == IO, done.err


SLOW = pytest.mark.slow


# The rank that aggregates collective writes, another, all.
@pytest.mark.parametrize(
    "rank", ["0", pytest.param("1", marks=SLOW), pytest.param("all", marks=SLOW)]
)
def test_io_error(survive: Callable[..., Run], rank: str) -> None:
    """One rank has an I/O error: the others must not wait for it for ever."""
    done = survive("write", "--collective", "no", ERRNO=errno.EIO, RANK=rank)
    assert done.code in SEEN, done.err


@pytest.mark.parametrize(
    "rank", [pytest.param("0", marks=SLOW), pytest.param("1", marks=SLOW), "all"]
)
def test_short_write(survive: Callable[..., Run], rank: str) -> None:
    """As at a quota: half a write, then none."""
    done = survive("short", "--collective", "no", ERRNO=errno.EDQUOT, RANK=rank)
    assert done.code in SEEN, done.err


@SLOW
@pytest.mark.parametrize("fault", ["write", "short"])
def test_fault_below_collective_writes(survive: Callable[..., Run], fault: str) -> None:
    """Only the ranks that aggregate have it."""
    done = survive(fault, ERRNO=errno.EDQUOT, RANK="all")
    assert done.code in SEEN, done.err


@SLOW
@pytest.mark.parametrize("rank", ["0", "all"])
def test_io_error_in_the_first_write(survive: Callable[..., Run], rank: str) -> None:
    """Of HDF5 and NetCDF it is their metadata: no rank may ever return to tell the error."""
    done = survive("write", ERRNO=errno.EIO, RANK=rank, THROUGH=0)
    assert done.code in (*SEEN, TIME_LIMIT), done.err


def test_failed_sync(survive: Callable[..., Run]) -> None:
    """On one rank."""
    done = survive("sync", ERRNO=errno.EIO, RANK=0)
    assert done.code == IO, done.err
    assert re.match(r"rank 0: \w+: .*: .+", done.errors[0]), done.errors


@pytest.mark.parametrize("files", ["shared", "process"])
def test_rank_that_never_returns(survive: Callable[..., Run], backend: str, files: str) -> None:
    """Nobody has an error to tell: the watchdog ends it for its time. Whoever waits for that rank
    leaves no file either."""
    name = files_of(backend, RANKS if files == "process" else 1)[0]
    done = survive("sleep", "--files", files, "--phase-limit", 1, file=name, RANK=0)
    assert done.code == TIME_LIMIT, done.err
    assert "--phase-limit" in done.errors[0]


@pytest.mark.parametrize("files", ["process", "gather"])
def test_io_error_in_other_layouts(survive: Callable[..., Run], backend: str, files: str) -> None:
    """On the rank that alone writes the file."""
    rank, names = (1, files_of(backend, RANKS)) if files == "process" else (0, [FILES[backend]])
    done = survive("write", "--files", files, file=names[rank], ERRNO=errno.EIO, RANK=rank)
    assert done.code in SEEN, done.err


def test_killed_rank(
    mpirun: Callable[..., Run], shim: Path, backend: str, directory: Path, tmp_path: Path
) -> None:
    """In the middle of a write: nobody is left to clean up, nor to say a figure."""
    result = tmp_path / "result.json"
    how = injected(shim, "kill", directory / FILES[backend], BYTES)
    done = mpirun(RANKS, *few_mib(backend, directory, result), **how)
    assert done.code == KILLED, done.err
    assert no_rate(done)
    assert not result.exists()


def test_result_on_a_read_only_filesystem(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], backend: str, directory: Path
) -> None:
    """Found before the first write, not after hours of it."""
    results = tmpfs("ro")
    done = mpirun(RANKS, *few_mib(backend, directory, results / "result.json"))
    assert done.code == IO, done.err
    assert len(done.errors) == 1
    assert "Read-only file system" in done.errors[0]
    assert "round" not in done.err
    assert list(directory.iterdir()) == []


def test_result_on_a_full_filesystem(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], backend: str, directory: Path
) -> None:
    """There is never half a result file, and no figure that the result file does not have."""
    results = tmpfs("size=4k")
    done = mpirun(
        RANKS, "--backend", backend, "--local-size", 8, "--repeats", 20, "--dir", directory,
        "--json", results / "result.json",
    )  # fmt: skip
    assert done.code == IO, done.err
    assert len(done.errors) == 1
    assert "No space left on device" in done.errors[0]
    assert no_rate(done)
    assert list(results.iterdir()) == list(directory.iterdir()) == []


@pytest.mark.parametrize("files", ["shared", pytest.param("process", marks=SLOW)])
def test_two_runs_in_one_directory(
    launch: Callable[..., subprocess.Popen[str]],
    read_result: Callable[[Path], dict[str, Any]],
    backend: str,
    directory: Path,
    tmp_path: Path,
    files: str,
) -> None:
    """Neither writes, reads or removes the other's file."""
    results = [tmp_path / f"{name}.json" for name in ("one", "other")]
    started = [
        launch(
            RANKS, "--backend", backend, "--files", files, "--local-size", 64, "--repeats", 15,
            "--dir", directory, "--json", result,
        )
        for result in results
    ]  # fmt: skip
    runs = [finish(process) for process in started]
    for done, result in zip(runs, results, strict=True):
        if done.code == 0:
            assert read_result(result)["status"] == "ok"
        else:
            assert done.code == IO, done.err
            assert read_result(result)["cases"] == []
            assert no_rate(done)
    assert sorted(done.code for done in runs) in ([0, IO], [IO, IO]), "they did not meet"
    assert list(directory.iterdir()) == []


def test_wrong_filesystem(attempt: Attempt, directory: Path) -> None:
    failure = attempt(directory, "--fs-type", "lustre,gpfs")
    assert failure.code == IO
    assert "lustre" in failure.message
    assert list(directory.iterdir()) == []


def test_right_filesystem(
    mpirun: Callable[..., Run], tmpfs: Callable[[str], Path], backend: str
) -> None:
    """The other half of the test above: a name that is right is not refused."""
    done = mpirun(
        RANKS, "--backend", backend, "--local-size", 8, "--fs-type", "lustre,tmpfs",
        "--dir", tmpfs("size=64m"),
    )  # fmt: skip
    assert done.code == 0, done.err


def test_existing_file_is_left_alone(attempt: Attempt, directory: Path, backend: str) -> None:
    precious = directory / FILES[backend]
    precious.write_text("somebody's")
    failure = attempt(directory)
    assert failure.code == IO
    assert failure.path == precious
    assert "exists" in failure.message
    assert precious.read_text() == "somebody's"
    assert list(directory.iterdir()) == [precious]


def test_file_that_appears_meanwhile_is_left_alone(
    inject: Attempt, directory: Path, backend: str
) -> None:
    """Not there when benchio looks first, but when it is this backend's turn."""
    other = next(name for name in BACKENDS if name != backend)
    failure = inject("appear", directory, options=["--backend", f"{other},{backend}"])
    assert failure.code == IO
    assert failure.path == directory / FILES[backend]
    assert [file.read_text() for file in directory.iterdir()] == ["somebody's"]
