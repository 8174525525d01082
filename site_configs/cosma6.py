"""COSMA6, DiRAC's cosmology machine in Durham, as EPCC's white paper measured it in 2017.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017). How jobs are run is not in WP: it is taken from COSMA5.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code, and its directory.
PROJECT = "dr000"
PATH = f"/cosma6/data/{PROJECT}/iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

EIGHT_STRIPES = {"stripe_count": [8], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
TWO_NODES = {"local_size": [128], "nodes": [2]}
NAMES = {"items": [100], "files": ["shared", "process"]}

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], **TWO_NODES}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2, EIGHT_STRIPES, ONE_STRIPE)

# Two nodes, 32 ranks: a row of WP's table 17. Not all 120 OSTs, which reached a twentieth of it
# (table 16): up to 2048 ranks WP found 8 to 10 stripes best.
NIGHTLY = {
    "SharedFileWrite": [
        {**TWO_NODES, "backend": BACKENDS, "stripe_count": [1, 8], "stripe_size": [1]},
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "SharedFileRead": {**TWO_NODES, **EIGHT_STRIPES, "backend": BACKENDS},
    "Metadata": {**NAMES, "nodes": [2]},
    "ReadBack": {**EIGHT_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    **PEERS["nightly"],
}

# Tables 16 and 17, of MPI-IO alone. Their totals are those of ARCHER's 24 ranks a node with 256
# cubed each; the local size itself is not stated.
ACCEPTANCE = {
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "stripe_count": [1, 2, 4, 6, 8, 10, 20, 30, 60, -1],
            "stripe_size": [1],
            "local_size": [128, 256],
            "nodes": [1, 2, 4, 8, 16, 32, 64, 128, 256],
        },
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {
        "backend": BACKENDS,
        "stripe_count": [8, -1],
        "stripe_size": [1],
        "local_size": [256],
        "nodes": [2, 4, 16, 64],
    },
    # Three rounds over 120 OSTs: too long for every night.
    "SlowOst": {"stripe_size": [1], "local_size": [128]},
    "Metadata": {**NAMES, "nodes": [2, 16, 64]},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "cosma6",
            "descr": "COSMA6 in 2017, DDN EXAScaler Lustre",
            "hostnames": [r"login6[a-z]"],  # to confirm
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "data",
                    "scheduler": "lsf",
                    "launcher": "mpirun",
                    "access": ["-q cosma6", f"-P {PROJECT}", "-x"],
                    "environs": ["intel"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=72h
                    "extras": {
                        "filesystem": "data",
                        "path": PATH,
                        "type": "lustre",
                        # To confirm: WP postpones the theoretical maximum. What it states allows
                        # no more than this: 8 servers, each on one FDR10 link of 40 Gbit/s.
                        "peak": 8 * 40e9 / 8 / MIB,
                        "osts": list(range(120)),  # WP; default stripe count 1, size 1 MiB
                        "cached_reads": False,
                        "ranks_per_node": 16,  # WP: 8000 cores in 500 nodes
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
            "target_systems": ["cosma6"],
        }
    ],
    "general": [
        {
            "target_systems": ["cosma6"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
