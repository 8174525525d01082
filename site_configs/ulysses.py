"""Ulysses, SISSA's cluster, where the report "IO Benchmarks" measured each OST.

Report: Espinoza, Bonaldo, Quintana, Barone and Nguruwe, "IO Benchmarks", exercise 2: IOzone on two
OSTs, one at a time. How jobs are run is not in it: that is from users' notes on the old Ulysses.
"""

from iowatch.base.places import results, shipped
from iowatch.site.usual_suites import second_opinions

MIB = 2**20

# To confirm: the user who has the directory.
OWNER = "iowatch"
PATH = f"/scratch/{OWNER}/iowatch"

BACKENDS = ["mpiio", "hdf5", "netcdf"]

NODES = [1, 2, 4]
ALL_STRIPES = {"stripe_count": [-1], "stripe_size": [1]}
ONE_STRIPE = {"stripe_count": [1], "stripe_size": [1]}
TWO_NODES = {"local_size": [128], "nodes": [2]}
NAMES = {"items": [100], "files": ["shared", "process"]}

# What users get who ask for no layout.
AS_IT_IS = {"layout": ["default"], **TWO_NODES}

# IOR beside benchio, and profiles, where these programs are.
PEERS = second_opinions(128, 2, ALL_STRIPES, ONE_STRIPE)

NIGHTLY = {
    "SharedFileWrite": [
        {**TWO_NODES, "backend": BACKENDS, "stripe_count": [1, -1], "stripe_size": [1]},
        {**AS_IT_IS, "backend": ["mpiio"]},
    ],
    "ReadBack": {**ALL_STRIPES, "backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [2]},
    # What the exercise did: are all OSTs of the same order?
    "SlowOst": {"stripe_size": [1], "local_size": [128]},
    "Metadata": {**NAMES, "nodes": [2]},
    **PEERS["nightly"],
}
ACCEPTANCE = {
    "SharedFileWrite": [
        {
            "backend": BACKENDS,
            "stripe_count": [1, -1],
            "stripe_size": [1, 4, 8],
            "local_size": [128, 256],
            "nodes": NODES,
        },
        {**AS_IT_IS, "backend": BACKENDS},
    ],
    "SharedFileRead": {
        "backend": BACKENDS,
        "stripe_count": [1, -1],
        "stripe_size": [1],
        "local_size": [256],
        "nodes": [2, 4],
    },
    "SlowOst": {"stripe_size": [1], "local_size": [512]},  # 8 GB at least in the report
    "Metadata": {**NAMES, "nodes": NODES},
    **PEERS["acceptance"],
}

site_configuration = {
    "systems": [
        {
            "name": "ulysses",
            "descr": "Ulysses, SISSA, Lustre",
            "hostnames": [r"frontend[12]"],
            "prefix": str(results()),
            "partitions": [
                {
                    "name": "lustre",
                    "scheduler": "torque",  # to confirm; later it had Slurm
                    "launcher": "mpirun",
                    "access": [],  # to confirm: queue and account, such as "-q NAME"
                    "environs": ["gnu"],
                    "max_jobs": 1,
                    "time_limit": "30m",  # acceptance: -S time_limit=12h
                    "extras": {
                        "filesystem": "lustre",
                        "path": PATH,
                        "type": "lustre",
                        # To confirm: the report has no such figure. InfiniBand QDR carries
                        # 32 Gbit/s of data from each node.
                        "peak": max(NODES) * 32e9 / 8 / MIB,
                        "osts": list(range(2)),
                        "cached_reads": False,
                        "ranks_per_node": 20,  # to confirm: two sockets of 10 cores
                        "keep_days": 400,
                        "suites": {"nightly": NIGHTLY, "acceptance": ACCEPTANCE},
                    },
                }
            ],
        }
    ],
    # To confirm: "modules", those of MPI, parallel HDF5 and NetCDF; with a "modules_system".
    "environments": [{"name": "gnu", "target_systems": ["ulysses"]}],
}
site_configuration = shipped(__file__, site_configuration)
