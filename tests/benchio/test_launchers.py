"""Ranks that another MPI's launcher has started: each would be a whole run of one rank."""

import pytest
from conftest import run

#: A stand-in for another MPI's mpirun: so many processes, with what that tells them. Each has
#: a folder of temporary files: Open MPI 4.1 fails in some that make one folder at the same time.
OTHER_MPIRUN = """
temporary=$(mktemp -d)
for rank in 0 1 2; do
    mkdir "$temporary/$rank"
    env TMPDIR="$temporary/$rank" {variables} "$0" "$@" &
    ranks+=($!)
done
code=0
for rank in "${{ranks[@]}}"; do wait "$rank" || code=$?; done
rm -r "$temporary"
exit $code
"""
SMALL = ("--local-size", "8", "--repeats", "1", "--warmup", "0")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ("PMI_SIZE=3 PMI_RANK=$rank", "mpirun of MPICH or Intel MPI (PMI_SIZE=3)"),
        ("MPI_LOCALNRANKS=3 PMI_ID=$rank", "(MPI_LOCALNRANKS=3)"),
        ("SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=$rank", "srun (SLURM_STEP_NUM_TASKS=3)"),
        ("SLURM_STEP_NUM_TASKS=1 PMI_SIZE=3", "(PMI_SIZE=3)"),  # in a step of one task
    ],
)
def test_ranks_that_another_mpi_has_started_are_refused(benchio, directory, variables, words):
    script = OTHER_MPIRUN.format(variables=variables)
    file = directory.parent / "result.json"
    places = ("--dir", directory, "--json", file)
    done = run(["bash", "-c", script, str(benchio), *SMALL, *map(str, places)])
    assert (done.code, len(done.errors)) == (2, 3), done.err
    for error in done.errors:
        assert words in error
        assert "has a world of 1: start it by the launcher of that MPI" in error
    assert not file.exists()
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("variable", ["PMIX_RANK", "PALS_RANKID", "ALPS_APP_PE", "SLURM_PROCID"])
def test_a_rank_that_the_world_does_not_have_is_refused(benchio, directory, variable):
    """Of a launcher that says how many ranks there are by no variable. The first may be alone."""
    done = run(["bash", "-c", OTHER_MPIRUN.format(variables=f"{variable}=$rank"), str(benchio),
                *SMALL, "--dir", str(directory)])  # fmt: skip
    assert done.code == 2, done.err
    assert f"({variable}=1) started it, and its MPI, " in done.err
    assert f"({variable}=2) started it" in done.err


def test_another_mpis_own_launcher_is_refused(benchio, directory, need):
    places = ("--dir", directory, "--json", directory.parent / "result.json")
    done = run([need("mpiexec.mpich"), "-n", "3", benchio, *SMALL, *places])
    refused = "mpirun of MPICH or Intel MPI (PMI_SIZE=3) started it"
    # Open MPI 4.1 fails to begin in some that begin alone at the same time.
    begun = [error for error in done.errors if "before the run began" not in error]
    assert done.code in (2, 7), done.err
    assert begun, done.err
    assert all(refused in error for error in begun), done.err
    assert not (directory.parent / "result.json").exists()


@pytest.mark.parametrize(
    ("ranks", "env"),
    [
        (0, {"SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_PROCID": "0"}),  # an allocation
        (0, {"SLURM_STEP_NUM_TASKS": "1"}),
        (2, {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8"}),  # mpirun, begun in a step
        (2, {"PMI_SIZE": "1", "MPI_LOCALNRANKS": "1"}),  # left by an mpirun around it
        (2, {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "PMI_RANK": "3"}),  # four mpiruns
    ],
)
def test_the_right_launcher_or_none(benchio, mpirun, directory, ranks, env):
    options = (*SMALL, "--dir", str(directory))
    done = mpirun(ranks, *options, env=env) if ranks else run([benchio, *options], env=env)
    assert done.code == 0, done.err
