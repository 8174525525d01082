"""The commit goes into what is built (src/iowatch/base/build.py): pyproject.toml cannot say it."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

BUILD = runpy.run_path(str(Path(__file__).with_name("src") / "iowatch" / "base" / "build.py"))


def write(package: Path) -> None:
    """Into this folder of iowatch, and over nothing: it may be a link to the sources' own."""
    file = package / BUILD["FILE"]
    file.unlink(missing_ok=True)
    file.write_text(f"{BUILD['commit']()}\n", "utf-8")


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write(Path(self.build_lib, "iowatch"))


class Sdist(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write(Path(base_dir, "src", "iowatch"))


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
