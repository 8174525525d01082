"""benchio built with other tools than set-up's: with MPICH, through a wrapper that knows every
library, as `ftn` does on a Cray; and what is said of libraries that do not fit."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, compiled, run

BENCHIO_SOURCES = ROOT / "src/benchio"
HEADERS = f"-I{BENCHIO_SOURCES}/lib/posix"
BUILDS = ROOT / "build/toolchains"
BACKENDS = ["mpiio", "hdf5", "posix"]


@pytest.fixture(scope="module")
def libraries():
    """Where Debian has a serial HDF5 and one for each MPI."""
    if shutil.which("gfortran") is None:
        pytest.skip("there is no gfortran here: make setup installs it")
    return Path("/usr/lib", run(["gfortran", "-print-multiarch"]).out.strip())


@pytest.fixture(scope="module")
def mpich():
    """The compiler wrapper of MPICH, which is not the machine's mpif90."""
    compiler = shutil.which("mpif90.mpich")
    if compiler is None:
        pytest.skip("there is no mpif90.mpich here: make cluster installs it")
    return compiler


#: Says that it is Intel's, whose descriptors of arrays are not gfortran's.
INTEL = """
#include <string.h>
int MPI_Get_library_version(char *text, int *length)
{
    strcpy(text, "Intel(R) MPI Library 2021.18 for Linux* OS\\n");
    *length = (int)strlen(text);
    return 0;
}
"""


def configure(name, compiler, *options):
    return run(["cmake", "-S", ROOT / "src/benchio", "-B", BUILDS / name, "-G", "Ninja",
                f"-DCMAKE_Fortran_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Debug",
                "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", "-DBUILD_TESTING=OFF",
                *options])  # fmt: skip


@pytest.mark.slow  # it builds all of benchio
def test_a_wrapper_that_knows_every_library_needs_no_flags(
    mpich, libraries, directory, read_result
):
    hdf5 = libraries / "hdf5/mpich"
    BUILDS.mkdir(parents=True, exist_ok=True)
    wrapper = BUILDS / "ftn"
    wrapper.write_text(
        f'#!/bin/sh\nexec {mpich} -I{hdf5}/include "$@" -L{hdf5} -lhdf5_fortran -lhdf5\n'
    )
    wrapper.chmod(0o755)
    configured = configure("cray", str(wrapper), "-DBENCHIO_NETCDF=OFF")
    assert configured.code == 0, configured.err
    assert "Found HDF5: compiler" in configured.out
    # Debian's is Open MPI's, and it may be left out.
    left_out = "Left out by BENCHIO_PNETCDF=AUTO: PnetCDF in /usr: it is for another MPI"
    assert left_out in configured.out
    built = run(["cmake", "--build", BUILDS / "cray"], timeout=120)
    assert built.code == 0, built.out

    benchio = BUILDS / "cray/benchio"
    loaded = run(["ldd", benchio]).out
    assert "libmpich.so" in loaded
    assert "libhdf5_mpich.so" in loaded
    assert "libmpi.so" not in loaded
    file = directory.parent / "result.json"
    options = [benchio, "--local-size", "16", "--repeats", "1", "--warmup", "0"]
    options += ["--dir", directory, "--json", file]

    def measured(*more, **env):
        done = run(
            ["mpiexec.mpich", "-iface", "lo", "-n", "4", *options, *more],
            # What lies in shared memory needs no network
            env={"UCX_TLS": "posix,self", **env},
        )
        assert done.code == 0, done.err
        return read_result(file)

    result = measured("--backend", ",".join(BACKENDS))
    assert result["status"] == "ok"
    assert [case["backend"] for case in result["cases"]] == BACKENDS
    assert re.fullmatch(r"MPICH Version: [\d.]+", result["libraries"]["mpi"])

    # As if ranks 0 and 2 were on another node than 1 and 3, and with hints that it may not know.
    result = measured("--hint", "cb_nodes=2", "--hint", "nosuch=1", MPIR_CVAR_ODD_EVEN_CLIQUES="1")
    assert len(result["run"]["hosts"]) == len(result["run"]["nodes"]) == 1
    (case,) = result["cases"]
    assert case["repetitions"][0]["witness"]["other_node_byte_fraction"] == 0
    hints = case["hints"]
    assert hints["requested"] == {"cb_nodes": "2", "nosuch": "1"}
    assert "cb_nodes" in hints["echoed"]
    assert "nosuch" not in hints["echoed"]
    variables = result["environment"]["variables"]
    assert variables["MPIR_CVAR_ODD_EVEN_CLIQUES"] == "1"
    assert "MPIR_CVAR_CH3_INTERFACE_HOSTNAME" not in variables, "a host's name"

    file.unlink()
    done = run(["mpirun", "-n", "3", *options])
    assert done.code == 2
    assert "mpirun of Open MPI (OMPI_COMM_WORLD_SIZE=3) started it, and its MPI, MPICH " in done.err
    assert not file.exists()

    intel = directory.parent / "intel.c"
    intel.write_text(INTEL)
    library = compiled(intel, directory.parent, "gcc")
    done = run(options, env={"LD_PRELOAD": str(library)})
    assert done.code == 2
    assert done.errors == [
        "Intel(R) MPI Library 2021.18 for Linux* OS is loaded, and cannot be called by what "
        "gfortran built with the mpi_f08 of MPICH: load MPICH, or build benchio with Intel's "
        "compiler and MPI"
    ]


