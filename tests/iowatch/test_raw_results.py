"""Where the raw results of runs are kept, and for how long."""

import os
from datetime import date, timedelta
from pathlib import Path

import pytest
from cases import case, changed

from iowatch.base.files import UserError
from iowatch.cases.verdict import Reason
from iowatch.measure.case_ids import parse_case
from iowatch.measure.causes import Cause
from iowatch.measure.job_folder import printed, read_text, why_it_failed
from iowatch.past.raw_results import FOLDER, WAITS, count, keep, new_folder, tidy, waits_for

NIGHT = "2026-06-01T025836"
DAY = date(2026, 6, 1)
CASE = case("SharedFileWrite", "archer:fs3/cray")
OTHER = changed(CASE, place="archer:fs2/cray")
CIRRUS = changed(CASE, place="cirrus:work/gnu")
KEEP = {("archer", "fs3"): 400, ("archer", "fs2"): 60}


def run(prefix, one=CASE, night=NIGHT, **files):
    """The folder of a run with these files in it."""
    folder = new_folder(prefix, night, one)
    for name, text in ({"result.json": "{}"} | files).items():
        (folder / name.replace("_json", ".json")).write_text(text)
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_every_run_has_a_folder_of_its_own(tmp_path):
    longer = changed(CASE, ranks=48)  # its name begins like that of CASE
    order = [CASE, CASE, longer, CASE, OTHER, case("LibraryVersions"), longer]
    nights = (NIGHT, "2026-06-02T025836")
    made = [new_folder(tmp_path, night, one) for night in nights for one in order]
    assert len(set(made)) == len(made)
    assert {folder.parent.parent for folder in made} == {tmp_path / FOLDER}
    assert len({folder.parent for folder in made}) == 2
    for folder, one in zip(made, order * 2, strict=True):
        assert parse_case(folder.name.partition("+")[0].replace(",", "/")) == one
    name = str(CASE).replace("/", ",")
    assert [folder.name for folder in made[:4]] == [
        name, f"{name}+2", str(longer).replace("/", ","), f"{name}+3",
    ]  # fmt: skip


def test_a_power_cut_costs_nothing_of_what_is_kept(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink())
    )
    folder = run(tmp_path, exit_code="0")
    keep(folder)
    assert set(synced[:2]) == {folder / "result.json", folder / "exit_code"}
    assert synced[2:] == [folder, folder.parent, tmp_path / FOLDER, tmp_path]


def test_folder_that_cannot_be_made_or_kept_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"none: raw results cannot be kept: No such file"):
        keep(tmp_path / "none")
    (tmp_path / FOLDER).write_text("a file")
    with pytest.raises(UserError, match=f"/{NIGHT}: raw results cannot be kept: Not a directory$"):
        new_folder(tmp_path, NIGHT, CASE)


def test_what_the_jobs_of_a_night_wait_for_is_said_by_one_of_them_and_is_no_run(tmp_path):
    assert (count(tmp_path, NIGHT), waits_for(tmp_path, NIGHT)) == (0, "")
    folder = run(tmp_path)
    folder.with_name(WAITS).write_text("squeue does not answer\n")
    assert (count(tmp_path, NIGHT), waits_for(tmp_path, NIGHT)) == (1, "squeue does not answer")
    tidy(tmp_path, KEEP, DAY + timedelta(days=401))
    assert not folder.parent.exists()


PLAIN, PACKED, GONE = ["result.json"], ["result.json.gz"], []


def test_results_are_compressed_after_a_month_and_go_after_the_days_of_their_partition(tmp_path):
    """By the day of their night; another system's are left to its own nights, and those of
    partitions that nobody speaks of stay."""
    text = '{"name": "é"}\n' * 1000
    long, elsewhere = (run(tmp_path, one, result_json=text) for one in (CASE, CIRRUS))
    short = [run(tmp_path, OTHER) for _ in range(3)]
    tidy(tmp_path, {("archer", "fs3"): 0}, DAY)
    assert read_text(long / "result.json") == text, "of this day it may still be written"
    for days, of_long, of_short, of_elsewhere in (
        (-7, PLAIN, PLAIN, PLAIN),  # a clock was wrong
        (30, PLAIN, PLAIN, PLAIN),
        (31, PACKED, PACKED, PLAIN),
        (31, PACKED, PACKED, PLAIN),  # nothing is compressed twice
        (60, PACKED, PACKED, PLAIN),
        (61, PACKED, GONE, PLAIN),
        (400, PACKED, GONE, PLAIN),
        (401, GONE, GONE, PLAIN),
        (9999, GONE, GONE, PLAIN),
    ):
        tidy(tmp_path, KEEP, DAY + timedelta(days=days))
        left = [names(folder) if folder.exists() else GONE for folder in (long, *short, elsewhere)]
        assert left == [of_long, *[of_short] * 3, of_elsewhere], days
    tidy(tmp_path, {(CIRRUS.system, "other"): 400}, DAY + timedelta(days=9999))
    assert read_text(elsewhere / "result.json.gz") == text
    assert (elsewhere / "result.json.gz").stat().st_size < len(text) / 10


