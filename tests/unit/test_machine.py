"""What a login node says of its nodes, links and software."""

import os

import pytest
from unit.login_node import CONFIG, ETHERNET, INFINIBAND, PBS_PRO, SINFO, TORQUE, files

from iowatch.adopt import machine
from iowatch.adopt.machine import Nodes


def test_partitions_of_slurm():
    found = machine.parse_sinfo(SINFO)
    assert found == [
        Nodes(500, 128, "standard", 1440, default=True),
        Nodes(584, 128, "highmem", 2880),
        Nodes(5, 32, "gpu", 240),  # with and without hyperthreads
        Nodes(2, 128, "gpu", 240),
        Nodes(2, 128, "serial", 30),
        Nodes(1, 40, "interactive", None),
    ]


@pytest.mark.parametrize(
    "text", ["", "sinfo: error: Unable to contact slurm controller", "a|up|1|2"]
)
def test_slurm_that_does_not_answer(text):
    assert machine.parse_sinfo(text) == []


def test_nodes_of_pbs():
    assert machine.parse_pbsnodes(PBS_PRO) == Nodes(2, 48)
    assert machine.parse_pbsnodes(TORQUE) == Nodes(2, 16)
    assert machine.parse_pbsnodes("pbsnodes: Server has no node list") is None


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (2, [1, 2]), (7, [1, 2, 4]), (5000, [2**n for n in range(9)])]
)
def test_node_counts_are_those_of_the_partition(count, expected):
    assert machine.Jobs("Slurm", "slurm", "srun", Nodes(count, 1)).node_counts == expected


def test_time_limit_is_not_above_the_partitions():
    limits = {10: 10, 1440: 30, None: 30}
    for limit, minutes in limits.items():
        assert machine.Jobs("", "", "", Nodes(1, 1, minutes=limit)).minutes == minutes


@pytest.mark.parametrize(
    ("accounting", "mpi", "expected"),
    [
        ("accounting_storage/slurmdbd", "pmix", ("slurm", "srun")),
        ("accounting_storage/none", "pmi2", ("squeue", "srun")),
        ("(null)", "none", ("squeue", "mpirun")),
    ],
)
def test_slurm_with_and_without_accounting_and_pmi(commands, accounting, mpi, expected):
    commands(sinfo=SINFO, scontrol=CONFIG.format(accounting, mpi), qstat="Version: 6.1.2")
    jobs = machine.find_jobs(is_open_mpi_4=True)
    assert (jobs.scheduler, jobs.launcher) == expected
    assert jobs.nodes.partition == "standard"
    assert len(jobs.others) == 5


def test_slurm_without_pmi_starts_other_mpis(commands):
    commands(sinfo=SINFO, scontrol=CONFIG.format("accounting_storage/slurmdbd", "none"))
    assert machine.find_jobs(is_open_mpi_4=False).launcher == "srun"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"qstat": "pbs_version = 19.1.3", "pbsnodes": PBS_PRO, "aprun": ""}, ("pbs", "alps", 48)),
        ({"qstat": "Version: 6.1.2\nCommit: 6f", "pbsnodes": TORQUE}, ("torque", "mpirun", 16)),
        ({"qstat": "pbs_version = 22.05"}, ("pbs", "mpirun", os.cpu_count())),
        ({"bsub": ""}, ("lsf", "mpirun", os.cpu_count())),
        ({"sinfo": "sinfo: error: no controller"}, ("local", "mpirun", os.cpu_count())),
    ],
)
def test_other_schedulers(commands, said, expected):
    commands(**said)
    jobs = machine.find_jobs(is_open_mpi_4=False)
    assert (jobs.scheduler, jobs.launcher, jobs.nodes.cores) == expected
    assert jobs.are_nodes_known == ("pbsnodes" in said or jobs.scheduler == "local")


def test_what_benchio_says():
    text = (
        "benchio 0.1.0\nmpiio   CRAY MPICH 8\nhdf5    not built in\nstream  Cray Fortran : 15.0\n"
    )
    assert machine.parse_benchio_version(text) == machine.Benchio("", ("mpiio", "stream"), "cray")
    assert machine.parse_benchio_version("") == machine.Benchio()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"LMOD_CMD": "/lmod", "MODULES_CMD": "/m"}, "lmod"),
        ({"MODULES_CMD": "/modulecmd.tcl", "MODULESHOME": "/opt/modules"}, "envmod"),
        ({"MODULESHOME": "/opt/modules/3.2.10.6", "MODULE_VERSION": "3.2.10.6"}, "nomod"),
        ({}, "nomod"),
    ],
)
def test_module_systems(commands, env, expected):
    commands(modulecmd="")
    assert machine.modules_system(env) == expected
    is_old = expected == "nomod" and env
    assert machine.init_modules(env) == ("/opt/modules/3.2.10.6/init/bash" if is_old else "")


def test_links(tmp_path):
    assert machine.link_rates(tmp_path) == {}
    files(tmp_path, ETHERNET)
    assert machine.link_rates(tmp_path) == {"eth0": 25, "eth1": 25}
    files(tmp_path, INFINIBAND)
    assert machine.link_rates(tmp_path) == {"mlx5_0:1": 100, "hfi1_0:2": 12.5}
