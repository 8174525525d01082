"""ARCHER2, the HPE Cray EX that followed ARCHER: five Lustre filesystems, Slurm.

Guide: the ARCHER2 user guide, https://docs.archer2.ac.uk/user-guide/, as of June 2026: its pages
"Hardware", "I/O performance and tuning", "Data management" and "Running jobs". By it, the service
ends in November 2026.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the project's code, and that it has a directory on all five: most projects have one.
# Compute nodes do not see /home (Guide, Data): the checkout belongs on /work as well.
PROJECT = "z01"
ACCOUNT = f"--account={PROJECT}"

LINK = 2 * 100e9 / 8  # bytes/s of a node; Guide, Hardware: two 100 Gbit/s ports
NODES = [1, 2, 4, 8, 16]
# The Guide states no peak of a filesystem. To confirm: that of its servers is lower, and a better
# guard. On 16 nodes the Guide has up to 200 GiB/s, file per process, NVMe.
PEAK = max(NODES) * LINK / MIB

FILESYSTEMS = [
    # Guide, I/O: "fully striped file (across all 12 OSTs)"; default stripe count 1, size 1 MiB.
    *({"filesystem": f"work{number}", "osts": list(range(12))} for number in (1, 2, 3, 4)),
    # To confirm with `lfs osts`: the Guide does not say how many OSTs it has.
    {"filesystem": "nvme", "osts": list(range(20))},
]

BACKENDS = ["mpiio", "hdf5", "netcdf"]
SIZE = "128x128x256"  # 32 MiB: what EPCC's own regular tests write per process (Guide, I/O)

ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
NAMES = {"items": [100], "files": ["shared", "process"]}

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], "local_size": [SIZE], "nodes": [1]}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(SIZE, 2, ALL_STRIPES, ONE_STRIPE)

NIGHTLY = {
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "stripe_count": [1, -1],
            "stripe_size": [1],
            "local_size": [SIZE],
            "nodes": [1],
        },
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "SharedFileRead": {**ALL_STRIPES, "backend": BACKENDS, "local_size": [SIZE], "nodes": [2]},
    "ReadBack": {**ALL_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    "FilePerProcess": {
        **ONE_STRIPE,
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [SIZE],
        "nodes": [1],
    },
    "SlowOst": {"stripe_size": [1], "local_size": [SIZE]},
    "SlowNode": {**ALL_STRIPES, "local_size": [64], "nodes": [16]},
    "Metadata": {**NAMES, "nodes": [2]},
    **PEERS["nightly"],
}

# What users do, besides what is fastest. Independent transfers and independent metadata are the
# default of the libraries, and what a program does that asks for nothing.
ONE_FILE = {**ALL_STRIPES, "local_size": [SIZE], "nodes": [4]}
AS_USERS_WRITE = [
    {**ONE_FILE, "backend": ["hdf5", "netcdf"], "collective": [False]},
    {**ONE_FILE, "backend": ["hdf5"], "collective_metadata": [False]},
    {**ONE_FILE, "backend": ["hdf5"], "flush": [True]},
    {**ONE_FILE, "backend": ["hdf5", "netcdf"], "chunk": [64]},
    {**ONE_FILE, "backend": BACKENDS, "transfer": ["4MiB"]},
    {
        **ONE_FILE,
        "backend": ["mpiio"],
        "hints": [{"romio_cb_write": "enable", "romio_ds_write": "disable"}],
    },
]

# With 16 nodes, SIZE and 1 MiB, both "typical performances" of the Guide: a file per process with
# one stripe, and a shared file with all of them.
ACCEPTANCE = {
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "stripe_count": [1, -1],
            "stripe_size": [1, 4, 8],
            "local_size": [SIZE, 256],
            "nodes": NODES,
        },
        *AS_USERS_WRITE,
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {
        "backend": BACKENDS,
        "stripe_count": [1, -1],
        "stripe_size": [1],
        "local_size": [SIZE],
        "nodes": [2, 4, 8, 16],
    },
    "FilePerProcess": {
        "backend": ["posix"],
        "files": ["process", "node"],
        **ONE_STRIPE,
        "local_size": [SIZE],
        "nodes": NODES,
    },
    "SystemLoad": {
        **ALL_STRIPES,
        "backend": ["mpiio"],
        "local_size": [SIZE],
        "nodes": [4, 16],
        "instances": [1, 2, 4],
    },
    "SlowOst": {"stripe_size": [1], "local_size": [SIZE]},
    "Metadata": {**NAMES, "nodes": [2, 8, 16]},
    **PEERS["acceptance"],
}

EVERYWHERE = {
    "type": "lustre",
    "peak": PEAK,
    "cached_reads": False,
    "ranks_per_node": 128,  # Guide, Hardware: cores of a node
    "keep_days": 400,
    "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
}

site_configuration = {
    "systems": [
        {
            "name": "archer2",
            "descr": "ARCHER2, HPE Cray EX, Lustre",
            "hostnames": [r"ln\d\d", r"uan\d\d"],
            "prefix": str(results()),
            "modules_system": "lmod",
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    "scheduler": "slurm",
                    "launcher": "srun",
                    # Guide, Running jobs.
                    "access": [
                        ACCOUNT,
                        "--partition=standard",
                        "--qos=standard",
                        "--hint=nomultithread",
                        "--distribution=block:block",
                        "--exclusive",
                    ],
                    "environs": ["cray"],
                    "max_jobs": 1,
                    "time_limit": "20m",  # acceptance: -S time_limit=6h
                    "extras": {
                        "path": f"/mnt/lustre/a2fs-{filesystem['filesystem']}"
                        f"/work/{PROJECT}/{PROJECT}/shared/iowatch",
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
            "modules": ["PrgEnv-cray", "cray-hdf5-parallel", "cray-netcdf-hdf5parallel"],
            # Guide, I/O: "always" to be set for a single shared file.
            "env_vars": [
                ["FI_OFI_RXM_SAR_LIMIT", "64K"],
                [
                    "MPICH_MPIIO_HINTS",
                    "'*:cray_cb_write_lock_mode=2,*:cray_cb_nodes_multiplier=4'",
                ],
            ],
            "target_systems": ["archer2"],
        }
    ],
    "general": [
        # `module load` in the job script, and no Lmod needed to list the checks or to see it.
        {"target_systems": ["archer2"], "resolve_module_conflicts": False}
    ],
}
site_configuration = shipped(__file__, site_configuration)
