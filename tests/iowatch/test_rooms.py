"""What may know of what: rules of the whole house."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path

from changed import imports

from iowatch.measure.checks import CHECKS

ROOT = Path(__file__).parents[2]
CHECKS_FOLDER = ROOT / "reframe_checks"
SOURCES = ROOT / "src/iowatch"

LOADED = """
import json, sys
{}
names = {{name.partition(".")[0] for name in sys.modules if not name.startswith("_")}}
print(json.dumps([sorted(names), sorted(sys.modules)]))
"""


def plain(name):
    return re.sub("[-_.]+", "-", name).lower()


def needed(distribution, found=None):
    """A distribution and all that it requires without extras, by their names."""
    found = set() if found is None else found
    if plain(distribution) not in found:
        found.add(plain(distribution))
        for requirement in metadata.requires(distribution) or ():
            name = re.match(r"[\w.-]+", requirement)[0]
            try:
                metadata.distribution(name)
            except metadata.PackageNotFoundError:  # of another platform, or an extra
                continue
            if "extra ==" not in requirement:
                needed(name, found)
    return found


def test_what_the_checks_import_needs_only_reframes_dependencies():
    """A centre's own ReFrame has nothing else."""
    wanted = [
        (ast.unparse(statement), modules)
        for file in sorted(CHECKS_FOLDER.glob("*.py"))
        for statement, modules in imports(file)
        if any(f"{module}.".startswith("iowatch.") for module in modules)
    ]
    modules = {module for _, found in wanted for module in found}
    assert len(modules) >= 10
    code = LOADED.format("\n".join(statement for statement, _ in wanted))
    # Without -P a folder here could take the place of what is installed.
    done = subprocess.run([sys.executable, "-Pc", code], capture_output=True, text=True, check=True)
    names, loaded = json.loads(done.stdout)
    assert modules <= set(loaded)
    installed = metadata.packages_distributions()
    used = {plain(one) for name in names for one in installed.get(name, ())}
    assert used - {"iowatch", "setuptools"} <= needed("reframe-hpc")
    assert {"pyyaml", "attrs"} <= used, "the rule sees what is imported"


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    """Somebody else's dependency may go with their next version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    words = [*project["project"]["dependencies"], *extras["report"], *extras["darshan"]]
    declared = {plain(re.match(r"[\w-]+", one)[0]) for one in words}
    assert all(re.search(r">=\d", one) for one in words), "from which version on"
    installed = metadata.packages_distributions()
    used = {
        plain(distribution)
        for folder in (SOURCES, CHECKS_FOLDER, ROOT / "site_configs")
        for file in folder.rglob("*.py")
        for _, modules in imports(file)
        for module in modules
        if (top := module.partition(".")[0]) not in {"iowatch", *sys.stdlib_module_names}
        for distribution in installed[top]
    }
    assert used == declared


def test_every_folder_of_python_is_in_the_package():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {name: ROOT / path for name, path in setuptools["package-dir"].items() if name}
    here = {file.parent for file in SOURCES.rglob("*.py")}
    found = {".".join(folder.relative_to(SOURCES.parent).parts) for folder in here}
    assert set(setuptools["packages"]) == found | set(folders)
    assert all(folder.is_dir() for folder in folders.values())


def test_no_package_looks_up_and_none_has_a_circle():
    """The contract of pyproject.toml, which `make lint` holds too."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_show_records_and_compute_nothing():
    """They know the classes of what they show, and no function that makes or judges it."""
    called = {
        f"{file.name}: {modules[0]}.{name.name}"
        for file in (SOURCES / "pages").glob("*.py")
        for statement, modules in imports(file)
        for name in statement.names
        if modules[0].startswith(("iowatch.night", "iowatch.judge")) and name.name.islower()
    }
    assert called == set()


