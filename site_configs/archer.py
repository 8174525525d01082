"""ARCHER, the Cray XC30 on which EPCC's white paper measured most of its tables.

WP: Lawrence et al., "Parallel I/O Performance Benchmarking and Investigation on Multiple HPC
Architectures", version 1.4 (2017). Slides: Turner, "CSE Benchmarking", its talk on the same runs.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code. Compute nodes saw no /home: the checkout belongs on /work as well.
PROJECT = "z01"
ACCOUNT = f"-A {PROJECT}"

# WP, "HPC Systems": OSTs, and "theoretical sustained" GB/s of 6 and 7 scalable storage units.
FILESYSTEMS = [
    {"filesystem": "fs2", "osts": list(range(48)), "peak": 30e9 / MIB},
    {"filesystem": "fs3", "osts": list(range(48)), "peak": 30e9 / MIB},
    {"filesystem": "fs4", "osts": list(range(56)), "peak": 35e9 / MIB},
]

BACKENDS = ["mpiio", "hdf5", "netcdf"]
DEFAULT = 4  # stripe count; the default stripe size is 1 MiB
ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
TWO_NODES = {"local_size": [128], "nodes": [2]}
NAMES = {"items": [100], "files": ["shared", "process"]}

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], **TWO_NODES}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2, ALL_STRIPES, ONE_STRIPE)

# Two nodes, 48 ranks: a row of WP's tables 1 to 4, 7 and 8.
NIGHTLY = {
    "SharedFileWrite": [
        {**TWO_NODES, "backend": BACKENDS, "stripe_count": [DEFAULT, -1], "stripe_size": [1]},
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "SharedFileRead": {**TWO_NODES, **ALL_STRIPES, "backend": BACKENDS},
    "ReadBack": {**ALL_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    # Slides: with more than one stripe, a file per process failed at random.
    "FilePerProcess": {**TWO_NODES, **ONE_STRIPE, "backend": ["posix"], "files": ["process"]},
    "SlowOst": {"stripe_size": [1], "local_size": [64]},
    "Metadata": {**NAMES, "nodes": [2]},
    **PEERS["nightly"],
}

NODES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
TABLES_3_TO_10 = {"backend": BACKENDS, "stripe_size": [1, 4, 8], "local_size": [128, 256]}
TABLES_1_AND_2 = {"backend": ["mpiio"], "stripe_size": [1], "local_size": [128]}
ACCEPTANCE = {
    "SharedFileWrite": [
        {**TABLES_3_TO_10, "stripe_count": [1, DEFAULT, -1], "nodes": NODES},
        # Their last row: there, a single stripe would take longer than a job may.
        {**TABLES_3_TO_10, "stripe_count": [-1], "nodes": [512]},
        # The last rows of tables 1 and 2.
        {**TABLES_1_AND_2, "stripe_count": [DEFAULT], "nodes": [512, 1024]},
        {**TABLES_1_AND_2, "stripe_count": [-1], "nodes": [1024]},
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {
        "backend": BACKENDS,
        "stripe_count": [DEFAULT, -1],
        "stripe_size": [1],
        "local_size": [256],
        "nodes": [2, 4, 16, 64],
    },
    # Slides: 1024 MiB a process.
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process"],
        "stripe_count": [1, DEFAULT, -1],
        "stripe_size": [1],
        "local_size": [512],
        "nodes": [1, 2, 4, 8, 16, 32, 64],
    },
    # Tables 11 and 12.
    "SystemLoad": {
        **ALL_STRIPES,
        "backend": ["mpiio"],
        "local_size": [256],
        "nodes": [*NODES, 512],
        "instances": [1, 2, 4],
    },
    "SlowOst": {"stripe_size": [1], "local_size": [128]},
    "Metadata": {**NAMES, "nodes": [2, 16, 64]},
    **PEERS["acceptance"],
}

EVERYWHERE = {
    "type": "lustre",
    "cached_reads": False,
    "ranks_per_node": 24,  # WP: all cores of a node
    "keep_days": 400,
    "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
}

site_configuration = {
    "systems": [
        {
            "name": "archer",
            "descr": "ARCHER, Cray XC30, Sonexion Lustre",
            "hostnames": [r"eslogin\d+"],
            "prefix": str(results()),
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    "scheduler": "pbs",
                    "launcher": "alps",
                    "access": [ACCOUNT],
                    "environs": ["cray"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=24h
                    "extras": {
                        # To confirm: WP names no directory.
                        "path": f"/{filesystem['filesystem']}/{PROJECT}/iowatch",
                        **filesystem,
                        **EVERYWHERE,
                    },
                }
                for filesystem in FILESYSTEMS
            ],
        }
    ],
    "environments": [
        {
            "name": "cray",
            # WP, "ARCHER Performance". NetCDF 4.3.3.1, the default there, stays at 1 GiB/s.
            "modules": [
                "PrgEnv-cray/5.2.56",
                "cce/8.4.1",
                "cray-mpich/7.2.6",
                "cray-hdf5-parallel/1.8.16",
                "cray-netcdf-hdf5parallel/4.4.0",
            ],
            "target_systems": ["archer"],
        }
    ],
    "general": [
        {
            "target_systems": ["archer"],
            # Else ReFrame asks the modules system for conflicts, and it refuses Modules 3.2.
            "resolve_module_conflicts": False,
            "use_login_shell": True,  # else a job knows no `module`
        }
    ],
}
site_configuration = shipped(__file__, site_configuration)
