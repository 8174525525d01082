"""The system of the demo: this machine's memory as a filesystem, where little disturbs small files.

`demo_nights.py` sets DEMO_FILES, the folder to write to, DEMO_BACKENDS, and for the night of the
fault DEMO_PRELOAD, the library to load into its jobs.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRELOAD = os.environ.get("DEMO_PRELOAD")

BACKENDS = os.environ["DEMO_BACKENDS"].split()
SUITE = {"SharedFileWrite": {"backend": BACKENDS, "local_size": [64], "nodes": [1]}}

site_configuration = {
    "systems": [
        {
            "name": "demo",
            "descr": "One small filesystem",
            "hostnames": [],
            "partitions": [
                {
                    "name": "tmpfs",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["gnu"],
                    "max_jobs": 1,
                    "time_limit": "5m",
                    # Jobs of the demo and of system local take turns.
                    "prepare_cmds": [
                        f'exec 9<"{ROOT}"',
                        f'flock -w 5 9 || {{ echo "waiting for {ROOT}, which another job, or '
                        'what it left behind, has locked: fuser -v names it" >&2; flock 9; }',
                    ],
                    "env_vars": [
                        # A rank that waits lets others work, whatever else this machine does.
                        ["OMPI_MCA_mpi_yield_when_idle", "1"],
                        *([["LD_PRELOAD", PRELOAD]] if PRELOAD else []),
                    ],
                    "extras": {
                        "filesystem": "tmpfs",
                        "public_name": "Memory",
                        "path": os.environ["DEMO_FILES"],
                        "type": "tmpfs",
                        "peak": 460.8e9 / 2**20,  # twelve channels of DDR5-4800
                        "osts": None,
                        "cached_reads": True,  # memory is what it is
                        "ranks_per_node": 2,
                        "keep_days": 60,
                        "suites": {"nightly": SUITE, "acceptance": SUITE},
                    },
                }
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu",
            "target_systems": ["demo"],
            "extras": {"benchio": str(ROOT / "build" / "bin" / "benchio")},
        }
    ],
}
