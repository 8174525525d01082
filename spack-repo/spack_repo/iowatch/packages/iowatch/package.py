# Copyright iowatch developers. See LICENSE for details.
#
# SPDX-License-Identifier: BSD-3-Clause

import json
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

    # As of benchio, the source is named in Spack's configuration.

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", commit="e69b527fd48cbc24e0696040a4224ce3c167f3eb")

    # Both know the form of benchio's results.
    for release in ("main", "0.1.0"):
        depends_on(f"benchio@{release}", when=f"@{release}", type="run")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("reframe@4.10", type="run")
    depends_on("py-attrs@22.2:", type="run")
    depends_on("py-jinja2", type="run")
    depends_on("py-jsonschema", type="run")
    depends_on("py-markupsafe", type="run")
    depends_on("py-pyyaml", type="run")
    depends_on("py-rich", type="run")
    depends_on("py-typer", type="run")

    # There is no recipe of weasyprint, which makes the PDF of an acceptance test.

    # Not bounds of the dependency above, which no recipe of Spack 0.23 could satisfy.
    conflicts("^py-typer@:0.12.3", msg="py-typer is too old: name 0.12.4 or newer as an external")
    conflicts("^py-typer@:0.15 ^py-click@8.2:", msg="py-typer before 0.16 needs py-click@:8.1")

    sanity_check_is_file = ["bin/iowatch", "src/iowatch/cli/command.py"]
    sanity_check_is_dir = ["reframe_checks", "reference_values", "site_configs", "spack-repo"]

    def install(self, spec, prefix):
        # The layout of the checkout: what is in it finds the rest from there.
        for folder in (
            "src/iowatch",
            "reframe_checks",
            "site_configs",
            "reference_values",
            "spack-repo",
            "docs/howto",  # the runbook stands on the pages of nights
        ):
            install_tree(folder, join_path(prefix, folder))
        # Where `make docs` has been run in the sources, its HTML pages are in src/iowatch.
        if Path("src/iowatch/docs/man").is_dir():
            install_tree("src/iowatch/docs/man", prefix.share.man)
        # What is installed is no clone any more, and says itself which commit it is of.
        commit = spec["python"].command("src/iowatch/base/build.py", output=str)
        Path(prefix.src.iowatch.BUILD).write_text(commit)
        mkdirp(prefix.bin)
        command = Path(prefix.bin.iowatch)
        command.write_text(f'#!/bin/sh\nexec {spec["python"].command.path} -m iowatch "$@"\n')
        command.chmod(0o755)

    def setup_run_environment(self, env):
        # All else is the user's own, and found when iowatch starts: a module file is everybody's.
        env.prepend_path("PYTHONPATH", self.prefix.src)

    def test_one_case(self):
        """one case is measured and judged, with the benchio that is loaded"""
        mkdirp("site")
        mkdirp("run")
        bash = which("bash", required=True)
        bash.add_default_env("IOWATCH_SITE_DIR", str(Path("site").absolute()))
        bash.add_default_env("RFM_PREFIX", str(Path("run").absolute()))
        # The verdict on this machine's bandwidth is not the matter: fail_on_error.
        bash(
            "-euc",
            'eval "$(iowatch env)"\n'
            'reframe -c "$IOWATCH_CHECKS" --system local:tmpfs -r -S repeats=2 '
            "-n SharedFileWrite.*backend=mpiio.*local_size=64x64x64",
            fail_on_error=False,
        )
        (report,) = Path("run/reports").glob("*.json")
        cases = json.loads(report.read_text())["runs"][-1]["testcases"]
        (state,) = (case["state"] for case in cases if case.get("case_id"))
        assert state not in ("", "failed", "skipped"), f"state {state!r}"
