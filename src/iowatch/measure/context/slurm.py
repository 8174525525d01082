"""Slurm: the jobs that ran, and the nodes that were in use."""

from __future__ import annotations

from iowatch.measure.context.source import Quantity, Reading, Source


def _parse(answer: Reading, *texts: str) -> None:
    """Count the jobs that ran, without the run's own, and the nodes that were in use."""
    for text in texts:
        lines = [line.split() for line in text.splitlines()]
        words = {line[0]: line[1] for line in lines if len(line) > 1}
        if not text:
            continue
        if "nodes" in words:
            answer.add("nodes_in_use", int(words["nodes"].split("/")[0]))
        if "jobs" in words.get("hidden", "").split(","):
            why = "Slurm shows nobody the jobs of others (PrivateData)"
            answer.silent += [why] if why not in answer.silent else []
            continue
        job = words.get("own", "")
        others = {kind: {line[1] for line in lines if line[0] == kind} - {job}
                  for kind in ("job", "here")}  # fmt: skip
        answer.add("jobs", len(others["job"]))
        if job:
            answer.add("jobs_on_nodes", len(others["here"]))


SOURCE: Source = Source(
    name="slurm",
    words="Slurm",
    quantities={
        "jobs": Quantity("other jobs on the system", 5),
        "nodes_in_use": Quantity("nodes in use on the system", 5),
        "jobs_on_nodes": Quantity("other jobs on its nodes", 0.5),
    },
    is_asked=lambda filesystem, under_slurm: under_slurm,
    parse=_parse,
)
