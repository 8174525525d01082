"""Stands in for mdtest where there is none. It measures nothing.

usage: stand_in_mdtest.py FAULT mdtest's options. It says what was recorded of a real one, with the
options and numbers of this run; without a fault, as an empty word, as one that did all of it.
"""

import getopt
import os
import sys
from pathlib import Path

RECORDS = Path(__file__).parents[1] / "data/mdtest"

fault, *words = sys.argv[1:]
if os.environ["OMPI_COMM_WORLD_RANK"] != "0":
    sys.exit()
if fault == "no directory":
    print((RECORDS / "no-directory.out").read_text())
    sys.exit(255)
# What mdtest does not know, it refuses.
given, rest = getopt.getopt(words, "FCTErYui:n:N:w:e:d:")
assert not rest, rest
value = dict(given)
Path(value["-d"]).mkdir()  # to be removed by the job
tasks = int(os.environ["OMPI_COMM_WORLD_SIZE"])

name = {"3901": "hard", "20": "shared"}.get(value.get("-w"), "easy")
for line in (RECORDS / f"{name}.out").read_text().splitlines():
    if line.startswith("Command line used:"):
        line = "Command line used: mdtest " + " ".join(f"'{word}'" for word in words)
    elif " tasks, " in line:
        line = f"{tasks} tasks, {tasks * int(value['-n'])} files"
    elif fault == "no rate":
        line = line.replace("File stat  ", "File stat   0.000")
    print(line)
