"""JASMIN's batch cluster Lotus, as EPCC's white paper measured it in 2017.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017). How jobs are run is not in WP: it is from CEDA's help pages and
users' job scripts of those days. Today Lotus has Slurm.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the group workspace.
WORKSPACE = "hpctests"
PATH = f"/group_workspaces/jasmin2/{WORKSPACE}/iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

# WP, table 20: 16 and 32 ranks, MPI-IO alone; also 1, 2, 4 and 8 ranks on one node.
NODES = [1, 2]

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2)

NIGHTLY = {
    "SharedFileWrite": {"backend": BACKENDS, "local_size": [256], "nodes": [1]},
    "SharedFileRead": {"backend": BACKENDS, "local_size": [128], "nodes": [2]},
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": [2]},
    "ReadBack": {"backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    **PEERS["nightly"],
}
ACCEPTANCE = {
    # WP, table 20: 1 to 32 ranks.
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "local_size": [128, 256],
            "nodes": [1],
            "ranks_per_node": [1, 2, 4, 8, 16],
        },
        {"backend": BACKENDS, "local_size": [128, 256], "nodes": [2]},
    ],
    "SharedFileRead": {"backend": BACKENDS, "local_size": [128, 256], "nodes": [2]},
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [256],
        "nodes": NODES,
    },
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": NODES},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "jasmin",
            "descr": "JASMIN Lotus in 2017, Panasas",
            "hostnames": [r"jasmin-sci\d+"],
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "group",
                    "scheduler": "lsf",
                    "launcher": "mpirun",
                    "access": ["-q par-multi", "-x"],
                    "environs": ["intel"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=4h
                    "prepare_cmds": ['mpirun() { mpirun.lotus "$@"; }'],  # Lotus's own launcher
                    "extras": {
                        "filesystem": "group",
                        "path": PATH,
                        "type": "panfs",
                        # WP: 10 Gbit/s, "1.25 GB/s", "the theoretical limit": that of a node.
                        "peak": max(NODES) * 1.25e9 / MIB,
                        "osts": None,
                        "cached_reads": False,
                        # To confirm: WP says 8-core processors, and not how many a node has.
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
            # To confirm: WP names no modules. Here: MPI, parallel HDF5, and its NetCDF.
            "modules": [],
            "target_systems": ["jasmin"],
        }
    ],
    "general": [
        {
            "target_systems": ["jasmin"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
