"""The list of mutants fits this tree: whoever changes a line that one breaks sees it at once."""

import re
import signal
from pathlib import Path

import pytest
from mutants.run import LISTS, ROOT, Mutant, Tree, Unusable, in_turn, judge, read_mutants

ENTRY = """
[[mutant]]
name = "it is not"
file = "code.py"
old = "is well"
new = "is ill"
test = "test_code.py::test_it"
"""


def test_every_mutant_applies_and_names_a_test_that_there_is():
    mutants = read_mutants(LISTS, ROOT)
    assert len(mutants) >= 40
    units = (ROOT / "src/benchio/test/CMakeLists.txt").read_text()
    for mutant in mutants:
        assert (ROOT / mutant.file).read_text().count(mutant.old) == 1, mutant
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
        (ENTRY.replace("old", "odl"), "mutant 1: needs name, new, old, test, file or def"),
        (ENTRY + ENTRY, "mutant 2, 'it is not': there is another of this name"),
    ):
        written.write_text(text)
        with pytest.raises(Unusable, match=said):
            read_mutants([written], tmp_path)
    written.write_text(ENTRY)
    assert len(read_mutants([written], tmp_path)) == 1


CODE = """
LIMIT = 1
@final
class Case:
    limit = 1
    def limited(self):
        return 1
def limit_of(case):
    return 1
"""


def test_a_mutant_moves_with_its_definition(tmp_path):
    """Whatever else in its module has the same text."""
    written = tmp_path / "mutants.toml"
    package = tmp_path / "src/iowatch/cases"

    def read(definition):
        entry = ENTRY.replace("is well", "1").replace("is ill", "2")
        written.write_text(entry.replace('file = "code.py"', f"definition = '{definition}'"))
        (mutant,) = read_mutants([written], tmp_path)
        return mutant.file, CODE.replace(mutant.old, mutant.new)

    package.mkdir(parents=True)
    (tmp_path / "reframe_checks").mkdir()
    for name in ("case.py", "limits/__init__.py"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(CODE)
        module = name.replace("/__init__", "").removesuffix(".py")
        for definition, line in (
            ("LIMIT", "LIMIT = 1\n"),
            ("Case.limit", "    limit = 1\n"),
            ("Case.limited", "limited(self):\n        return 1"),
            ("limit_of", "limit_of(case):\n    return 1"),
        ):
            changed = (f"src/iowatch/cases/{name}", CODE.replace(line, line.replace("1", "2")))
            assert read(f"{module}.{definition}") == changed
            assert name != "case.py" or read(definition) == changed
    for definition, said in (
        ("limit_of", "limit_of is defined src/iowatch/cases/.*, src/iowatch/cases/.*: name what"),
        ("Case.gone", "Case.gone is defined nowhere"),
        ("case.Case", "stands 2 times in case.Case"),
    ):
        with pytest.raises(Unusable, match=said):
            read(definition)


def test_mutant_lives_as_long_as_its_test(tmp_path, monkeypatch):
    """What is broken is so for the build and the test, and for nothing after them."""
    code = tmp_path / "src/benchio/code.f90"
    code.parent.mkdir(parents=True)
    code.write_text("all is well\n")
    seen = []

    def test(self, tests, *options):
        seen.append(code.read_text())
        return dict.fromkeys(tests, "passed")

    monkeypatch.setattr(Tree, "build", lambda self, target: "")
    monkeypatch.setattr(Tree, "test", test)
    mutant = Mutant("it is not", "src/benchio/code.f90", "is well", "is ill", "ctest code")
    assert judge(Tree(tmp_path), mutant) == "passed"
    assert (seen, code.read_text()) == (["all is ill\n"], "all is well\n")
    monkeypatch.setattr(Tree, "build", lambda self, target: "error: no such rule")
    assert judge(Tree(tmp_path), mutant) == "no build: error: no such rule"
    assert code.read_text() == "all is well\n"


def test_what_was_built_of_a_mutant_is_mended_for_the_next(tmp_path, monkeypatch):
    for name in ("src/benchio/code.f90", "code.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("all is well\n")
    built = []
    monkeypatch.setattr(Tree, "build", lambda self, *targets: built.extend(targets) or "")
    monkeypatch.setattr(Tree, "test", lambda self, tests, *_: dict.fromkeys(tests, "failed"))
    tree = Tree(tmp_path)
    tree.is_healthy = True
    for file, test, target in (
        ("code.py", "test_code.py::test_it", []),
        ("src/benchio/code.f90", "ctest code", ["test_code"]),
        ("src/benchio/code.f90", "test_code.py::test_it", ["benchio", "many_runs"]),
        ("code.py", "test_code.py::test_it", ["benchio", "many_runs"]),
        ("code.py", "test_code.py::test_it", []),
    ):
        built.clear()
        assert judge(tree, Mutant("it is not", file, "is well", "is ill", test)) == "failed"
        assert built == target


def test_the_longest_mutants_begin_and_those_of_a_built_file_follow_each_other():
    py, one, two, other = (
        Mutant(name, file, "a", "b", f"test_{name}")
        for name, file in (
            ("py", "code.py"),
            ("one", "src/benchio/a.f90"),
            ("two", "src/benchio/a.f90"),
            ("other", "code.py"),
        )
    )
    seconds = {"test_py": 1.0, "test_other": 100.0}
    assert in_turn([py, one, other, two], seconds) == [[other], [one, two], [py]]


@pytest.fixture
def tree(tmp_path):
    """A tree of one test, which fails if code.py is broken."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/code_of_ours.py").write_text("IS = 'well'\n")
    (tmp_path / "test_code.py").write_text(
        "from code_of_ours import IS\ndef test_it(): assert IS == 'well'\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tree = Tree(tmp_path, heavy=())
    tree.is_healthy = True
    yield tree
    tree.close()


@pytest.mark.slow
def test_each_mutant_is_what_its_test_imports(tree):
    """Even if another of the same length was so in the same second."""

    def mutant(new):
        return Mutant("it is not", "src/code_of_ours.py", "'well'", new, "test_code.py::test_it")

    same = [mutant(new) for new in ("'evil'", "'we'+'ll'", "'sick'", "'we' 'll'")]
    assert [judge(tree, one) for one in same] == ["failed", "passed", "failed", "passed"]
    assert tree.test([same[0].test]) == {same[0].test: "passed"}


@pytest.mark.slow
def test_a_test_that_hangs_removes_what_it_has_made(tree, monkeypatch):
    """Even if make was started in the background, where SIGINT is ignored."""
    monkeypatch.setattr("mutants.run.TEST_S", 2)
    hangs = tree.tree / "test_hangs.py"
    hangs.write_text(
        "import pathlib, time\n"
        "def test_it():\n"
        "    made = pathlib.Path(__file__).with_name('made')\n"
        "    made.touch()\n"
        "    try: time.sleep(60)\n"
        "    finally: made.with_name('removed').touch()\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert tree.test(["test_hangs.py::test_it"]) == {"test_hangs.py::test_it": "hangs"}
    finally:
        signal.signal(signal.SIGINT, before)
    assert hangs.with_name("removed").exists()
