"""What imports what in this checkout, for `pytest --changed`: the tests of what has changed.

A test is selected if its file imports what has changed, itself or through other modules of ours. A
file that no import names stands for the folders in FOLDERS. A session that a test starts as a
process imports what no reader of its file can see: `make test` judges, this is a first look.
"""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Where `import` finds modules of ours.
ROOTS = ("src", "tests", "bench", "scripts/paper")
#: Of what is not imported, the tests that show what it does.
FOLDERS = {
    "src/benchio": ("benchio", "faults"),
    "src/iowatch": ("iowatch", "pages"),
    "reframe_checks": ("checks", "iowatch"),
    "site_configs": ("checks", "iowatch"),
    "reference_values": ("checks", "iowatch"),
    "bench": ("test_benches.py",),
    "docs": ("iowatch",),
    "scripts/demo": ("checks",),
    "spack-repo": ("spack",),
    "tests/data": ("checks", "iowatch"),
}
SELECTED = pytest.StashKey[set[Path]]()  # the tests' files, with --changed


def imports(file: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, list[str]]]:
    """The import statements of a file but the relative ones, and the modules that they name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node, [node.module]
        elif isinstance(node, ast.Import):
            yield node, [name.name for name in node.names]


@cache
def _files_of(module: str) -> frozenset[Path]:
    """The files of ours that `import module` runs: its own and those of its packages."""
    parts = module.split(".")
    places = [
        place
        for root in ROOTS
        for count in range(1, len(parts) + 1)
        for path in [ROOT.joinpath(root, *parts[:count])]
        for place in (path.with_suffix(".py"), path / "__init__.py")
    ]
    return frozenset(place for place in places if place.is_file())


@cache
def _imported(file: Path) -> frozenset[Path]:
    found: set[Path] = set()
    for node, modules in imports(file):
        # What `from` a package is imported may itself be a module.
        names = [f"{module}.{name.name}" for module in modules for name in node.names]
        found.update(*(_files_of(name) for name in (*modules, *names)))
    return frozenset(found)


def needed_by(test: Path) -> set[Path]:
    """The test's file, each conftest.py that pytest loads, and all of ours that they import."""
    folders = [folder for folder in test.parents if folder.is_relative_to(ROOT)]
    found: set[Path] = set()
    new = {test, *(folder / "conftest.py" for folder in folders)}
    while new := {file for file in new if file.is_file()} - found:
        found |= new
        new = set().union(*map(_imported, new))
    return found


def changed_files() -> list[Path]:
    """Since this branch left the main one, and not committed."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
        return done.stdout

    main = "origin/main" if git("rev-parse", "--verify", "--quiet", "origin/main") else "main"
    base = git("merge-base", "HEAD", main).strip() or "HEAD"
    names = git("diff", "--name-only", "-z", base)
    names += git("ls-files", "-z", "--others", "--exclude-standard")
    return [ROOT / name for name in names.split("\0") if name]


def concerns(changed: Path, test: Path, needed: set[Path]) -> bool:
    """Has this change to do with this test, which needs these files?"""
    top, *below = changed.relative_to(ROOT).parts
    if changed in needed or (changed.suffix == ".py" and top in ("src", "tests")):
        return changed in needed
    places = [ROOT / "tests" / below[0]] if top == "tests" else []  # the data of a folder's tests
    for place, names in FOLDERS.items():
        if changed.is_relative_to(ROOT / place):
            places += [ROOT / "tests" / name for name in names]
    return any(test.is_relative_to(place) for place in places)


def select(changed: list[Path], tests: list[Path]) -> set[Path]:
    """The tests' files that a change concerns."""
    return {
        test
        for test in tests
        for needed in [needed_by(test)]
        if any(concerns(one, test, needed) for one in changed)
    }
