"""`benchio --help` and the README say the same."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import ROOT, Run

README = ROOT / "src/benchio/README.md"


def options(text: str) -> list[tuple[str, str]]:
    """Every option that is explained, with its default: ("--halo", "1")."""
    found = re.findall(r"^ +(--[a-z-]+)([^\n]*(?:\n {20,}[^\n]*)*)", text, re.MULTILINE)
    return [(name, "".join(re.findall(r"\(([^()]*)\)$", rest.strip()))) for name, rest in found]


def test_readme_has_the_help(mpirun: Callable[..., Run]) -> None:
    done = mpirun(1, "--help")
    assert done.code == 0, done.err
    marked = re.search(r"<!-- options -->\n+```\w*\n(.*?)```", README.read_text(), re.DOTALL)
    assert marked, "no code block after <!-- options -->"
    assert marked[1].rstrip() == done.out.rstrip()


def test_defaults_are_as_explained(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    """Given explicitly, they change nothing of what would be written, and nothing of how it is."""
    explained = dict(options(mpirun(1, "--help").out))
    assert explained.items() >= {"--halo": "1", "--transfer": "1GiB", "--dir": "."}.items()
    words = {"automatic", "none", "contiguous"}  # of which is no option's value
    given = [
        word
        for name, default in explained.items()
        # --items is for metadata alone.
        if re.fullmatch(r"[\w.]+", default) and default not in words and name != "--items"
        for word in (name, default)
    ]
    bare, explicit = mpirun(2, "--dry-run"), mpirun(2, "--dry-run", *given)
    assert (bare.code, explicit.code) == (0, 0), bare.err + explicit.err
    free = r"[\d.]+ MiB in"  # changes while others write
    assert re.sub(free, "", bare.out) == re.sub(free, "", explicit.out)

    json = tmp_path / "result.json"
    small = ["--local-size", 8, "--dir", tmp_path, "--json", json]

    def asked(*given: str) -> tuple[dict[str, Any], list[Any]]:
        done = mpirun(2, *given, *small)
        assert done.code == 0, done.err
        result = read_result(json)
        del result["run"]["filesystem"]["free_bytes"], result["run"]["id"]
        del result["run"]["nodes"]  # what else they do
        settings = ("hints", "collective", "collective_metadata", "layout")
        return result["run"], [[case[name] for name in settings] for case in result["cases"]]

    assert asked(*given) == asked()
