"""Names that have changed: what is on record, blessed and expected follows them."""

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from cases import changed
from nights import BLESSED, HDF5, MPIIO
from refusals import assert_refused
from reported import of_night, reported, store
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.cases.run import by_case, night_id
from iowatch.judge import bless
from iowatch.night.gate import lost_guards, night_of
from iowatch.night.record import SystemRecord
from iowatch.past import history
from iowatch.past.renames import Place, Rename, read, rename
from iowatch.site.expected import read_expected
from iowatch.site.site import read_site

WHEN = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NEW = changed(HDF5, place="archer:scratch/cray")
HDF5_2, NEW_2 = changed(HDF5, place="archer:fs3/gnu"), changed(HDF5, place="archer:scratch/gnu")
OTHER = changed(HDF5, place="archer:fs2/cray")
WORK = changed(HDF5, place="archer:work/cray")
SITE = [NEW, NEW_2, OTHER]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Of the reference values in force."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    (tmp_path / "archer.yaml").write_text("general: {}\n")
    (tmp_path / "baselines").mkdir()
    (tmp_path / "expected_failures").mkdir()
    return tmp_path


def change(old="archer:fs3", new="archer:scratch", when=WHEN):
    entry = {"from": old, "to": new, "when": when, "who": "jane", "why": "it is the same"}
    return Rename.read("rename", entry)


def made(folder, *changes, cases=SITE, runs=None):
    """Each rename, one after the other; the last."""
    runs = on_record(HDF5, HDF5_2) if runs is None else runs
    for one in changes or [change()]:
        done = rename(one, cases, runs, folder, folder / "archer.yaml")
    return done


def to_work(folder):
    """The second rename, a day after the first."""
    made(folder)
    made(folder, change("archer:scratch", "archer:work", WHEN + DAY), cases=[WORK],
         runs=on_record(NEW))  # fmt: skip


def on_record(*cases, ago=1, database=None):
    """One night of these cases, so many days before the rename, as history reads it."""
    began = WHEN - ago * DAY
    stored = of_night(began, *(reported(case, began) for case in cases))
    if database is None:
        return list(history.runs_of(stored))
    store(database, stored)
    return history.read([database])


def cases_of(runs):
    return {run.case for run in runs}


# What is on record


def test_runs_until_then_have_the_new_name_however_they_are_read(folder, tmp_path):
    database = tmp_path / "results.db"
    on_record(HDF5, OTHER, database=database)
    before = {run.case: run for run in on_record(HDF5, ago=-1, database=database)}
    assert {*before} == {HDF5, OTHER}
    made(folder, runs=before.values())
    for _ in range(2):  # decoded, and from what was kept in brief
        by_day = {(run.case, run.night[:10]): run for run in history.read([database])}
        assert by_day.keys() == {
            (NEW, "2026-05-31"), (OTHER, "2026-05-31"), (HDF5, "2026-06-02")
        }, "who has the old name now is another one"  # fmt: skip
        assert by_day[NEW, "2026-05-31"].sentence == "fine"


def test_names_are_followed_one_after_the_other_and_back(folder, tmp_path):
    to_work(folder)
    assert cases_of(on_record(HDF5, database=tmp_path / "1.db")) == {WORK}
    late = on_record(HDF5, NEW, ago=-0.5, database=tmp_path / "2.db")
    assert cases_of(late) == {HDF5, WORK}
    kept = read(folder).with_old_names({("archer", "work"): 400, ("archer", "fs3"): 60})
    assert kept == {
        ("archer", "work"): 400, ("archer", "scratch"): 400, ("archer", "fs3"): 60
    }, "raw results are kept as long under an old name; fs3 is another one now"  # fmt: skip
    back = change("archer:work", "archer:fs3", WHEN + 2 * DAY)
    made(folder, back, cases=[HDF5], runs=on_record(WORK))
    assert cases_of(on_record(HDF5, database=tmp_path / "3.db")) == {HDF5}


