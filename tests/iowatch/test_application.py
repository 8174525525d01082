"""What an application has written, under the law: as its job says it, and with each word spoilt."""

import json
from datetime import UTC, datetime

import pytest
from cases import case as make_case
from refusals import assert_refused
from result_file import asked, laid_out, lay_out, make_result

from iowatch.cases.verdict import Reason
from iowatch.judge.explain import why_slow
from iowatch.measure.job_environment import NAME
from iowatch.measure.kinds.application import Job, control, metrics_of, of_rounds, provenance_of
from iowatch.measure.result import InvalidResult
from iowatch.site.suites import read_filesystem

ID = "0123456789abcdef"
MIB = 2**20
SITE = {
    "filesystem": "scratch", "path": "/scratch", "type": "tmpfs", "peak": 1e4, "osts": None,
    "cached_reads": False, "ranks_per_node": 4, "keep_days": 1,
    "suites": {"nightly": {}, "acceptance": {}},
}  # fmt: skip
LUSTRE = {**SITE, "type": "lustre", "osts": [0, 1, 2, 3]}
CASE = make_case("GromacsTrajectory")
STRIPED = make_case("GromacsTrajectory", stripe_count=2, stripe_size=1)


def left(number):
    """What a round leaves: 30 MiB in 2 s, and in 1 s they are synced."""
    file = {"name": "x.trr", "bytes": 20 * MIB, "digest": "a" * 64, "how": "direct"}
    return {
        "format": "iowatch.application/1",
        "id": f"{ID}-{number}",
        "version": "2022.5",
        "exit_code": 0,
        "why": "",
        "run_s": 9.5,
        "output_s": 2.0 * number,
        "sync_s": 1.0,
        "files": [file, {**file, "name": "v.trr", "bytes": 10 * MIB}],
        "missing": "",
        "written": 2,
        "reader": {"exit_code": 0, "said": "gmx check finds 51 frames"},
        "repeats_itself": True,
    }


@pytest.fixture
def rounds(tmp_path):
    """rounds(case, edit=..., ...): what two rounds of a case came to; `edit` changes the second."""

    def rounds(case=CASE, edit=lambda data: data, extras=SITE, listing="", lost="", repeats=2):
        place = read_filesystem(case.system, case.partition, ["gnu"], extras, [])
        for number in range(1, repeats + 1):
            result = make_result(repeats=1, run_id=f"{ID}-{number}", filesystem=place.types[0])
            if case is STRIPED:
                lay_out(asked(2, MIB), laid_out(2, MIB, osts=[0, 1]))(result)
            (tmp_path / f"result.{number}.json").write_text(json.dumps(result))
            data = left(number)
            text = json.dumps(edit(data) if number == 2 else data)
            (tmp_path / f"application.{number}.json").write_text(text)
            noted = tmp_path / NAME
            if not noted.exists():
                noted.write_text("node1 100 5000 100\nnode1 160 5060 160\n")
            (tmp_path / f"application.{number}.layout").write_text(listing)
        if lost:
            (tmp_path / lost).unlink()
        made = datetime(2026, 1, 31, 1, 2, tzinfo=UTC)
        job = Job(folder=tmp_path, case=case, filesystem=place, run_id=ID, made=made, nodes=1)
        return of_rounds(job, repeats)

    return rounds


def test_rates_are_of_the_applications_own_time_and_of_its_sync(rounds):
    results, own = rounds()
    metrics = metrics_of(results, own)
    assert set(metrics) == set(CASE.metrics)
    assert metrics["total_max"] == 30 / 2
    assert metrics["total_min"] == 30 / 4
    assert metrics["stable_max"] == 30 / 3
    assert (metrics["output_s"], metrics["sync_s"]) == (3, 1)
    # 8 MiB of MPI-IO in 1 s, and 0.25 s to sync them.
    assert metrics["ratio"] == pytest.approx(10 / (8 / 1.25))
    found = provenance_of(CASE, results, own)
    assert found["GROMACS"] == "2022.5"
    assert found["output"] == "30 MiB in 2 files"
    assert found["confirmed"] == "the same bytes in all rounds, gmx check finds 51 frames"
    lost = why_slow(CASE, {**metrics, "output_s": 9.0}, metrics)
    assert lost.startswith("most of the time is lost in output: 9 s, usually 3 s; MPI-IO in the ")
    beside = control(STRIPED)
    assert (beside.backend, beside.stripe_count, beside.ranks) == ("mpiio", 2, 4)


def test_what_was_confirmed_in_part_says_so(rounds):
    def edit(data):
        files = [{**file, "how": "cached", "digest": "b" * 64} for file in data["files"]]
        return {**data, "repeats_itself": False, "files": files}

    results, own = rounds(edit=edit)
    said = provenance_of(CASE, results, own)["confirmed"]
    assert said == "in part, perhaps through a page cache, gmx check finds 51 frames"


def first_file(**values):
    return lambda data: {**data, "files": [{**data["files"][0], **values}, data["files"][1]]}


def changed(**values):
    return lambda data: {**data, **values}


