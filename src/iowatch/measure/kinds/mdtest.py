"""mdtest, which comes with IOR, beside benchio: its command line, and the law of its results.

mdtest verifies no name and no content. A call that went wrong shows in its exit status or in a
warning. Its output repeats the command line.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from iowatch.cases.case import Case
from iowatch.cases.metric import RATIO, Metric
from iowatch.cases.parameters import ITEMS, METADATA, ONE_OR_EACH, RANKS
from iowatch.cases.verdict import Reason
from iowatch.measure.job_environment import require_unset
from iowatch.measure.kinds.ior import EASY, HARD, IO500, output_of
from iowatch.measure.kinds.metadata import METRICS, MetadataKind
from iowatch.measure.law import Job, Law, enforce, verified
from iowatch.measure.measured import Measured
from iowatch.measure.result import InvalidResult, Repetition, Result

IO500_NAMES = replace(IO500, words="IO500's mdtest-{}")  # of mdtest alone

NAME = "mdtest"  # of its directory, and of what it leaves

_FILE = 20  # bytes, the mean of benchio's files
_HARD_FILE = 3901  # by IO500's rules
#: mdtest's names of benchio's phases.
_PHASES = {
    "create": "File creation",
    "stat": "File stat",
    "read": "File read",
    "unlink": "File removal",
}

#: The most operations a second of mdtest in those of benchio's phases that it has as well.
MDTEST_RATES: Mapping[str, str] = MappingProxyType(
    {name: f"mdtest_{name}_rate" for name in _PHASES}
)


@dataclass(frozen=True, eq=False, kw_only=True)
class MdtestKind(MetadataKind):
    """benchio and mdtest, which start anew in each round."""

    starts_once: ClassVar[bool] = False
    evidence_of: ClassVar[str] = ""  # mdtest verifies no name

    def impossible(self, values: Mapping[str, Any]) -> str:
        """Why mdtest cannot do as IO500 does."""
        io500, files = values[IO500.name], values["files"]
        wanted = {None: files, EASY: "process", HARD: "shared"}[io500]
        if files == wanted:
            return ""
        return f"io500 {io500} with files {files}: it has files {wanted}"

    def metrics_for(self, case: Case) -> list[str]:
        absent = {MDTEST_RATES["read"]} if case.get(IO500.name) == EASY else set()
        return [name for name in self.metrics if name not in absent]

    def read(self, job: Job, repeats: int) -> Measured:
        """Read the rounds of a job in which benchio and mdtest took turns."""
        case, rounds, by_phase = job.case, list[Result](), list[dict[str, float]]()
        for number in range(1, repeats + 1):
            rounds.append(verified(job, f"result.{number}.json", 1))
            directory = f"{rounds[-1].run['directory']}/{NAME}"
            asked = shlex.split(" ".join(options(case, case.ranks // job.nodes, directory)))
            output = output_of(job.folder, f"{NAME}.{number}", "mdtest")
            by_phase.append(rates(output, case, job.nodes, asked))
        require_unset(job.folder)
        reps = [rep for done in rounds for rep in done.measurements[0].repetitions]
        metrics = self.metrics_of_rounds(reps, case) | mdtest_metrics(reps, by_phase)
        return Measured.from_results(rounds, metrics)


MDTEST_PEER = MdtestKind(
    name="MdtestPeer",
    short="metadata {files}, mdtest",
    size="{items} items",
    operation=METADATA,
    parameters=(ITEMS, RANKS, ONE_OR_EACH),
    ways=(IO500_NAMES,),
    fixed={"backend": "posix"},
    repeats=5,
    metrics={
        **METRICS,
        **{
            rate: Metric("1/s", about=f"The best rate of mdtest in the phase `{name}`.")
            for name, rate in MDTEST_RATES.items()
        },
        "mdtest_ratio": replace(
            RATIO, about="The best rate at which benchio creates files over that of mdtest."
        ),
    },
    bounds={
        "items_max": [1, 0, None, "1/s"],
        MDTEST_RATES["create"]: [1, 0, None, "1/s"],
    },
    bounds_comment="Only that both moved: they sync and verify at other times, so no ratio holds "
    "on any machine.",
)


def mdtest_metrics(
    reps: Sequence[Repetition], mdtest: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """The metrics of mdtest, by its operations a second in each phase, beside repetitions of
    benchio.

    `mdtest_ratio` is the best rate at which benchio creates files over that of mdtest. The clocks
    of both run until files are synced.
    """
    best = {phase: max(rates[phase] for rates in mdtest) for phase in mdtest[0]}
    created = max(
        rep.operations["create"] / (rep.seconds["create"] + rep.seconds["sync"]) for rep in reps
    )
    return {
        **{MDTEST_RATES[phase]: rate for phase, rate in best.items()},
        "mdtest_ratio": created / best["create"],
    }


def options(case: Case, ranks_per_node: int, directory: str) -> list[str]:
    """Return the command line that makes as many files as benchio, synced in each phase. Tasks of
    another node, if there is one, then look at them."""
    shift = ranks_per_node if ranks_per_node < case.ranks else 1
    io500 = case.get(IO500.name)
    size = {EASY: 0, HARD: _HARD_FILE}.get(io500, _FILE)
    return [
        f"-F -C -T {'-E ' if size else ''}-r -Y -i 1",
        f"-n {case.items} -N {shift if case.ranks > 1 else 0}",
        *(["-u"] if case.files == "process" else []),
        *([f"-w {size} -e {size}"] if size else []),
        f"-d {directory}",
    ]


def rates(output: str, case: Case, nodes: int, asked: list[str]) -> dict[str, float]:
    """Read operations a second in each phase, by benchio's name of it, in mdtest's standard output.
    InvalidResult: mdtest did not do what `asked`, the words of its command line, says."""
    line = re.search(r"^Command line used: (.*)$", output, re.MULTILINE)
    words = shlex.split(line[1])[1:] if line else []
    tasks = re.search(r"^(\d+) tasks, (\d+) files$", output, re.MULTILINE)
    launched = re.search(r" on (\d+) node\(s\)$", output, re.MULTILINE)
    rounds = re.search(r"^SUMMARY rate.*\(of (\d+) iterations\)", output, re.MULTILINE)
    files = f"{case.ranks} tasks, {case.items * case.ranks} files"
    laws: list[Law] = [
        ("command line", " ".join(words) or None, [" ".join(asked)]),
        ("tasks and files", tasks and tasks[0], [files]),
        ("nodes", launched and launched[1], [str(nodes)]),
        ("iterations", rounds and rounds[1], ["1"]),
    ]
    enforce(laws, "mdtest")
    values = {}
    for phase, name in _PHASES.items():
        if phase == "read" and "-E" not in asked:
            continue
        row = re.search(rf"^ *{name} *:? +(\S+)", output, re.MULTILINE)
        try:
            values[phase] = float(row[1]) if row else 0.0
        except ValueError:
            values[phase] = math.nan
        if not (values[phase] > 0 and math.isfinite(values[phase])):
            printed = row[1] if row else "missing"
            why = f"mdtest: the rate of {name!r} is no number above 0: {printed}"
            raise InvalidResult(why, Reason.NO_OUTPUT)
    return values
