"""COSMA5, DiRAC's cosmology machine in Durham, as EPCC's white paper measured it in 2017.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017). How jobs are run is not in WP: it is from its users' job
scripts of those days. The COSMA5 of today is another machine.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code, and its directory.
PROJECT = "dr000"
PATH = f"/cosma5/data/{PROJECT}/iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2)

# Two nodes, 32 ranks: a row of WP's table 15.
NIGHTLY = {
    "SharedFileWrite": {"backend": BACKENDS, "local_size": [128], "nodes": [2]},
    "SharedFileRead": {"backend": BACKENDS, "local_size": [128], "nodes": [2]},
    "ReadBack": {"backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [128],
        "nodes": [2],
    },
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": [2]},
    **PEERS["nightly"],
}

# Table 15, of MPI-IO alone "due to time constraints". Its totals are those of ARCHER's 24 ranks
# a node, so its local size is open; table 21 has other, lower figures of the same machine.
NODES = [1, 2, 4, 8, 16, 32, 64, 128]
ACCEPTANCE = {
    "SharedFileWrite": {"backend": BACKENDS, "local_size": [128, 256], "nodes": NODES},
    "SharedFileRead": {"backend": BACKENDS, "local_size": [256], "nodes": [2, 4, 16, 64]},
    # The paper's talk (Turner, "CSE Benchmarking"): 1024 MiB a process.
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [512],
        "nodes": [1, 4, 16, 64],
    },
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": [2, 16, 64]},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "cosma5",
            "descr": "COSMA5 in 2017, DDN GPFS",
            "hostnames": [r"login5[a-z]"],  # to confirm
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "data",
                    "scheduler": "lsf",
                    "launcher": "mpirun",
                    "access": ["-q cosma5", f"-P {PROJECT}", "-x"],
                    "environs": ["intel"],
                    "max_jobs": 1,
                    "time_limit": "20m",  # acceptance: -S time_limit=24h
                    "extras": {
                        "filesystem": "data",
                        "path": PATH,
                        "type": "gpfs",
                        # WP: "theoretical maximum performance is 20 GB/s"; the talk has GiB/s.
                        "peak": 20e9 / MIB,
                        "osts": None,  # WP: GPFS cannot be tuned by users as Lustre can
                        "cached_reads": False,
                        "ranks_per_node": 16,
                        "keep_days": 400,
                        "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
                    },
                }
            ],
        }
    ],
    "environments": [
        {
            "name": "intel",
            # To confirm: WP names no modules.
            "modules": ["intel_comp/c5/2017", "intel_mpi/2017", "parallel_hdf5", "parallel_netcdf"],
            "target_systems": ["cosma5"],
        }
    ],
    "general": [
        {
            "target_systems": ["cosma5"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
