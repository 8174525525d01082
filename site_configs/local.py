"""Any one machine, to try things out: a disk directory and memory.

It is never chosen by host name (`--system local` must be typed), so that it can't hide another
system.
"""

from iowatch.base.places import ROOT, results, shipped
from iowatch.site.usual_suites import learning, second_opinions

MIB = 2**20

FILESYSTEMS = [
    {
        "filesystem": "disk",
        "path": str(results() / "scratch"),
        "type": ["ext4", "xfs", "btrfs", "overlay", "zfs"],
        # A PCIe 5.0 x4 link, as of the fastest NVMe drives: 32 GT/s x 4 lanes x 128/130 / 8.
        "peak": 15.75e9 / MIB,
        "cached_reads": False,
    },
    {
        "filesystem": "tmpfs",
        "path": "/dev/shm/iowatch",
        "type": "tmpfs",
        # Twelve channels of DDR5-4800, 8 bytes each.
        "peak": 460.8e9 / MIB,
        "cached_reads": True,  # memory is what it is
    },
]

BACKENDS = ["mpiio", "hdf5", "netcdf"]
WITH_PNETCDF = [*BACKENDS, "pnetcdf"]

# As IOR's hard test: the pieces of all ranks, each of 47008 bytes, take turns in the file.
SMALL_PIECES = {"local_size": ["5876x8x32"], "nodes": [1], "collective": [False]}
# As a model that appends its fields to one file at each time step.
STEPS = "steps=4:variables=4"
FIELDS = {"local_size": [64], "nodes": [1]}
PATTERNS = [
    {**SMALL_PIECES, "backend": WITH_PNETCDF, "pattern": ["strided", "random"]},
    {**FIELDS, "backend": WITH_PNETCDF, "pattern": [STEPS]},
    {**FIELDS, "backend": ["hdf5", "netcdf"], "pattern": ["deflate=1"]},
    {**FIELDS, "backend": ["netcdf"], "pattern": [f"{STEPS}:deflate=1:quantize=3"]},
    {**FIELDS, "backend": ["pnetcdf"], "pattern": [f"{STEPS}:nonblocking"]},
]

# Programs that learn: shuffled samples, the files of an environment, and a checkpoint.
LEARNING = learning(samples=100, files=1000, nodes=1, shard="8MiB")

NIGHTLY = {
    "SharedFileWrite": [
        {"backend": BACKENDS, "local_size": [64, 128], "nodes": [1]},
        {"backend": ["pnetcdf"], "local_size": [64], "nodes": [1]},
        {**SMALL_PIECES, "backend": ["mpiio"], "pattern": ["strided"]},
        {**FIELDS, "backend": ["netcdf"], "pattern": [STEPS]},
    ],
    "SharedFileRead": {"backend": BACKENDS, "local_size": [64], "nodes": [1]},
    "ReadBack": {"backend": ["mpiio", "hdf5"], "local_size": [64], "nodes": [1]},
    "FilePerProcess": {
        "backend": [*BACKENDS, "posix"],
        "local_size": [128],
        "nodes": [1],
        "files": ["process"],
    },
    "FilePerProcessRead": {
        "backend": ["hdf5", "posix"],
        "local_size": [64],
        "nodes": [1],
        "files": ["process"],
    },
    "SystemLoad": {"backend": ["mpiio"], "local_size": [64], "nodes": [1], "instances": [1, 2]},
    "Metadata": {"items": [500], "files": ["shared"], "nodes": [1]},
    **LEARNING["nightly"],
    "Latency": {"seconds": [5]},
}

ONE_FILE = [{"backend": WITH_PNETCDF, "local_size": [64, 128, 256], "nodes": [1]}, *PATTERNS]
MANY_FILES = [
    {
        "backend": [*WITH_PNETCDF, "posix"],
        "local_size": [64, 128],
        "nodes": [1],
        "files": ["process", 2],
    },
    # As exercise 1 of the report "IO Benchmarks": one process writes for all, or reads for all.
    {"backend": ["netcdf"], "local_size": [64], "nodes": [1], "files": ["gather"]},
]

ACCEPTANCE = {
    "SharedFileWrite": ONE_FILE,
    "SharedFileRead": ONE_FILE,
    "FilePerProcess": MANY_FILES,
    "FilePerProcessRead": MANY_FILES,
    "SystemLoad": {
        "backend": WITH_PNETCDF,
        "local_size": [128],
        "nodes": [1],
        "instances": [1, 2, 4],
    },
    "Metadata": {"items": [500], "files": ["shared", "process"], "nodes": [1]},
    **LEARNING["acceptance"],
}


def suites(cached_reads):
    """With IOR beside benchio, and profiles, where these programs are. What IOR has written, it
    would read from the cache of this only node."""
    peers = second_opinions(64, 1, reads=cached_reads, profile={"ranks_per_node": [12]})
    return {
        "nightly": {**NIGHTLY, **peers["nightly"]},
        "acceptance": {**ACCEPTANCE, **peers["acceptance"]},
        "hourly": {"Latency": {"seconds": [120]}},
    }


EVERYWHERE = {
    "osts": None,
    "ranks_per_node": 4,
    "keep_days": 60,
}

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "One machine: a disk and memory",
            "hostnames": [],
            "prefix": str(results()),
            "partitions": [
                {
                    "name": filesystem["filesystem"],
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["gnu"],
                    "max_jobs": 1,
                    "time_limit": "5m",
                    # Both are in one machine: its jobs take turns, or they would share its cores.
                    "prepare_cmds": [
                        f'exec 9<"{ROOT}"',
                        f'flock -w 5 9 || {{ echo "waiting for {ROOT}, which another job, or '
                        'what it left behind, has locked: fuser -v names it" >&2; flock 9; }',
                    ],
                    "extras": {
                        **filesystem,
                        **EVERYWHERE,
                        "suites": suites(filesystem["cached_reads"]),
                    },
                }
                for filesystem in FILESYSTEMS
            ],
        }
    ],
    "environments": [{"name": "gnu", "target_systems": ["local"]}],
}
site_configuration = shipped(__file__, site_configuration)
