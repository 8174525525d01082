"""CephFS, as a centre with a Slurm cluster may run it: copy this file, name it like the new system,
and replace what is marked.

It can be listed and dry-run as it is. `iowatch docs howto/site` explains the keys, with the steps.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# Replace: what `sbatch` wants of every job. No other job may share the nodes.
ACCESS = ["--account=NAME", "--partition=standard", "--exclusive"]

# Replace: cores of a node, all of which write.
RANKS_PER_NODE = 64

# Replace: what a node's links can carry, in bytes/s; here one of 100 Gbit/s.
LINK = 100e9 / 8

# Replace: the numbers of the OSDs that `ceph osd tree` calls up, by the device that they are on.
FLASH = [0, 1]
DISK = [2, 3]

# Replace: the data pools that `ceph fs ls` names and users may choose, with the OSDs that the CRUSH
# rule of each takes.
POOLS = {"flash": FLASH, "disk": DISK}
# Replace, or remove with SlowOst: pools of one OSD each, which nobody uses but SlowOst. For each
# OSD an administrator makes a CRUSH rule that takes it alone, and a pool of size 1 with that rule.
POOLS |= {f"osd.{number}": [number] for number in (*FLASH, *DISK)}

BACKENDS = ["mpiio", "hdf5", "netcdf"]
NODES = [1, 2, 4]  # node counts of the acceptance test

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], "local_size": [128], "nodes": [2]}
# Of one pool each, for what is on flash and on disk is not to be compared. What is called stripe
# size here is CephFS' stripe_unit.
FAST = {"stripe_count": [1, -1], "stripe_size": [4], "pool": ["flash"]}
LARGE = {"stripe_count": [-1], "stripe_size": [4], "pool": ["disk"]}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2, LARGE, {**FAST, "stripe_count": [1]})

# A few minutes every night. Reads are from two nodes: what one node wrote, its cache may return.
NIGHTLY = {
    "SharedFileWrite": [
        {**FAST, "backend": BACKENDS, "local_size": [128], "nodes": [2]},
        {**LARGE, "backend": ["mpiio"], "local_size": [128], "nodes": [2]},
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "SharedFileRead": {**FAST, "backend": BACKENDS, "local_size": [128], "nodes": [2]},
    # What last night has written: is it still there, and how fast is it read?
    "ReadBack": {**FAST, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    "SlowOst": {"stripe_size": [4], "local_size": [64]},
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": [2]},
    **PEERS["nightly"],
}
ACCEPTANCE = {
    "SharedFileWrite": [
        {**FAST, "backend": BACKENDS, "local_size": [128, 256], "nodes": NODES},
        {**LARGE, "backend": BACKENDS, "local_size": [128, 256], "nodes": NODES},
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {**FAST, "backend": BACKENDS, "local_size": [256], "nodes": [2, 4]},
    "FilePerProcess": {
        **FAST,
        "backend": ["posix"],
        "files": ["process"],
        "local_size": [256],
        "nodes": NODES,
    },
    "SlowOst": {"stripe_size": [4], "local_size": [128]},
    "Metadata": {"items": [100], "files": ["shared", "process"], "nodes": NODES},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "cephfs",
            "descr": "Template of a Slurm cluster with CephFS",
            "hostnames": [],  # Replace: login nodes, such as r"login\d+"
            "prefix": str(results()),
            "modules_system": "lmod",  # or "envmod" (Environment Modules), or "nomod"
            "partitions": [
                {
                    "name": "scratch",
                    "scheduler": "slurm",  # "squeue" where there is no accounting
                    "launcher": "srun",
                    "access": ACCESS,
                    "environs": ["gnu"],
                    "max_jobs": 1,  # jobs on one filesystem take turns
                    "time_limit": "30m",  # acceptance: -S time_limit=12h
                    "extras": {
                        "filesystem": "scratch",
                        # Replace: a directory whose layout is what users have. Who writes there
                        # needs the right to set layouts: the capability `allow rwp` of the client.
                        "path": "/cephfs/NAME/iowatch",
                        "type": "ceph",  # the kernel's client; of ceph-fuse it is "fuse"
                        "osts": [*FLASH, *DISK],
                        "pools": POOLS,
                        # Replace: what the OSDs' devices or their links can carry, if that is less.
                        "peak": max(NODES) * LINK / MIB,
                        "cached_reads": False,
                        "ranks_per_node": RANKS_PER_NODE,
                        "keep_days": 400,
                        "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
                    },
                }
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu",
            # Replace: the modules that benchio was built with.
            "modules": ["gcc", "openmpi", "hdf5", "netcdf-c"],
            "target_systems": ["cephfs"],
        }
    ],
    "general": [
        # `module load` in the job script, and no Lmod needed to list the checks or to see it.
        {"target_systems": ["cephfs"], "resolve_module_conflicts": False}
    ],
}
site_configuration = shipped(__file__, site_configuration)
