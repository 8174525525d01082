"""A real Spack, and a clone for it to build from: the user's Spack and this checkout stay as is."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = Path("spack-repo/spack_repo/iowatch/packages")
RELEASE = re.compile(r'version\("([0-9.]+)", (?:tag="\S+", )?commit="([0-9a-f]{40})"\)')


def git(folder: Path, *arguments: str) -> str:
    """What git prints; where there is no user's name, this one stands in."""
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_clone(folder: Path) -> None:
    """What this checkout has now, committed; and that commit as the release of the recipes."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():  # else it has been removed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=the sources")
    commit = git(folder, "rev-parse", "HEAD")
    for package in ("benchio", "iowatch"):
        recipe = folder / PACKAGES / package / "package.py"
        text = recipe.read_text()
        ((_, released),) = RELEASE.findall(text)
        recipe.write_text(text.replace(released, commit))
    git(folder, "commit", "--quiet", "--all", "--message=the release")


def link_environments(clone: Path, folder: Path) -> None:
    """Copies the environments of a clone, with its recipes."""
    shutil.copytree(clone / "spack-repo/environments", folder / "environments")
    (folder / "spack_repo").symlink_to(clone / "spack-repo/spack_repo")


def sources(clone: Path) -> dict[str, object]:
    """Where ours come from: what a site says once in its packages.yaml."""
    git = {"package_attributes": {"git": clone.as_uri()}}
    return {"benchio": git, "iowatch": git}


def externals() -> dict[str, object]:
    """What would take long to build, or would have to be fetched."""
    here = ".".join(map(str, sys.version_info[:3]))
    found = {"python": (here, sys.prefix), "reframe": (version("reframe-hpc"), sys.prefix)}
    for name in ("attrs", "jinja2", "jsonschema", "markupsafe", "pyyaml", "rich", "typer"):
        found[f"py-{name}"] = (version(name), sys.prefix)
    return {
        name: {"buildable": False, "externals": [{"spec": f"{name}@{number}", "prefix": prefix}]}
        for name, (number, prefix) in found.items()
    }


@dataclass(frozen=True)
class Spack:
    """A Spack that installs into `folder`, through a scope on top of the user's configuration."""

    program: str
    folder: Path

    @property
    def wrapper(self) -> Path:
        return self.folder / "bin" / "spack"

    def set_up(self, clone: Path) -> None:
        scope = self.folder / "scope"
        config = {
            "install_tree": {"root": str(self.folder / "store")},
            "build_stage": [str(self.folder / "stage")],
            "test_stage": str(self.folder / "test"),
        }
        scope.mkdir(parents=True)
        (scope / "config.yaml").write_text(yaml.safe_dump({"config": config}))
        packages = externals() | sources(clone)
        (scope / "packages.yaml").write_text(yaml.safe_dump({"packages": packages}))
        modules = {"default": {"roots": {"tcl": str(self.folder / "modules")}, "enable": ["tcl"]}}
        (scope / "modules.yaml").write_text(yaml.safe_dump({"modules": modules}))
        self.wrapper.parent.mkdir()
        self.wrapper.write_text(f'#!/bin/sh\nexec "{self.program}" -C "{scope}" "$@"\n')
        self.wrapper.chmod(0o755)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(self.wrapper), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    def __call__(self, *arguments: object) -> str:
        """What Spack prints; it must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def loaded(self, environment: Path, spec: str) -> Mapping[str, str]:
        """The environment variables of a shell after `spack load`."""
        script = self("-e", environment, "load", "--sh", spec)
        shell = ["bash", "-c", f"{script}\nenv -0"]
        listed = subprocess.run(shell, check=True, capture_output=True, text=True).stdout
        return dict(entry.split("=", 1) for entry in listed.split("\0") if "=" in entry)


def find_spack() -> str | None:
    root = os.environ.get("SPACK_ROOT")
    return shutil.which("spack", path=f"{root}/bin" if root else None)