def test_an_environment_is_renamed_in_one_partition_or_in_all(folder, tmp_path):
    both = change("archer:fs3/cray", "archer:fs3/cce"), change("archer/gnu", "archer/gcc")
    cce, gcc = changed(HDF5, place="archer:fs3/cce"), changed(HDF5, place="archer:fs3/gcc")
    fs2, fs2_gcc = (changed(HDF5, place=f"archer:fs2/{name}") for name in ("gnu", "gcc"))
    made(folder, *both, cases=[cce, gcc, OTHER])
    runs = on_record(HDF5, HDF5_2, fs2, OTHER, database=tmp_path / "results.db")
    assert cases_of(runs) == {cce, gcc, fs2_gcc, OTHER}
    assert str(Place.parse("archer/gnu")) == "archer/gnu"


# What is blessed and expected


def test_baseline_and_its_digest_follow(folder):
    bless.write("archer", folder, {HDF5: BLESSED, OTHER: BLESSED})
    done = made(folder)
    assert (done.baselines, done.cases, done.nights) == (1, 2, 1)
    assert bless.read("archer", folder) == {NEW: BLESSED, OTHER: BLESSED}
    assert [file.name for file in done.files] == ["archer.yaml"] * 2
    with pytest.raises(UserError, match="nothing is on record of it, and no baseline"):
        made(folder, runs=on_record(NEW))


def test_night_after_it_is_as_if_nothing_had_happened(folder, tmp_path):
    """It is judged by the baseline and by the nights of the old name, and nothing is lost."""
    database, tonight = tmp_path / "results.db", WHEN + DAY
    for ago in range(30, 0, -1):
        began = WHEN - ago * DAY
        store(database, of_night(began, reported(HDF5, began, rate=1000.0 + 10 * (ago % 3))))
    runs = history.read([database])
    bless.bless("archer", folder, by_case(runs), 30, None, None, "jane", "well", False)
    made(folder, runs=runs)
    store(database, of_night(tonight, reported(NEW, tonight, rate=1000.0)))
    (entry,) = bless.read("archer", folder).values()
    entry = evolve(entry, blessed=WHEN.date())
    runs = history.read([database])
    record = SystemRecord(system="archer", runs=runs, now=tonight + DAY, blessed={NEW: entry})
    night = night_of(record, night_id(tonight))
    (row,) = night.cases
    assert (row.case, len(row.earlier), row.blessed) == (NEW, 30, entry)
    assert (night.problems, list(lost_guards(night.cases))) == ([], [])
    assert bless.objection("archer", folder, NEW, entry, row.earlier) == ""


def test_patterns_follow_and_all_else_in_their_files_stays(folder):
    expected = folder / "expected_failures" / "archer.yaml"
    kept = (
        "# by hand\n"
        "- case: 'archer:{}/.*/backend=hdf5/.*'  # why\n  until: 2027-01-31\n  why: of fs3\n"
        "- {{case: archer:(fs2|{})/.*, until: 2027-01-31, why: fs3}}\n"
        "- {{case: '.*/backend=hdf5/.*', until: 2027-01-31, why: any}}\n"
        "- {{case: archer:fs3/.*, until: 2020-01-31, why: 'is over, and of its time'}}\n"
    )
    values = (
        "general: {{}}\n# bounds\nSharedFileWrite:\n"
        "  archer:{}/cray/.*: {{ratio: [0.9, -0.5, null, '1']}}  # of fs3\n"
        "  archer:.*: {{ratio: [0.5, -0.5, null, '1']}}\n"
    )
    expected.write_text(kept.format("fs3", "fs3"))
    (folder / "archer.yaml").write_text(values.format("fs3"))
    assert len(made(folder).files) == 3
    assert expected.read_text() == kept.format("scratch", "scratch")
    assert (folder / "archer.yaml").read_text() == values.format("scratch")
    assert len(read_expected("archer", folder)) == 4


def test_reference_values_that_are_shipped_are_copied(folder, tmp_path):
    shipped = tmp_path / "shipped" / "archer.yaml"
    shipped.parent.mkdir()
    shipped.write_text("general:\n  archer:fs3/.*: {ratio: [0.9, -0.5, null, '1']}\n")
    rename(change(), SITE, on_record(HDF5), folder, shipped)
    assert "archer:fs3/" in shipped.read_text()
    assert "archer:scratch/" in (folder / "archer.yaml").read_text()


