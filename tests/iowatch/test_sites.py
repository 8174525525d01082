"""The sites' configurations, read as iowatch does, against what ReFrame offers with them."""

import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import figures
import pytest
from refusals import refusals

from iowatch.base.files import UserError
from iowatch.cases.filesystem import ACCEPTANCE, NIGHTLY, SUITES
from iowatch.cases.run import Run
from iowatch.cases.verdict import OK
from iowatch.measure.case_ids import parse_case
from iowatch.measure.checks import CHECKS
from iowatch.measure.kinds.application import APPLICATIONS
from iowatch.site import site
from iowatch.site.published import read_tables
from iowatch.site.references import ReferenceFile
from iowatch.site.site import read_site

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "site_configs"

SYSTEMS = sorted({file.stem for file in CONFIGS.glob("*.py")} - {"settings"})

#: Those of which ReFrame lists the larger suite in a few seconds.
SMALL = ("rdf-dac", "jasmin", "slurm", "cephfs", "local")

#: Host names of login nodes.
LOGIN_NODES = {
    "archer": ["eslogin001"], "cirrus": ["cirrus-login0", "cirrus-login1.epcc.ed.ac.uk"],
    "cosma5": ["login5a", "login5b.cosma.dur.ac.uk"], "cosma6": ["login6a"],
    "rdf-dac": ["rdf-comp-login"], "jasmin": ["jasmin-sci1", "jasmin-sci12.ceda.ac.uk"],
    "c3hpc": ["c3hpc", "hpc.c3e.exact-lab.it"], "ulysses": ["frontend1.hpc.sissa.it"],
    "archer2": ["ln01", "uan01"], "slurm": [], "local": [], "cephfs": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def configured(tmp_path_factory, monkeypatch):
    """As after env.sh."""
    files = sorted(file for file in CONFIGS.glob("*.py") if file.name != "settings.py")
    monkeypatch.setenv("RFM_CONFIG_FILES", ":".join(map(str, [CONFIGS / "settings.py", *files])))
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path_factory.getbasetemp() / "prefix"))
    monkeypatch.delenv("RFM_SQLITE_DB_FILE", raising=False)


@cache
def configuration(system):
    return runpy.run_path(str(CONFIGS / f"{system}.py"))["site_configuration"]


@cache
def known(system):
    return read_site(system)


def filesystems(system):
    return {one.partition: one for one in known(system).filesystems}


# What the files say


def test_cases_of_all_systems(golden):
    """How many each check has of each suite, by partition."""
    lines = []
    for system in SYSTEMS:
        site = known(system)
        assert (site.system, site.is_whole) == (system, True)
        lines.append(system)
        for suite in SUITES:
            assert site.promises[suite].cases == len(site.cases(suite)), system
        for one in site.filesystems:
            osts = f"{len(one.osts)} OSTs" if one.osts else "no OSTs"
            lines.append(f"    {one.partition}: {osts}, {', '.join(one.environs)}")
            for suite in SUITES:
                counts = Counter(case.check.name for case in one.cases(suite))
                words = [f"{name} {count}" for name, count in sorted(counts.items())]
                lines.append(f"        {suite}: {', '.join(words)}")
                assert counts["LibraryVersions"] == len(one.environs)
            for names in ("stripe_count", "layout"):  # what users get, too
                has = {names in dict(case.parameters) for case in one.cases(NIGHTLY)}
                assert (True in has) == (one.osts is not None), (system, one.partition)
    golden("sites.txt", "\n".join([*lines, ""]))


def test_a_file_is_about_one_system():
    for system in SYSTEMS:
        config = configuration(system)
        (only,) = config["systems"]
        assert only["name"] == system
        assert set(config) <= {"systems", "environments", "general"}
        for entry in (*config["environments"], *config.get("general", [])):
            assert entry["target_systems"] == [system]
        for part in only["partitions"]:
            assert part["name"] == part["extras"]["filesystem"]
            assert part["max_jobs"] == 1