WRONG_FORM = "is no iowatch.application/1"
UNREAD = "GROMACS cannot read what it has written"
SPOILT = [
    (changed(id="f-2"), r"application.2.json is another job's: .* id f-2, where"),
    (changed(format="x/2"), "is 'x/2', where iowatch.application/1 is known"),
    (changed(exit_code=1, why="Fatal error: no space left"),
     "GROMACS ended with 1: Fatal error: no space left; see application.2.out"),
    (changed(exit_code=139), "GROMACS ended with 139: it does not say why; see"),
    (changed(missing="x.trr"), "GROMACS ended well and has not written x.trr; see"),
    (changed(files=[], written=0), "GROMACS ended well and has written nothing"),
    (lambda data: {**data, "files": data["files"][:1]},
     "of the 2 files that GROMACS has written, 1 could be read again; see application.2.out"),
    # Two tasks that both take themselves for the last read other bytes of one file.
    (first_file(name="v.trr"), "v.trr of GROMACS was read twice, and not alike"),
    (first_file(bytes=0), "GROMACS ended well, and its x.trr is empty"),
    (first_file(digest=""), "x.trr of GROMACS could not be read again"),
    (changed(sync_s=None), "what GROMACS has written could not be synced; see"),
    (changed(reader={"exit_code": 1, "said": "50 frames of 51"}),
     f"{UNREAD}: 50 frames of 51; see reader.2.out"),
    (changed(reader={"exit_code": 0, "said": ""}), f"{UNREAD}: it does not say why"),
    (changed(reader={"exit_code": None, "said": "x"}), UNREAD),
    *((changed(output_s=s), f"its output took {s} s of a run of 9.5 s")
      for s in (None, float("nan"), 9.6)),
    *((changed(sync_s=s), f"^the sync of round 2 took {s} s: it was none; see application.2.out")
      for s in (-1.0, 0, 0.0, float("nan"), "1")),
    (first_file(digest="b" * 64),
     "GROMACS computes the same in each round, and x.trr of round 2 has other bytes than"),
    (first_file(name="y.trr"), "x.trr of round 2 has other bytes than"),
    (lambda data: {"format": data["format"]}, f"{WRONG_FORM}: KeyError"),
    (lambda data: [], f"{WRONG_FORM}: TypeError"),
]  # fmt: skip


def test_what_breaks_the_law_has_no_rate(rounds):
    assert_refused(InvalidResult, lambda edit: rounds(edit=edit), SPOILT)


def test_an_application_may_have_timed_its_output_by_a_clock_that_was_set(rounds, tmp_path):
    """Whatever it then says; but wrong data count for more."""
    (tmp_path / NAME).write_text("node1 1.00 50.0 1.00\nnode1 11.00 61.0 11.00\n")
    for output_s in (1.0, 86400.0):
        with pytest.raises(
            InvalidResult, match=r"^the clock of node1 was set forward by 1 s"
        ) as error:
            rounds(edit=changed(output_s=output_s))
        assert error.value.reason is Reason.WRONG_CLOCK
    with pytest.raises(InvalidResult, match=r"x.trr of round 2 has other bytes than"):
        rounds(edit=first_file(digest="b" * 64))


def test_each_round_has_the_bytes_of_the_first(rounds):
    """Not the last alone, which may be well again."""
    assert len(rounds(repeats=3)[1]) == 3
    with pytest.raises(InvalidResult, match=r"x.trr of round 2 has other bytes than that"):
        rounds(edit=first_file(digest="b" * 64), repeats=3)

    def more(data):
        return {**data, "written": 3, "files": [*data["files"], {**data["files"][0], "name": "y"}]}

    with pytest.raises(InvalidResult, match=r"y of round 2 has other bytes than that"):
        rounds(edit=more, repeats=3)


def test_every_round_counts(rounds):
    """Not the last for all."""
    edit = first_file(how="cached")
    results, own = rounds(edit=lambda data: {**edit(data), "sync_s": 3.0}, repeats=3)
    assert "perhaps through a page cache" in provenance_of(CASE, results, own)["confirmed"]
    assert metrics_of(results, own)["sync_s"] == 1.0
    results, own = rounds(edit=changed(sync_s=0.5))
    assert metrics_of(results, own)["sync_s"] == 0.75


def test_files_have_the_layout_of_the_case(rounds):
    fields = "  lmm_stripe_count:  {0}\n  lmm_stripe_size:   1048576\n"
    one = f"/scratch/x.trr\n{fields}"
    listing = f"{one}/scratch/v.trr\n{fields}"
    assert len(rounds(STRIPED, extras=LUSTRE, listing=listing.format(2))[1]) == 2
    wanted = [
        (listing.format(4), "stripe count of GROMACS's files: 4, where 2 was asked for"),
        (one.format(2), "the layouts of 1 file are listed, and GROMACS has written 2: see appl"),
        ("", "the layouts of 0 files are listed"),
    ]
    assert_refused(InvalidResult, lambda text: rounds(STRIPED, extras=LUSTRE, listing=text), wanted)


def test_a_round_that_has_left_nothing_is_named(rounds):
    with pytest.raises(InvalidResult, match=r"round 2 of GROMACS has left no application\.2\.json"):
        rounds(lost="application.2.json")
