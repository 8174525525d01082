"""Stands in for IOR where there is none. It measures nothing.

usage: stand_in_ior.py SECONDS|FAULT IOR's options. A run takes so many seconds, of which its rate
follows; a fault is one that the records in tests/data/ior have, too.
"""

import getopt
import json
import os
import sys
from pathlib import Path

RECORD = Path(__file__).parents[1] / "data/ior/mpiio-4.0.json"

how, *words = sys.argv[1:]
if os.environ["OMPI_COMM_WORLD_RANK"] != "0":
    sys.exit()
# What IOR does not know, it refuses.
given, rest = getopt.getopt(words, "wrWReCcFgki:a:b:t:s:o:O:G:Q:")
assert not rest, rest
value = dict(given)
more = dict(text.split("=") for name, text in given if name == "-O")
assert more.pop("summaryFormat") == "JSON"
summary = more.pop("summaryFile")
assert not more, more

tasks, block = int(os.environ["OMPI_COMM_WORLD_SIZE"]), int(value["-b"])
segments = int(value.get("-s", 1))
assert block % int(value["-t"]) == 0, "a block is a multiple of a transfer"
assert value["-a"] in ("MPIIO", "HDF5", "NCMPI", "POSIX"), value
mib = tasks * block * segments / 2**20
seconds = 1.0 if how in ("wrong data", "other calls") else float(how)
access = "write" if "-w" in words else "read"
file = Path(value["-o"])
files = [file] if "-F" not in words else [Path(f"{file}.{task:08}") for task in range(tasks)]
if access == "write":
    assert not any(file.exists() for file in files), "a file of an earlier round"
    for file in files:
        file.touch()
assert all(file.exists() for file in files)

data = json.loads(RECORD.read_text())
(test,) = data["tests"]
test["Parameters"].update(
    api=value["-a"],
    testFileName=value["-o"],
    blockSize=block,
    segmentCount=segments,
    transferSize=int(value["-t"]) if how != "other calls" else block // 2,
    fsync=int("-e" in words),
    checkWrite=int("-W" in words),
    checkRead=int("-R" in words),
    reorderTasks=int("-C" in words),
    collective=int("-c" in words),
    filePerProc=int("-F" in words),
)
test["Options"]["tasks"] = tasks
result = {"access": access, "bwMiB": mib / seconds, "totalTime": seconds}
test["Results"] = [result] * int(value["-i"])
data["summary"][0]["xsizeMiB"] = round(mib, 4)  # as IOR prints it
Path(summary).write_text(json.dumps(data))
if how == "wrong data":
    print("WARNING: Incorrect data on write (2 errors found).")
    sys.exit(2)