def test_no_host_belongs_to_two_systems():
    assert sorted(LOGIN_NODES) == SYSTEMS
    patterns = {s: configuration(s)["systems"][0]["hostnames"] for s in LOGIN_NODES}
    for system, hosts in LOGIN_NODES.items():
        assert bool(hosts) == bool(patterns[system])
        for host in hosts:
            # As ReFrame does it.
            assert {s for s in patterns if any(re.match(p, host) for p in patterns[s])} == {system}
    assert len({p for s in patterns for p in patterns[s]}) == sum(map(len, patterns.values()))


def nodes(filesystem, *checks):
    every = [CHECKS[name] for name in checks] or CHECKS.values()
    every = [check for check in every if not check.is_everywhere]
    settings = (filesystem.settings(suite, check) for suite in SUITES for check in every)
    return {setting.nodes for each in settings for setting in each}


def test_node_counts_are_those_a_system_allows_its_peak_is_for_and_caches_need():
    assert [nodes(filesystem) for filesystem in filesystems("rdf-dac").values()] == [{1}] * 3
    assert nodes(filesystems("c3hpc")["local"]) == {1}
    for system, link in (("jasmin", 1.25e9), ("archer2", 25e9), ("ulysses", 4e9)):
        for filesystem in filesystems(system).values():
            assert filesystem.peak * 2**20 == pytest.approx(max(nodes(filesystem)) * link)
    # Reads are of what another node wrote, but from disks with no cache but the kernel's.
    every = [fs for system in set(SYSTEMS) - {"local"} for fs in filesystems(system).values()]
    shared = [filesystem for filesystem in every if filesystem.types != ("ext4", "xfs")]
    assert all(1 not in nodes(filesystem, "SharedFileRead") for filesystem in shared)


def test_no_peak_below_a_published_value():
    compared = 0
    for row in (row for row in read_tables() if row["table"] != "E1"):
        fastest = max(row[name] or 0 for name in ("max", "mean", "median"))
        for name, filesystem in filesystems(row["system"]).items():
            if row["filesystem"] in (None, name):
                assert filesystem.peak > fastest > 0
                compared += 1
    assert compared > 300
    # ARCHER2's user guide, "I/O performance and tuning": a file per process.
    for name, gib in (("nvme", 200), ("work1", 170)):
        assert filesystems("archer2")[name].peak > gib * 1024


#: What a filesystem keeps its data on, and what a node reaches of it at most, in bytes/s: twelve
#: channels of DDR5, four of the fastest NVMe drives, two links of 400 Gbit/s.
DISK, MEMORY, NETWORK = 4 * 16e9, 500e9, 2 * 50e9
KINDS = dict.fromkeys(("ext4", "xfs", "btrfs", "overlay", "zfs"), DISK) | {"tmpfs": MEMORY}


def test_each_place_is_of_one_kind_with_a_peak_that_can_be():
    """What is written to memory, or over a network, is not to pass for what the disk does."""
    for system in SYSTEMS:
        for name, filesystem in filesystems(system).items():
            (most,) = {KINDS.get(kind, NETWORK) for kind in filesystem.types}
            assert most in (DISK, MEMORY) or len(filesystem.types) == 1, (system, name)
            assert filesystem.peak * 2**20 <= max(nodes(filesystem)) * most, (system, name)
            assert filesystem.cached_reads == (most == MEMORY), (system, name)


def test_every_case_of_every_site_has_references_in_its_file():
    """Its checks would be red on the first night otherwise; those without metrics have none."""
    for system in SYSTEMS:
        file = ReferenceFile(ROOT / "reference_values" / f"{system}.yaml")
        for suite in SUITES:
            for case in known(system).cases(suite):
                assert bool(file.bounds_of(case)) == bool(case.metrics), case


