"""The environment of benchio in a kept job script, and the difference of two.

A variable, a module, the launcher, benchio and its options each are a change where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from iowatch.night.trend import Change
from iowatch.past import raw_results


@dataclass(frozen=True)
class ScriptPart:
    """A line of a job script that makes the environment of benchio, or a part of its command."""

    name: str  # in words; parts with the same words change together
    value: str
    text: str  # as it stands in the script
    kind: str = "line"  # line, launcher, program, option


@dataclass(frozen=True)
class Script:
    """A job script, as far as another night may differ in it."""

    shell: str  # the first line
    asked: tuple[str, ...]  # of the scheduler
    parts: tuple[ScriptPart, ...]

    @property
    def program(self) -> ScriptPart:
        return next(part for part in self.parts if part.kind == "program")


_COMMAND = re.compile(
    r"^(?P<launcher>.*?)\s*(?P<program>\S+) (?P<options>--backend .*?) --repeats .* "
    r"--json result\.json(?: .*)?$",
    re.MULTILINE,
)
_EXPORT = re.compile(r"export (\w+)=(.*)")
_MODULE = re.compile(r"module load (\S+)")


def read_script(text: str, loaded: str = "", spec: str = "") -> Script:
    """A kept job script; ValueError if it is none that runs benchio once.

    `loaded` is what it loads of Spack, and `spec` what Spack had built.
    """
    above, mark, below = text.partition(f"{raw_results.ENVIRONMENT_ENDS}\n")
    command = _COMMAND.search(below)
    if not mark or not command:
        raise ValueError("does not run benchio once")
    shell, *lines = above.splitlines()
    asked = [line for line in lines if line.startswith("#")]
    parts = [_line(line) for line in environment_of(text)]
    if loaded:
        parts.append(ScriptPart("Spack's benchio", spec, loaded))
    program = "Spack's benchio" if loaded else "benchio"
    parts.append(ScriptPart("the launcher", command["launcher"], command["launcher"], "launcher"))
    parts.append(ScriptPart(program, spec or command["program"], command["program"], "program"))
    for option in re.split(r" (?=--)", command["options"]):
        name, _, value = option.partition(" ")
        parts.append(ScriptPart(f"benchio's {name}", value or "given", option, "option"))
    # ReFrame's own names, such as of the job and its output, say nothing.
    return Script(shell, tuple(line for line in asked if "rfm_" not in line), tuple(parts))


def environment_of(script: str) -> list[str]:
    above = script.partition(raw_results.ENVIRONMENT_ENDS)[0].splitlines()
    return [line for line in above if line.strip() and not line.startswith("#")]


def _line(text: str) -> ScriptPart:
    if match := _EXPORT.fullmatch(text):
        return ScriptPart(f"the variable {match[1]}", match[2] or "empty", text)
    if match := _MODULE.fullmatch(text):
        name = match[1].rsplit("/", 1)[0]  # gcc/12/hdf5 has no version, and is then one by itself
        return ScriptPart(f"the module {name}", match[1], text)
    return ScriptPart(f"the line {text!r}", "there", text)


@dataclass(frozen=True)
class Difference:
    """Two job scripts, part by part."""

    pairs: Sequence[tuple[ScriptPart | None, ScriptPart | None]]  # of then and now; None: not there
    lost: Collection[str] = ()  # what cannot be had again as it was then

    @classmethod
    def compare(cls, then: Script, now: Script, lost: Collection[str] = ()) -> Difference:
        ways = SequenceMatcher(
            None,
            [part.name for part in then.parts],
            [part.name for part in now.parts],
            autojunk=False,
        )
        pairs: list[tuple[ScriptPart | None, ScriptPart | None]] = []
        for way, first, end, other, other_end in ways.get_opcodes():
            before, after = then.parts[first:end], now.parts[other:other_end]
            if way == "equal":
                pairs += zip(before, after, strict=True)
            else:
                pairs += [(part, None) for part in before]
                pairs += [(None, part) for part in after]
        return cls(pairs, lost)

    @property
    def changes(self) -> list[Change]:
        """The differences that can be tried; empty: was not there."""
        texts: dict[str, tuple[list[str], list[str]]] = {}
        differ = {
            part.name
            for then, now in self.pairs
            for part in (then, now)
            if part and not (then and now and then.text == now.text)
        }
        for pair in self.pairs:
            for part, side in zip(pair, (0, 1), strict=True):
                if part and part.name in differ - set(self.lost):
                    both = texts.setdefault(part.name, ([], []))
                    if part.value not in both[side]:
                        both[side].append(part.value)
        return [
            Change(name, ", ".join(before), ", ".join(now)) for name, (before, now) in texts.items()
        ]

    def parts(self, taken: Collection[str]) -> list[ScriptPart]:
        """The parts of then, but of now where they are `taken`."""
        sides = (
            now if (now or then).name in {*taken, *self.lost} else then  # type: ignore[union-attr]
            for then, now in self.pairs
        )
        return [part for part in sides if part]


def as_planned(shell: str, parts: Sequence[ScriptPart]) -> dict[str, object]:
    """An environment as the job is to make it."""
    lines = [part.text for part in parts if part.kind == "line"]
    command = [part.text for part in parts if part.kind != "line" and part.text]
    program = next(part.text for part in parts if part.kind == "program")
    return {"environment": [shell, *lines], "command": " ".join(command), "program": program}


def in_words(change: Change) -> str:
    before, now = (value or "not there" for value in (change.before, change.now))
    if before == now:
        return f"{change.name} (in another place now)"
    return f"{change.name} ({before} before, {now} now)"
