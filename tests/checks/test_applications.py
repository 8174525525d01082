"""Applications beside benchio, through ReFrame: real ones where the machine has them."""

import shutil

import pytest

REFERENCES = """
GromacsTrajectory: &floor
  small:.*: {total_max: [1, 0, null, MiB/s]}
Cp2kRestart: *floor
"""


@pytest.fixture
def application(site):
    """The site, where only GROMACS is asked for."""
    site.write = {"nodes": [1]}
    site.sweep = {"GromacsTrajectory": site.write}
    site.references = REFERENCES
    return site


@pytest.mark.skipif(shutil.which("gmx_mpi") is None, reason="there is no gmx_mpi on PATH")
def test_gromacs(application):
    done = application.reframe("-r")
    print(done.stdout)
    (test,) = application.report()
    print(test)
    assert 0


@pytest.mark.skipif(shutil.which("cp2k.psmp") is None, reason="there is no cp2k.psmp on PATH")
def test_cp2k(application):
    application.sweep = {"Cp2kRestart": application.write}
    done = application.reframe("-r", "-S", "repeats=1")
    print(done.stdout)
    (test,) = application.report()
    print(test)
    assert 0
