"""Which filesystem a place is on, by its record or by the site's word."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cases import PLACE, case, outcome_of
from result_file import make_result

from iowatch.cases.run import Run
from iowatch.cases.verdict import Reason
from iowatch.measure.law import Job, verified
from iowatch.measure.mounted import known_by_runs, place_notes, require_known
from iowatch.measure.result import InvalidResult, Result

LUSTRE = "lustre scratch at /lustre"


def ran_on(identity, verdict="ok", source="a"):
    met = {"filesystem": identity, "mount source": source} if identity else {}
    return Run(case(), datetime(2026, 1, 1, tzinfo=UTC), outcome_of(verdict), "", {}, "", "",
               provenance=met)  # fmt: skip


def test_a_place_is_what_its_last_verified_run_was_on():
    """A host's own filesystem is that host's; what is shared is all hosts'."""
    assert known_by_runs([ran_on(""), ran_on("", "failed (no_output)")]) == {}
    runs = [
        ran_on("ext4 1 at /s on a"),
        ran_on("ext4 9 at /s on a", "unjudged (no_reference)", source="/dev/sdb"),
        ran_on("ext4 2 at /s on b", "regression (own_past)"),
        ran_on("ext4 3 at /s on b", "failed (above_ceiling)"),
    ]
    assert known_by_runs(runs) == {"ext4 9 at /s on a": "/dev/sdb", "ext4 2 at /s on b": "a"}
    assert known_by_runs([*runs, ran_on(LUSTRE)]) == {LUSTRE: "a"}


def result_on(identity, options="rw"):
    run = make_result()["run"]
    run["filesystem"].update(identity=identity, source="/dev/sdz", options=options)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return Result(started=began, run=run, versions={}, environment={}, measurements=[])


@pytest.mark.parametrize(
    ("identity", "known", "is_it"),
    [
        (LUSTRE, [], True),
        (LUSTRE, [LUSTRE], True),
        (LUSTRE, ["lustre other at /lustre"], False),
        ("ext4 1 at / on a", [LUSTRE], False),
        ("ext4 1 at /s on a", ["ext4 1 at /s on a", "ext4 2 at /s on b"], True),
        ("ext4 2 at /s on a", ["ext4 1 at /s on a", "ext4 2 at /s on b"], False),
        ("ext4 1 at / on a", ["ext4 1 at /s on a"], False),
        ("ext4 3 at /s on c", ["ext4 1 at /s on a"], True),  # nobody has seen that host
        ("ext4 3 at / on c", ["ext4 1 at /s on a"], False),
        ("xfs 3 at /s on c", ["ext4 1 at /s on a"], False),
        ("nfs b:/s at /s", ["ext4 1 at /s on a"], False),
        ("ext4 1 at /s on a", ["ext4 1 at /s"], True),
        ("ext4 1 at /s on a", ["ext4 2 at /s"], False),
    ],
)
def test_a_run_on_another_filesystem_has_no_rate(identity, known, is_it):
    result, known = result_on(identity), dict.fromkeys(known, "")
    if is_it:
        require_known(result, known)
        return
    with pytest.raises(InvalidResult) as said:
        require_known(result, known)
    assert said.value.reason is Reason.WRONG_FILESYSTEM
    assert f" is on {identity}, mounted from /dev/sdz, and was known to be on " in str(said.value)
    assert str(said.value).endswith(f"set 'mounted' in the extras of its partition to '{identity}'")


def test_the_law_asks_for_the_filesystem(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(make_result()))
    job = Job(
        folder=tmp_path, case=case(backend="mpiio"), filesystem=PLACE, run_id="0123456789abcdef",
        made=datetime(2026, 1, 31, 1, 2, tzinfo=UTC), nodes=1,
    )  # fmt: skip
    for known in ({}, {"tmpfs at /dev/shm": ""}):
        verified(replace(job, known=known), "result.json", 10)
    with pytest.raises(InvalidResult, match=" was known to be on tmpfs at /other on node1: "):
        verified(replace(job, known={"tmpfs at /other on node1": ""}), "result.json", 10)


def test_options_that_take_stability_away_are_told_once():
    plain, loose = result_on(LUSTRE, "rw,relatime"), result_on(LUSTRE, "rw,nobarrier,volatile")
    assert place_notes([plain, plain]) == []
    (note,) = place_notes([plain, loose, replace(loose)])
    assert note.startswith("/dev/shm is mounted with nobarrier and volatile: a sync there does not")
