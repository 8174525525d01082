"""What fails must be said, once, and must leave neither a figure nor a file.

Every fault meets every backend on both MPI-IO components, which report different things."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, FILES, Run

pytestmark = pytest.mark.usefixtures("io_component")

RANKS = 3
IO, VERIFICATION = 3, 4
STATUS = {IO: "io_error", VERIFICATION: "verification_error"}

Attempt = Callable[..., "Failure"]


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
        assert "MiB/s" not in done.out

        assert result["status"] == STATUS[done.code]
        assert result["cases"] == []
        assert result["error"] == {
            "rank": self.rank,
            "call": self.call,
            "path": str(self.path),
            "message": self.message,
        }


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


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
        done = mpirun(
            RANKS, "--backend", backend, "--local-size", "64x64x96", "--warmup", 0,
            "--repeats", 2, "--dir", directory, "--json", file, *options, **how,
        )  # fmt: skip
        return Failure(done, read_result(file), directory)

    return start


@pytest.fixture
def inject(attempt: Attempt, backend: str, shim: Path) -> Attempt:
    """inject("flip", directory): such a run with a fault of shim.c."""

    def start(
        fault: str, directory: Path, options: Sequence[str] = (), timeout: float = 60
    ) -> Failure:
        return attempt(
            directory,
            *options,
            env={"FAULT": fault, "FAULT_FILE": str(directory / FILES[backend])},
            launcher=["-x", f"LD_PRELOAD={shim}"],
            timeout=timeout,
        )

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
    assert failure.code == IO or (failure.code == VERIFICATION and io_component == "ompio")
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


def test_failed_sync(
    mpirun: Callable[..., Run], directory: Path, tmp_path: Path, backend: str, shim: Path
) -> None:
    """One rank has an I/O error: the others must not wait for it for ever.

    Where they do, the rank's watchdog ends the run with that error, and without a result file."""
    result = tmp_path / "result.json"
    done = mpirun(
        RANKS, "--backend", backend, "--local-size", 32, "--dir", directory, "--json", result,
        "--phase-limit", 5,
        env={"FAULT": "fsync", "FAULT_FILE": str(directory / FILES[backend])},
        launcher=["-x", f"LD_PRELOAD={shim}"], timeout=60,
    )  # fmt: skip
    assert done.code == IO, done.err
    assert re.match(r"rank 0: \w+: .*: .+", done.errors[0]), done.errors
    assert len(done.errors) == 1
    assert not result.exists() or json.loads(result.read_text())["cases"] == []
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
