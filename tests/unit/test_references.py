"""The references that are made from the published values."""

import ast
import re
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from iowatch.case import Case, parse_size
from iowatch.files import UserError
from iowatch.metrics import figure_names
from iowatch.paper import published
from iowatch.paper.published import (
    GENERAL,
    PublishedError,
    read_tables,
    references,
    write_references,
)
from iowatch.site import read_filesystem
from iowatch.verdict import judge, read_references

ROOT = Path(__file__).parents[2]
SYSTEMS = [
    *("archer", "cirrus", "cosma5", "cosma6", "rdf-dac", "jasmin", "c3hpc", "ulysses"),
    *("local", "archer2", "slurm"),
]
ROWS = read_tables().rows(named=True)


@pytest.fixture(scope="module")
def generated():
    return {system: yaml.safe_load(references(system)) for system in SYSTEMS}


@pytest.mark.parametrize("system", SYSTEMS)
def test_committed_references_are_those_generated(system):
    assert (ROOT / "reference_values" / f"{system}.yaml").read_text() == references(system), (
        f"run `iowatch references {system}`"
    )


#: Settings that a table leaves open, as our cases state them.
DEFAULTS = {"archer": (4, 1), "cirrus": (1, 1), "cosma6": (1, 1), "c3hpc": (1, 1)}
PARTITIONS = {"cirrus": "work", "cosma5": "data", "cosma6": "data", "jasmin": "group"}


def published_cases():
    """(check, case, published row, better documented row of the same case) of every write."""
    first = {}
    for row in sorted(ROWS, key=lambda r: (r["table"] == "21", r["median"] is None)):
        if row["operation"] == "read" or row["instance"] or row["table"] == "21":
            continue
        if row["table"] == "E1" and row["files"] == "shared":
            continue
        load = row["table"] in ("11", "12")
        count, size = DEFAULTS.get(row["system"], (None, None))
        case = Case(
            system=row["system"],
            partition=row["filesystem"] or PARTITIONS[row["system"]],
            environ="gnu",
            operation="write",
            files=row["files"],
            backend="stream" if row["backend"] == "posix" else row["backend"],
            stripe_count=row["stripe_count"] or count,
            stripe_size=row["stripe_size_mib"] or size,
            local_size=parse_size(row["local_size"] or 128),
            writers=row["writers"],
            **({"instances": row["instances"]} if load else {}),
        )
        check = "FilePerProcess" if row["files"] == "process" else "SharedFileWrite"
        yield "SystemLoad" if load else check, case, row, first.setdefault(str(case), row)


CASES = list(published_cases())


def matching(entries, case):
    """As ReFrame does it."""
    return [key for key in entries if key != "$index" and re.match(f"^{key}$", str(case))]


def healthy(case, figure, value):
    figures = {**dict.fromkeys(figure_names(case), value), "ratio": 1.0, "close_fraction": 0.0}
    return {**figures, figure: value}


def test_every_published_case_has_its_own_entry(generated):
    owners = defaultdict(set)
    for check, case, _, _ in CASES:
        entries = generated[case.system][check]
        assert entries["$index"] == ["case_id"]
        special = matching(entries, case)
        assert len(special) == 2  # its own, then the general one
        assert special[1] == f"{case.system}:.*/{case.backend}/.*"
        owners[case.system, check, special[0]].add(str(case))
    assert all(len(cases) == 1 for cases in owners.values())
    keys = {
        (system, check, key)
        for system, checks in generated.items()
        for check, entries in checks.items()
        if check != "general"
        for key in entries
        if key != "$index" and not key.startswith(f"{system}:.*")
    }
    assert set(owners) == keys  # none without a published case


@pytest.mark.parametrize("system", sorted({case.system for _, case, _, _ in CASES}))
def test_the_published_night_is_ok_and_a_quarter_of_it_is_not(generated, system):
    for check, case, row, better in CASES:
        if case.system != system:
            continue
        entries = generated[system][check]
        bounds = read_references(case, entries[matching(entries, case)[0]])
        load = (case.instances or 1) > 1
        value = row["mean"] if row["max"] is None else row["max"]
        figure = "total_mean" if load else "total_max"
        assert bounds[figure].value == (better["mean"] if better["max"] is None else better["max"])
        assert set(bounds) == {figure, *GENERAL[case.backend]}

        def night(figure, value, case=case, bounds=bounds):
            return judge(case, healthy(case, figure, value), bounds, "file", 1e9, False).kind

        assert night(figure, value) == "ok"
        assert night(figure, value / 4) == "regression"
        if better["median"]:
            assert night(figure, better["median"]) == "ok"
            assert night(figure, 0.99 * better["median"]) == "regression"


def test_a_striped_case_may_say_all_or_their_number(generated):
    entries = generated["cosma6"]["SharedFileWrite"]
    striped = next(case for _, case, _, _ in CASES if case.stripe_count == 120)
    all_osts = str(striped).replace("count=120", "count=-1")
    assert matching(entries, striped)[0] == matching(entries, all_osts)[0]


