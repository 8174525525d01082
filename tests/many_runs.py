"""Many runs of benchio in one start of mpirun, which alone takes longer than a small run: by
src/benchio/test/many_runs.f90, for what does not need the program itself."""

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import MPI_IO, ROOT, RUN_ID, Run, command, each, run, run_directory

PROGRAM = ROOT / "build/benchio/test/many_runs"


@dataclass(frozen=True)
class Plan:
    """A run. Of one start are those of one number of ranks, one component of MPI-IO and one group.

    In its environment {own} is the run's own directory, and {beside} the one of its result."""

    ranks: int
    options: Sequence[object] = ()  #: but --run-id, --dir and --json
    env: Mapping[str, object] = field(default_factory=dict)
    component: str = MPI_IO[0]
    group: object = ""
    run_id: str = RUN_ID
    directory: Path | None = None  #: None: a new one
    of: Any = None  #: what the test knows it by

    def line(self, directory: Path) -> str:
        places = {"{own}": run_directory(directory, self.run_id), "{beside}": directory.parent}
        words = []
        for name, value in self.env.items():
            text = str(value)
            for word, place in places.items():
                text = text.replace(word, str(place))
            words.append(f"{name}={text}")
        words += ["benchio", "--run-id", self.run_id, "--dir", str(directory)]
        words += ["--json", str(result_of(directory)), *map(str, self.options)]
        assert not any(set("\t\n") & set(word) for word in words), words
        return "\t".join(words)


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    directory: Path
    done: Run

    def __str__(self) -> str:
        return str(self.plan.of or self.plan)[:500]

    @property
    def own(self) -> Path:
        """The directory that it made."""
        return run_directory(self.directory, self.plan.run_id)

    @property
    def said(self) -> str:
        """Its only error."""
        (error,) = self.done.errors
        return error

    @property
    def result(self) -> Any:
        return json.loads(result_of(self.directory).read_text())

    @property
    def error(self) -> Any:
        return self.result["error"]

    @property
    def call(self) -> tuple[str, Path]:
        """That failed, and on which file."""
        return self.error["call"], Path(self.error["path"])


def result_of(directory: Path) -> Path:
    """Where the result of a run belongs whose files are in this directory."""
    return directory.parent / "result.json"


def run_many(
    plans: Sequence[Plan], new_directory: Callable[[], Path], *preload: Path
) -> list[Outcome]:
    """What came of each. One that ends its process, as a hang does, is followed by a new start."""
    places = [plan.directory or new_directory() for plan in plans]
    groups = defaultdict(list)
    for number, plan in enumerate(plans):
        groups[plan.ranks, plan.component, plan.group].append(number)
    ran = {}

    def start(group: tuple[int, str, object]) -> None:
        ranks, component, _ = group
        left = groups[group]
        while left:
            lines = [plans[number].line(places[number]) for number in left]
            over = list(one_start(ranks, component, lines, preload))
            ran.update(zip(left, over, strict=False))
            left = left[len(over) :]

    each(groups, start, at_once=3)
    return [Outcome(plan, places[number], ran[number]) for number, plan in enumerate(plans)]


def one_start(
    ranks: int, component: str, lines: Sequence[str], preload: Sequence[Path]
) -> Iterator[Run]:
    """Those of the runs that had their turn."""
    with tempfile.TemporaryDirectory(prefix="iowatch-runs.") as folder:
        listed, out, err = (Path(folder, name) for name in ("list", "out", "err"))
        listed.write_text("\n".join(lines) + "\n")
        for said in (out, err):
            said.touch()
        # Past the launcher: Open MPI 5's mixes the streams, openpmix#3858.
        preloaded = f"LD_PRELOAD={':'.join(map(str, preload))} " if preload else ""
        script = f'{preloaded}exec "$0" "$@" >>{out} 2>>{err}'
        done = run(
            command(Path("bash"), ranks, ["-c", script, PROGRAM, listed]),
            env={"OMPI_MCA_io": component}, timeout=60 + 10 * len(lines),
        )  # fmt: skip
        printed, errors = turns(out.read_text() + done.out), turns(err.read_text() + done.err)
    assert printed, f"not even the first had its turn\n{done.out}\n{done.err}"
    for (out, code), (err, _) in zip(printed, errors, strict=True):
        yield Run(done.code if code is None else code, out, err)


def turns(text: str) -> list[tuple[str, int | None]]:
    """What each run said and its exit code; None: its process ended with it."""
    pattern = r"^run (\d+) begins\n(.*?)(?:^run \1 ends with (\d+)$|\Z)"
    found = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    return [(said, int(code) if code else None) for _, said, code in found]
