"""C3HPC, the cluster in Trieste on which the report "IO Benchmarks" did its exercises.

Report: Espinoza, Bonaldo, Quintana, Barone and Nguruwe, "IO Benchmarks": NetCDF, IOzone, IOR and
Darshan on three filesystems. It names no directory, scheduler, module, network or number of cores.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the user who has the directories.
OWNER = "iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

# What users get who ask for no layout.
TWO_NODES = {"local_size": [128], "nodes": [2]}
AS_IT_IS = {"layout": ["default"], **TWO_NODES}

NAMES = {"items": [100], "files": ["shared", "process"], "nodes": [2]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
STRIPES = {"stripe_count": [1, 2, 4], "stripe_size": [1]}
ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
FILES = {"backend": ["netcdf", "posix"], "files": ["process", "gather"], "nodes": [2]}

# Exercise 1: all processes write at once, or a spokesperson collects and writes (gather), into 1, 2
# and 4 stripes, and reads and distributes. Exercise 2: one OST after the other. Exercise 3: 48
# processes and 48 GB, so 1 GiB each; N -> 1 and N -> N are shared and process. Its 4 and 8
# processes are no full node.
LUSTRE = {
    "nightly": {
        "SharedFileWrite": [
            {**TWO_NODES, "backend": BACKENDS, "stripe_count": [1, -1], "stripe_size": [1]},
            {**AS_IT_IS, "backend": ["mpiio"]},
        ],
        "SharedFileRead": {**TWO_NODES, **ALL_STRIPES, "backend": BACKENDS},
        "ReadBack": {**ALL_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
        "SlowOst": {"stripe_size": [1], "local_size": [128]},
        "Metadata": NAMES,
        **second_opinions(128, 2, ONE_STRIPE, ONE_STRIPE)["nightly"],
    },
    "acceptance": {
        "SharedFileWrite": [
            {**STRIPES, "backend": BACKENDS, "local_size": [128, 512], "nodes": [1, 2]},
            {**AS_IT_IS, "backend": BACKENDS},
        ],
        "SharedFileRead": {**STRIPES, "backend": BACKENDS, "local_size": [128, 512], "nodes": [2]},
        "FilePerProcess": {**FILES, **STRIPES, "local_size": [128, 512]},
        "FilePerProcessRead": {**FILES, **STRIPES, "local_size": [128]},
        "SlowOst": {"stripe_size": [1], "local_size": [512]},
        "Metadata": NAMES,
        **second_opinions(512, 2, STRIPES, ONE_STRIPE)["acceptance"],
    },
}

# Disks of the login node.
NFS = {
    "nightly": {
        "SharedFileWrite": {"backend": BACKENDS, "local_size": [64], "nodes": [2]},
        "SharedFileRead": {"backend": BACKENDS, "local_size": [64], "nodes": [2]},
        "Metadata": NAMES,
        "ReadBack": {"backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
        **second_opinions(64, 2)["nightly"],
    },
    "acceptance": {
        "SharedFileWrite": {"backend": BACKENDS, "local_size": [128, 256], "nodes": [1, 2]},
        "SharedFileRead": {"backend": BACKENDS, "local_size": [128, 256], "nodes": [2]},
        "Metadata": NAMES,
        **second_opinions(256, 2)["acceptance"],
    },
}

# Disks of a node: no other sees them.
LOCAL = {
    "nightly": {
        "SharedFileWrite": {"backend": BACKENDS, "local_size": [64], "nodes": [1]},
        "SharedFileRead": {"backend": BACKENDS, "local_size": [64], "nodes": [1]},
        "Metadata": {**NAMES, "nodes": [1]},
        **second_opinions(64, 1, reads=False)["nightly"],  # IOR would read from the node's cache
    },
    "acceptance": {
        "SharedFileWrite": {"backend": BACKENDS, "local_size": [128, 256], "nodes": [1]},
        "SharedFileRead": {"backend": BACKENDS, "local_size": [128, 256], "nodes": [1]},
        "Metadata": {**NAMES, "nodes": [1]},
        **second_opinions(256, 1, reads=False)["acceptance"],
    },
}

FILESYSTEMS = [
    {
        "filesystem": "lustre",
        "path": f"/lustre/{OWNER}/iowatch",
        "type": "lustre",
        # Exercise 1: with one stripe a file "cannot exceed 400 MB/s"; exercise 2 has four OSTs.
        "peak": 4 * 400e6 / MIB,
        "osts": list(range(4)),
        "suites": LUSTRE,
    },
    {
        "filesystem": "nfs",
        "path": f"/home/{OWNER}/iowatch",
        "type": "nfs",
        # To confirm: ten-gigabit Ethernet of the login node.
        "peak": 10e9 / 8 / MIB,
        "osts": None,
        "suites": NFS,
    },
    {
        "filesystem": "local",
        "path": "/tmp/iowatch",
        "type": ["ext4", "xfs"],
        # To confirm: one disk, so a SATA link of 6 Gbit/s, of which 8 in 10 are data.
        "peak": 6e9 * 8 / 10 / 8 / MIB,
        "osts": None,
        "suites": LOCAL,
    },
]

EVERYWHERE = {
    "cached_reads": False,  # exercise 1 read at 10 GB/s: from memory, as it says itself
    "ranks_per_node": 24,  # to confirm: the report's 48 processes would be two nodes
    "keep_days": 400,
}

site_configuration = {
    "systems": [
        {
            "name": "c3hpc",
            "descr": "C3HPC, Trieste: Lustre, NFS and local disks",
            "hostnames": [r"c3hpc", r"hpc\.c3e"],  # to confirm
            "prefix": str(results()),
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    "scheduler": "torque",  # to confirm
                    "launcher": "mpirun",
                    "access": [],  # to confirm: queue and account, such as "-q NAME"
                    "environs": ["gnu"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=12h
                    "extras": {**filesystem, **EVERYWHERE},
                }
                for filesystem in FILESYSTEMS
            ],
        }
    ],
    # To confirm: "modules", those of MPI, parallel HDF5 and NetCDF; with a "modules_system".
    "environments": [{"name": "gnu", "target_systems": ["c3hpc"]}],
}
site_configuration = shipped(__file__, site_configuration)
