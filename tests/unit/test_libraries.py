import pytest

from iowatch.result import known_faults, read_versions

PRINTED = """\
benchio 0.1.0
mpiio   Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4
hdf5    1.10.8
netcdf  not built in: CMake found no NetCDF-Fortran
pnetcdf  1.12.3
stream  GCC version 12.2.0
"""


def test_versions_are_read_from_what_benchio_prints():
    versions = read_versions(PRINTED)
    assert versions["mpiio"].startswith("Open MPI v4.1.4")
    assert versions["hdf5"] == "1.10.8"
    assert versions["netcdf"].startswith("not built in")
    assert versions["pnetcdf"] == "1.12.3"
    assert set(versions) == {"mpiio", "hdf5", "netcdf", "pnetcdf"}


@pytest.mark.parametrize(
    ("versions", "slow"),
    [
        ({"hdf5": "1.8.13"}, []),
        ({"hdf5": "1.8.14"}, ["hdf5"]),
        ({"hdf5": "1.8.16"}, ["hdf5"]),
        ({"hdf5": "1.10.0"}, ["hdf5"]),
        ({"hdf5": "1.10.0-patch1"}, ["hdf5"]),
        ({"hdf5": "1.10.1"}, []),
        ({"netcdf": "4.3.3.1"}, ["netcdf"]),
        ({"netcdf": "4.4.0"}, []),
        ({"netcdf": "4.4.0", "hdf5": "1.8.16"}, ["hdf5"]),
        ({"netcdf": "4.1.3", "hdf5": "1.8.16"}, ["hdf5", "netcdf"]),
        ({"netcdf": "not built in: CMake found no NetCDF-Fortran"}, []),
        ({}, []),
    ],
)
def test_versions_that_the_paper_found_slow_are_named_on_lustre_only(versions, slow):
    found = known_faults(versions, ["lustre"])
    assert [sentence.split()[0] for sentence in found] == slow
    assert all(versions[sentence.split()[0]] in sentence for sentence in found)
    assert known_faults(versions, ["gpfs", "nfs"]) == []
