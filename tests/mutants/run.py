"""`make mutants`: breaks one line at a time, and the test that guards it must fail.

The lists beside this file name them: an old text, the new text in its place, and the test that must
kill the mutant: pytest's node id, or `ctest NAME`. The old text stands once in its file or, in
Python, in its definition: `Class.method`, a function or a constant, in whatever module it lives,
whose name stands before it where there are others of the name. All happens in copies of the tree,
in a temporary folder. Each copy has a build of benchio of its own, in which a mutant in Fortran or
C costs what has changed: those of a file follow each other, and only the program that the test runs
is linked. pytest runs in forks (worker.py). Before that every test must pass on the tree as it is.
What takes longest begins.

Exit code: 0 all died, 1 one lives, 2 the list or the tree does not allow a judgement.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted(Path(__file__).parent.glob("*.toml"))
PACKAGES = ("src/iowatch", "reframe_checks")  # where a definition may live
TREES = 2  # mutants at a time, each in a copy of its own
TEST_S = 300  # a test that takes longer hangs
BUILD_S = 8  # about what a mutant of benchio takes to build
WITHOUT_BENCHIO = ("tests/iowatch/", "tests/mutants/", "tests/test_conftest.py")
#: What most tests import of others.
HEAVY = (
    *("attrs", "hypothesis.internal.conjecture.engine", "jinja2", "jsonschema", "netCDF4"),
    *("matplotlib.figure", "numpy", "reframe.frontend.cli", "rich.table", "typer.testing", "xdist"),
)
#: What a test starts: the program, or many runs in one start.
PROGRAMS = ("benchio", "many_runs")
_STATES = ("failed", "passed", "skipped", "missing")

#: Of the build in ROOT. Not that warnings are errors: a mutant may leave a variable unused.
OPTIONS = (
    *("CMAKE_BUILD_TYPE", "CMAKE_Fortran_COMPILER", "CMAKE_Fortran_FLAGS"),
    "BENCHIO_PNETCDF",
)


class Unusable(Exception):
    """No judgement is possible; the message says why in one line."""


@dataclass(frozen=True)
class Mutant:
    name: str  # what would then be wrong, in words
    file: str
    old: str
    new: str
    test: str


def named_in(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """What statements define, at any depth of classes, and its qualified name."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", inner) for name, inner in named_in(node.body))
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))


def read_definitions(root: Path) -> dict[str, list[tuple[str, str]]]:
    """By a name, with and without its module's: the files of what is called so, and its lines."""
    known: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in (path for package in PACKAGES for path in (root / package).rglob("*.py")):
        module = path.parent.name if path.stem == "__init__" else path.stem
        lines = (text := path.read_text()).splitlines(keepends=True)
        for name, node in named_in(ast.parse(text).body):
            first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
            at = (str(path.relative_to(root)), "".join(lines[first - 1 : node.end_lineno]))
            known[name].append(at)
            known[f"{module}.{name}"].append(at)
    return known


def read_mutants(paths: Sequence[Path], root: Path) -> list[Mutant]:
    """The mutants, all of which apply to this tree; Unusable."""
    keys = {"name", "old", "new", "test"}
    definitions = read_definitions(root)
    mutants: list[Mutant] = []
    entries = [entry for path in paths for entry in tomllib.loads(path.read_text())["mutant"]]
    for number, entry in enumerate(entries, start=1):
        if set(entry) not in (keys | {"file"}, keys | {"definition"}):
            needs = f"{', '.join(sorted(keys))}, file or definition"
            raise Unusable(f"mutant {number}: needs {needs}, and nothing else")
        where = f"mutant {number}, {entry['name']!r}"
        if entry["name"] in [other.name for other in mutants]:
            raise Unusable(f"{where}: there is another of this name")
        if place := entry.pop("definition", ""):
            if len(named := definitions.get(place, [])) != 1:
                there = ", ".join(file for file, _ in named) or "nowhere"
                raise Unusable(f"{where}: {place} is defined {there}: name what is defined once")
            file, text = named[0]
        elif (root / (place := (file := entry["file"]))).is_file():
            text = (root / file).read_text()
        else:
            raise Unusable(f"{where}: there is no {file}")
        found = text.count(entry["old"])
        if found != 1 or entry["old"] == entry["new"]:
            raise Unusable(
                f"{where}: its old text stands {found} times in {place}: write what stands "
                "there once now, and a new text that differs"
            )
        changed = text.replace(entry["old"], entry["new"])
        mutants.append(Mutant(**entry | {"file": file, "old": text, "new": changed}))
    return mutants


