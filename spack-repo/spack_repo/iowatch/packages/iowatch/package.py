# SPDX-License-Identifier: BSD-3-Clause

import os
from pathlib import Path

from spack.package import *

try:
    from spack_repo.builtin.build_systems.generic import Package
except ImportError:  # Spack 0.23, whose spack.package has it
    pass


class Iowatch(Package):
    """Nightly parallel I/O regression tests for HPC centres: the command iowatch, ReFrame, and the
    checks, site configurations and reference values for both."""

    # An application, so not py-iowatch; and Spack 0.23 and 1.x look for a name with a dash in
    # different folders.

    # As in benchio.
    git = Path(__file__).resolve().parents[5].as_uri()

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", commit="f57e0ae0e002db5a25eda6924af0be255fa25b7b")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("reframe@4.10", type="run")
    depends_on("py-fasteners", type="run")
    depends_on("py-jinja2", type="run")
    depends_on("py-polars", type="run")
    depends_on("py-rich", type="run")
    depends_on("py-typer", type="run")

    # Not bounds of the dependencies above, which no recipe of Spack 0.23 could satisfy.
    for old in ("py-polars@:0", "py-typer@:0.12.3"):
        conflicts(f"^{old}", msg=f"{old} is too old: name a newer one as an external")

    def install(self, spec, prefix):
        # The layout of the checkout: what is in it finds the rest from there.
        for folder in ("src/iowatch", "reframe_checks", "site_configs", "reference_values"):
            install_tree(folder, join_path(prefix, folder))
        mkdirp(prefix.bin)
        command = Path(prefix.bin.iowatch)
        command.write_text(f'#!/bin/sh\nexec {spec["python"].command.path} -m iowatch "$@"\n')
        command.chmod(0o755)

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", self.prefix.src)
        sites = sorted(Path(self.prefix.site_configs).glob("*.py"))
        sites.sort(key=lambda file: file.name != "settings.py")  # the others add to it
        env.set("RFM_CONFIG_FILES", ":".join(map(str, sites)))
        env.set("RFM_CHECK_SEARCH_PATH", self.prefix.reframe_checks)
        # Results would otherwise go into the prefix, and with it.
        env.set("RFM_PREFIX", os.environ.get("RFM_PREFIX") or str(Path.home() / "iowatch"))

    def test_commands(self):
        """iowatch and reframe start, and find the checks and a site"""
        os.environ["RFM_PREFIX"] = str(Path.cwd())
        iowatch = Executable(self.prefix.bin.iowatch)
        assert "nightly" in iowatch("--help", output=str.split, error=str.split)
        reframe = which("reframe")
        assert reframe, "no reframe on PATH"
        checks = reframe("--system=slurm", "-l", output=str.split, error=str.split)
        assert "SharedFileWrite" in checks
