"""The list of mutants fits this tree: whoever changes a line that one breaks sees it at once."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from mutants.run import LIST, ROOT, Mutant, Tree, Unusable, judge, read_mutants

ENTRY = """
[[mutant]]
name = "it is not"
file = "code.py"
old = "is well"
new = "is ill"
test = "test_code.py::test_it"
"""


def test_every_mutant_applies_and_names_a_test_that_there_is():
    mutants = read_mutants(LIST, ROOT)
    assert len(mutants) >= 40
    units = (ROOT / "src/benchio/test/CMakeLists.txt").read_text()
    for mutant in mutants:
        if mutant.test.startswith("ctest "):
            assert re.search(rf"\b{mutant.test.removeprefix('ctest ')}\b", units), mutant
            continue
        file, name = mutant.test.split("::")
        assert f"\ndef {name.partition('[')[0]}(" in (ROOT / file).read_text(), mutant
    # Fortran, Python, YAML and the sites' files.
    suffixes = {Path(mutant.file).suffix for mutant in mutants}
    assert suffixes >= {".f90", ".py", ".yaml"}
    assert any(mutant.file.startswith("site_configs/") for mutant in mutants)


def test_mutant_that_does_not_apply_is_refused(tmp_path):
    (tmp_path / "code.py").write_text("all is well\n")
    written = tmp_path / "mutants.toml"
    for text, said in (
        (ENTRY.replace("is well", "was well"), "'it is not': its old text stands 0 times in code"),
        (ENTRY.replace("is well", "l"), "its old text stands 4 times"),
        (ENTRY.replace("is ill", "is well"), "a new text that differs"),
        (ENTRY.replace("code.py", "cod.py"), "there is no cod.py"),
        (ENTRY.replace("old", "odl"), "mutant 1: needs file, name, new, old, test, and nothing"),
        (ENTRY + ENTRY, "mutant 2, 'it is not': there is another of this name"),
    ):
        written.write_text(text)
        with pytest.raises(Unusable, match=said):
            read_mutants(written, tmp_path)
    written.write_text(ENTRY)
    assert len(read_mutants(written, tmp_path)) == 1


def test_mutant_lives_as_long_as_its_test(tmp_path, monkeypatch):
    """What is broken is so for the build and the test, and for nothing after them."""
    code = tmp_path / "code.py"
    code.write_text("all is well\n")
    seen = []

    def test(self, tests):
        seen.append(code.read_text())
        return dict.fromkeys(tests, "passed")

    monkeypatch.setattr(Tree, "build", lambda self: "")
    monkeypatch.setattr(Tree, "test", test)
    mutant = Mutant("it is not", "code.py", "is well", "is ill", "ctest code")
    assert judge(Tree(tmp_path), mutant) == "passed"
    assert (seen, code.read_text()) == (["all is ill\n"], "all is well\n")
    monkeypatch.setattr(Tree, "build", lambda self: "error: no such rule")
    assert judge(Tree(tmp_path), mutant) == "no build: error: no such rule"
    assert code.read_text() == "all is well\n"


def test_a_test_that_hangs_removes_what_it_has_made(tmp_path):
    """Even if make was started in the background, where SIGINT is ignored."""
    (tmp_path / "made").touch()
    hangs = "trap 'rm made; exit' INT; while :; do sleep 0.05; done"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            Tree(tmp_path)._run(["bash", "-c", hangs], 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "made").exists()
