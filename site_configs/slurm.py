"""Any Slurm cluster: copy this file, name it like the new system, and replace what is marked.

It can be listed and dry-run as it is. `iowatch docs howto/site` explains the keys, with the steps;
`iowatch site new NAME` writes such a file from what it finds on a login node.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import learning, second_opinions

MIB = 2**20

# Replace: what `sbatch` wants of every job. No other job may share the nodes.
ACCESS = ["--account=NAME", "--partition=standard", "--exclusive"]

# Replace: cores of a node, all of which write.
RANKS_PER_NODE = 64

# Replace: what a node's links can carry, in bytes/s; here one of 100 Gbit/s.
LINK = 100e9 / 8

BACKENDS = ["mpiio", "hdf5", "netcdf"]
NODES = [1, 2, 4]  # node counts of the acceptance test
COMPARED = 16  # nodes that SlowNode compares in a night

# A few minutes every night. Reads are from two nodes: what one node wrote, its cache may return.
NIGHTLY = {
    "SharedFileWrite": [{"backend": BACKENDS, "local_size": [128], "nodes": [2]}],
    "SharedFileRead": [{"backend": BACKENDS, "local_size": [128], "nodes": [2]}],
    # What last night has written: is it still there, and how fast is it read?
    "ReadBack": [{"backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]}],
}

# What users do, besides what is fastest. Independent transfers and independent metadata are the
# default of the libraries, and what a program does that asks for nothing.
ONE_FILE = {"local_size": [128], "nodes": [2]}
AS_USERS_WRITE = [
    {**ONE_FILE, "backend": ["hdf5", "netcdf"], "collective": [False]},
    {**ONE_FILE, "backend": ["hdf5"], "collective_metadata": [False]},
    {**ONE_FILE, "backend": ["hdf5"], "flush": [True]},
    {**ONE_FILE, "backend": ["hdf5", "netcdf"], "chunk": [64]},
    # Replace: the hints that your users are told to set.
    {**ONE_FILE, "backend": ["mpiio"], "hints": [{"romio_cb_write": "enable"}]},
]
ACCEPTANCE = {
    "SharedFileWrite": [
        {"backend": BACKENDS, "local_size": [128, 256], "nodes": NODES},
        *AS_USERS_WRITE,
    ],
    "SharedFileRead": [{"backend": BACKENDS, "local_size": [256], "nodes": [2, 4]}],
    "FilePerProcess": [
        {"backend": ["posix"], "files": ["process"], "local_size": [256], "nodes": NODES},
    ],
}

# Names, which have no stripes. Of a Lustre with several MDTs: list them as "mdts" in its extras,
# and here as "mdt".
NAMES = {"Metadata": {"items": [100], "files": ["shared", "process"], "nodes": [2]}}

# Programs that learn: shuffled samples, the files of an environment, and a checkpoint.
LEARNING = learning(samples=400, files=5000, nodes=2)
STRIPED_LEARNING = learning(samples=400, files=5000, nodes=2, layout={"layout": ["default"]})

# Two minutes of one core every hour, if cron runs `iowatch run --suite hourly`.
HOURLY = {"Latency": {"seconds": [120]}}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2)
ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
STRIPED_PEERS = second_opinions(128, 2, ALL_STRIPES, ONE_STRIPE)


def striped(suite, stripe_count, stripe_size):
    """The same on Lustre, with these stripe counts and sizes, and once as users get it who ask for
    no layout."""
    striping = {"stripe_count": stripe_count, "stripe_size": stripe_size}
    checks = {check: [{**one, **striping} for one in every] for check, every in suite.items()}
    as_it_is = {**ONE_FILE, "backend": ["mpiio"], "layout": ["default"]}
    return {**checks, "SharedFileWrite": [*checks["SharedFileWrite"], as_it_is]}


FILESYSTEMS = [
    {
        # Replace: a Lustre filesystem, and the numbers of its OSTs that `lfs osts` calls active.
        "filesystem": "scratch",
        "path": "/scratch/NAME/iowatch",
        "type": "lustre",
        "osts": list(range(16)),
        # Replace: what the vendor states for its servers, if that is less.
        "peak": max(COMPARED, *NODES) * LINK / MIB,
        "suites": {
            "nightly": {
                **striped(NIGHTLY, [1, -1], [1]),
                **NAMES,
                **STRIPED_LEARNING["nightly"],
                **STRIPED_PEERS["nightly"],
                "SlowOst": {"stripe_size": [1], "local_size": [64]},
                "SlowNode": {**ALL_STRIPES, "local_size": [64], "nodes": [COMPARED]},
            },
            "acceptance": {
                **striped(ACCEPTANCE, [1, -1], [1, 4]),
                **NAMES,
                **STRIPED_LEARNING["acceptance"],
                **STRIPED_PEERS["acceptance"],
                "SlowOst": {"stripe_size": [1], "local_size": [128]},
            },
            "hourly": HOURLY,
        },
    },
    {
        # Replace, or remove: one that is not striped; GPFS is "gpfs", BeeGFS "beegfs".
        "filesystem": "project",
        "path": "/project/NAME/iowatch",
        "type": "gpfs",
        "osts": None,
        "peak": max(NODES) * LINK / MIB,
        "suites": {
            "nightly": {**NIGHTLY, **NAMES, **LEARNING["nightly"], **PEERS["nightly"]},
            "acceptance": {**ACCEPTANCE, **NAMES, **LEARNING["acceptance"], **PEERS["acceptance"]},
            "hourly": HOURLY,
        },
    },
]

site_configuration = {
    "systems": [
        {
            "name": "slurm",
            "descr": "Template of a Slurm cluster",
            "hostnames": [],  # Replace: login nodes, such as r"login\d+"
            "prefix": str(results()),
            "modules_system": "lmod",  # or "envmod" (Environment Modules), or "nomod"
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    "scheduler": "slurm",  # "squeue" where there is no accounting
                    "launcher": "srun",
                    "access": ACCESS,
                    "environs": ["gnu"],
                    "max_jobs": 1,  # jobs on one filesystem take turns
                    "time_limit": "30m",  # acceptance: -S time_limit=12h
                    "extras": {
                        **filesystem,
                        "cached_reads": False,
                        "ranks_per_node": RANKS_PER_NODE,
                        "keep_days": 400,
                    },
                }
                for filesystem in FILESYSTEMS
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu",
            # Replace: the modules that benchio was built with.
            "modules": ["gcc", "openmpi", "hdf5", "netcdf-c"],
            "target_systems": ["slurm"],
        }
    ],
    "general": [
        # `module load` in the job script, and no Lmod needed to list the checks or to see it.
        {"target_systems": ["slurm"], "resolve_module_conflicts": False}
    ],
}
site_configuration = shipped(__file__, site_configuration)
