"""What login nodes have said: recorded forms, made-up names."""

import json

# Slurm's sinfo -h -e -o '%P|%a|%l|%D|%z'
SINFO = """\
standard*|up|1-00:00:00|500|2:64:2
highmem|up|2-00:00:00|584|2:64:2
gpu|up|4:00:00|4|1:32:2
gpu|up|4:00:00|2|2:64:1
gpu|up|4:00:00|1|1:32:1
serial|up|30:00|2|2+:64+:2+
old|down|infinite|100|2:8:1
interactive|up|infinite|1|2:20:1
sinfo: warning: something about a plugin
"""

# scontrol show config
CONFIG = "Configuration data\nAccountingStorageType   = {}\nMpiDefault              = {}\n"

# pbsnodes -a
PBS_PRO = """\
nid00004
     Mom = mom1,mom2
     ntype = PBS
     state = free
     pcpus = 48
     resources_available.arch = XT
     resources_available.host = nid00004
     resources_available.mem = 67108864kb
     resources_available.ncpus = 48
     resources_available.vntype = cray_compute
     resources_assigned.ncpus = 0

nid00005
     state = job-busy
     resources_available.ncpus = 48
     resources_assigned.ncpus = 48

mom1
     state = free
     resources_available.ncpus = 0
     resources_available.vntype = cray_login

mom2
     state = free
     resources_available.ncpus = 0

mom3
     state = free
     resources_available.ncpus = 0

himem1
     state = free
     resources_available.ncpus = 64
"""
TORQUE = """\
n01
     state = free
     power_state = Running
     np = 16
     properties = ib
     ntype = cluster
     status = opsys=linux,ncpus=32,physmem=65780000kb,loadave=0.02

n02
     state = job-exclusive
     np = 16
"""

# lfs osts PATH
OSTS = """\
OBDS:
0: fs3-OST0000_UUID ACTIVE
1: fs3-OST0001_UUID ACTIVE
2: fs3-OST0002_UUID INACTIVE
10: fs3-OST000a_UUID ACTIVE
"""

# lfs getstripe -d PATH: of an old Lustre, a newer one, one with a pool, a progressive layout
STRIPE_OLD = "/fs3/z01\nstripe_count:   4 stripe_size:    1048576 stripe_offset:  -1\n"
STRIPE_NEW = "stripe_count:  -1 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1\n"
STRIPE_POOL = "stripe_count:  1 stripe_size:   65536 pattern: raid0 stripe_offset: -1 pool: flash\n"
STRIPE_PFL = """\
/lus/work
  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   3
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
      stripe_count:  0       stripe_size:   1048576       pattern:       mdt       stripe_offset: -1

    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   268435456
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0     stripe_offset: -1

    lcme_extent.e_start: 268435456
    lcme_extent.e_end:   EOF
      stripe_count:  8       stripe_size:   2097152       pattern:       raid0     stripe_offset: -1
"""

# /sys/class
ETHERNET = {
    "net/eth0/speed": "25000\n", "net/eth0/operstate": "up\n", "net/eth0/device/vendor": "",
    "net/eth1/speed": "25000\n", "net/eth1/operstate": "up\n", "net/eth1/device/vendor": "",
    "net/eth2/speed": "1000\n", "net/eth2/operstate": "down\n", "net/eth2/device/vendor": "",
    "net/eth3/speed": "-1\n", "net/eth3/operstate": "up\n", "net/eth3/device/vendor": "",
    "net/bond0/speed": "50000\n", "net/bond0/operstate": "up\n",
}  # fmt: skip
INFINIBAND = {
    "infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)\n",
    "infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "infiniband/mlx5_1/ports/1/rate": "200 Gb/sec (4X HDR)\n",
    "infiniband/mlx5_1/ports/1/state": "1: DOWN\n",
    "infiniband/hfi1_0/ports/2/rate": "12.5 Gb/sec\n",
    "infiniband/hfi1_0/ports/2/state": "4: ACTIVE\n",
}


def findmnt(*mounts):
    """findmnt's JSON on a machine with a disk and these: type, source and path.

    tests/data/findmnt.json is what it says itself.
    """
    rows = [("ext4", "/dev/vda", "/"), *mounts]
    keys = ("fstype", "source", "target", "options", "maj:min")
    found = [dict(zip(keys, (*row, "rw", f"0:{n}"), strict=True)) for n, row in enumerate(rows)]
    return json.dumps({"filesystems": found})


def say(folder, **said):
    """Put commands into a folder, say(folder, sinfo="text"), which say that."""
    for name, text in said.items():
        script = folder / name
        text = f"#!/bin/sh\n/bin/cat <<'EOF'\n{text}\nEOF\n"
        script.write_text(text, errors="surrogateescape")
        script.chmod(0o755)


def files(folder, texts):
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
