"""What the tests of a file leave behind: processes, mounts, files of ours, a changed checkout."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: In the environment of whatever a test starts, however far from it: the process that runs tests.
MARK = "IOWATCH_TESTS"
OURS = ("benchio.", "iowatch")
MEMORY = Path("/dev/shm")
#: What serves all tests of a process, and ends with it; or enters a machine of tests/filesystems,
#: whose processes are a namespace of their own and end with the machine.
SERVERS = ("starter.py", "multiprocessing.resource_tracker", "nsenter --target")
GRACE_S = 5  # for what is about to end

made = set()  # by this process, in MEMORY: the other workers' folders are beside them


def _listen(event: str, words: tuple[object, ...]) -> None:
    if event == "os.mkdir" and str(words[0]).startswith(f"{MEMORY}/"):
        made.add(Path(str(words[0])))


sys.addaudithook(_listen)


def processes() -> dict[str, str]:
    """What it is of each process that is a child of this one, or has its mark."""
    mark = f"{MARK}={os.getpid()}".encode()
    here = Path("/proc/self/ns/pid").readlink()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() or mark in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_elsewhere = (folder / "ns/pid").readlink() != here
                if words and not is_elsewhere and not any(one in words for one in SERVERS):
                    found[folder.name] = f"process {folder.name} still runs: {words}"
        except OSError:  # it has just ended, or is another user's
            continue
    found.pop(str(os.getpid()), None)
    return found


def mounts() -> dict[str, str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {(place := line.split()[4]): f"{place} is still mounted" for line in lines}


def files(temporary: Path) -> dict[str, str]:
    """Those of ours in the folder for temporary files and in memory."""
    there = [*temporary.iterdir(), *(path for path in made if path.parent == MEMORY)]
    return {
        str(path): f"{path} is still there"
        for path in there
        if path.name.startswith(OURS) and path.exists()
    }


def changes() -> str:
    """To the files that git knows."""
    done = subprocess.run(["git", "-C", ROOT, "diff", "HEAD"], capture_output=True, text=True)
    return done.stdout


class Watch:
    """Over the tests of this process."""

    def __init__(self) -> None:
        self.kept: set[str] = set()  # by fixtures, for the whole session
        self.changes = changes()
        self.temporary = Path(tempfile.gettempdir())

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """While a fixture is made for the session: what it leaves may stay."""
        before = {**processes(), **mounts(), **files(self.temporary)}
        with _environment("session", self.temporary):
            yield
        after = {**processes(), **mounts(), **files(self.temporary)}
        self.kept |= after.keys() - before.keys()

    @contextmanager
    def file_of_tests(self) -> Iterator[list[str]]:
        """While they run; then the list has a line for whatever they have left."""
        left: list[str] = []
        with tempfile.TemporaryDirectory(
            prefix="iow.", dir=self.temporary, ignore_cleanup_errors=True
        ) as name:
            Path(name).chmod(0o755)  # other users come to what is theirs in it
            before = {**processes(), **mounts(), **files(Path(name))}
            with _environment(str(os.getpid()), Path(name)):
                yield left
            limit = time.monotonic() + GRACE_S
            while True:
                after = {**processes(), **mounts(), **files(Path(name))}
                new = after.keys() - before.keys() - self.kept
                if not new or time.monotonic() > limit:
                    break
                time.sleep(0.1)
            left += [after[key] for key in sorted(new)]
        before_them, self.changes = self.changes, changes()
        if self.changes != before_them:
            left.append("a file that git knows has changed, if not by you: see git diff")


@contextmanager
def _environment(mark: str, temporary: Path) -> Iterator[None]:
    """That of what is started: whose it is, and where its temporary files are."""
    known = {name: os.environ.get(name) for name in (MARK, "TMPDIR")}
    os.environ.update({MARK: mark, "TMPDIR": str(temporary)})
    folder, tempfile.tempdir = tempfile.tempdir, str(temporary)
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for name, value in known.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
