"""The recipes and environments, read without a Spack."""

import re
import subprocess
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import yaml
from spack.instance import PACKAGES, RELEASE, ROOT, git

from iowatch.base.places import CHECKS_FOLDER

ENVIRONMENTS = ROOT / "spack-repo/environments"
SYSTEMS = sorted({path.stem for path in (ROOT / "site_configs").glob("*.py")} - {"settings"})

VERSIONS = "hdf5-versions"  # of no system, to be copied

SCHEMA = "benchio.result-3.schema.json"

BENCHIO = (ROOT / PACKAGES / "benchio/package.py").read_text()
IOWATCH = (ROOT / PACKAGES / "iowatch/package.py").read_text()
OPTIONS = {
    variant: option
    for option, variant in re.findall(r'define_from_variant\("(\w+)", "(\w+)"\)', BENCHIO)
}
VARIANTS = dict(re.findall(r'^    variant\("(\w+)",(.*)\)$', BENCHIO, re.MULTILINE))


def environment(system):
    return yaml.safe_load((ENVIRONMENTS / system / "spack.yaml").read_text())["spack"]


def at_release(path):
    """A file of the release that the recipe of benchio names."""
    ((_, commit),) = RELEASE.findall(BENCHIO)
    try:
        return git(ROOT, "show", f"{commit}:{path}")
    except subprocess.CalledProcessError:
        if git(ROOT, "rev-parse", "--is-shallow-repository") == "true":
            pytest.skip(f"this clone is shallow, without {commit}")
        raise


def test_every_system_has_an_environment_that_shares_what_is_common():
    named = {path.parent.name for path in ENVIRONMENTS.glob("*/spack.yaml")}
    assert named == {*SYSTEMS, VERSIONS}
    for system in named:
        found = environment(system)
        assert found["include"] == ["../common.yaml"], system
        # A variant that is not named could be dropped for a dependency that is not to be had.
        spec, *others = found["specs"]
        # Debian has neither of what second opinions need, and its environment is for trying.
        assert others == ([] if system in (VERSIONS, "local") else ["darshan-runtime", "ior+hdf5"])
        if system == VERSIONS:  # which all concretize alone, with what else they need
            (spec,), versions = spec["matrix"]
            assert len(versions) > 1
            assert all(version.startswith("^hdf5@") for version in versions)
            assert found["concretizer"] == {"unify": False}
            assert "hdf5" not in found["packages"]
        assert "+hdf5+netcdf" in spec, system
        # Where a compiler is named, no other that Spack knows of takes its place.
        for external in found.get("packages", {}).get("gcc", {}).get("externals", ()):
            assert f"%{external['spec'].split()[0]}" in spec, system
        for name, package in found.get("packages", {}).items():
            for external in package.get("externals", ()):
                assert external["spec"].startswith(f"{name}@"), (system, name)
                assert external.keys() & {"prefix", "modules"}, (system, name)


def test_iowatch_needs_there_what_it_needs_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", words)[0] for words in project["dependencies"]}
    named = {"reframe-hpc": "reframe"}
    wanted = {named.get(name, f"py-{name.lower()}") for name in needed}
    recipe = dict(re.findall(r'^    depends_on\("([\w-]+)(@\S+)?",', IOWATCH, re.MULTILINE))
    assert recipe.keys() - {"python"} == wanted
    assert recipe["python"] == f"@{project['requires-python'].removeprefix('>=')}:"
    assert "@" + re.search(r"reframe-hpc>=(\d+\.\d+)", str(project))[1] == recipe["reframe"]


def test_recipes_say_nothing_of_the_machine_that_reads_them():
    """Where the sources are is a site's to say; who installs is not who loads."""
    for recipe in (BENCHIO, IOWATCH):
        assert not re.search(
            r"__file__|Path\.home|os\.environ|^    (git|url) = ", recipe, re.MULTILINE
        )


def test_what_iowatch_reads_is_installed_with_it():
    """The folders that the recipe installs have everything that the code finds from itself."""
    (listed,) = re.findall(r"for folder in \(([^)]+)\)", IOWATCH)
    folders = re.findall(r'"([^"]+)"', listed)
    for place in (
        CHECKS_FOLDER,
        ROOT / "spack-repo",
        ROOT / "reference_values",
        ROOT / "site_configs",
        *read_by_the_package(),
    ):
        assert place.exists(), place
        name = str(place.relative_to(ROOT))
        assert any(f"{name}/".startswith(f"{folder}/") for folder in folders), name


def read_by_the_package():
    package = resources.files("iowatch")
    return [Path(str(package.joinpath(name))) for name in ("templates", SCHEMA)]


def test_the_recipes_of_a_release_agree_and_it_has_its_version():
    assert RELEASE.findall(BENCHIO) == RELEASE.findall(IOWATCH) != []
    ((number, _),) = RELEASE.findall(BENCHIO)
    assert f'for release in ("main", "{number}"):' in IOWATCH
    build = at_release("src/benchio/CMakeLists.txt")
    assert f"project(benchio VERSION {number} " in build
    assert f'__version__ = "{number}"' in at_release("src/iowatch/__init__.py")
    assert OPTIONS.keys() == VARIANTS.keys() != set()
    later = {name for name, rest in VARIANTS.items() if 'when="@main"' in rest}
    assert {name for name, option in OPTIONS.items() if option not in build} == later
