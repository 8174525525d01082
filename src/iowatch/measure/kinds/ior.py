"""IOR beside benchio: its command lines, and the law that its results must satisfy.

IOR gives a rate whatever has happened. Wrong data show only in its exit status, a count modulo 256,
and in lines of its output. A sync that was not possible shows in a parameter that it has reset.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from iowatch.base.bounded import json_of, regular_text
from iowatch.base.records import choice, optional
from iowatch.cases.case import WARMUPS, Case
from iowatch.cases.metric import RATIO, STABLE, TOTALS, Metrics
from iowatch.cases.parameters import MIB, ONE_OR_EACH, SHARED_FILE, Way, format_size
from iowatch.cases.verdict import Reason
from iowatch.measure.job_environment import require_unset
from iowatch.measure.kinds.array import ArrayKind
from iowatch.measure.kinds.kind import two_metrics, two_values
from iowatch.measure.law import Job, Law, enforce, require_layouts, verified
from iowatch.measure.measured import Measured, rate_metrics
from iowatch.measure.result import InvalidResult, Result, reading

#: IO500's ior-easy has large calls and a file of each process. In ior-hard all processes write one
#: file in turn, each so many bytes.
EASY, HARD = "easy", "hard"
#: Bytes of a call of each, by IO500's rules.
IO500_CALL: Mapping[str, int] = MappingProxyType({EASY: 2 * 2**20, HARD: 47008})
#: The pattern of IOR, and of benchio beside it.
IO500 = Way(
    "io500",
    optional(choice(EASY, HARD), "None"),
    backends=("posix",),
    option=lambda text: f"--transfer {IO500_CALL[text]}",
    words="IO500's ior-{}",
    about="IO500's pattern, with as much data as the local size says.",
)
_IOR: Metrics = {
    **two_metrics("ior", "MiB/s", about="The {} rate of IOR."),
    "ior_ratio": replace(RATIO, about="The best rate of benchio over the best rate of IOR."),
}

#: IOR's name of the library that a backend writes through.
API = {"mpiio": "MPIIO", "hdf5": "HDF5", "pnetcdf": "NCMPI", "posix": "POSIX"}

_LARGEST = 2**30  # bytes in a call: Open MPI 4.1's ROMIO crashes on more than 2 GiB
_SIGNATURE = 1  # of the data, so that another process can verify them
_COMPLAINT = re.compile(r"^(?:ior )?(?:WARNING|ERROR)\b.*$", re.MULTILINE)
_HARMLESS = "File write only not implemented in NCMPI"  # it may then read as well
_WRONG_DATA = "ncorrect data"  # in IOR's complaint
_HALF_A_DIGIT = 0.5e-4  # IOR prints four decimals

NAME = "ior"  # of the file that it writes, and of what it leaves


@dataclass(frozen=True, eq=False, kw_only=True)
class IorKind(ArrayKind):
    """benchio and IOR, which start anew in each round."""

    evidence_of: ClassVar[str] = "ior"

    def impossible(self, values: Mapping[str, Any]) -> str:
        """Why IOR cannot write or read what is asked for, or not as IO500 does."""
        backend, files, io500 = (values[name] for name in ("backend", "files", IO500.name))
        if (backend, files) == ("pnetcdf", "process"):
            return "IOR has no pnetcdf with a file of each process"
        if io500 is None:
            return ""
        call, size = IO500_CALL[io500], values["local_size"]
        if io500 == EASY and files == "process" and 8 * math.prod(size) % call == 0:
            return ""
        if io500 == HARD and files == "shared" and 8 * size[0] == call:
            return ""
        return f"io500 {io500} with files {files} and local_size {format_size(size)}: " + (
            "it has a file of each process, of a multiple of 2 MiB, such as 128"
            if io500 == EASY
            else f"it has one file, and rows of {call} bytes, such as {call // 8}x64x64"
        )

    def transfer(self, case: Case) -> int:
        io500 = case.get(IO500.name)
        return IO500_CALL[io500] if io500 else super().transfer(case)

    def command_line(self, case: Case) -> list[str]:
        """benchio's blocks lie in file and memory as IOR's do. ROMIO writes a block with a halo by
        half a MiB, and reads each from the file before."""
        options = [*super().command_line(case), "--halo 0"]
        if case.files != "shared":
            return options
        # Rows of all ranks in turn, or a contiguous block of each.
        grid = f"{case.ranks}x1x1" if case.get(IO500.name) else f"1x1x{case.ranks}"
        return [*options, f"--grid {grid}"]

    def bytes_written(self, case: Case, targets: int) -> int:
        return self.repeats * 2 * (1 + WARMUPS) * self.bytes_of(case)

    def read(self, job: Job, repeats: int) -> Measured:
        """Read the rounds of a job in which benchio and IOR took turns."""
        case, nodes, rounds, rates = job.case, job.nodes, list[Result](), list[float]()
        if case.operation == "read" and nodes == 1 and not job.filesystem.cached_reads:
            why = "IOR may read from the cache of the only node: ask for 2 nodes"
            raise InvalidResult(why, Reason.CACHED_READ)
        size = 8 * math.prod(case.local_size)
        files, size = (case.ranks, size) if case.files == "process" else (1, size * case.ranks)
        for number in range(1, repeats + 1):
            rounds.append(verified(job, f"result.{number}.json", 1))
            file = f"{rounds[-1].run['directory']}/{NAME}"
            rates.append(rate_of(job.folder, f"{NAME}.{number}", case, nodes, "write", file))
            require_layouts("IOR", job, f"{NAME}.{number}.layout", files, size)
            if case.operation == "read":
                rates[-1] = rate_of(job.folder, f"read.{number}", case, nodes, "read", file)
        require_unset(job.folder)
        return Measured.from_results(rounds, ior_metrics(rounds, rates), ior=rates)


IOR_PEER = IorKind(
    name="IorPeer",
    short="write {files}, IOR",
    parameters=(*SHARED_FILE, ONE_OR_EACH),
    defaults={"files": "shared"},
    fixed={},
    backends=tuple(API),
    ways=(IO500,),
    metrics={**TOTALS, **STABLE, **_IOR},
    bounds={"ior_ratio": [1, -0.95, None, "1"]},
    bounds_comment="A twentieth of IOR's rate: of 8 MiB on busy cores a tenth was seen in health.",
)
IOR_PEER_READ = replace(
    IOR_PEER,
    name="IorPeerRead",
    short="read {files}, IOR",
    operation="read",
    metrics={**TOTALS, **_IOR},
)


def ior_metrics(rounds: Sequence[Result], ior: Sequence[float]) -> dict[str, float]:
    """The metrics of one repetition of benchio in each round, and of IOR's rates.

    IOR syncs before it closes, and its rate has that in it: so has benchio's in `ior_ratio`.
    """
    reps = [rep for done in rounds for rep in done.measurements[0].repetitions]
    ratio = max(rep.rate for rep in reps) / max(ior)
    totals = rate_metrics([rep.rates for rep in reps])
    return {**totals, **two_values(NAME, ior), "ior_ratio": ratio}


def write_options(case: Case, file: str, summary: str) -> list[str]:
    """The command line that writes what benchio does, synced and read back, and keeps it."""
    return [f"-w -W -e -i {1 + WARMUPS}", *_options(case, file, summary)]


def read_options(case: Case, ranks_per_node: int, file: str, summary: str) -> list[str]:
    """The command line that then reads it, each task what one of another node has written.

    If there is another node; else one of another task. IOR compares while its clock runs.
    """
    shift = ranks_per_node if ranks_per_node < case.ranks else 1
    return [f"-r -R -C -Q {shift} -i 1", *_options(case, file, summary)]


def _options(case: Case, file: str, summary: str) -> list[str]:
    segments = _segments(case)
    return [
        f"-a {API[case.backend]}",
        *([] if case.backend == "posix" else ["-c"]),
        *(["-F"] if case.files == "process" else []),
        f"-b {8 * math.prod(case.local_size) // segments} -t {_transfer(case)}",
        *([f"-s {segments}"] if segments > 1 else []),
        f"-g -k -G {_SIGNATURE} -o {file}",
        f"-O summaryFormat=JSON -O summaryFile={summary}",
    ]


def _segments(case: Case) -> int:
    """In how many parts a task's block lies in the file, with those of all others in between."""
    _, y, z = case.local_size
    return y * z if case.get(IO500.name) == HARD else 1


