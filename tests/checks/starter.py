"""Starts `iowatch` and `reframe`, each in a process of its own, without what their imports and
templates cost every time: a third of what most tests of checks would take.

A line of JSON asks for one: its words, environment and folder, and the file for what it says. Its
exit code is the answer.
"""

import json
import os
import sys

import reframe.frontend.cli

import iowatch.cli
from iowatch.pages.report import templates

templates(autoescape=True).get_template("report.html.j2")
asked = None
for line in sys.stdin:
    if os.fork() == 0:
        asked = json.loads(line)
        break
    _, status = os.wait()
    print(os.waitstatus_to_exitcode(status), flush=True)

if asked:
    sys.argv = asked["words"]
    os.environ.clear()
    os.environ.update(asked["environment"], RFM_INSTALL_PREFIX=reframe.INSTALL_PREFIX)
    os.chdir(asked["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(asked["output"], os.O_WRONLY | os.O_APPEND), stream)
    if sys.argv[0] == "iowatch":
        iowatch.cli.main()
    sys.exit(reframe.frontend.cli.main())
