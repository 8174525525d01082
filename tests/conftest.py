"""Fixtures that run the real benchio under the real mpirun."""

import contextlib
import ctypes
import difflib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
import pytest
from changed import SELECTED, changed_files, select
from hypothesis import HealthCheck, settings
from leftovers import Watch
from xdist.scheduler import LoadScopeScheduling

from iowatch.base.places import CHECKS_FOLDER

# The same examples each time, however slow the machine is.
settings.register_profile(
    "iowatch", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("iowatch")

# A shell lets what it starts in the background ignore SIGINT, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
BENCHIO = Path(os.environ.get("TEST_BENCHIO", ROOT / "build/bin/benchio"))

FILES = {
    "mpiio": "mpiio.dat",
    "hdf5": "hdf5.h5",
    "netcdf": "netcdf.nc",
    "pnetcdf": "pnetcdf.nc",
    "posix": "posix.dat",
}
CLONE_NEWNS = 0x20000
RUN_ID = "test"  # where a test has to know it
BACKENDS = tuple(FILES)
THROUGH_MPIIO = BACKENDS[:-1]

Case = TypeVar("Case")


def chosen() -> dict[str, str]:
    """What a job sets for the MPI that is here, on any machine, however small, and as root."""
    script = f"BENCHIO={BENCHIO} LAUNCHER=mpirun IS_HERE=1 MPI=/dev/null\n"
    script += (CHECKS_FOLDER / "job/mpi.sh").read_text() + "env -0"
    lines = subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout
    pairs = dict(line.split("=", 1) for line in lines.split("\0") if "=" in line)
    return {name: pairs[name] for name in re.findall(r"choose (\w+)", script) if name in pairs}


def components() -> tuple[str, ...]:
    """Open MPI's components of MPI-IO, ROMIO first: their faults differ. At least the last is."""
    with contextlib.suppress(FileNotFoundError):
        lines = subprocess.run(["ompi_info", "--parsable"], capture_output=True, text=True).stdout
        names = set(re.findall(r"^mca:io:(\w+):version", lines, re.MULTILINE))
        return tuple(sorted(names, reverse=True))
    return ("ompio",)


MPI_IO = components()
OMPIO = "ompio"
ROMIO = next((name for name in MPI_IO if name != OMPIO), "ROMIO")
needs_romio = pytest.mark.skipif(ROMIO not in MPI_IO, reason="this Open MPI has no ROMIO")
#: For tests in which the other component only repeats what the first shows.
ONE_MPI_IO = [MPI_IO[0], *(pytest.param(name, marks=pytest.mark.slow) for name in MPI_IO[1:])]

# Each name is of one version of Open MPI, or of two.
CHOSEN = chosen()
BIND = "bindto" if "PRTE_MCA_mapby" in CHOSEN else "hwloc_default_binding_policy"
OPEN_MPI = {
    **CHOSEN,
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    f"PRTE_MCA_{BIND}": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # mpirun otherwise waits two seconds after a rank that failed
    "OMPI_MCA_odls_base_sigkill_timeout": "0",
    "PRTE_MCA_odls_base_sigkill_timeout": "0",
    # What Open MPI chooses here anyway, after a fifth of a second's look for faster networks
    "OMPI_MCA_pml": "ob1",
}


#: What `--operation write-keep` leaves beside the files.
RECORD = "kept.nml"


def files_of(backend: str, count: int, kept: int = 0) -> list[str]:
    """The names of a backend's files where a round has so many of them; of this round if they are
    kept, which counts from 1 and warm-up too."""
    name, extension = FILES[backend].split(".")
    name += f".round{kept}" if kept else ""
    numbers = [""] if count == 1 else [f".{index:06}" for index in range(count)]
    return [f"{name}{number}.{extension}" for number in numbers]


def kept_file(backend: str, round_: int) -> str:
    """The name of a backend's only file of a round that is kept."""
    return files_of(backend, 1, round_)[0]


def run_directory(directory: Path, run_id: str = RUN_ID) -> Path:
    """What benchio makes in --dir for the files of a run."""
    return directory / f"benchio.{run_id}"


@dataclass(frozen=True)
class Run:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """What benchio said after `benchio: error: `, an entry a line. Open MPI 5 may put another
        stream's unfinished line before it: openpmix#3858."""
        return re.findall(r"benchio: error: (.+)$", self.err, re.MULTILINE)


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes of a session: what mpirun starts has process groups of its own."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == process.pid:
                members.append(int(entry.name))
    return members


def kill_session(process: subprocess.Popen[str]) -> None:
    """Ends a process that leads a session, and all that it started."""
    process.send_signal(signal.SIGTERM)  # lets mpirun end its ranks
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for member in session_of(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def start(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Starts a command in a session of its own; give it to `finish`. Prints it as it can be pasted,
    which pytest shows of a test that fails."""
    variables = [f"{name}={value}" for name, value in {**OPEN_MPI, **(env or {})}.items()]
    print("env", shlex.join([*variables, *map(str, command)]))
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **OPEN_MPI, **(env or {})},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 60) -> Run:
    """Waits for its end; one that has not ended after `timeout` seconds fails the test."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_session(process)
        out, err = process.communicate()
        line = shlex.join(map(str, process.args))
        pytest.fail(f"still ran after {timeout} s: {line}\n{out}\n{err}")
    return Run(process.returncode, out, err)


def run(
    command: Sequence[str | Path], *, timeout: float = 60, env: Mapping[str, str] | None = None
) -> Run:
    """Runs a command to its end."""
    return finish(start(command, env), timeout)


@pytest.fixture(scope="session")
def benchio() -> Path:
    if not os.access(BENCHIO, os.X_OK):
        pytest.fail(f"there is no {BENCHIO}: run make setup")
    return BENCHIO


@pytest.fixture(scope="session")
def mpirun(benchio: Path) -> Callable[..., Run]:
    """mpirun(ranks, *benchio_options, launcher=[mpirun's options], timeout=..., env=...)"""

    def run_benchio(ranks: int, *options: object, launcher: Sequence[str] = (), **how: Any) -> Run:
        done = run(command(benchio, ranks, options, launcher), **how)
        if done.code in LATE and LOST_RANK in done.err:
            print(f"once more, for mpirun alone failed:\n{done.err}")
            done = run(command(benchio, ranks, options, launcher), **how)
        return done

    return run_benchio


# Open MPI 4's mpirun fails, about once in some thousand runs, when it takes the end of a rank that
# has long left MPI_Finalize for a crash, or when one crashes there: open-mpi/ompi#7833, not to be
# mended before 5.0. Its text then names process 0, with one of these exit codes.
LOST_RANK = "with PID 0 on"
LATE = (1, 128 + signal.SIGSEGV)


@pytest.fixture
def launch(benchio: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """launch(ranks, *benchio_options, launcher=..., env=..., program="bash"): the mpirun, which
    still runs; another program may start benchio."""
    started = []

    def start_benchio(
        ranks: int,
        *options: object,
        launcher: Sequence[str] = (),
        program: str = "",
        **how: Any,
    ) -> subprocess.Popen[str]:
        what = Path(program) if program else benchio
        started.append(start(command(what, ranks, options, launcher), **how))
        return started[-1]

    yield start_benchio
    for process in started:
        if process.poll() is None:
            kill_session(process)


# Each mpirun has its own place there: two that start and end in one may remove it from each other.
SESSIONS = Path(tempfile.gettempdir(), f"iowatch-mpirun.{os.getpid()}")


def command(
    benchio: Path, ranks: int, options: Sequence[object], launcher: Sequence[str] = ()
) -> list[str | Path]:
    SESSIONS.mkdir(exist_ok=True)
    place = tempfile.mkdtemp(dir=SESSIONS)
    own = [f"{name}_tmpdir_base={place}" for name in ("OMPI_MCA_orte", "PRTE_MCA_prte")]
    words = [str(option) for option in options]
    return ["env", "--default-signal", *own, "mpirun", "-n", str(ranks), *launcher, benchio, *words]


@pytest.fixture
def new_directory(tmp_path: Path) -> Callable[[], Path]:
    """new_directory(): for the files of one run alone, and what is in it after the run has been
    left behind. What else belongs to the run has its place beside it."""
    numbers = itertools.count()

    def make() -> Path:
        files = tmp_path / f"run{next(numbers)}" / "files"
        files.mkdir(parents=True)
        return files

    return make


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """Moves this process to a mount namespace of its own: whatever happens to it, nobody else sees
    its mounts, and none outlives it."""
    try:
        enter_own_mounts()
    except OSError as err:
        pytest.skip(f"mounting needs root: unshare: {err.strerror}")


def enter_own_mounts() -> None:
    """OSError: not without root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def tmpfs(own_mounts: None, new_directory: Callable[[], Path]) -> Iterator[Callable[[str], Path]]:
    """tmpfs("size=4m"): a new directory of its own filesystem, mounted with these options."""
    mounted = []

    def mount(options: str) -> Path:
        directory = new_directory()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def directory(new_directory: Callable[[], Path]) -> Path:
    """Of a test with a single run."""
    return new_directory()


def each(cases: Iterable[Case], check: Callable[[Case], None], at_once: int = 2) -> None:
    """Checks every case, so many at a time because half of a small run is waiting, and then fails
    with the name of each that failed and what it had to say."""
    with ThreadPoolExecutor(at_once) as pool:
        checks = [(case, pool.submit(check, case)) for case in cases]
    assert checks, "there was nothing to check"
    said = []
    for case, checked in checks:
        if (error := checked.exception()) is not None:
            # The last calls only: the first are the pool's.
            lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-3)
            said.append(f"{case}\n{''.join(lines)}")
    if said:
        pytest.fail(f"{len(said)} of {len(checks)} failed\n\n" + "\n".join(said), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed", action="store_true", help="the tests of what has changed")
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WATCH] = Watch()
    # Not below the folder for temporary files of the first file of tests.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    if config.option.changed:
        config.stash[SELECTED] = select(changed_files(), list(ROOT.glob("tests/**/test_*.py")))


def pytest_unconfigure() -> None:
    shutil.rmtree(SESSIONS, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_chosen = collection_path in config.stash.get(SELECTED, {collection_path})
    return True if collection_path.is_file() and not is_chosen else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    if SELECTED not in config.stash:
        return []
    is_benchio = any(file.is_relative_to(ROOT / "src/benchio") for file in changed_files())
    hint = "; benchio too: make setup; ctest --test-dir build/benchio" if is_benchio else ""
    return [f"what has changed concerns {len(config.stash[SELECTED])} files of tests{hint}"]


def again(item: pytest.Item, *options: str) -> str:
    """A command that runs only this test, from the top of the checkout."""
    return f"source env.sh && {shlex.join(['pytest', *options, item.nodeid])}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Says of a test that fails how to run it alone."""
    report: pytest.TestReport = yield
    if report.failed:
        report.sections.append(("Once more", again(item)))
    return report


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden("night.txt", text): the text is what the file in `golden` beside the test has."""

    def compare(name: str, text: str) -> None:
        file = request.path.parent / "golden" / name
        if request.config.option.update_golden:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        known = file.read_text() if file.exists() else ""
        if text != known or not file.exists():
            lines = difflib.unified_diff(
                known.splitlines(), text.splitlines(), str(file), "this test", lineterm=""
            )
            update = again(request.node, "--update-golden")
            pytest.fail("\n".join([*lines, f"If this is right: {update}"]), pytrace=False)

    return compare


@pytest.fixture(scope="session")
def read_result() -> Callable[[Path], dict[str, Any]]:
    """Reads a result file that must be what the schema says."""
    schema = json.loads((ROOT / "src/iowatch/benchio.result-3.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)

    def read(path: Path) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(path.read_text())
        validator.validate(result)
        return result

    return read


@pytest.fixture(scope="session")
def need() -> Callable[[str], str]:
    """need("strace"): its path; without it the test is skipped."""

    def find(tool: str) -> str:
        path = shutil.which(tool)
        if path is None:
            pytest.skip(f"there is no {tool} here: make setup installs it")
        return path

    return find


def compiled(source: str, folder: Path, compiler: str = "mpicc") -> Path:
    """A library to preload, from a source in tests/faults."""
    library = folder / f"{Path(source).stem}.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    made = run([compiler, *flags, "-o", library, ROOT / "tests/faults" / source, "-ldl"])
    assert made.code == 0, made.err
    return library


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fault injector of faults/shim.c."""
    return compiled("shim.c", tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def lustre_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for Lustre of faults/lustre_shim.c; its lfs is beside it."""
    return compiled("lustre_shim.c", tmp_path_factory.mktemp("lustre"), "gcc")


def injected(shim: Path, fault: str, file: Path, **more: object) -> dict[str, Any]:
    """How mpirun runs with a fault of shim.c on a file. RANK=..., ERRNO=..., CALL=... are its
    FAULT_*."""
    variables = {"FILE": file, **more}
    env = {"FAULT": fault, **{f"FAULT_{name}": str(value) for name, value in variables.items()}}
    return {"env": env, "launcher": ["-x", f"LD_PRELOAD={shim}"]}


class Together(LoadScopeScheduling):
    """Of several workers, one has all tests of a file, for they share what they look at; and all
    that run on the one cluster.

    pytest-xdist 3.8 can group tests by a mark, but not with pytest 9.2, and does not say so.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0])
        return "filesystems" if "filesystems" in file.parts else str(file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    config.option.loadscopereorder = False  # by itself it begins with the files of the most tests
    return Together(config, log)


WATCH = pytest.StashKey[Watch]()


@pytest.fixture(scope="module", autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the tests of a file leave behind is an error of the last of them."""
    with request.config.stash[WATCH].file_of_tests() as left:
        yield
    assert not left, f"{request.path.name} leaves behind: " + "; ".join(left)


KEPT = pytest.StashKey[list[tuple[pytest.FixtureDef[Any], Any]]]()  # and of which request


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope != "session":
        return (yield)
    request.session.stash.setdefault(KEPT, []).append((fixturedef, request))
    with request.config.stash[WATCH].keeping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Ends what a folder's conftest.py keeps for the session when the last of its tests has run: a
    cluster need not stay up for tests that do not know it."""
    yield
    folder = item.path.parent
    if nextitem is None or nextitem.path.parent != folder:
        place = folder.relative_to(item.config.rootpath).as_posix()
        for fixture, request in item.session.stash.get(KEPT, []):
            if fixture.baseid == place:
                fixture.finish(request)  # and what rests on it before; nothing if it has ended


LONGEST = ("filesystems", "checks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the folders whose files take longest: one at the end would leave the other worker
    without work."""
    items.sort(key=lambda item: [folder not in item.path.parts for folder in LONGEST])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says which folder took how long: the whole has to fit into what CI may take."""
    yield
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            folder = "/".join(Path(report.fspath).parts[:2])
            seconds[folder] += report.duration
            tests[folder].add(report.nodeid)
    folders = [f"{name} {seconds[name]:.1f} s ({len(tests[name])} tests)" for name in sorted(tests)]
    if folders:
        terminalreporter.write_line(f"time by folder: {', '.join(folders)}")