def _transfer(case: Case) -> int:
    """Bytes of a call: by IO500's rules; else the whole block, as benchio has it, or as many of its
    planes as may be."""
    if case.get(IO500.name):
        return case.transfer
    x, y, z = case.local_size
    plane = 8 * x * y
    planes = (n for n in range(z, 0, -1) if z % n == 0)
    return plane * next((n for n in planes if n * plane <= _LARGEST), 1)


def rate_of(folder: Path, name: str, case: Case, nodes: int, access: str, file: str) -> float:
    """MiB/s, from opening to closing, of an IOR that did what was asked for: `write` or `read`,
    synced and read back by IOR.

    In the folder are its summary, standard output and exit status, as `name` with the suffixes
    .json, .out and .code. `file` is the file that it wrote or read. InvalidResult says what differs
    or went wrong.
    """
    output_of(folder, name, "IOR")
    with reading(f"IOR: {name}.json", "summary that is known"):
        data = json_of(folder / f"{name}.json")
        test = data["tests"][0]
        written = test["Parameters"]["testFileName"]
        # What all iterations moved; until version 3.3 each iteration has a list.
        moved = (item if isinstance(item, list) else [item] for item in test["Results"])
        results = [entry for of_one in moved for entry in of_one if entry["access"] != "remove"]
        if written != file:
            raise InvalidResult(
                f"IOR: {name}.json is another job's: of {written}, where {file} was asked for",
                Reason.NO_OUTPUT,
            )
        asked, ran = test["Parameters"], test["Options"]
        block = 8 * math.prod(case.local_size)
        mib = block * case.ranks / MIB
        laws: list[Law] = [
            ("api", asked["api"], [API[case.backend]]),
            ("tasks", ran["tasks"], [case.ranks]),
            ("nodes", ran["nodes"], [nodes]),
            ("bytes of a task", asked["blockSize"] * asked["segmentCount"], [block]),
            ("bytes of a call", asked["transferSize"], [_transfer(case)]),
            ("segments", asked["segmentCount"], [_segments(case)]),
            ("file for each process", asked["filePerProc"], [int(case.files == "process")]),
            ("collective", asked["collective"], [int(case.backend != "posix")]),
            ("deadlineForStonewall", asked["deadlineForStonewall"], [0]),
            ("dryRun", asked.get("dryRun", 0), [0]),
            ("MiB in all", [entry["xsizeMiB"] for entry in data["summary"]], [[round(mib, 4)]]),
            ("results that are no rate of these bytes",
             sum(not _is_rate(result, mib) for result in results), [0]),
        ]  # fmt: skip
        needed = ["fsync", "checkWrite"] if access == "write" else ["reorderTasks", "checkRead"]
        laws += [(name, asked[name], [1]) for name in needed]
        accesses = ["write"] * (1 + WARMUPS) if access == "write" else ["read"]
        laws += [("accesses", [result["access"] for result in results], [accesses])]
        enforce(laws, "IOR")
        return float(results[-1]["bwMiB"])


