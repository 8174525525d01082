"""benchio watched from outside: the system calls of its ranks on a file, by strace."""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

CALLS = (
    "open", "openat", "close", "read", "pread64", "readv", "preadv", "write", "pwrite64", "writev",
    "pwritev", "fsync", "fdatasync", "syncfs", "fadvise64", "unlink", "unlinkat", "mkdir", "rmdir",
    "rename", "stat", "lstat", "newfstatat",
)  # fmt: skip
LINE = re.compile(r"^(?P<time>[\d.]+) (?P<name>\w+)\((?P<words>.*)\) += (?P<value>-?\d+)")


class Call(NamedTuple):
    """A system call on files."""

    time: float
    process: str
    name: str
    descriptor: int  # -1: it has none
    words: str
    value: int

    @property
    def kind(self) -> str:
        """open, close, read, write, sync, fadvise, unlink or rename; else its name."""
        kinds = ("unlink", "write", "read", "sync", "open", "close", "fadvise", "rename")
        return next((kind for kind in kinds if kind in self.name), self.name)


def watched(need: Callable[[str], str], traces: Path, **env: str) -> list[str]:
    """The start of a command whose processes leave their system calls in a new folder, with these
    variables in their environment."""
    traces.mkdir()
    variables = chain.from_iterable(("-E", f"{name}={value}") for name, value in env.items())
    return [
        need("strace"), "-ff", "--seccomp-bpf", "-ttt", "-y", "-e", f"trace={','.join(CALLS)}",
        "-o", str(traces / "process"), *variables,
    ]  # fmt: skip


def all_calls(traces: Path) -> list[Call]:
    """Return the calls of all processes by time; a failed call has a negative value."""
    calls = []
    for trace in traces.iterdir():
        for line in trace.read_text().splitlines():
            if matched := LINE.match(line):
                time, name, words, value = matched.groups()
                first = re.match(r"\d+(?=<)", words)
                opened = int(value) if "open" in name else int(first[0]) if first else -1
                calls.append(Call(float(time), trace.name, name, opened, words, int(value)))
    return sorted(calls)


def calls_on(traces: Path, name: str) -> list[Call]:
    """Return the calls on a file of this name that went well."""
    of_file = re.compile(rf"/{re.escape(name)}[>\"]")
    return [call for call in all_calls(traces) if call.value >= 0 and of_file.search(call.words)]


def rounds(calls: list[Call]) -> list[list[Call]]:
    """The calls on each of the files that had the same name one after the other."""
    found: list[list[Call]] = [[]]
    for call in calls:
        found[-1].append(call)
        if call.kind == "unlink":
            found.append([])
    assert found[-1] == [], "a file that was not removed"
    return found[:-1]
