"""What login nodes have said: recorded forms, made-up names."""

import json
from pathlib import Path

DATA = Path(__file__).parent / "data"

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
# lfs osts PATH: half of the OSTs are gone for good
OSTS_24_OF_49 = "OBDS:\n" + "".join(
    f"{n}: fs3-OST{n:04x}_UUID {'INACTIVE' if n < 24 else 'ACTIVE'}\n" for n in range(49)
)

# lfs getstripe -d PATH, of a Lustre before 2.10
STRIPE_OLD = "/fs3/z01\nstripe_count:   4 stripe_size:    1048576 stripe_offset:  -1\n"

# quota -w
QUOTA = """\
Disk quotas for user z01 (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
server:/export   80000*  70000  100000   6days     200       0       0
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


#: The command lines to which the real ones gave these forms, as patterns of the shell.
ASKED = {
    "benchio": "--version",
    "findmnt": "'--json --list --nofsroot --output TARGET,FSTYPE,SOURCE,OPTIONS,MAJ:MIN'",
    "pbsnodes": "-a",
    "qstat": "--version",
    "quota": "'-w -f '/*",
    "scontrol": "'show config'",
    "sinfo": "'-h -e -o %P|%a|%l|%D|%z'",
}


def say(folder, **said):
    """Put commands into a folder, say(folder, sinfo="text"), which say that where they are asked
    for it."""
    for name, text in said.items():
        script = folder / name
        only = f'case "$*" in {ASKED.get(name, "*")}) ;; *) exit 64 ;; esac'
        text = f"#!/bin/sh\n{only}\n/bin/cat <<'EOF'\n{text}\nEOF\n"
        script.write_text(text, errors="surrogateescape")
        script.chmod(0o755)


def recorded(name):
    """Exit code, standard output and standard error of a command in tests/data/NAME.txt."""
    text = (DATA / f"{name}.txt").read_text()
    if not text.startswith("$ "):  # its output alone was kept
        return 0, text, ""
    head, rest = text.split("--- stdout\n")
    out, errors = rest.split("--- stderr\n")
    return int(head.rpartition("exit: ")[2]), out, errors


def answer(folder, program, answers, mdts=1, refused=""):
    """Put a stand-in of lfs or ceph into a folder, answer(folder, "lfs", {"osts": "lfs-osts"}),
    which says what the real one said: what begins with these words is answered from that file of
    tests/data/lustre or cephfs, or with this text of several lines. Anything else fails, and so
    does a command of lfs that names no path, but for `pool_list`. There are so many MDTs, the
    others in the form of the recorded one; `mkdir -i N` makes a directory, unless it is refused
    with these words."""
    where = {"lfs": "lustre", "ceph": "cephfs"}[program]
    cases = ""
    if program == "lfs":
        numbers = "|".join(f"'mkdir -i {number}'" for number in range(mdts))
        makes = f"echo '{refused}' >&2; exit 1" if refused else 'exec /bin/mkdir "$4"'
        cases = f"""\
pool_list*|*' /'*) ;;
*) exit 64 ;;
esac
case "$1 $2 $3" in
{numbers}) {makes} ;;
esac
case "$* " in
"""
    for words, name in answers.items():
        code, out, errors = (0, name, "") if "\n" in name else recorded(f"{where}/{name}")
        if words == "mdts":
            one = "0: lus-MDT0000_UUID ACTIVE\n"
            assert out.endswith(one)
            out += "".join(
                one.replace("0:", f"{n}:").replace("000_", f"00{n}_") for n in range(1, mdts)
            )
        cases += f"'{words} '*)\n"
        for text, stream in ((out, ""), (errors, " >&2")):
            cases += f"/bin/cat <<'EOF'{stream}\n{text}EOF\n"
        cases += f"exit {code};;\n"
    script = folder / program
    script.write_text(f'#!/bin/sh\ncase "$* " in\n{cases}esac\nexit 64\n')
    script.chmod(0o755)


#: What lfs says of a Lustre with four OSTs, a pool of two of them, and one layout for all.
LUSTRE = {
    "pool_list lus.fast": "pool-list-fast",
    "pool_list lus": "pool-list",
    "mdts": "lfs-mdts",
    "osts": "lfs-osts",
    "df": "lfs-df",
    "getstripe -d": "getstripe-dir-def",
    "quota": "quota",
}
#: What ceph says of a CephFS with four OSDs and seven pools.
CEPHFS = {"osd tree": "osd-tree", "fs ls": "fs-ls", "pg dump pgs_brief": "pgs-brief"}


def files(folder, texts):
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