def output_of(folder: Path, name: str, program: str) -> str:
    """Return the standard output of IOR, or of the mdtest that comes with it, named as above.
    InvalidResult: it has complained or failed."""
    file, code = folder / f"{name}.out", folder / f"{name}.code"
    output = regular_text(file, errors="replace") if file.exists() else ""
    if complaints := [line for line in _COMPLAINT.findall(output) if _HARMLESS not in line]:
        is_wrong = any(_WRONG_DATA in line for line in complaints)
        reason = Reason.CORRUPT if is_wrong else Reason.PROGRAM_FAILED
        raise InvalidResult(f"{program}: {complaints[0]}", reason)
    status = regular_text(code).strip() if code.exists() else "missing"
    if status != "0":
        why = f"{program}: its exit status is {status}; see {file.name}"
        raise InvalidResult(why, Reason.PROGRAM_FAILED)
    return output


def _is_rate(result: dict[str, Any], mib: float) -> bool:
    """Is the rate a number, and these bytes over the time, as far as IOR's digits tell?"""
    rate, seconds = result["bwMiB"], result["totalTime"]
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in (rate, seconds)):
        return False
    wrong = abs(rate * seconds - mib)
    return bool(rate > 0 and wrong <= (rate + seconds) * _HALF_A_DIGIT * 1.01)
