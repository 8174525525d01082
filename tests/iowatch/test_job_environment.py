"""What a job hands over to its ranks, and what these had of it."""

from hashlib import sha256

import pytest
from refusals import assert_refused
from result_file import of_job

from iowatch.measure.job_environment import ASKED, require_variables
from iowatch.measure.result import InvalidResult

SITE = {"OMPI_MCA_io": "ompio", "TOKEN": "secret", "LD_LIBRARY_PATH": "$HOME/lib", "GONE": "1"}
JOB = {"OMPI_MCA_io": "ompio", "TOKEN": "secret", "LD_LIBRARY_PATH": "/home/me/lib"}
RANKS = {
    "OMPI_MCA_io": of_job("ompio", True),
    "TOKEN": of_job("secret"),
    "LD_LIBRARY_PATH": of_job("/opt/mpi/lib:/home/me/lib", True),  # a launcher has put one before
    "GONE": of_job(None),  # a command of the job has unset it
}
CURE = "SLURM_EXPORT_ENV=ALL in 'env_vars', `srun --export=ALL` or `mpirun -x "


@pytest.fixture
def attempt(tmp_path):
    """attempt({name: what the ranks had}, {name: what the job had})"""

    def require(ranks, job=JOB):
        lines = {name: sha256(job[name].encode()).hexdigest()[:16] for name in SITE if name in job}
        text = "".join(f"{name} {lines.get(name, '')}".rstrip() + "\n" for name in SITE)
        (tmp_path / ASKED).write_text(text)
        require_variables({"of_job": {**RANKS, **ranks}}, SITE, tmp_path)

    return require


def test_ranks_that_have_what_their_job_has_are_lawful(attempt, tmp_path):
    attempt({})
    require_variables({"of_job": {}}, {}, tmp_path)


def test_a_rank_that_has_another_value_is_named_with_the_cure(attempt):
    other = {**of_job("ompio", True), "other_rank": 3, "other_host": "n2", "other_value": None}
    assert_refused(
        InvalidResult,
        attempt,
        [
            (
                {"OMPI_MCA_io": of_job(None, True)},
                f"^OMPI_MCA_io: rank 0 had none, where ompio was asked for: .*{CURE}OMPI_MCA_io`$",
            ),
            (
                {"OMPI_MCA_io": of_job("romio321", True)},
                "^OMPI_MCA_io: rank 0 had romio321, where ompio was asked for: ",
            ),
            ({"OMPI_MCA_io": other}, "^OMPI_MCA_io: rank 3 on n2 had none, where ompio was "),
            ({"TOKEN": of_job(None)}, "^TOKEN: rank 0 had none, where that of the job was asked"),
            ({"TOKEN": of_job("s3")}, "^TOKEN: rank 0 had another value, where that of the job "),
            (
                {"LD_LIBRARY_PATH": of_job("/home/me/lib:/opt", True)},
                r"^LD_LIBRARY_PATH: rank 0 had /home/me/lib:/opt, where \$HOME/lib was asked for: ",
            ),
            ({"GONE": of_job("1")}, "^GONE: rank 0 had another value, where none was asked for: "),
        ],
    )


def test_what_nobody_has_noted_is_not_taken_for_equal(attempt, tmp_path):
    environment = {"of_job": RANKS}
    attempt({})
    with pytest.raises(InvalidResult, match=r"^the result says nothing of TOKEN, which the job"):
        require_variables({"of_job": RANKS | {"TOKEN": None}}, SITE, tmp_path)
    (tmp_path / ASKED).unlink()
    with pytest.raises(InvalidResult, match=r"^asked_environment says nothing of OMPI_MCA_io, "):
        require_variables(environment, SITE, tmp_path)