def test_every_row_of_the_white_papers_tables_is_measured_by_its_site_again(monkeypatch):
    """An acceptance session has a case for it, which scripts/paper shows beside it."""
    time = datetime(2026, 5, 1, tzinfo=UTC)
    metrics = {"total_max": 1.0, "total_mean": 1.0}
    rows = [row for figure in figures.FIGURES for row in figures.rows_of(figure)]
    assert {row["table"] for row in rows} == {str(number) for number in range(1, 22)}
    runs = defaultdict(list)
    for system in {row["system"] for row in rows}:
        for case in known(system).cases(ACCEPTANCE):
            run = Run(case, time, OK, "", metrics, "2026-05-01", "")
            for partition in (None, case.partition):
                runs[system, case.ranks, partition].append(run)
    shown = {table: figures.of_table(table) for table in {row["table"] for row in rows}}
    for row in rows:
        monkeypatch.setattr(figures, "rows_of", lambda figure, row=row: [row])
        alike = runs[row["system"], row["ranks"], row["filesystem"]]
        assert figures.site_series(shown[row["table"]], alike), row


def test_every_site_has_second_opinions_and_applications():
    """An acceptance test has IOR with each of its libraries, IOR and mdtest as in IO500, and what
    applications write has the layout that users get. Of few ranks, headers pass for data."""
    for one in (fs for system in SYSTEMS for fs in filesystems(system).values()):
        cases = defaultdict(set)
        for case in one.cases(ACCEPTANCE) | one.cases(NIGHTLY):
            cases[case.check.name].add(case)
        assert {case.backend for case in cases["IorPeer"]} == set(CHECKS["IorPeer"].backends)
        for check in ("IorPeer", "MdtestPeer"):
            assert {case.get("io500") for case in cases[check]} == {None, "easy", "hard"}
        assert {case.backend for case in cases["IoProfile"]} == set(CHECKS["IoProfile"].backends)
        assert all(case.ranks > 10 for case in cases["IoProfile"])
        layout = None if one.osts is None else "default"
        assert {case.layout for check in APPLICATIONS for case in cases[check.name]} == {layout}


# What ReFrame offers

QUICK = ("cephfs", "local")


@pytest.mark.parametrize(
    "system", [s if s in QUICK else pytest.param(s, marks=pytest.mark.slow) for s in SYSTEMS]
)
def test_reframe_offers_the_cases_of_a_suite(system):
    suite = ACCEPTANCE if system in SMALL else NIGHTLY
    done = subprocess.run(
        [
            *("reframe", "--nocolor", "-c", ROOT / "reframe_checks", "--system", system, "-lC"),
            "--mode=acceptance" if suite == ACCEPTANCE else "--mode=record",
        ],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        timeout=300, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout, done.stdout
    test = r"^- (\w+)(?: %setting=(\S+))? /\w+ @(\S+)\+(\S+)$"
    offered = [
        parse_case("/".join(filter(None, [place, environ, check, tail])))
        for check, tail, place, environ in re.findall(test, done.stdout, re.MULTILINE)
    ]
    assert len(offered) == len(set(offered)) > 10
    assert set(offered) == known(system).cases(suite)


# Reading it


def test_one_partition_of_a_site():
    part = read_site("archer:fs3")
    assert (part.system, part.is_whole, len(part.filesystems)) == ("archer", False, 1)
    assert part.filesystems == (filesystems("archer")["fs3"],)
    assert part.cases(NIGHTLY) == {
        c for c in known("archer").cases(NIGHTLY) if c.partition == "fs3"
    }


def forget_configurations(monkeypatch):
    """What ReFrame has read is read again."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "").parent == ROOT / "site_configs":
            monkeypatch.delitem(sys.modules, name)


def test_where_results_are(monkeypatch, tmp_path):
    prefix = Path(os.environ["RFM_PREFIX"])
    forget_configurations(monkeypatch)  # or the prefix is that of another test
    found = read_site("local")
    assert (found.prefix, found.database) == (prefix, prefix / "results.db")
    assert site.results_database() == prefix / "results.db"
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, expected in (
        ("~/nights.db", tmp_path / "nights.db"),
        ("$HOME/nights.db", tmp_path / "nights.db"),
        ("/x/nights.db", Path("/x/nights.db")),
    ):
        monkeypatch.setenv("RFM_SQLITE_DB_FILE", given)
        assert read_site("local").database == site.results_database() == expected
    monkeypatch.setenv("RFM_PREFIX", "$HOME/here")
    assert read_site("local").prefix == tmp_path / "here", "as ReFrame has it"
    said = r"^RFM_PREFIX, or 'prefix' of the system: .* in it, and no job can run there: name a"
    for given in ("/x/a run", "/x/a$(run", "/x/'", "/x/\\n", "/x/`a"):
        monkeypatch.setenv("RFM_PREFIX", given)
        with pytest.raises(UserError, match=said):
            read_site("local")
    monkeypatch.delenv("RFM_PREFIX")
    monkeypatch.delenv("IOWATCH_SITE_DIR", raising=False)
    forget_configurations(monkeypatch)
    if os.access(ROOT, os.W_OK):
        assert read_site("local").prefix == ROOT / "results"


def test_system_of_the_centre_keeps_its_results_where_the_database_is(monkeypatch, tmp_path):
    """A copy of the site's own folder has all of it, whatever prefix the centre has."""
    centre = tmp_path / "centre.py"
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["gnu"]}
    system = {"name": "mine", "hostnames": ["mine"], "partitions": [partition]}
    others = {"prefix": f"{tmp_path}/centre", "stagedir": f"{tmp_path}/stage"}
    config = {"systems": [system | others], "environments": [{"name": "gnu"}]}
    centre.write_text(f"site_configuration = {config!r}\n")
    monkeypatch.delenv("RFM_PREFIX")
    monkeypatch.setenv("IOWATCH_SITE_DIR", str(tmp_path))
    forget_configurations(monkeypatch)
    extras = configuration("local")["systems"][0]["partitions"][0]["extras"]
    file = tmp_path / "mine.py"
    file.write_text(
        "from iowatch.base.places import extended\n"
        f"site_configuration = extended({str(centre)!r}, 'mine', {{'p': {extras!r}}})\n"
    )
    monkeypatch.setenv("RFM_CONFIG_FILES", f"{CONFIGS}/settings.py:{file}")
    found = read_site("mine")
    results = tmp_path / "results"
    assert (found.prefix, found.database.parent) == (results, results)
    assert found.stage == tmp_path / "stage", "where the centre's jobs can begin"


