"""Cirrus, EPCC's Tier-2 system, as the white paper measured it in 2017.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017): an SGI ICE XA, 280 nodes of 36 cores, DDN EXAScaler Lustre. How
jobs are run is not in WP: it is from the Cirrus user guide of those days. Today Cirrus has Slurm.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code, and its directory.
PROJECT = "z01"
PATH = f"/lustre/home/{PROJECT}/iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
NAMES = {"items": [100], "files": ["shared", "process"]}

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], "local_size": [256], "nodes": [1]}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2, ALL_STRIPES, ONE_STRIPE)

# One node, 36 ranks: a row of WP's tables 13 and 14. Without stripes it writes 0.6 GiB/s.
NIGHTLY = {
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "stripe_count": [1, -1],
            "stripe_size": [1],
            "local_size": [256],
            "nodes": [1],
        },
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "SharedFileRead": {**ALL_STRIPES, "backend": BACKENDS, "local_size": [128], "nodes": [2]},
    "ReadBack": {**ALL_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    "SlowOst": {"stripe_size": [1], "local_size": [64]},
    "Metadata": {**NAMES, "nodes": [2]},
    **PEERS["nightly"],
}

# Tables 13 and 14; 128 nodes there with stripes only. They also have 1 and 16 ranks on one node.
NODES = [1, 2, 4, 8, 16, 32, 64, 128]
TABLES = {
    "backend": BACKENDS,
    "stripe_count": [1, -1],
    "stripe_size": [1, 4, 8],
    "local_size": [128, 256],
}
ACCEPTANCE = {
    "SharedFileWrite": [
        {**TABLES, "nodes": [1], "ranks_per_node": [1, 16, 36]},
        {**TABLES, "nodes": NODES[1:]},
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {
        "backend": BACKENDS,
        "stripe_count": [1, -1],
        "stripe_size": [1],
        "local_size": [256],
        "nodes": [2, 4, 16, 64],
    },
    "SlowOst": {"stripe_size": [1], "local_size": [128]},
    "Metadata": {**NAMES, "nodes": [2, 16, 64]},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "cirrus",
            "descr": "Cirrus in 2017, SGI ICE XA, DDN Lustre",
            "hostnames": [r"cirrus-login\d+"],
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "lustre",
                    "scheduler": "pbs",
                    "launcher": "mpiexec",
                    "access": [f"-A {PROJECT}", "-l place=scatter:excl"],
                    "environs": ["intel"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=48h
                    # SGI MPT's own launcher. Up to MPT 2.17 -ppn follows -n, later it precedes it.
                    "prepare_cmds": [
                        'mpiexec() { mpiexec_mpt "$1" "$2" -ppn 36 "${@:3}"; }',
                    ],
                    "extras": {
                        "filesystem": "lustre",
                        "path": PATH,
                        "type": "lustre",
                        "peak": 10 * 1024,  # WP: "peak theoretical bandwidth of 10 GiB/s"
                        "osts": list(range(14)),  # WP; default stripe count 1, size 1 MiB
                        "cached_reads": False,
                        "ranks_per_node": 36,
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
            # To confirm: WP names no modules. MPT and the compilers are those of the user guide.
            "modules": ["intel-compilers-17", "mpt", "hdf5parallel", "netcdf-parallel"],
            "target_systems": ["cirrus"],
        }
    ],
    "general": [
        {
            "target_systems": ["cirrus"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
