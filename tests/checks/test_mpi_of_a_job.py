"""What a job sets for the launcher and the MPI-IO that are there: job/mpi.sh."""

import os
import subprocess

import pytest
from conftest import BENCHIO, OPEN_MPI, ROOT

ROOT_TOO = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
IS_ROOT = os.geteuid() == 0
HYDRA = "HYDRA build details:\n    Version:          4.0.2\n    Release Date: then\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 2\nCopyright 2003-2026\n"
MPIEXEC = "MPT version 2.25\n"


def oversubscribing(name, value):
    return {**(ROOT_TOO if IS_ROOT else {}), name: value}


OF_4 = oversubscribing("OMPI_MCA_rmaps_base_oversubscribe", "1")
OF_5 = oversubscribing("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
OF_5["OMPI_MCA_btl_tcp_disable_family"] = "6"
OF_6 = oversubscribing("PRTE_MCA_mapby", ":oversubscribe")


@pytest.fixture
def ask(tmp_path):
    """ask(what mpirun says, Open MPI's version, its components): what is set, and what is said."""

    def program(name, text):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        file.chmod(0o755)

    def told(mpirun, version="", components=(), is_here=True, library=None, **env):
        program("mpirun", mpirun)
        lines = [f'mca:io:{name}:version:"component:{version}"' for name in components]
        program("ompi_info", "\n".join([f"ompi:version:full:{version}", *lines]))
        program("benchio", f"benchio 0.1.0\nmpiio    {library or f'Open MPI v{version}'}")
        script = (ROOT / "reframe_checks/job/mpi.sh").read_text() + "env -0"
        done = subprocess.run(
            ["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "LAUNCHER": "mpirun", "BENCHIO": "benchio",
                 "IS_HERE": "yes" if is_here else "", "MPI": str(tmp_path / "mpi"), **env},
        )  # fmt: skip
        pairs = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
        names = ("OMPI_", "PRTE_", "I_MPI_")
        chosen = {name: value for name, value in pairs.items() if name.startswith(names)}
        return chosen, (tmp_path / "mpi").read_text().splitlines()

    return told


@pytest.mark.parametrize(
    ("mpirun", "version", "components", "chosen"),
    [
        ("mpirun (Open MPI) 4.1.4\n", "4.1.4", ["romio321", "ompio"],
         {**OF_4, "OMPI_MCA_io": "romio321"}),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", "4.1.4", ["ompio", "romio321"],
         {**OF_4, "OMPI_MCA_io": "romio321"}),
        ("mpirun (Open MPI) 5.0.7\n", "5.0.7", ["ompio", "romio341"],
         {**OF_5, "OMPI_MCA_io": "romio341"}),
        ("mpirun (Open MPI) 6.0.0rc2\n", "6.0.0rc2", ["ompio"], {**OF_6, "OMPI_MCA_io": "ompio"}),
        ("mpirun (Open MPI) 11.0.0\n", "11.0.0", ["ompio"], {**OF_6, "OMPI_MCA_io": "ompio"}),
        ("prterun (PRRTE) 3.0.9\n", "5.0.7", ["romio341"], {**OF_5, "OMPI_MCA_io": "romio341"}),
        ("prterun (PRRTE) 5.0.0rc1\n", "6.0.0", ["ompio"], {**OF_6, "OMPI_MCA_io": "ompio"}),
    ],
)  # fmt: skip
def test_each_open_mpi_gets_its_own_names(ask, mpirun, version, components, chosen):
    told, lines = ask(mpirun, version, components)
    assert told == chosen
    words = ", ".join(f"{name}={value}" for name, value in chosen.items())
    assert lines == [f"{mpirun.strip()}, {words}"]


@pytest.mark.parametrize("mpirun", [HYDRA, INTEL, "slurm 24.11.5\n"])
def test_others_that_are_known_need_nothing(ask, mpirun):
    told, lines = ask(mpirun, library="MPICH Version: 4.0.2")
    assert told == {}
    assert lines[0].startswith(mpirun.split("\n")[0])
    assert len(lines) == 1
    assert "Copyright" not in lines[0]


def test_nothing_is_set_for_one_that_nobody_knows_and_that_is_said(ask):
    told, lines = ask(MPIEXEC, library="HPE MPT 2.25")
    said = "mpirun is of an MPI that is not known (MPT version 2.25): nothing is set for it"
    assert (told, lines) == ({}, ["MPT version 2.25", said])


def test_what_a_site_has_set_stays(ask):
    told, (line,) = ask("mpirun (Open MPI) 4.1.4", "4.1.4", ["romio321"], OMPI_MCA_io="ompio")
    assert told == {**OF_4, "OMPI_MCA_io": "ompio"}
    assert line.endswith("OMPI_MCA_io=ompio")


def test_a_scheduler_knows_its_slots(ask):
    """MPI-IO is chosen there, too, and what no rank has is told of the job."""
    given = {"PRTE_MCA_plm_slurm_args": "--mem=0", "PRTE_MCA_prte_tmpdir_base": "/tmp/1234"}
    told, lines = ask("mpirun (Open MPI) 5.0.7", "5.0.7", ["romio341"], is_here=False, **given)
    assert told == {"OMPI_MCA_io": "romio341", **given}
    assert lines == ["OMPI_MCA_io=romio341, PRTE_MCA_plm_slurm_args=--mem=0"]


def test_another_open_mpi_on_path_is_not_asked(ask):
    told, (_, said) = ask("mpirun (Open MPI) 5.0.7", "5.0.7", ["romio341"],
                          library="Open MPI v4.1.4")  # fmt: skip
    assert told == OF_5
    assert said.startswith("no ompi_info of Open MPI 4.1.4 is here: which MPI-IO is used ")


def test_the_one_that_is_here_is_known():
    """By its real programs, whichever release this is."""
    if not BENCHIO.exists():
        pytest.skip("there is no benchio: run make setup")
    assert OPEN_MPI["OMPI_MCA_io"].startswith(("romio", "ompio"))