def test_the_library_of_the_compilers_mpi_is_taken(mpich, libraries):
    """Debian has one for each MPI, and Open MPI's stands first."""
    configured = configure("mpich", mpich, "-DBENCHIO_NETCDF=OFF", "-DBENCHIO_PNETCDF=OFF")
    assert configured.code == 0, configured.err
    assert f"Found HDF5: {libraries}/hdf5/mpich" in configured.out
    assert "Left out by BENCHIO_ADIOS2=AUTO: " in configured.out


def test_a_named_library_is_taken_or_refused(mpich, libraries, monkeypatch):
    """An environment module names it by a variable, and Debian's is not taken in its place."""
    of_build = ("named", "gfortran", "-DBENCHIO_NETCDF=OFF")

    def refused(name, place):
        for variable in ("HDF5_ROOT", "HDF5_DIR", "PNETCDF_ROOT", "PNETCDF_DIR", "ADIOS2_ROOT"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv(name, str(place))
        configured = configure(*of_build, "-DBENCHIO_PNETCDF=AUTO")
        assert configured.code != 0, configured.out
        return " ".join(configured.err.split())

    for variable in ("HDF5_ROOT", "HDF5_DIR"):
        error = refused(variable, libraries / "hdf5/mpich")
        assert f"HDF5 in {libraries}/hdf5/mpich: it is for another MPI" in error
    assert "libhdf5 in /nowhere, compiler." in refused("HDF5_ROOT", "/nowhere")
    assert "libpnetcdf in /nowhere, compiler." in refused("PNETCDF_ROOT", "/nowhere")
    error = refused("ADIOS2_ROOT", "/nowhere")
    assert "no adios2.mod with libadios2_fortran_mpi and libadios2_fortran in /nowhere" in error
    assert "or leave it out by -DBENCHIO_ADIOS2=OFF" in error
    # A module's *_DIR is for other programs, too: what lies nowhere there is looked for elsewhere.
    monkeypatch.delenv("ADIOS2_ROOT")
    monkeypatch.setenv("HDF5_DIR", "/nowhere")
    configured = configure(*of_build, "-DBENCHIO_PNETCDF=OFF")
    assert configured.code == 0, configured.err
    assert f"Found HDF5: {libraries}/hdf5/openmpi" in configured.out


@pytest.mark.long
def test_a_build_looks_again_only_where_the_commit_may_be_another(libraries, tmp_path):
    """In a worktree, whose .git is a file. Where nothing else is compiled, as after a commit to other
    files, ninja 1.12 crashes if a source is made in the build."""
    clone, tree, build = tmp_path / "clone", tmp_path / "a tree", tmp_path / "build"

    def git(folder, *words):
        name = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        done = run(["git", "-C", folder, *name, *words])
        assert done.code == 0, done.err
        return done.out.strip()

    def head():
        return f"+{git(tree, 'log', '-1', '--format=%h', '--abbrev=10')}"

    def built():
        command = ["cmake", "--build", build, "--target", "benchio_core"]
        done = run(command)
        assert done.code == 0, done.out
        assert run(command).out == "ninja: no work to do.\n"
        (version,) = re.findall(r'"[\d.]+(.*)"', (build / "build.c").read_text())
        return version

    shutil.copytree(BENCHIO_SOURCES, clone / "benchio")
    git(clone, "init", "--quiet")
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message=one")
    git(clone, "worktree", "add", "--quiet", "-b", "other", tree)
    without = [f"-DBENCHIO_{name}=OFF" for name in ("HDF5", "NETCDF", "PNETCDF", "ADIOS2")]
    done = run(["cmake", "-S", tree / "benchio", "-B", build, "-G", "Ninja", *without])
    assert done.code == 0, done.err
    first = head()
    assert built() == first
    with (tree / "benchio/lib/base/text.f90").open("a") as source:
        source.write("! changed\n")
    assert built() == f"{first}.dirty"
    git(tree, "commit", "--quiet", "--all", "--message=two")
    assert built() == head() != first
    second = head()
    git(tree, "commit", "--quiet", "--allow-empty", "--message=of other files")
    assert built() == second
    git(tree, "checkout", "--quiet", "HEAD~2")
    assert built() == first


#: Stand in front of what has those names in a library: who ends benchio from inside is noted.
ENDS = {"exit", "_exit", "_Exit", "quick_exit", "abort", "MPI_Abort", "PMPI_Abort"}


def test_global_symbols_are_benchios_own(benchio, need):
    """Another library may have a `visit` or a `watch`, too."""
    assert benchio.exists()
    listed = run(
        [need("nm"), "--defined-only", "--extern-only", ROOT / "build/benchio/libbenchio_core.a"]
    )
    assert listed.code == 0, listed.err
    symbols = re.findall(r"^[0-9a-f]+ [A-BD-Z] (\w+)$", listed.out, re.MULTILINE)
    assert len(symbols) > 100
    assert {name for name in symbols if not re.match(r"(__)?benchio_", name)} == ENDS


def test_a_library_that_does_not_fit_is_refused(libraries):
    """One folder for all: nothing that was found is remembered."""

    def said(*options):
        configured = configure("refused", "gfortran", *options)
        assert configured.code != 0, configured.out
        return " ".join(configured.err.split())

    serial = libraries / "hdf5/serial"
    other = libraries / "hdf5/mpich"
    for place in (serial, other, libraries / "libnetcdf.so"):
        if not place.exists():
            pytest.skip(f"there is no {place} here: make cluster installs it")
    advice = "give its prefix by -DHDF5_ROOT=DIR, or leave it out by -DBENCHIO_HDF5=OFF."

    error = said("-DHDF5_ROOT=/nowhere")
    assert "HDF5: no hdf5.mod with libhdf5_fortran and libhdf5 in /nowhere." in error
    assert advice in error
    error = said(f"-DHDF5_ROOT={serial}")
    assert f"HDF5 in {serial}: it is not parallel." in error
    assert advice in error
    error = said(f"-DHDF5_ROOT={other}")
    assert f"HDF5 in {other}: it is for another MPI" in error
    assert "libmpich.so" in error
    assert advice in error
    error = said("-UHDF5_ROOT", "-DNetCDF_ROOT=/usr")  # its calls are there, and return an error
    assert "NetCDF in /usr: it is not parallel" in error
    assert "-DNetCDF_ROOT=DIR" in error


FLANGS = ("flang-new-19", *(f"flang-{version}" for version in range(20, 30)))  # as Debian's
UNITS = BENCHIO_SOURCES / "test"
#: Unit tests that need no MPI, at least.
WITHOUT_MPI = {"decomposition", "json_writer", "pattern", "text"}
STUBS = Path(__file__).with_name("stub_modules.f90")


def used(path):
    """The modules of others that a source uses."""
    found = re.findall(r"^\s*use\s+(?!, intrinsic)(\w+)", path.read_text(), re.MULTILINE)
    return {name.removeprefix("benchio_") for name in found}


def in_order(paths, known):
    """Those that use known modules and each other alone, each behind those that it uses."""
    order = []
    while new := [path for path in paths if path not in order and used(path) <= known]:
        order += new
        known = known | {path.stem for path in new}
    return order


@pytest.mark.long
def test_flang_accepts_every_source_and_units_that_need_no_mpi_hold(tmp_path):
    """Module files of MPI and the libraries are gfortran's, and no other compiler reads them: what
    needs them is checked alone, against stubs."""
    flang = next(filter(None, map(shutil.which, FLANGS)), None)
    if flang is None:
        pytest.skip("there is no flang of version 19 or later here: make cluster installs it")

    def compiled(compiler, *words):
        done = run([*compiler, *words])
        assert (done.code, done.err) == (0, ""), done.err

    fortran = [flang, "-O2", "-Werror", "-module-dir", tmp_path, f"-I{tmp_path}"]
    build = (BENCHIO_SOURCES / "CMakeLists.txt").read_text()
    libraries = [f"-D{name}" for name in sorted(set(re.findall(r"\bBENCHIO_\w+", build)))]
    assert "-DBENCHIO_HDF5" in libraries
    sources = sorted(BENCHIO_SOURCES.rglob("*.[fF]90"))
    with_objects = in_order(sources, set())
    checked = in_order([path for path in sources if path not in with_objects],
                       set(re.findall(r"^module (\w+)", STUBS.read_text(), re.MULTILINE))
                       | {path.stem for path in with_objects})  # fmt: skip
    assert {*with_objects, *checked} == {*sources}

    units = {path.stem: path for path in with_objects if path.name.startswith("test_")}
    del units["test_check_fails"]
    assert {f"test_{name}" for name in WITHOUT_MPI} <= units.keys()
    objects = []
    for path in with_objects:
        if not path.name.startswith("test_"):
            objects.append(tmp_path / f"{path.stem}.o")
            compiled(fortran, "-c", path, "-o", objects[-1])
    compiled(fortran, "-fsyntax-only", STUBS)
    for path in checked:
        compiled(fortran, "-fsyntax-only", *libraries, path)
    for path in checked:
        if path.suffix == ".F90":
            compiled(fortran, "-fsyntax-only", path)

    for path in BENCHIO_SOURCES.glob("lib/*/*.c"):
        compiled(["cc", "-O2", HEADERS], "-c", path, "-o", tmp_path / f"{path.stem}_c.o")
    archive = tmp_path / "c_sources.a"  # the linker takes of it what a unit needs
    compiled(["ar"], "rcs", archive, *tmp_path.glob("*_c.o"))
    # None of these units calls what stands in a module that needs MPI, or in a generated source.
    absent = ("benchio_stripe_places", "benchio_build")
    objects += [archive, *(f"-Wl,--defsym={name}=0" for name in absent)]
    for name, path in units.items():
        compiled(fortran, path, *objects, "-o", tmp_path / name)
        done = run([tmp_path / name])
        assert (done.code, done.err) == (0, ""), done.err


#: Compilers and emulators as Debian names them; one program has code for old and new processors.
MACHINES = {
    "aarch64": ("aarch64-linux-gnu-gcc", ["qemu-aarch64-static"]),
    "s390x": ("s390x-linux-gnu-gcc", ["qemu-s390x-static"]),
    "x86-64": ("x86_64-linux-gnu-gcc", ["qemu-x86_64-static", "-cpu", "Nehalem"]),
    "avx2": ("x86_64-linux-gnu-gcc", ["qemu-x86_64-static", "-cpu", "Haswell"]),
}


@pytest.mark.slow  # its compilers and qemu are large, and no part of make cluster
@pytest.mark.parametrize("machine", MACHINES)
def test_content_is_the_same_on_every_machine(machine, tmp_path):
    """Kept files can be read on another one, s390x is big-endian."""
    compiler, emulator = MACHINES[machine]
    for tool in (compiler, emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}: apt-get install qemu-user-static and {compiler}'s")
    program = tmp_path / "content"
    sources = [BENCHIO_SOURCES / "test/test_content.c", BENCHIO_SOURCES / "lib/verify/content.c"]
    flags = ["-O3", "-static", "-Wall", "-Wextra", "-Werror", HEADERS]
    built = run([compiler, *flags, "-o", program, *sources, "-lm"])
    assert built.code == 0, built.err
    done = run([*emulator, program], timeout=120)
    assert done.code == 0, done.err
