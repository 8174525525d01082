"""Former names of places: what is on record, blessed and expected under them is that of the present
ones."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from attrs import evolve
from cases import changed
from nights import BLESSED, HDF5, MPIIO
from refusals import assert_refused
from reported import of_night, reported, store

from iowatch.base.files import UserError
from iowatch.cases.run import by_case, night_id
from iowatch.judge import bless
from iowatch.night.gate import lost_guards, night_of
from iowatch.night.record import SystemRecord
from iowatch.past import history
from iowatch.site.declared import excuse, read_expected
from iowatch.site.formerly import former_names
from iowatch.site.references import ReferenceFile

WHEN = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NEW = changed(HDF5, place="archer:scratch/cray")
NUMBERS = count()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """site(place=former names, ...): ReFrame's configuration has these partitions, and one `fs2`;
    the folder of reference values in force."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    for name in ("baselines", "expected_failures"):
        (tmp_path / name).mkdir()

    def write(places, environs=("cray", "gnu"), former=None):
        systems = {}
        for place, names in {**places, "archer:fs2": None}.items():
            system, _, name = place.partition(":")
            extras = {"filesystem": name} | ({} if names is None else {"formerly": names})
            part = {"name": name, "scheduler": "local", "launcher": "local", "extras": extras}
            systems.setdefault(system, []).append(part | {"environs": [*environs]})
        config = {
            "systems": [
                {"name": name, "hostnames": ["x"], "partitions": parts}
                for name, parts in systems.items()
            ],
            "environments": [
                {"name": name, "extras": {"formerly": former[name]} if name in former else {}}
                for former in [former or {}]
                for name in environs
            ],
        }
        file = tmp_path / f"archer{next(NUMBERS)}.json"
        file.write_text(json.dumps(config))
        monkeypatch.setenv("RFM_CONFIG_FILES", str(file))
        return tmp_path

    return write


def on_record(database, *cases, began=WHEN - DAY, **changes):
    """One night of these cases, as history reads it from the database."""
    store(database, of_night(began, *(reported(case, began, **changes) for case in cases)))
    return history.read([database])


def test_runs_have_the_present_names_of_place_and_filesystem(site, tmp_path):
    """However they are read, and whatever has changed: partition, environment, system, both."""
    old, other = changed(HDF5, place="archer:fs3/gnu"), changed(HDF5, place="archer:fs2/cray")
    gcc = changed(HDF5, place="archer:scratch/gcc")
    known = [
        ({"archer:scratch": ["fs3"]}, ("cray", "gnu"), {}, "archer:scratch/cray"),
        ({"archer:fs3": None}, ("cce", "gnu"), {"cce": ["cray"]}, "archer:fs3/cce"),
        ({"lumi:fs3": ["archer:fs3"]}, ("cray", "gnu"), {}, "lumi:fs3/cray"),
        ({"lumi:disk": ["archer:fs3", "work"]}, ("cce", "gnu"), {"cce": ["cray"]}, "lumi:disk/cce"),
    ]
    for number, (places, environs, former, now) in enumerate(known):
        site(places, environs, former)
        database = tmp_path / str(number) / "results.db"
        runs = on_record(database, HDF5, other)
        for _ in range(2):  # decoded, and from what was kept in brief
            moved = changed(HDF5, place=now)
            (run,) = (run for run in runs if run.case == moved)
            assert (run.filesystem, run.sentence) == (moved.partition, "fine")
            stays = other if "cce" not in environs else changed(other, place="archer:fs2/cce")
            assert stays in {run.case for run in runs}
            runs = history.read([database])
    site({"archer:scratch": ["fs3"]}, ("cray", "gcc"), {"gcc": ["gnu"]})
    assert {run.case for run in on_record(tmp_path / "x/results.db", HDF5, old)} == {NEW, gcc}


def test_filesystem_alone_may_have_another_name(site, tmp_path):
    site({"archer:scratch": ["home"]})
    (run,) = on_record(tmp_path / "a.db", NEW, filesystem_name="home")
    assert run.filesystem == "scratch"