def test_what_is_not_ours_stays_as_it_is(tmp_path):
    run(tmp_path)
    nights = tmp_path / FOLDER
    strange = [nights / "notes", nights / NIGHT / "notes", nights / "2026-13-45" / str(CASE)[:6]]
    for folder in strange:
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    for name in ("README", "2026-01-01.txt"):
        (nights / name).write_text("x")
    (nights / NIGHT / "log").write_text("x")
    tidy(tmp_path, KEEP, DAY + timedelta(days=9999))
    assert [names(folder) for folder in strange] == [["file"]] * 3
    assert names(nights) == ["2026-01-01.txt", NIGHT, "2026-13-45", "README", "notes"]
    assert names(nights / NIGHT) == [".compressed", "log", "notes"]
    tidy(tmp_path / "nosuch", KEEP, DAY)


def test_what_cannot_be_read_or_removed_is_one_line(tmp_path, monkeypatch):
    folder = run(tmp_path)
    listing = type(folder).iterdir

    def refuse(path):
        if path == folder.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(type(folder), "iterdir", refuse)
    with pytest.raises(UserError) as error:
        tidy(tmp_path, KEEP, DAY + timedelta(days=31))
    assert str(error.value) == f"{folder.parent}: old raw results stay: Permission denied"


def test_a_night_is_looked_into_once(tmp_path):
    """A year of nights on a shared filesystem would take longer than the rest of the night."""
    run(tmp_path)
    old = DAY + timedelta(days=31)
    tidy(tmp_path, KEEP, old)
    (folder,) = [path for path in (tmp_path / FOLDER / NIGHT).iterdir() if path.is_dir()]
    (folder / "late").write_text("x")
    tidy(tmp_path, KEEP, old)
    assert (folder / "late").read_text() == "x"


def test_why_a_run_failed_is_benchios_word_or_that_a_node_failed_or_what_came_last(tmp_path):
    errors = tmp_path / "rfm_job.err"
    nothing = "no result file, and nothing that the job printed says why"
    assert why_it_failed(tmp_path) == Cause(nothing)
    lines = ["benchio: round 1/4", "srun: error: Node failure on node2", "srun: forcing job"]
    errors.write_text("\n".join([*lines, "-----", ""]))
    assert why_it_failed(tmp_path).sentence == "srun: error: Node failure on node2"
    errors.write_text("\n".join([*lines, "benchio: error: rank 1: write: no end", "srun: done"]))
    assert why_it_failed(tmp_path).sentence == "benchio: error: rank 1: write: no end"
    errors.write_text("a strange word")
    assert why_it_failed(tmp_path).sentence == "a strange word"
    for start in (1, 2, 10):  # again after a hang: what the last one says counts
        (tmp_path / f"said.{start}").write_text(f"benchio: error: start {start}\n")
    assert why_it_failed(tmp_path).sentence == "benchio: error: start 10"
    (tmp_path / "rfm_job.out").write_text(
        "=>> PBS: job killed: walltime 1244 exceeded limit 1200\n"
    )
    assert why_it_failed(tmp_path) == Cause(
        "benchio: error: start 10 (=>> PBS: job killed: walltime 1244 exceeded limit 1200)",
        Reason.TIME_LIMIT,
    )


def test_of_a_long_output_both_ends_are_read_and_what_is_no_file_is_empty(tmp_path):
    file = tmp_path / "rfm_job.err"
    assert printed(file) == ""
    for size in (0, 1, 9, 10, 11, 19, 20):
        file.write_text("0123456789abcdefghij"[:size])
        assert printed(file, 10) == "0123456789abcdefghij"[:size]
    file.write_text("0123456789-abcdefghij")
    assert printed(file, 10) == "0123456789\nabcdefghij"
    file.unlink()
    os.mkfifo(file)
    assert printed(file) == "", "nobody writes to it"
