# Copyright iowatch developers. See LICENSE for details.
#
# SPDX-License-Identifier: BSD-3-Clause

from spack.package import *

try:
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:  # Spack 0.23, whose spack.package has it
    pass


class Reframe(PythonPackage):
    """ReFrame is a framework for writing regression tests for HPC systems."""

    # The builtin recipe ends with 4.9, and installs what 4.10 no longer has: bin/reframe. Remove
    # this one when the builtin has 4.10.

    homepage = "https://reframe-hpc.readthedocs.io"
    url = "https://pypi.io/packages/py3/r/reframe-hpc/reframe_hpc-4.10.4-py3-none-any.whl"

    maintainers("victorusu", "vkarak")  # of the builtin recipe

    license("BSD-3-Clause")

    # Pure Python; what builds it from the archive is newer than the recipes of Spack 0.23.
    version(
        "4.10.4",
        sha256="83d9c89a965e13f96bc40e715182c274e7466d6e6d402bc2f451150d03733745",
        expand=False,
    )

    depends_on("python@3.10:", type=("build", "run"))

    # ReFrame asks for the newest release of each; what is given here is what it needs. Its options
    # that list what is stored need py-polars as well, for which Rust has to be built.
    depends_on("py-archspec@0.2.4:", type=("build", "run"))
    depends_on("py-argcomplete", type=("build", "run"))
    depends_on("py-clustershell", type=("build", "run"))
    depends_on("py-fasteners", type=("build", "run"))
    depends_on("py-jinja2", type=("build", "run"))
    depends_on("py-jsonschema", type=("build", "run"))
    depends_on("py-lxml", type=("build", "run"))
    depends_on("py-pyyaml", type=("build", "run"))
    depends_on("py-requests", type=("build", "run"))
    depends_on("py-semver@3:", type=("build", "run"))
    depends_on("py-tabulate", type=("build", "run"))

    sanity_check_is_file = ["bin/reframe"]