MINE = """\
site_configuration = {{
    "systems": [{{
        "name": "mine", "hostnames": ["mine"],
        "partitions": [
            {{"name": "p", "scheduler": "local", "launcher": "local", "environs": ["gnu"], {}}}
        ],
    }}],
    "environments": [{{"name": "gnu"}}, {{"name": "not-ours", "extras": {{"benchi": 1}}}}],
}}
"""


def test_configuration_that_cannot_be_used_is_one_line(monkeypatch, tmp_path, golden):
    names = itertools.count()

    def attempt(name):
        text, *system = wrong[name]
        file = tmp_path / str(next(names)) / "mine.py"  # nothing is imported twice
        file.parent.mkdir()
        file.write_text(text)
        monkeypatch.setenv("RFM_CONFIG_FILES", str(file))
        read_site(*system or ["mine"])

    centre, ours = MINE.format(""), MINE.format('"extras": {"osts": None}')
    wrong = {
        "no Python": ("x = (",), "an error": (f"{centre}\nx = 1 / 0",), "other Python": ("x = 1",),
        "an exit": (f"{centre}\nraise SystemExit('error: not so')",), "the centre's": (centre,),
        "too little of ours": (ours,), "system min": (centre, "min"),
        "partition q": (centre, "mine:q"), "no partition": (centre, "mine:"),
    }  # fmt: skip
    text = refusals(UserError, attempt, wrong)
    golden("sites-configurations.txt", re.sub(r"/\S*/\d+/(?=mine.py)", "", text))
    wrong["not valid"] = (MINE.format('"nodes": 2'),)
    with pytest.raises(UserError, match=r"^--system mine: could not validate configuration file"):
        attempt("not valid")
    monkeypatch.delenv("RFM_CONFIG_FILES")
    monkeypatch.delenv("RFM_CONFIG_PATH", raising=False)
    with pytest.raises(UserError, match=r"RFM_CONFIG_FILES, which is not set: source env\.sh$"):
        read_site("archer")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_example_units_are_valid():
    units = sorted((ROOT / "docs/examples").glob("iowatch.*"))
    assert [unit.suffix for unit in units] == [".service", ".timer"]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
