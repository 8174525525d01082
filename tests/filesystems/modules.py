"""A centre's software outside of /usr, and Lmod's modules for it: copies of Debian's MPICH, and of
its HDF5 for that, with the names of a cluster and with those of a Cray."""

import re
import shutil
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from filesystems.machine import Unavailable

LMOD = Path("/etc/profile.d/lmod.sh")
WRAPPER = Path("/usr/bin/mpif90.mpich")
MODULE = """\
prepend_path("PATH", "{prefix}/bin")
prepend_path("LD_LIBRARY_PATH", "{prefix}/lib")
"""
#: srun speaks PMIx by itself, and MPICH does not; the nodes have a loopback device alone.
MPI = 'setenv("SLURM_MPI_TYPE", "pmi2")\nsetenv("UCX_NET_DEVICES", "lo")\n'
#: On a Cray the compiler knows every library that a module is loaded of.
FTN = """\
#!/bin/sh
[ -z "$HDF5_DIR" ] || set -- -I"$HDF5_DIR/include" "$@" -L"$HDF5_DIR/lib" -lhdf5_fortran -lhdf5
exec mpif90 "$@"
"""


def install(top: Path) -> Path:
    """Put the software below this folder; the folder of its modules. Unavailable."""
    for needed in (LMOD, WRAPPER):
        if not needed.exists():
            raise Unavailable(
                f"there is no {needed} here: tests/filesystems/packages.sh installs it"
            )
    arch = Path("/usr/lib", sysconfig.get_config_var("MULTIARCH"))
    mpich, hdf5, cray, modules = (top / name for name in ("mpich", "hdf5", "craype", "modulefiles"))
    _copy(mpich / "lib", arch.glob("libmpich*.so*"))
    shutil.copytree(f"/usr/include/{arch.name}/mpich", mpich / "include")
    text = WRAPPER.read_text()
    for name, folder in (("includedir", "include"), ("modincdir", "include"), ("libdir", "lib")):
        text = re.sub(rf"(?m)^{name}=.*", f"{name}={mpich}/{folder}", text)
    _program(mpich / "bin/mpifort", text)
    (mpich / "bin/mpif90").symlink_to("mpifort")
    _copy(hdf5 / "lib", arch.glob("libhdf5_mpich*.so*"))
    for library in (arch / "hdf5/mpich").glob("*.so"):
        (hdf5 / "lib" / library.name).symlink_to(library.readlink().name)
    shutil.copytree("/usr/include/hdf5/mpich", hdf5 / "include")
    _program(cray / "bin/ftn", FTN)
    for name, prefix, more in (
        ("mpich/4.0", mpich, MPI),
        ("hdf5/1.10", hdf5, f'setenv("HDF5_ROOT", "{hdf5}")\n'),
        ("cray-mpich/8.1.23", mpich, MPI),
        ("cray-hdf5-parallel/1.12.2", hdf5, f'setenv("HDF5_DIR", "{hdf5}")\n'),
        ("cray-netcdf-hdf5parallel/4.9.0", top / "none", ""),  # Debian has none for this MPI
        ("PrgEnv-cray/8.3.3", cray, 'load("cray-mpich")\n'),
    ):
        file = modules / f"{name}.lua"
        file.parent.mkdir(parents=True)
        file.write_text(MODULE.format(prefix=prefix) + more)
    return modules


def _copy(folder: Path, files: Iterable[Path]) -> None:
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy2(file, folder, follow_symlinks=False)


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o755)
