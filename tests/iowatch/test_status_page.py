"""The status page for users: what it says of filesystems, and that it says nothing else."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve
from cases import PLACE, case, changed
from nights import BLESSED, HDF5, MPIIO, at, ran, red, unmeasured, unverified
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.cases.run import night_id
from iowatch.judge import bless
from iowatch.night.public_status import DAYS, PublicState, status_page
from iowatch.night.record import SystemRecord
from iowatch.site.declared import Event, ExpectedFailure, Maintenance, UserOutput
from iowatch.site.site import Site

SLOWER, UNKNOWN, USUAL = PublicState
FS2 = changed(HDF5, place="archer:fs2/cray")
WRF = UserOutput(name="a WRF output", size=9000, library="hdf5", ranks=96)


def site_of(**public):
    places = tuple(
        evolve(
            PLACE,
            system="archer",
            partition=partition,
            name=partition,
            public_name=name,
            suites={"nightly": {}},
        )
        for partition, name in public.items()
    )
    here = Path("/x")
    return Site(
        system="archer", filesystems=places, is_whole=True, prefix=here, stage=here,
        database=here, promises={}, sources=("archer.py",),
    )  # fmt: skip


def page_of(*runs, public=("Work", "Home"), now=None, **known):
    ordered = sorted(runs, key=lambda run: run.time)
    record = SystemRecord(
        system="archer", runs=ordered, now=now or at(24), blessed={HDF5: BLESSED}, **known
    )
    return status_page(site_of(fs3=public[0], fs2=public[1]), record)


def test_states_of_filesystems_and_since_when():
    nights = [run for ago in (5, 4, 2, 1) for run in (ran(FS2, ago), ran(MPIIO, ago))]
    page = page_of(*nights, red(ago=1, rate=4812.5), red(rate=4812.5), ran(FS2), outputs=[WRF])
    work, home = page.filesystems
    assert (work.name, work.state, work.since) == ("Work", SLOWER, "since 19 Nov")
    assert work.slower == "writing with HDF5"
    assert work.costs == ["+12 min: a WRF output takes about 32 min instead of 20 min"]
    assert (home.state, home.since, home.costs, home.slower) == (
        USUAL, "since 15 Nov", [], "",
    )  # fmt: skip
    assert (page.headline, page.worst) == ("Slower than usual: Work", SLOWER)
    days = [bar.state for bar in work.bars]
    assert len(days) == DAYS
    assert days[-6:] == [USUAL, USUAL, UNKNOWN, USUAL, SLOWER, SLOWER]
    assert set(days[:-6]) == {UNKNOWN}
    assert home.bars[-1].words == "20 Nov: working as usual"


@pytest.mark.parametrize(
    ("tonight", "state"),
    [
        ([unmeasured()], UNKNOWN),
        ([unverified(), ran(MPIIO)], UNKNOWN),
        # However many are well beside it.
        ([unverified(), ran(MPIIO), *(ran(changed(HDF5, ranks=n)) for n in (5, 6, 7))], UNKNOWN),
        ([ran(), ran(MPIIO), unmeasured(changed(HDF5, ranks=7))], USUAL),
        ([ran(), unmeasured(MPIIO)], UNKNOWN),
        ([red(result="xfail")], SLOWER),  # users wait, though the centre knows
        ([ran(verdict="suspect (own_past)", rate=3000)], SLOWER),
        ([ran(verdict="unjudged (no_reference)")], UNKNOWN),  # nobody knows what is usual
        ([red(case("LibraryVersions", "archer:fs3/cray"), metrics={}), ran()], USUAL),
    ],
)
def test_state_goes_by_what_was_measured(tonight, state):
    work, _ = page_of(*tonight, ran(FS2)).filesystems
    assert work.state is state


def test_slow_node_is_no_slow_filesystem():
    nodes = case("SlowNode", "archer:fs3/cray", local_size=(64, 64, 64), ranks=96)
    slow = ran(nodes, verdict="regression (slow_node)", by_node={"lost": {"nid00012": "hangs"}})
    work, _ = page_of(slow, ran(), ran(MPIIO), ran(FS2)).filesystems
    assert (work.state, work.slower) == (USUAL, "")


def test_cases_that_did_not_run_are_not_as_usual(monkeypatch):
    asked = {HDF5, MPIIO, changed(HDF5, ranks=7), FS2}
    monkeypatch.setattr(Site, "cases", lambda site, suite: asked)
    work, home = page_of(ran(), ran(FS2)).filesystems
    assert (work.state, work.bars[-1].state, home.state) == (UNKNOWN, UNKNOWN, USUAL)


def test_old_night_says_nothing_of_now():
    page = page_of(ran(), ran(FS2), now=at(24 * 4))
    assert page.headline == "State unknown: Work, Home"
    assert page.filesystems[0].since == "since 21 Nov"
    assert page_of(ran(), ran(FS2)).headline == "All filesystems work as usual"


def test_partitions_with_one_name_are_one_filesystem_and_others_are_left_out():
    (work,) = page_of(ran(), red(FS2), public=("Work", "Work")).filesystems
    assert work.state is SLOWER
    (work,) = page_of(ran(), red(FS2), public=("Work", "")).filesystems
    assert work.state is USUAL
    with pytest.raises(UserError, match=r"archer has a name for users: add 'public_name'.*py$"):
        page_of(ran(), public=("", ""))


def test_only_texts_for_users_are_shown():
    begins = datetime(2026, 11, 24, 8, tzinfo=UTC)
    away = Maintenance(
        begins=begins, ends=begins + timedelta(hours=10), filesystems=("fs3",), why="OSS swap",
        public="New disks",
    )  # fmt: skip
    fault = ExpectedFailure(
        case=re.compile("archer:fs3/.*"), until=at(48).date(), why="bug 4711", public="HDF5 is slow"
    )
    event = Event(at=at(ago=3), event="OSS 7.2", who="jane", public="New firmware")
    page = page_of(
        ran(), ran(FS2),
        maintenance=[away, evolve(away, public="")],
        expected=[fault, evolve(fault, public="")],
        events=[event, evolve(event, public=""), evolve(event, at=at(ago=40), public="old")],
    )  # fmt: skip
    work, home = page.filesystems
    assert work.remarks == ["24 Nov, 08:00 to 24 Nov, 18:00 UTC: New disks", "HDF5 is slow"]
    assert (home.remarks, page.events) == ([], ["17 Nov: New firmware"])


CONFIGURATION = """\
EXTRAS = {extras}
site_configuration = {{
    "systems": [{{
        "name": "zeus", "hostnames": ["eslogin001"], "prefix": "/zeus",
        "partitions": [
            {{"name": name, "scheduler": "local", "launcher": "local", "environs": ["cray"],
              "extras": {{**EXTRAS, "filesystem": f"/lus/{{name}}", "path": f"/lus/{{name}}/z01",
                          **public}}}}
            for name, public in [("fs3", {{"public_name": "Work <1>"}}), ("fs2", {{}})]
        ],
    }}],
    "environments": [{{"name": "cray"}}],
}}
"""
SECRET = changed(HDF5, place="zeus:fs3/cray")
#: What a night knows, and users must not read.
HOSTILE = (
    "/lus", "z01", "jane", "nid00012", "eslogin001", "OST 12", "1.10.8", "4711", "zeus", "cray",
    "fs3", "fs2", "SharedFileWrite", "stripe", "128x128x128", "ops",  "<script>", "OSS",
    "sim-4",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A site with a red night, of whose texts all but the public ones are hostile."""
    suites = {"nightly": {}, "acceptance": {}}
    extras = {
        "type": "lustre", "peak": 1e6, "osts": [0, 1], "cached_reads": False, "ranks_per_node": 24,
        "keep_days": 60, "suites": suites,
    }  # fmt: skip
    file = tmp_path / "zeus.py"
    file.write_text(CONFIGURATION.format(extras=extras))
    monkeypatch.setenv("RFM_CONFIG_FILES", str(file))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    now = datetime.now(UTC)
    bad = "/lus/fs3/z01/jane <script>OST 12 of OSS 4 on nid00012 is slow, job sim-4, HDF5 1.10.8"
    ids = [night_id(now - timedelta(days=ago, hours=2)) for ago in (2, 1, 0)]
    nights = []
    for ago, name in zip((2, 1, 0), ids, strict=True):
        time = now - timedelta(days=ago, hours=1)
        is_red = ago == 0
        told = {"filesystem_name": "/lus/fs3", "sentence": bad, "kept": "/lus/fs3/z01/runs"}
        told |= {"provenance": {"hosts": "nid00012", "hdf5": "1.10.8"}}
        verdict = {"verdict": "regression (own_past)", "result": "fail"} if is_red else {}
        tests = [
            reported(of, time, rate=4812.5 if is_red else 7700, **told, **verdict)
            for of in (SECRET, changed(SECRET, place="zeus:fs2/cray"))
        ]
        nights.append(session(*tests, uuid=name, began=time - timedelta(hours=1), night=name))
    store(tmp_path / "results.db", *nights)
    blessed = evolve(BLESSED, first=ids[0], last=ids[1], blessed=now.date(), who="jane", why=bad)
    monkeypatch.setattr(bless, "baselines_of", lambda system, folder: {SECRET: blessed})
    monkeypatch.setattr(bless, "objection", lambda *given: "")
    for name, text in {
        "events": f"- {{at: {now:%Y-%m-%d %H:%M}Z, event: '{bad}', who: jane}}",
        "expected_failures": f"- {{case: 'zeus:fs3/.*', until: {now:%Y-%m-%d}, why: '{bad}'}}",
        "maintenance": f"- {{from: {now:%Y-%m-%d} 00:00Z, until: {now:%Y-%m-%d} 23:00Z, "
        f"filesystems: [/lus/fs3], why: '{bad}', public: New disks}}",
        "user_outputs": "- {name: a WRF output, size: 9000, library: hdf5, ranks: 96}",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "zeus.yaml").write_text(f"{text}\n")
    return tmp_path


def test_nothing_of_names_paths_and_hosts_is_on_the_page(hostile):
    page = hostile / "www.html"
    words = ["report", "--public", "--system", "zeus", "--db", str(hostile / "results.db")]
    done = CliRunner().invoke(cli.app, [*words, "-o", str(page)])
    assert (done.exit_code, done.output) == (0, f"{page}\n"), done.output
    text = page.read_text().replace("&nbsp;", " ")
    assert "<h1>Slower than usual: Work &lt;1&gt;</h1>" in text
    assert "+12 min: a WRF output takes about 32 min instead of 20 min" in text
    assert "UTC: New disks" in text
    assert [word for word in HOSTILE if word.lower() in text.lower()] == []
    refused = CliRunner().invoke(cli.app, [*words, "--format", "md"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    shown = CliRunner().invoke(cli.app, ["show", str(SECRET), *words[2:]])
    assert "\ncost to users: +12 min: a WRF output takes about 32 min" in shown.output