def copy_tree(tree: Path) -> None:
    """What git knows of, as it is now, without what Python and CMake have made of it."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached"]
    listed += ["--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():  # not one that was removed since
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    (tree / ".venv").symlink_to(ROOT / ".venv")


class Tree:
    """The copy, and its tests."""

    def __init__(self, tree: Path, heavy: Sequence[str] = HEAVY) -> None:
        self.tree, self.heavy = tree, heavy
        own = {"PYTHONPATH": f"{tree}/src", "PATH": f"{tree}/.venv/bin:{os.environ['PATH']}"}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "IOWATCH_"))}
        self.environment = inherited | own
        self.is_healthy = False  # benchio, as it is built
        self._worker: subprocess.Popen[str] | None = None
        self.seconds: dict[str, float] = defaultdict(float)  # that a test took

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.tree,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def configure(self) -> None:
        """As the build in ROOT."""
        cache = ROOT / "build/benchio/CMakeCache.txt"
        if not cache.is_file():
            raise Unusable(f"there is no {cache}: run make setup")
        known = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))
        options = [f"-D{name}={known[name]}" for name in OPTIONS if name in known]
        place = f"-DCMAKE_RUNTIME_OUTPUT_DIRECTORY={self.tree}/build/bin"
        source = ["-S", "src/benchio", "-B", "build/benchio", "-G", known["CMAKE_GENERATOR"]]
        done = self._run(["cmake", *source, *options, place])
        if done.returncode != 0:
            raise Unusable(f"benchio cannot be configured:\n{done.stdout}")

    def build(self, *targets: str) -> str:
        """As far as it has changed; empty, or what went wrong."""
        done = self._run(["cmake", "--build", "build/benchio", "--target", *(targets or ["all"])])
        return done.stdout if done.returncode != 0 else ""

    def test(self, tests: Sequence[str], *options: str) -> dict[str, str]:
        """What became of each: passed, failed, skipped, missing or hangs; options are pytest's."""
        units = [test.removeprefix("ctest ") for test in tests if test.startswith("ctest ")]
        found = {f"ctest {unit}": self._unit(unit) for unit in units}
        if nodes := [test for test in tests if not test.startswith("ctest ")]:
            found |= self._pytest(nodes, *options)
        return found

    def _unit(self, name: str) -> str:
        command = ["ctest", "--test-dir", "build/benchio", "--no-tests=error", "-R", f"^{name}$"]
        done = self._run([*command, "--timeout", str(TEST_S)])
        if "No tests were found" in done.stdout:
            return "missing"
        return "passed" if done.returncode == 0 else "failed"

    def _pytest(self, nodes: Sequence[str], *options: str) -> dict[str, str]:
        report, output = self.tree / "junit.xml", self.tree / "pytest.out"
        report.unlink(missing_ok=True)
        words = ["-q", "-p", "no:cacheprovider", *options, *nodes]
        words += [f"--junitxml={report}", "-o", "junit_family=xunit1"]
        seconds = TEST_S * len(nodes)
        code = self._ask({"words": words, "output": str(output), "seconds": seconds})
        if code == "hangs":
            return dict.fromkeys(nodes, "hangs")
        # 0 and 1: all were run. Else one was not found, or the whole came to grief.
        if code not in (0, 1) or not report.is_file():
            return dict.fromkeys(nodes, f"missing: {output.read_text()[-2000:]}")
        states = dict.fromkeys(nodes, "missing")
        for case in ET.parse(report).iter("testcase"):
            node = f"{case.get('file')}::{case.get('name')}"
            name = node if node in states else node.partition("[")[0]
            if name not in states:
                continue
            self.seconds[name] += float(case.get("time", 0))
            tags = {child.tag for child in case}
            state = "failed" if tags & {"failure", "error"} else "passed"
            state = "skipped" if "skipped" in tags else state
            # Of a test with several parameters one that fails is enough, and else one that passes.
            states[name] = min(states[name], state, key=_STATES.index)
        return states

    def _ask(self, asked: dict[str, object]) -> int | str:
        """pytest's exit code, of a worker that lasts as long as the tree."""
        if self._worker is None:
            # What a shell starts in the background ignores SIGINT, and so would its children.
            python = ["env", "--default-signal=INT", sys.executable]
            self._worker = subprocess.Popen(
                [*python, Path(__file__).with_name("worker.py"), *self.heavy],
                cwd=self.tree,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._worker.stdin
        assert self._worker.stdout
        print(json.dumps(asked), file=self._worker.stdin, flush=True)
        if not (line := self._worker.stdout.readline()):
            raise Unusable(f"worker.py has ended, with {self._worker.wait()}")
        answer: int | str = json.loads(line)
        return answer

    def close(self) -> None:
        if self._worker is not None:
            self._worker.communicate()

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        file = self.tree / mutant.file
        healthy, times = file.read_text(), file.stat()
        file.write_text(healthy.replace(mutant.old, mutant.new))
        if not is_built(mutant):
            # Else one of the same length, in the same second, were taken for what it was.
            os.utime(file, (next(SECONDS),) * 2)
        try:
            yield
        finally:
            file.write_text(healthy)
            if not is_built(mutant):
                os.utime(file, (times.st_atime, times.st_mtime))


SECONDS = itertools.count(1_000_000_000)  # each once, and long ago


def is_built(mutant: Mutant) -> bool:
    return mutant.file.startswith("src/benchio/")


def judge(tree: Tree, mutant: Mutant) -> str:
    """failed: it died. Else what became of its test, or `no build`."""
    is_unit = mutant.test.startswith("ctest ")
    targets = [mutant.test.replace("ctest ", "test_")] if is_unit else PROGRAMS
    with tree.mutated(mutant):
        if is_built(mutant) or not tree.is_healthy:
            if said := tree.build(*targets):  # which mends what the last one has left there
                return f"no build: {said[-2000:]}"
            tree.is_healthy = not is_built(mutant) and not is_unit
        return tree.test([mutant.test], "-x")[mutant.test]


def in_turn(mutants: Sequence[Mutant], seconds: dict[str, float]) -> list[list[Mutant]]:
    """Those that one tree judges one after the other: of a file that is built, all. The longest
    first, as far as the tests' seconds tell."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(mutant.file if is_built(mutant) else mutant.name, []).append(mutant)

    def cost(group: list[Mutant]) -> float:
        return sum(seconds.get(one.test, 0) + BUILD_S * is_built(one) for one in group)

    return sorted(groups.values(), key=cost, reverse=True)


def run(names: Sequence[str], trees: Sequence[Tree]) -> int:
    mutants = read_mutants(LISTS, ROOT)
    chosen = [m for m in mutants if not names or any(name in m.name for name in names)]
    if not chosen:
        raise Unusable(f"no mutant has {' or '.join(names)} in its name")
    began = time.monotonic()
    judged: list[tuple[Mutant, str]] = []
    free = SimpleQueue[Tree]()
    for tree in trees:
        free.put(tree)

    def in_a_tree(group: list[Mutant]) -> None:
        tree = free.get()
        try:
            for mutant in group:
                start = time.monotonic()
                state = judge(tree, mutant)
                took = time.monotonic() - start
                word = {"failed": "died", "passed": "LIVES"}.get(state, state)
                print(f"{word:6} {took:5.1f} s  {mutant.file}: {mutant.name}", flush=True)
                judged.append((mutant, state))
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        tests = sorted({mutant.test for mutant in chosen})  # those of a file together
        shares = [tests[number :: len(trees)] for number in range(len(trees))]
        needs_benchio = not all(test.startswith(WITHOUT_BENCHIO) for test in tests)
        ready = pool.map(make_ready, trees, shares, [needs_benchio] * len(trees))
        states = dict(itertools.chain(*(share.items() for share in ready)))
        if unfit := {test: state for test, state in states.items() if state != "passed"}:
            told = "; ".join(f"{test}: {state}" for test, state in unfit.items())
            raise Unusable(f"on the tree as it is, a test does not pass: {told}")
        minutes = (time.monotonic() - began) / 60
        print(f"{len(states)} tests pass without a mutant, {minutes:.1f} min", flush=True)
        seconds = dict(itertools.chain(*(tree.seconds.items() for tree in trees)))
        list(pool.map(in_a_tree, in_turn(chosen, seconds)))
    alive = [mutant for mutant, state in judged if state == "passed"]
    unjudged = [mutant for mutant, state in judged if state not in ("passed", "failed")]
    for mutant in alive:
        print(f"lives: {mutant.name}: {mutant.test} must see it")
    for mutant in unjudged:
        print(f"cannot be judged: {mutant.name}: {mutant.test}")
    minutes = (time.monotonic() - began) / 60
    died = len(chosen) - len(alive) - len(unjudged)
    print(f"{died} of {len(chosen)} mutants died, {minutes:.1f} min")
    return 2 if unjudged else 1 if alive else 0


def make_ready(tree: Tree, tests: Sequence[str], is_built: bool) -> dict[str, str]:
    """What becomes of these tests in a tree that is as it is; Unusable."""
    copy_tree(tree.tree)
    if is_built:
        tree.configure()
        if said := tree.build():
            raise Unusable(f"benchio cannot be built:\n{said}")
    tree.is_healthy = True
    return tree.test(tests)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only those with one of these in their names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iowatch-mutants.") as folder:
        Path(folder).chmod(0o755)  # tests run its benchio as other users, too
        trees = [Tree(Path(folder, str(number))) for number in range(TREES)]
        try:
            return run(given.names, trees)
        except Unusable as err:
            print(f"mutants: error: {err}", file=sys.stderr)
            return 2
        finally:
            for tree in trees:
                tree.close()


if __name__ == "__main__":
    sys.exit(main())
