"""Stands in for benchio where a check must meet a fault that the real one can't be made to have.

usage: stand_in.py FAULT benchio's options. It measures nothing, and refuses what benchio does not
know. Only rank 0 comes here, see STAND_IN_PROGRAM in conftest.py.
"""

import getopt
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from result_file import laid_out, make_result, of_job, turn_into_names, turn_into_targets

fault, *options = sys.argv[1:]
source = Path(__file__).parents[2] / "src/benchio/lib/command_line.f90"
named = re.findall(r"\boption\('--([\w-]+)', '([^']*)'", source.read_text())
known = [f"{name}=" if takes else name for name, takes in named]
assert {"backend=", "flush", "dir=", "json="} < {*known}, known
given, rest = getopt.getopt(options, "", known)
assert not rest, rest
value = dict(given)
if not Path(value["--dir"]).is_dir():
    sys.exit(f"benchio: error: stand-in: no directory {value['--dir']}")
targets = value.get("--targets", "").split(",")
those = fault.partition(",")[0].split()[2:] if fault.startswith("hangs on") else []
if set(targets) & {*those}:
    hung = next(target for target in targets if target in those)
    path = f"{value['--dir']}/benchio.{value['--run-id']}/target.{hung}/mpiio.dat"
    limit = value["--phase-limit"]
    for rank, place in enumerate((path, Path(path).parent)):  # a launcher cannot end the others
        print(f"benchio: error: rank {rank}: write: {place}: no end after {limit} s "
              "(--phase-limit)", file=sys.stderr)  # fmt: skip
    sys.exit(5)
if fault == "hangs":
    Path(value["--dir"], "hangs").touch()
    print("benchio: error: rank 0: write: /f: no end after 1 s (--phase-limit)", file=sys.stderr)
    sys.stderr.flush()
    time.sleep(600)
local_size = tuple(int(edge) for edge in value.get("--local-size", "1x1x1").split("x"))
backends = value.get("--backend", "posix").split(",")
SLOWDOWN = {
    "slow hdf5": {"hdf5": 10.0},
    "slow hdf5, larger size": {"hdf5": 10.0 if local_size[0] > 8 else 1.0},
    "slow filesystem": dict.fromkeys(backends, 1 / 0.6),
    "too fast": {backends[-1]: 1e-9},
}
result = make_result(
    backends=backends,
    ranks=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    local_size=local_size,
    repeats=int(value["--repeats"]),
    filesystem=value["--fs-type"].split(",")[0],
    directory=value["--dir"],
    slowdown=SLOWDOWN.get(fault),
    run_id=value["--run-id"],
    started=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
)
ask = [os.environ["BENCHIO"], "--filesystem", "--dir", value["--dir"]]
there = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()
keys = ("identity", "source", "mount_point", "options")
result["run"]["filesystem"].update(zip(keys, there, strict=True))  # what the job has asked, too
for name in filter(None, value.get("--environment-of", "").split(",")):
    result["environment"]["of_job"][name] = of_job(os.environ.get(name))
if "--items" in value:
    turn_into_names(result, int(value["--items"]))
elif targets != [""]:
    rates = dict.fromkeys(targets, 400.0)
    if fault.startswith("slow "):
        rates[fault.split()[1]] = 0.37
    turn_into_targets(result, targets, rates)
    result["run"]["hosts"] = ["node1", "node2"]  # as each OST is written to from two
    for one in result["cases"]:
        if fault == f"full {one['target']['name']}":
            error = {"rank": 1, "call": "MPI_File_write_all", "path": "/f", "message": "ENOSPC"}
            one["target"]["error"], one["repetitions"] = error, []
elif "--stripe-count" in value or result["run"]["filesystem"]["type"] == "lustre":
    count, size = int(value.get("--stripe-count", 1)), int(value.get("--stripe-size", 2**20))
    requested = {"stripe_count": count, "stripe_size": size, "pool": value.get("--pool"),
                 "setstripe": None}  # fmt: skip
    osts = [3, 0, 1] if fault == "fewer" else [3, 0, 1, 2]
    osts = osts if count == -1 else osts[:count]
    for one in result["cases"]:
        one["layout"].update(
            requested=requested if "--stripe-count" in value else None,
            observed=laid_out(len(osts), size, value.get("--pool"), osts),
        )
if fault == "another run":
    result["run"]["id"] += "-2"
elif fault == "spread":
    result["run"]["hosts"] = ["node1", "node2"]
text = json.dumps(result)
if fault == "cut off":
    text = text[: len(text) // 2]
elif fault == "no result":
    sys.exit("benchio: error: stand-in: wrote nothing")
Path(value["--json"]).write_text(text)
if says := os.environ.get("STAND_IN_SAYS"):
    print(says, file=sys.stderr)
if fault == "fails at the end":
    sys.exit("benchio: error: stand-in: failed after its result file")
if fault.endswith("ends late"):
    sys.exit(1)
