"""benchio watched from outside: the system calls of its ranks on a file, by strace."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CALLS = (
    "open", "openat", "close", "read", "pread64", "readv", "preadv", "write", "pwrite64", "writev",
    "pwritev", "fsync", "fdatasync", "fadvise64", "unlink", "unlinkat",
)  # fmt: skip
LINE = re.compile(r"^(?P<time>[\d.]+) (?P<name>\w+)\((?P<words>.*)\) += (?P<value>-?\d+)")


class Call(NamedTuple):
    """A system call on a file that went well."""

    time: float
    process: str
    name: str
    descriptor: int  # -1: it has none
    words: str
    value: int

    @property
    def kind(self) -> str:
        """open, close, read, write, sync, fadvise or unlink."""
        for kind in ("unlink", "write", "read", "sync", "open", "close", "fadvise"):
            if kind in self.name:
                return kind
        raise ValueError(self.name)


def watched(need: Callable[[str], str], traces: Path) -> list[str]:
    """The start of a command whose processes leave their system calls in a new folder."""
    traces.mkdir()
    return [
        need("strace"), "-ff", "--seccomp-bpf", "-ttt", "-y", "-e", f"trace={','.join(CALLS)}",
        "-o", str(traces / "process"),
    ]  # fmt: skip


def calls_on(traces: Path, name: str) -> list[Call]:
    """All processes' calls on a file of this name, by their time."""
    found = []
    for trace in traces.iterdir():
        for line in trace.read_text().splitlines():
            matched = LINE.match(line)
            if not matched or not re.search(rf"/{re.escape(name)}[>\"]", line):
                continue
            words, value = matched["words"], int(matched["value"])
            if value < 0:
                continue
            first = re.match(r"\d+(?=<)", words)
            descriptor = value if "open" in matched["name"] else int(first[0]) if first else -1
            found.append(
                Call(float(matched["time"]), trace.name, matched["name"], descriptor, words, value)
            )
    return sorted(found)


def rounds(calls: list[Call]) -> list[list[Call]]:
    """The calls on each of the files that had the same name one after the other."""
    found: list[list[Call]] = [[]]
    for call in calls:
        found[-1].append(call)
        if call.kind == "unlink":
            found.append([])
    assert found[-1] == [], "a file that was not removed"
    return found[:-1]
