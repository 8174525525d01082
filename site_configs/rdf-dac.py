"""The UK Research Data Facility's Data Analytic Cluster, as EPCC's white paper measured it.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017).
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code. WP has the filesystems' names and where they are mounted; it
# measured gpfs2 and gpfs3.
PROJECT = "z01"
FILESYSTEMS = [
    {"filesystem": "gpfs1", "path": f"/nerc/{PROJECT}/iowatch"},
    {"filesystem": "gpfs2", "path": f"/epsrc/{PROJECT}/iowatch"},
    {"filesystem": "gpfs3", "path": f"/general/{PROJECT}/iowatch"},
]

BACKENDS = ["mpiio", "hdf5", "netcdf"]
ONE_NODE = [1]  # WP: "jobs cannot span multiple nodes"

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 1, reads=False)

# 40 ranks: the last row of WP's tables 18 and 19. Their others, of 1 to 32 ranks on this node,
# were faster.
# Nothing is read: on one node, GPFS's own cache cannot be told from its disks.
NIGHTLY = {
    "SharedFileWrite": {"backend": BACKENDS, "local_size": [128], "nodes": ONE_NODE},
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": ONE_NODE},
    **PEERS["nightly"],
}
ACCEPTANCE = {
    # WP, tables 18 and 19.
    "SharedFileWrite": {
        "backend": BACKENDS,
        "local_size": [128, 256],
        "nodes": ONE_NODE,
        "ranks_per_node": [1, 2, 4, 8, 16, 32, 40],
    },
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [256],
        "nodes": ONE_NODE,
    },
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": ONE_NODE},
    **PEERS["acceptance"],
}

EVERYWHERE = {
    "type": "gpfs",
    # WP: a node's link, 56 Gbit/s, "or 7 GB/s".
    "peak": 7e9 / MIB,
    "osts": None,
    "cached_reads": False,
    # WP: "40 CPU cores"; it also says two processors of 10 cores, so these are hardware threads.
    "ranks_per_node": 40,
    "keep_days": 400,
    "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
}

site_configuration = {
    "systems": [
        {
            "name": "rdf-dac",
            "descr": "UK-RDF Data Analytic Cluster, DDN GPFS",
            "hostnames": [r"rdf-comp"],  # to confirm
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    # To confirm: WP does not say how jobs are run.
                    "scheduler": "pbs",
                    "launcher": "mpirun",
                    "access": [f"-A {PROJECT}"],
                    "environs": ["gnu"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=4h
                    "extras": {**filesystem, **EVERYWHERE},
                }
                for filesystem in FILESYSTEMS
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu",
            # To confirm: WP names no modules. Here: MPI, parallel HDF5, and its NetCDF.
            "modules": [],
            "target_systems": ["rdf-dac"],
        }
    ],
    "general": [
        {
            "target_systems": ["rdf-dac"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
