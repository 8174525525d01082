"""A machine of our own inside this one: namespaces that nothing outlives."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from conftest import Run, run

# /run, /var and /dev/shm are filled anew, so that nothing is left there. With loopback addresses
# alone, glibc resolves no name for those who ask for usable addresses only. bash, as the first
# process, also reaps those that lost their parent.
BOOT = """set -e
ip link set lo up
ip address add 10.0.0.1/32 dev lo
hostname login
for folder in /run /var/log /var/lib/glusterd /dev/shm; do
    [ ! -d $folder ] || mount -t tmpfs tmpfs $folder
done
mkdir /var/log/glusterfs
# A stand-in for nodes that do nothing else: what other tests take of the processors is not seen.
cat /proc/stat > /run/stat
mount --bind /run/stat /proc/stat
echo up
sleep infinity & wait"""


class Unavailable(Exception):
    """What a test needs cannot be had on this computer; the message says why."""


class Machine:
    """Processes, mounts, host name and network of its own, with nothing but a loopback device.

    Its first process is all that has to be killed: the kernel then ends every other one, and the
    mounts go with the last of them. It is killed, too, when the tests themselves are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if os.geteuid() != 0:
            raise Unavailable("a cluster of one's own needs root")
        self._first = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--uts", "--ipc", "--net",
             "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", BOOT],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # not interrupted with the tests, which have to stop it
        )  # fmt: skip
        assert self._first.stdout is not None
        with self._first.stdout as said:
            line = said.readline().strip()
        if line != "up":
            self._first.kill()
            self._first.wait()
            raise Unavailable(f"no namespaces and mounts here: {line}")
        self._daemons: list[Daemon] = []
        self._namespace = Path(f"/proc/{self._first.pid}/ns/pid_for_children").readlink()
        self._enter = self._nsenter("--target", self._first.pid)

    def _nsenter(self, *which: object) -> list[str]:
        words = ["nsenter", *which, "--mount", "--uts", "--ipc", "--net"]
        words += [f"--pid=/proc/{self._first.pid}/ns/pid_for_children", "--"]
        return [str(word) for word in words]

    def command(self, *words: object, cwd: Path | None = None) -> list[str]:
        """The command that runs this one inside."""
        inside = ["env", "-C", cwd or self.folder, *words]
        return [*self._enter, *(str(word) for word in inside)]

    def run(
        self, *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Run:  # fmt: skip
        return run(self.command(*words, cwd=cwd), env=env, timeout=timeout)

    def sh(self, *words: object, **how: object) -> str:
        """What a command prints that must succeed."""
        done = self.run(*words, **how)  # type: ignore[arg-type]
        assert done.code == 0, f"{words}: {done.code}\n{done.out}\n{done.err}"
        return done.out

    def seen(self, path: Path) -> Path:
        """The name outside of what may be on a filesystem that is mounted inside only."""
        return Path(f"/proc/{self._first.pid}/root{path}")

    def daemon(self, name: str, *words: object, env: Mapping[str, str]) -> "Daemon":
        """Starts what stays in the foreground, for the life of the machine."""
        self._daemons.append(Daemon(name, self.command(*words), env, self.folder / f"{name}.log"))
        return self._daemons[-1]

    def processes(self) -> dict[int, str]:
        """Everything that still runs inside."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "ns/pid").readlink() == self._namespace:
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it has ended meanwhile
                continue
        return found

    def end(self, program: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends this daemon, as when its host goes down."""
        for pid, words in self.processes().items():
            if Path(words.split()[0] if words.split() else "").name == program:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def stop(self) -> None:
        """Ends everything inside; TimeoutError if something stays."""
        for process in (self._first, *(daemon.process for daemon in self._daemons)):
            process.kill()  # nsenter stops, and stays so, with what it has started
            process.wait(30)
        wait_until(lambda: not self.processes(), "the end of every process")


class Daemon:
    """A process of a machine."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> None:
        self.name, self.log = name, log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**env}
            )

    def wait_until(self, ready: Callable[[], object], timeout: float = 30) -> None:
        """Until it serves; AssertionError, with the end of its log, if it does not."""

        def ready_or_dead() -> object:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended: {self.log.read_text()[-2000:]}")
            return ready()

        try:
            wait_until(ready_or_dead, self.name, timeout)
        except TimeoutError as err:
            raise AssertionError(f"{err}: {self.log.read_text()[-2000:]}") from None


def wait_until(ready: Callable[[], object], what: str, timeout: float = 30) -> None:
    end = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(0.02)