def test_pattern_that_cannot_be_renamed_is_named_before_anything_is_written(folder):
    expected = folder / "expected_failures" / "archer.yaml"
    bless.write("archer", folder, {HDF5: BLESSED})
    for pattern in ("archer:fs[34]/.*", "archer:f.3/.*"):
        expected.write_text(f"- {{case: '{pattern}', until: 2027-01-31, why: slow}}\n")
        before = {file: file.read_text() for file in folder.rglob("*.yaml")}
        with pytest.raises(UserError, match=r"means archer:fs3/.*: write the new name into it"):
            made(folder)
        assert {file: file.read_text() for file in folder.rglob("*.yaml")} == before
    expected.write_text("- {case: 'archer:(fs[34]|scratch)/.*', until: 2027-01-31, why: slow}\n")
    made(folder)


# What is refused


def test_names_that_are_none_are_refused():
    other_kind = "write both with the same system and parts"
    wanted = [
        (("archer", "archer"), "^rename: from is 'archer', not SYSTEM:PARTITION, "),
        (("archer:fs3", "archer:fs3/cray"), other_kind),
        (("archer:fs3", "cirrus:fs3"), other_kind),
        (("archer:fs3/cray", "archer/cce"), other_kind),
        (("archer:fs3", "archer:fs3"), "archer:fs3 is no new name"),
        (("archer:f s3", "archer:fs4"), "from is 'archer:f s3', not SYSTEM:PARTITION, "),
    ]
    assert_refused(UserError, change, wanted)


def test_rename_that_does_not_fit_the_site_or_the_record_is_refused(folder):
    bless.write("archer", folder, {changed(MPIIO, place="archer:fs4/cray"): BLESSED})
    before = {file: file.read_text() for file in folder.rglob("*.yaml")}
    side_by_side = "were both measured in the night 2026-05-31T000000"
    wanted = [
        ({"cases": [HDF5]}, "archer:fs3 is not called archer:scratch in the site's configurat"),
        ({"cases": [HDF5, NEW]}, "which has archer:fs3/cray, archer:scratch/cray: rename it"),
        ({"runs": on_record(OTHER)}, "nothing is on record of it, .*: .* archer:fs2/cray$"),
        ({"runs": []}, "on record are no places"),
        ({"runs": on_record(HDF5, NEW)}, side_by_side),
    ]
    assert_refused(UserError, lambda more: made(folder, **more), wanted)
    assert {file: file.read_text() for file in folder.rglob("*.yaml")} == before
    bless.write("archer", folder, {HDF5: BLESSED, NEW: BLESSED})
    with pytest.raises(UserError, match="has a baseline under its old name too: remove one"):
        made(folder)


def test_history_is_not_read_by_a_record_that_is_not_ours(folder, tmp_path):
    on_record(HDF5, database=tmp_path / "results.db")
    made(folder)
    file = folder / "renames" / "archer.yaml"
    file.write_text(file.read_text().replace("who: jane", "whom: jane"))
    with pytest.raises(UserError, match=rf"^{file}, entry 1: there is no key whom: is who meant"):
        history.read([tmp_path / "results.db"])


# The command


def test_command_renames_what_the_site_calls_so(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path / "run"))
    monkeypatch.delenv("RFM_SQLITE_DB_FILE", raising=False)
    one = sorted(read_site("archer").cases("nightly"), key=str)[0]
    old = changed(one, place=f"archer:gone/{one.environ}")
    bless.write("archer", folder, {old: BLESSED})

    def run(*words):
        done = CliRunner().invoke(cli.app, ["rename", *words])
        return done.exit_code, done.output

    names = "archer:gone", f"archer:{one.partition}"
    for words, message in (
        ((*names, "--why", " "), "--why is empty"),
        (("archer", "archer:fs3", "--why", "x"), "from is 'archer', not SYSTEM:PARTITION"),
        ((*names[::-1], "--why", "x"), "is not called archer:gone"),
        (("nosuch:a", "nosuch:b", "--why", "x"), "--system nosuch: no configuration file has"),
    ):
        code, output = run(*words)
        assert (code, output.count("\n")) == (2, 1), output
        assert message in output
    code, output = run(*names, "--why", "x")
    assert (code, [*bless.read("archer", folder)]) == (0, [one]), output
    assert "1 baseline and 0 cases of 0 nights on record" in output
    assert (folder / "renames" / "archer.yaml").read_text().count("who: ") == 1
