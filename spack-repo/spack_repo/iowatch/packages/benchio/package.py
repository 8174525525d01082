# Copyright iowatch developers. See LICENSE for details.
#
# SPDX-License-Identifier: BSD-3-Clause

import json
import os
from pathlib import Path

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:  # Spack 0.23, whose spack.package has it
    pass


class Benchio(CMakePackage):
    """Parallel I/O benchmark in Fortran: writes a 3D array through MPI-IO, HDF5, NetCDF or POSIX,
    has a witness confirm every byte, and only then reports a bandwidth."""

    # The project has no public host yet, whose URL is to stand here as `git`: until then the site
    # names one as package_attributes in its packages.yaml, as docs/howto/spack.md says.

    license("BSD-3-Clause")

    root_cmakelists_dir = "src/benchio"

    version("main", branch="main")
    # A release is a commit: it pins every byte, as the sha256 of an archive would. Add one in the
    # commit after its tag, here and in iowatch: version("X.Y.Z", tag="vX.Y.Z", commit="...") with
    # what `git rev-list -n 1 vX.Y.Z` says.
    version("0.1.0", commit="e69b527fd48cbc24e0696040a4224ce3c167f3eb")

    variant("hdf5", default=True, description="Build the parallel HDF5 backend")
    variant("netcdf", default=True, description="Build the parallel NetCDF backend")
    variant("pnetcdf", default=False, description="Build the PnetCDF backend")
    variant("adios2", default=False, when="@main", description="Build the ADIOS2 backend")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("cmake@3.20:", type="build")

    depends_on("mpi", type=("build", "link", "run"))  # its launcher, to run
    depends_on("hdf5@1.8.16:+mpi+fortran", when="+hdf5")
    depends_on("netcdf-c@4.4:+mpi", when="+netcdf")
    depends_on("parallel-netcdf+fortran", when="+pnetcdf")
    depends_on("adios2@2.10:+mpi+fortran", when="+adios2")

    # The other providers in Spack 0.23 always have Fortran; openmpi of 1.x has it by default.
    conflicts("^mpich~fortran", msg="benchio needs an MPI with Fortran")

    sanity_check_is_file = ["bin/benchio"]

    def cmake_args(self):
        args = [
            self.define("MPI_Fortran_COMPILER", self.spec["mpi"].mpifc),
            self.define("BUILD_TESTING", self.run_tests),
            self.define_from_variant("BENCHIO_HDF5", "hdf5"),
            self.define_from_variant("BENCHIO_NETCDF", "netcdf"),
            self.define_from_variant("BENCHIO_PNETCDF", "pnetcdf"),
            self.define_from_variant("BENCHIO_ADIOS2", "adios2"),
        ]
        if self.spec.satisfies("+hdf5"):
            args.append(self.define("HDF5_ROOT", self.spec["hdf5"].prefix))
        if self.spec.satisfies("+netcdf"):
            args.append(self.define("NetCDF_ROOT", self.spec["netcdf-c"].prefix))
        if self.spec.satisfies("+pnetcdf"):
            args.append(self.define("PnetCDF_ROOT", self.spec["parallel-netcdf"].prefix))
        if self.spec.satisfies("+adios2"):
            args.append(self.define("ADIOS2_ROOT", self.spec["adios2"].prefix))
        return args

    def benchio(self, ranks, options):
        """Run benchio in the current directory; its exit code and what it printed."""
        bin = self.spec["mpi"].prefix.bin
        launcher = which(bin.mpirun, bin.mpiexec, "srun")
        if launcher is None:
            raise SkipTest("no mpirun, mpiexec or srun to run benchio with")
        # A test's environment is clean of these: a container runs as root, on few cores.
        if os.geteuid() == 0:
            launcher.add_default_env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            launcher.add_default_env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        launcher.add_default_env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        for name in ("rmaps_default_mapping_policy", "mapby"):  # of Open MPI 5, and of later ones
            launcher.add_default_env(f"PRTE_MCA_{name}", ":oversubscribe")
        command = ["-n", str(ranks), self.prefix.bin.benchio, *options.split()]
        output = launcher(*command, output=str.split, error=str.split, fail_on_error=False)
        return launcher.returncode, output

    def test_verified_write(self):
        """every backend writes, and every byte is confirmed"""
        libraries = ("hdf5", "netcdf", "pnetcdf", "adios2")
        built_in = [name for name in libraries if self.spec.satisfies(f"+{name}")]
        for backend in ("mpiio", "posix", *built_in):
            files = "process" if backend == "posix" else "shared"
            with test_part(self, f"test_verified_write_{backend}", purpose=f"write by {backend}"):
                code, _ = self.benchio(
                    2,
                    f"--backend {backend} --files {files} --local-size 16 --repeats 2 "
                    f"--json {backend}.json",
                )
                assert code == 0, f"exit code {code}"
                status = json.loads(Path(f"{backend}.json").read_text())["status"]
                assert status == "ok", status

    def test_exit_codes(self):
        """a failure shows in the exit code"""
        failures = {"usage": (2, "--no-such-option"), "io_error": (3, "--dir no/such/directory")}
        for name in ("hdf5", "netcdf", "pnetcdf", "adios2"):
            if self.spec.satisfies(f"~{name}"):
                failures["not_built_in"] = (6, f"--backend {name}")
        for name, (expected, options) in failures.items():
            with test_part(self, f"test_exit_codes_{name}", purpose=f"{name}: {expected}"):
                code, output = self.benchio(1, options)
                assert code == expected, f"exit code {code}, not {expected}"
                assert "benchio: error:" in output