def test_night_after_it_is_as_if_nothing_had_happened(site, tmp_path):
    """It is judged by the baseline and by the nights of the former name, and nothing is lost."""
    database, tonight = tmp_path / "results.db", WHEN + DAY
    folder = site({"archer:fs3": None})
    (folder / "archer.yaml").write_text("general: {}\n")
    for ago in range(30, 0, -1):
        began = WHEN - ago * DAY
        store(database, of_night(began, reported(HDF5, began, rate=1000.0 + 10 * (ago % 3))))
    runs = by_case(history.read([database]))
    bless.bless("archer", folder, runs, 30, None, None, "jane", "well", False)
    for system in ("archer", "lumi"):
        site({f"{system}:scratch": ["archer:fs3"]})
        new = changed(HDF5, place=f"{system}:scratch/cray")
        mine = shutil.copy(database, tmp_path / f"{system}.db")
        store(mine, of_night(tonight, reported(new, tonight, rate=1000.0)))
        record = SystemRecord.load(system, [mine], until=tonight + DAY)
        (entry,) = record.blessed.values()
        assert [*record.blessed] == [new]
        entry = evolve(entry, blessed=WHEN.date())
        record = SystemRecord(
            system=system, runs=record.runs, now=tonight + DAY, blessed={new: entry}
        )
        (row,) = (night := night_of(record, night_id(tonight))).cases
        assert (row.case, row.blessed) == (new, entry)
        assert len(row.earlier) == 30
        assert (night.problems, list(lost_guards(night.cases))) == ([], [])
        assert bless.objection(system, folder, new, entry, row.earlier) == ""


def test_baseline_of_the_present_name_counts_first(site):
    folder = site({"archer:scratch": ["fs3"]})
    anew = evolve(BLESSED, why="anew")
    for entries in ({HDF5: BLESSED, NEW: anew}, {NEW: anew, HDF5: BLESSED}):
        bless.write("archer", folder, entries)
        assert SystemRecord.load("archer", []).blessed == {NEW: anew}


def test_expected_failures_and_references_of_a_former_name_count(site):
    """Those of another place that is like it do not."""
    folder = site({"archer:scratch": ["fs3"]})
    entry = "- {{case: '{}', until: 2026-12-31, why: slow}}\n"
    file = folder / "expected_failures" / "archer.yaml"
    values = folder / "archer.yaml"
    bound = "{ratio: [0.9, -0.5, null, '1']}"
    for pattern, is_meant in (
        ("archer:fs3/.*", True), ("archer:(fs2|fs3)/cray/.*", True), ("archer:scratch/.*", True),
        ("archer:fs2/.*", False), ("archer:fs3/gnu/.*", False),
    ):  # fmt: skip
        file.write_text(entry.format(pattern))
        failures = read_expected("archer", folder)
        assert bool(excuse(failures, str(NEW), WHEN.date())) is is_meant, pattern
        values.write_text(f"general: {{}}\nSharedFileWrite:\n  {pattern}: {bound}\n")
        references = ReferenceFile(values)
        assert bool(references.bounds_of(NEW)) is is_meant, pattern
        assert bool(references.idle([NEW])) is not is_meant, pattern
    site({"lumi:fs3": ["archer:fs3"]})
    assert len(read_expected("lumi", folder)) == 1, "also in a file that has the former name"


def test_raw_results_are_kept_as_long_under_a_former_name(site):
    site({"archer:scratch": ["fs3"], "archer:work": None})
    assert former_names().kept({("archer", "scratch"): 400, ("archer", "work"): 60}) == {
        ("archer", "scratch"): 400, ("archer", "fs3"): 400, ("archer", "work"): 60,
    }  # fmt: skip


# What is refused


def test_name_that_cannot_be_a_former_one_is_one_line(site):
    def read(places, **more):
        site(places, **more)
        former_names()

    wanted = [
        (({"archer:scratch": ["fs2"]},),
         r"formerly has archer:fs2/cray for archer:scratch/cray, and both are there now: remove"),
        (({"archer:a": ["fs3"], "archer:b": ["fs3"]},),
         "formerly has archer:fs3/cray for archer:a/cray and for archer:b/cray: remove it from on"),
        (({"archer:scratch": "fs3"},), "formerly is not a list of former names, such as"),
        (({"archer:scratch": ["a/b"]},), "formerly is not a list of former names, such as"),
    ]  # fmt: skip
    assert_refused(UserError, read, wanted)
    with pytest.raises(UserError, match=r"formerly has archer:fs2/gnu for archer:fs2/cray, and b"):
        read({}, former={"cray": ["gnu"]})


def test_places_that_were_measured_side_by_side_are_not_the_same(site, tmp_path):
    site({"archer:scratch": ["fs3"]})
    both = "were both measured in the night 2026-05-31T000000, so they are not the same: remove the"
    for number, cases in enumerate([(HDF5, NEW), (NEW, HDF5)]):
        with pytest.raises(UserError, match=both):
            on_record(tmp_path / f"{number}.db", *cases)
    runs = on_record(tmp_path / "others.db", HDF5, changed(MPIIO, place=NEW.place))
    assert {run.case.place for run in runs} == {NEW.place}