def test_the_published_fault_of_hdf5_on_cirrus_is_red(generated):
    table = [row for row in ROWS if row["table"] == "14"]
    control = {row["writers"]: row["max"] for row in table if row["backend"] == "mpiio"}
    entries = generated["cirrus"]["SharedFileWrite"]
    red = set()
    for _, case, row, _ in CASES:
        if row["table"] == "14" and case.backend == "hdf5":
            bounds = read_references(case, entries[matching(entries, case)[0]])
            figures = healthy(case, "total_max", row["max"])
            figures["ratio"] = row["max"] / control[case.writers]
            if judge(case, figures, bounds, "file", 1e9, False).red:
                red.add(case.writers)
    assert red == {576, 1152, 2304, 4608}


@pytest.mark.parametrize("system", SYSTEMS)
def test_general_entries_are_usable_and_there_for_every_check(generated, system):
    base = {"system": system, "partition": "p", "environ": "e", "local_size": (7, 7, 7)}
    base |= {"stripe_count": 3, "stripe_size": 3, "writers": 5, "backend": "mpiio"}
    checks = {
        "SharedFileWrite": {"operation": "write", "files": "shared"},
        "SharedFileRead": {"operation": "read", "files": "shared"},
        "FilePerProcess": {"operation": "write", "files": "node"},
        "SystemLoad": {"operation": "write", "files": "shared", "instances": 2},
        "SlowOst": {"operation": "write", "files": "shared", "each_ost": True},
        "IorPeer": {"operation": "write", "files": "process", "ior_peer": True},
        "IorPeerRead": {"operation": "read", "files": "shared", "ior_peer": True},
    }
    assert set(generated[system]) == {"general", *checks}
    for check, what in checks.items():
        backends = ["mpiio"] if check == "SlowOst" else ["mpiio", "hdf5", "netcdf", "pnetcdf"]
        backends += ["stream"] if check == "FilePerProcess" else []
        for backend in backends:
            case = Case(**base | what | {"backend": backend})
            (key,) = matching(generated[system][check], case)
            entry = generated[system][check][key]
            assert read_references(case, entry)
            if check == "SlowOst":
                assert entry == {"ost_ratio": [1, -0.5, None, "1"]}
            elif case.ior_peer:
                assert entry == {"ior_ratio": [1, -0.5, None, "1"]}
            else:
                assert entry["close_fraction"] == [0, None, 0.25, "1"]
                floor = entry.get("total_max") == [1, 0, None, "MiB/s"]
                assert floor == (backend in ("mpiio", "stream"))
                expected = {"hdf5": 0.9, "netcdf": 0.7, "pnetcdf": 0.7}
                ratio = [expected[backend], -0.5, None, "1"] if backend in expected else None
                assert entry.get("ratio") == ratio


def test_references_of_a_site_reach_its_partitions(generated):
    """Published cases name the filesystem as the site's configuration does."""
    reached = set()
    for system in {case.system for _, case, _, _ in CASES}:
        file = ROOT / "site_configs" / f"{system}.py"
        (site,) = runpy.run_path(file)["site_configuration"]["systems"]
        for part in site["partitions"]:
            filesystem = read_filesystem(
                system, part["name"], part["environs"], part["extras"], [file.name]
            )
            for check, sweep in filesystem.sweeps["acceptance"].items():
                for setting in sweep:
                    case = filesystem.case(part["environs"][0], check, setting)
                    if len(matching(generated[system][check], case)) > 1:
                        reached.add(system)
        assert system in reached


# Writing


def test_writes_the_file_and_nothing_else(tmp_path):
    (tmp_path / "jasmin.yaml").write_text("old")
    path = write_references("jasmin", tmp_path)
    assert path == tmp_path / "jasmin.yaml"
    assert path.read_text() == references("jasmin")
    assert [file.name for file in tmp_path.iterdir()] == ["jasmin.yaml"]


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "jasmin.yaml").write_text("old")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        write_references("jasmin", tmp_path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_errors_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(PublishedError) as unknown:
        write_references("archre", tmp_path)
    assert str(unknown.value) == f"no system 'archre': there are {', '.join(sorted(SYSTEMS))}"
    with pytest.raises(UserError, match=r"missing/local\.yaml: cannot be written"):
        write_references("local", tmp_path / "missing")
    monkeypatch.setattr(published, "PUBLISHED", tmp_path)
    with pytest.raises(PublishedError, match="has no tables: install iowatch from its checkout"):
        references("local")


def test_what_the_checks_import_needs_only_reframes_dependencies():
    """A centre's own ReFrame has none of these; polars, which it may have, takes long to load."""
    imports = [
        ast.unparse(node)
        for check in (ROOT / "reframe_checks").glob("*.py")
        for node in ast.walk(ast.parse(check.read_text()))
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("iowatch.")
    ]
    assert "from iowatch import bless, history, references" in imports
    missing = ["polars", "typer", "rich", "jinja2", "darshan", "matplotlib", "numpy"]
    code = [f"import sys; sys.modules.update(dict.fromkeys({missing}))", *imports]
    subprocess.run([sys.executable, "-c", "\n".join(code)], check=True)