def test_iowatch_imports_no_check_and_the_detector_needs_nothing():
    for file in SOURCES.rglob("*.py"):
        for _, modules in imports(file):
            assert not any(name.startswith("reframe_checks") for name in modules), file
            inside = file.parent.name == "judge" and file.stem in DETECTOR
            for name in modules if inside else ():
                top = name.partition(".")[0]
                ours = name.rpartition(".")[2] in DETECTOR or name in OF_THE_DETECTOR
                assert ours or top in sys.stdlib_module_names, f"{file}: {name}"


#: What ReFrame documents for those who write checks.
DOCUMENTED = {"reframe"} | {
    f"reframe.{name}"
    for name in (
        *("core.backends", "core.builtins", "core.exceptions", "core.meta", "core.runtime"),
        *("utility.sanity", "utility.typecheck"),
    )
}


def test_reframes_insides_are_touched_in_two_modules():
    """The next ReFrame is the work of these."""
    files = [*SOURCES.rglob("*.py"), *CHECKS_FOLDER.glob("*.py"), ROOT / "site_configs/settings.py"]
    inside = {
        file.name
        for file in files
        for statement, modules in imports(file)
        for name in modules
        if name.partition(".")[0] == "reframe"
        and (name not in DOCUMENTED or " _" in ast.unparse(statement))
    }
    assert inside == {"reframe_4_10.py", "reframe_inside.py"}


#: Modules of `judge` that know numbers alone.
DETECTOR = {
    *("baseline", "by_hour", "change", "charts", "groups", "rules", "sentences", "settings"),
    "slow_nodes",
}
#: What they have of the rest: words, and how numbers are written.
OF_THE_DETECTOR = ("iowatch.base.text", "iowatch.cases.verdict")


# A check is its class in reframe_checks, its object in a kind, and nothing else.


def test_every_check_has_a_class_and_every_class_is_a_check():
    classes = {}
    for file in CHECKS_FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
                if {"rfm.simple_test", "in_suites"} & {*decorators}:
                    classes[node.name] = "in_suites" in decorators
    # No checks: only `iowatch blame` and `iowatch site check` run them.
    assert not classes.pop("EnvironmentsInTurn")
    assert not classes.pop("SiteProbe")
    # What runs everywhere has no parameters that a suite could give it.
    assert classes == {name: not check.is_everywhere for name, check in CHECKS.items()}


def test_adding_a_check_touches_no_other_module():
    """None asks for a check by its name."""
    named = {
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in CHECKS
    }
    named = {name for name in named if not name.startswith("measure/kinds/")}
    assert named == {"site/usual_suites.py"}, "suites are what sites ask for"


def test_what_others_read_is_written_whole_or_not_at_all():
    """By files.whole, but in a folder that is temporary, or that a bundle is made of."""
    bare = set()
    for file in SOURCES.rglob("*.py"):
        tree = ast.parse(file.read_text())
        blocks = (node for node in ast.walk(tree) if isinstance(node, ast.With))
        safe = [block for block in blocks if "whole(" in ast.unparse(block.items[0])]
        inside = {id(node) for block in safe for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and id(node) not in inside:
                bare |= (
                    {file.stem} if node.attr in ("write_text", "write_bytes", "savefig") else set()
                )
    assert bare == {"blame", "bundle", "gather", "judgement"}


def test_a_name_stands_once_and_says_its_content():
    """The rule covers classes, modules and vague words, and a module has at most 500 lines."""
    files = [
        file
        for folder in (SOURCES, CHECKS_FOLDER, ROOT / "bench", ROOT / "scripts")
        for file in folder.rglob("*.py")
        if file.stem != "__init__"
    ]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    stems = Counter(file.stem for file in files)
    assert [name for name, count in [*classes.items(), *stems.items()] if count > 1] == []
    assert [file for file in files if len(file.read_text().splitlines()) > 500] == []
    bound = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert bound & {"one", "each", "of", "what", "found", "said", "own", "its"} == set()
