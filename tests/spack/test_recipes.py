"""The recipes and environments, read without a Spack."""

import re
import subprocess

import pytest
import yaml
from spack.instance import PACKAGES, RELEASE, ROOT, git

ENVIRONMENTS = ROOT / "spack-repo/environments"
SYSTEMS = sorted({path.stem for path in (ROOT / "site_configs").glob("*.py")} - {"settings"})

BENCHIO = (ROOT / PACKAGES / "benchio/package.py").read_text()
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


def test_every_system_has_an_environment():
    assert {path.parent.name for path in ENVIRONMENTS.glob("*/spack.yaml")} == set(SYSTEMS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_environment_shares_what_is_common_and_says_what_is_built_in(system):
    found = environment(system)
    assert found["include"] == ["../common.yaml"]
    # A variant that is not named could be dropped for a dependency that is not to be had.
    (spec,) = found["specs"]
    assert "+hdf5+netcdf" in spec


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_external_has_a_place(system):
    for name, package in environment(system).get("packages", {}).items():
        for external in package.get("externals", ()):
            assert external["spec"].startswith(f"{name}@"), name
            assert external.keys() & {"prefix", "modules"}, name


def test_the_recipes_of_a_release_agree():
    iowatch = (ROOT / PACKAGES / "iowatch/package.py").read_text()
    assert RELEASE.findall(BENCHIO) == RELEASE.findall(iowatch) != []


def test_the_release_has_its_version():
    ((number, _),) = RELEASE.findall(BENCHIO)
    assert f"project(benchio VERSION {number} " in at_release("src/benchio/CMakeLists.txt")
    assert f'version = "{number}"' in at_release("pyproject.toml")


def test_the_release_has_the_variants_that_are_not_for_later():
    build = at_release("src/benchio/CMakeLists.txt")
    assert OPTIONS.keys() == VARIANTS.keys() != set()
    later = {name for name, rest in VARIANTS.items() if 'when="@main"' in rest}
    assert {name for name, option in OPTIONS.items() if option not in build} == later
