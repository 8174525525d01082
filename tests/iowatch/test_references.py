"""What a site expects: the files it writes, those that are made from published values, and failures
until a day."""

import re
from collections import defaultdict
from datetime import date
from functools import partial
from pathlib import Path

import pytest
import yaml
from cases import case, changed
from refusals import assert_refused

from iowatch.checks import CHECKS, GENERAL_BOUNDS, parse_size
from iowatch.files import UserError
from iowatch.judge import by_references
from iowatch.paper import published
from iowatch.paper.published import read_tables, references, write_references
from iowatch.references import (
    BadReference,
    Reference,
    ReferenceFile,
    excuse,
    read_expected,
    read_references,
)
from iowatch.verdict import Kind
from iowatch.yaml_text import BadYaml, load_yaml

ROOT = Path(__file__).parents[2]
FILES = ROOT / "reference_values"
SYSTEMS = sorted(file.stem for file in FILES.glob("*.yaml"))
ROWS = read_tables()
HDF5 = case("SharedFileWrite", "archer:fs2/gnu", local_size=(8, 8, 8), writers=2)
MPIIO = changed(HDF5, backend="mpiio")


# YAML


def test_key_that_stands_twice_and_what_is_no_yaml():
    assert_refused(
        BadYaml,
        load_yaml,
        [
            ("a: 1\nb: 2\na: 3", "^line 3: key 'a' stands in line 1 already: remove one"),
            ("a: 1\n'a': 2", "^line 2: key 'a'"),
            ("a:\n- {b: 1, b: 1}", "^line 2: key 'b' stands in line 2"),
            ("a: &a {b: 1}\nc: {<<: *a, b: 2, b: 3}", "^line 2: key 'b'"),
            ("a:\n- 0100", "^line 2: 0100 is no number as people write it"),
            ("a: 1:30", "^line 1: 1:30 is no number"),
            ("a: 0x10", "^line 1: 0x10 is no number"),
            *(
                (text, "^.+$")
                for text in ("[", "a: 2026-02-30", "\x00", "!!bool x", "? [1]\n: 2", "[" * 9999)
            ),
        ],
    )


def test_what_is_merged_may_be_changed():
    text = "a: &a {x: 1, y: 1}\nb: {b: &b {<<: *a, x: 2}}\nd: {<<: *b, y: 3}\nf: [{x: 1}, {x: 1}]"
    assert load_yaml(text) == yaml.safe_load(text)
    assert load_yaml(text)["d"] == {"x": 2, "y": 3}
    assert load_yaml("1: a\n'1': 2026-01-31") == {1: "a", "1": date(2026, 1, 31)}
    assert load_yaml("[0, -1, 1_000, 007.5, '010']") == [0, -1, 1000, 7.5, "010"]
    assert load_yaml("") is None
    for system in SYSTEMS:
        text = (FILES / f"{system}.yaml").read_text()
        assert load_yaml(text) == yaml.safe_load(text), system


# A site's file


@pytest.fixture
def written(tmp_path):
    """written(text): the reference file with this text."""
    folder = tmp_path / "reference_values"
    folder.mkdir()

    def write(text):
        (folder / "archer.yaml").write_bytes(text.encode(errors="surrogateescape"))
        return ReferenceFile(folder / "archer.yaml")

    return write


REFERENCES = """\
general: &half {ratio: [0.9, -0.5, null, '1']}
SharedFileWrite:
  archer:fs2/.*/writers=2: {total_max: [100, -0.2, 0.5, MiB/s], ratio: [0.9, -0.5, null, '1']}
  archer:.*/backend=hdf5/.*: *half
"""


def test_the_first_key_that_matches_a_whole_case_counts(written):
    file = written(REFERENCES)
    assert file.name == "reference_values/archer.yaml"
    ratio = Reference(0.9, -0.5, None)
    assert file.of(HDF5) == {"total_max": Reference(100, -0.2, 0.5), "ratio": ratio}
    assert file.of(changed(HDF5, writers=24)) == {"ratio": ratio}, "the key is of 2 writers"
    assert file.of(changed(HDF5, place="archer:fs3/gnu")) == {"ratio": ratio}
    assert file.of(changed(MPIIO, writers=24)) == {}
    assert file.of(changed(HDF5, "SharedFileRead")) == {}, "another section"
    assert written("SharedFileWrite:\n").of(HDF5) == {}
    both = (
        "general:\n  .*hdf5.*: {ratio: [0.5, -0.1, null]}\nSharedFileWrite:\n  .*writers=48: {}\n"
    )
    general = {"ratio": Reference(0.5, -0.1, None, is_general=True)}
    assert written(both).of(changed(HDF5, writers=48)) == {}, "its own section comes first"
    assert written(both).of(changed(HDF5, writers=24)) == general
    assert written(both).of(changed(HDF5, "SharedFileRead")) == general
    assert written(both).of(changed(HDF5, "IoProfile")) == {}, "it has no metrics"


def test_bound_of_the_general_section_is_general_wherever_it_stands(written):
    file = written("""\
general:
  .*/backend=hdf5/.*: &hdf5 {ratio: [0.9, -0.5, null], total_max: [1, 0, null]}
SharedFileWrite:
  .*/writers=48: {<<: *hdf5, total_max: [4200, -0.3, null]}
SharedFileRead:
  .*: {ratio: [0.9, -0.4, null]}
FilePerProcess:
  .*: {ratio: [0.9, -0.5, null]}
""")

    def binding(own):
        return [name for name, entry in file.of(own).items() if not entry.is_general]

    assert binding(changed(HDF5, writers=48)) == ["total_max"]
    assert binding(changed(HDF5, writers=24)) == []
    assert binding(changed(HDF5, "SharedFileRead")) == ["ratio"]
    assert binding(changed(HDF5, "FilePerProcess", files="process")) == []
    posix = changed(HDF5, "FilePerProcess", backend="posix", files="process")
    assert binding(posix) == ["ratio"], "the general section says nothing of it"


def test_key_that_is_of_no_case_is_idle(written):
    file = written("""\
general:
  .*/SlowOst/.*: {ost_ratio: [0, 0.5, null]}
  .*/SlowOsts/.*: {ost_ratio: [0, 0.5, null]}
  .*/backend=pnetcdf/.*: {total_max: [100, -0.2, null]}
  .*/backend=netcdf4/.*: {total_max: [100, -0.2, null]}
SharedFileWrite:
  archer:fs2/.*/backend=HDF5/.*: {total_max: [100, -0.2, null]}
  archer:fs2/.*: {total_max: [1, -0.2, null]}
  archer:fs9/.*: {total_max: [1, -0.2, null]}
SlowOst:
  archer:.*: {ost_ratio: [0, 0.5, null]}
""")
    general = [".*/SlowOsts/.*", ".*/backend=netcdf4/.*"]
    named = [*general, "archer:fs2/.*/backend=HDF5/.*", "archer:fs9/.*"]
    assert file.idle({HDF5, case("LibraryVersions", "archer:fs2/gnu")}) == named
    assert file.idle({changed(HDF5, "SharedFileRead")}) == general
    assert file.idle(set()) == []


def test_file_that_cannot_be_used_is_named(written, tmp_path):
    file = re.escape(str(tmp_path / "reference_values/archer.yaml"))
    section = "SharedFileWrite:\n  archer:.*: "
    why = {
        "": "it is empty: write it as reference_values/README.md says",
        "- a": "it has no sections",
        "a: 1\na: 2": "line 2: key 'a' stands in line 1",
        "[": "line 1: while parsing",
        "\udcff": "cannot be read: 'utf-8' codec",
        "SharedFileWrit: {}": "section SharedFileWrit is of no check, so it would bound nothing",
        "SharedFileWrite: [1]": "section SharedFileWrite has no case ids",
        **dict.fromkeys(
            ("SharedFileWrite: ''", "general: 0", "IorPeer: false"),
            r"section \w+ has no case ids",
        ),
        f"{section}{{}}\nSlowOst: {{'(': {{}}}}": r"'\(' is no regular expression",
        "SharedFileWrite: {'archer:[': {}}": r"'archer:\[' is no regular expression for case ids: ",
        "SharedFileWrite: {5: {}}": "5 is no regular expression for case ids: ",
        f"{section}5": r"SharedFileWrite, archer:\.\*: .* 5 stands where metrics",
        f"{section}{{totl_max: [1, -0.1, null]}}": r".*: totl_max: archer:.* has no such metric",
        f"{section}{{finish_fraction: [0, null, 25, '1']}}": r"SharedFileWrite, archer:\.\*: "
        r"finish_fraction: \[0, None, 25, '1'\] can never fail: it comes to 25, and the metric is "
        "a number of 0 to 1",
        "retired: {'archer:fs2/.*': ''}": r"retired, archer:fs2/\.\* is '': name the cause, or a",
        "retired: {'archer:.*': moved}": r"retired, archer:\.\* names no part of a case but",
        "retired: [1]": "section retired has no case ids with their entries in it",
    }
    assert_refused(
        BadReference,
        lambda text: written(text).of(HDF5),
        [
            (text, f"^{file} cannot be used as reference values: {said}")
            for text, said in why.items()
        ],
    )
    with pytest.raises(BadReference, match=r"nosuch.yaml cannot be used .*: there is no such file"):
        ReferenceFile(tmp_path / "nosuch.yaml")
    assert issubclass(BadReference, UserError)


def test_reference_that_could_never_fail_is_refused():
    def entry(*bounds):
        return HDF5, {"total_max": list(bounds)}

    def part(*bounds):
        return HDF5, {"finish_fraction": list(bounds)}

    nan, inf = float("nan"), float("inf")
    assert_refused(
        BadReference,
        read_references,
        [
            ((HDF5, {"totl_max": [1, -0.1, None]}), "^totl_max: archer:.* has no such metric"),
            ((MPIIO, {"ratio": [1, -0.1, None]}), "^ratio: archer:.*=mpiio/.* has no such metric"),
            ((case("IoProfile"), {"total_max": [1, 0, None]}), "IoProfile.* has no such metric"),
            ((HDF5, {"drift": [0, None, 1]}), "^drift: .* has no such metric"),
            (entry(1, -0.1, None, "GB/s"), "^total_max: its unit is 'MiB/s', not 'GB/s'"),
            ((HDF5, {"total_max": ("a bug", [1, -0.1, None])}), "belongs in expected_failures/"),
            ((HDF5, {"total_max": 5}), "write .value, lower threshold"),
            (entry(0, None, None), "^total_max: it has no bound"),
            (entry(10, 9, None), "9 is no lower threshold"),
            (entry(10, -20, None), "-20 is no lower threshold"),
            (entry(10, None, -0.1), "-0.1 is no upper threshold"),
            (entry(10, "a", None), "'a' is no lower threshold"),
            (entry(10**400, -0.1, None), "^total_max: 10+ is no reference value"),
            (entry(1, None, 10**400), "^total_max: 10+ is no upper threshold"),
            (entry("1e3", -0.1, None), "^total_max: '1e3' is no reference value"),
            (entry(None, -0.1, None), "None is no reference value"),
            (entry(True, -0.1, None), "True is no reference value"),
            (entry(-1, -0.1, None), "-1 is no reference value"),
            (entry(nan, -0.1, None), "nan is no reference value"),
            (entry(1, None, nan), "nan is no upper threshold"),
            (entry(0, None, inf), "inf is no upper threshold"),
            # Bounds that no run could be worse than.
            (
                entry(1, None, 0),
                "^total_max: .1, None, 0. can never fail: the metric is worse when it is lower",
            ),
            (entry(1, -1, 0.5), "its lower bound is 0, and the metric never goes beyond that"),
            (entry(0, 0, None), "its lower bound is 0, and the metric never goes beyond that"),
            (entry(0, -5, None), "it comes to -5, and the metric is a number of 0 or more"),
            (
                (HDF5, {"close_s": [1, -0.5, None]}),
                "worse when it is higher, and there is no upper threshold",
            ),
            (
                (HDF5, {"ratio": [0.9, None, 0.1]}),
                "worse when it is lower, and there is no lower threshold",
            ),
            (part(0, None, 25), "it comes to 25, and the metric is a number of 0 to 1"),
            (part(25, -0.5, 0.5), "it comes to 25, and the metric"),
            (part(0.7, None, 0.5), "it comes to 1.05, and the metric"),
            (part(0, None, 1), "its upper bound is 1, and the metric never goes beyond that"),
            (part(0.5, -0.5, None), "worse when it is higher, and there is no upper threshold"),
        ],
    )


def test_reference_at_the_edge_of_the_range_is_read():
    for name, entry in (
        ("total_max", [1, 0, None]),
        ("total_max", [0, 1e-9, 9e9]),
        ("ratio", [9, -0.99, None]),
        ("finish_fraction", [0, None, 0.999]),
        ("finish_fraction", [0, None, 0]),
        ("sync_s", [0, None, 9e9]),
    ):
        assert read_references(HDF5, {name: entry})[name].value == entry[0]


def test_thresholds_of_a_zero_reference_are_absolute():
    assert (Reference(0, None, 0.5).upper, Reference(0, None, 0.5).lower) == (0.5, None)
    assert (Reference(10, -0.1, 0.5).lower, Reference(10, -0.1, 0.5).upper) == (9, 15)
    assert (Reference(0, 2, None).is_absolute, Reference(1, 0, None).is_absolute) == (True, False)


# Expected failures

WHY = "HDF5 1.8.14 closes slowly, ticket 4711"
ENTRY = f"- case: archer:fs[23]/.*/backend=hdf5/.*\n  until: 2027-01-31\n  why: {WHY}\n"
LAST_DAY, NEXT_DAY = date(2027, 1, 31), date(2027, 2, 1)


@pytest.fixture
def expected(tmp_path):
    """expected(text): what is read of a file with this text."""
    (tmp_path / "expected_failures").mkdir()

    def read(text):
        (tmp_path / "expected_failures" / "archer.yaml").write_text(text)
        return read_expected("archer", tmp_path)

    return read


def test_failure_is_excused_up_to_its_last_day(expected, tmp_path):
    assert read_expected("archer", tmp_path) == [], "there is no file"
    assert expected("") == []
    failures = expected(ENTRY)
    assert str(excuse(failures, str(HDF5), LAST_DAY)) == f"expected until 2027-01-31: {WHY}"
    assert excuse(failures, str(HDF5), NEXT_DAY) is None
    for other in (changed(HDF5, place="archer:fs4/gnu"), MPIIO, f"x{HDF5}"):
        assert excuse(failures, str(other), LAST_DAY) is None, other
    # The first entry that is in force counts.
    longer = ENTRY.replace("2027-01-31", "2028-01-31").replace("4711", "4712")
    failures = expected(ENTRY + longer)
    assert "4711" in str(excuse(failures, str(HDF5), LAST_DAY))
    assert "4712" in str(excuse(failures, str(HDF5), NEXT_DAY))


def test_entry_that_excuses_too_much_says_so(expected):
    today, year = date(2026, 7, 1), "until 9999-12-31, more than a year ahead"
    unnamed = "cases that it does not name"
    named = (
        *("archer:fs3/.*", ".*/backend=hdf5/.*", "archer:.*/SlowOst/.*", "archer:fs3/[^/]+/.*"),
        *(".*/gnu/.*", "archer:fs[23]/.*/backend=hdf5/.*", str(HDF5), "archer:fs3/gnu/.*Versions"),
        *(".*/SystemLoad/.*/instances=.*", ".*/writers=96"),
    )
    everything = (
        *(".*", "archer:.*", "archer:.*/.*/.*", r"archer:\w+/\w+/.*", "[^ ]*", ".*/backend=.*"),
        *(r"archer:.*/writers=\d+", ".*/local_size=[^/]+/writers=.*/instances=.*", ".*size.*"),
        "([^/]+/){3}backend=[^/]+/local_size=.*",
    )
    for patterns, day, said in (
        (named, "2027-07-01", ""),
        (named, "9999-12-31", year),
        (everything, "2027-07-01", unnamed),
        (everything, "9999-12-31", f"{year} and {unnamed}"),
        (everything, "2026-07-01", unnamed),
        (everything, "2026-06-30", ""),
    ):
        for pattern in patterns:
            (entry,) = expected(f"- {{case: '{pattern}', until: {day}, why: '{WHY}'}}")
            assert entry.excess("archer", today) == said, (pattern, day)
    for day, said in ((date(2027, 7, 1), ""), (date(2027, 7, 3), "until 2027-07-03, more than")):
        (entry,) = expected(f"- {{case: '{HDF5}', until: {day}, why: '{WHY}'}}")
        assert entry.excess("archer", today).startswith(said)
        assert bool(entry.excess("archer", today)) == bool(said)


def test_entry_that_says_too_little_is_an_error(expected):
    whole = "archer:fs[23]/.*/backend=hdf5/.*"
    wrong = {
        "case: x": "write a list of entries, each with",
        "- [": "while parsing",
        "- x": "entry 1: an entry has case",
        ENTRY + "  until: 2028-01-31\n": "line 4: key 'until' stands in line 2",
        ENTRY.replace("01-31", "02-30"): "day is out of range",
        ENTRY.replace(f"  why: {WHY}\n", ""): "entry 1: an entry has case",
        ENTRY
        + "  verdict: defect\n": "entry 1: an entry has case, until and why, and nothing else",
        ENTRY.replace("2027-01-31", "soon"): "until is 'soon': write a day such as",
        ENTRY.replace("2027-01-31", "2027-01-31 10:00:00"): "until is datetime",
        ENTRY + ENTRY.replace("fs[23]", "fs[23"): r"entry 2: case is 'archer:fs\[23/",
        ENTRY.replace(whole, "5"): "case is 5, which is no regular expression",
        ENTRY.replace(WHY, "''"): "why is ''",
        ENTRY.replace(WHY, "5"): "why is 5",
    }
    wanted = [(text, rf"/archer\.yaml(: |, ).*{said}") for text, said in wrong.items()]
    assert_refused(BadReference, expected, wanted)


# References of published values


def test_committed_references_are_those_generated():
    for system in SYSTEMS:
        committed = (FILES / f"{system}.yaml").read_text()
        assert committed == references(system), f"run `iowatch references {system}`"


#: Settings that a table leaves open, as our cases state them.
DEFAULTS = {"archer": (4, 1), "cirrus": (1, 1), "cosma6": (1, 1), "c3hpc": (1, 1)}
PARTITIONS = {"cirrus": "work", "cosma5": "data", "cosma6": "data", "jasmin": "group"}


def published_cases():
    """(case, published row, better documented row of the same case) of every write."""
    first = {}
    for row in sorted(ROWS, key=lambda r: (r["table"] == "21", r["median"] is None)):
        if row["operation"] == "read" or row["instance"] or row["table"] == "21":
            continue
        if row["table"] == "E1" and row["files"] == "shared":
            continue
        system = row["system"]
        count, size = DEFAULTS.get(system, (None, None))
        values = {
            "backend": row["backend"],
            "stripe_count": row["stripe_count"] or count,
            "stripe_size": row["stripe_size_mib"] or size,
            "local_size": parse_size(row["local_size"] or 128),
            "writers": row["writers"],
        }
        check = "SharedFileWrite"
        if row["table"] in ("11", "12"):
            check, values["instances"] = "SystemLoad", row["instances"]
        elif row["files"] == "process":
            check, values["files"] = "FilePerProcess", "process"
        place = f"{system}:{row['filesystem'] or PARTITIONS[system]}/gnu"
        own = case(check, place, **{k: v for k, v in values.items() if v is not None})
        yield own, row, first.setdefault(own, row)


CASES = list(published_cases())


@pytest.fixture(scope="module")
def files():
    """The reference file of each system."""
    return {system: ReferenceFile(FILES / f"{system}.yaml") for system in SYSTEMS}


def keys_of(system, check):
    sections = yaml.safe_load((FILES / f"{system}.yaml").read_text())
    return [*sections.get(check, {}), *sections["general"]]


def matching(keys, own):
    return [key for key in keys if re.fullmatch(key, str(own))]


def healthy(own, name, value):
    parts = {"finish_fraction": 0.0}
    return {**dict.fromkeys(own.metrics, value), "ratio": 1.0, **parts, name: value}


def kind(own, metrics, bounds):
    return by_references(own, metrics, bounds, "file", 1e9).kind


@pytest.mark.long
def test_every_published_case_has_its_own_entry_before_the_general_one():
    entries = {
        (system, check.name): keys_of(system, check.name)
        for system in SYSTEMS
        for check in CHECKS.values()
        if check.metrics
    }
    owners = defaultdict(set)
    for own, _, _ in CASES:
        special = matching(entries[own.system, own.check.name], own)
        assert len(special) == 2, own
        assert special[1] == f"{own.system}:.*/backend={own.backend}/.*"
        owners[own.system, own.check.name, special[0]].add(own)
    assert all(len(cases) == 1 for cases in owners.values())
    keys = {
        (system, check, key)
        for (system, check), section in entries.items()
        for key in section
        if not key.startswith(f"{system}:.*")
    }
    assert set(owners) == keys, "none without a published case"


def test_the_published_night_is_ok_and_a_quarter_of_it_is_not(files):
    for own, row, better in CASES:
        bounds = files[own.system].of(own)
        load = (own.instances or 1) > 1
        value = row["mean"] if row["max"] is None else row["max"]
        name = "total_mean" if load else "total_max"
        assert bounds[name].value == (better["mean"] if better["max"] is None else better["max"])
        assert set(bounds) == {name, *GENERAL_BOUNDS[own.backend]}
        assert kind(own, healthy(own, name, value), bounds) is Kind.OK, own
        assert kind(own, healthy(own, name, value / 4), bounds) is Kind.REGRESSION, own
        if median := better["median"]:
            assert kind(own, healthy(own, name, median), bounds) is Kind.OK, own
            assert kind(own, healthy(own, name, 0.99 * median), bounds) is Kind.REGRESSION, own
    assert len({own.system for own, _, _ in CASES}) == 7


def test_a_striped_case_may_say_all_or_their_number():
    entries = keys_of("cosma6", "SharedFileWrite")
    striped = next(own for own, _, _ in CASES if own.stripe_count == 120)
    all_osts = changed(striped, stripe_count=-1)
    assert matching(entries, striped)[0] == matching(entries, all_osts)[0]


def test_the_published_fault_of_hdf5_on_cirrus_is_suspect_by_its_ratio_alone(files):
    table = [row for row in ROWS if row["table"] == "14"]
    control = {row["writers"]: row["max"] for row in table if row["backend"] == "mpiio"}
    suspect = set()
    for own, row, _ in CASES:
        if row["table"] == "14" and own.backend == "hdf5":
            metrics = healthy(own, "total_max", row["max"])
            metrics["ratio"] = row["max"] / control[own.writers]
            if kind(own, metrics, files["cirrus"].of(own)) is Kind.SUSPECT:
                suspect.add(own.writers)
    assert suspect == {576, 1152, 2304, 4608}


def test_general_entries_are_there_for_every_check_and_backend(files):
    values = {"stripe_count": 3, "stripe_size": 3, "local_size": (7, 7, 7), "writers": 5}
    values |= {"files": "process", "instances": 2, "items": 7}
    general = partial(Reference, is_general=True)
    ior = {"ior_ratio": general(1, -0.95, None)}
    quarter, most = general(0, None, 0.25), general(0, None, 0.45)
    floor = general(1, 0, None)
    ratios = {"hdf5": 0.9, "netcdf": 0.7, "pnetcdf": 0.7}
    for system in SYSTEMS:
        for name, check in CHECKS.items():
            known = {p.name: values[p.name] for p in check.parameters if p.name in values}
            swept = any(parameter.name == "backend" for parameter in check.parameters)
            for backend in check.backends if swept else [""]:
                own = case(
                    name, f"{system}:p/e", **known, **({"backend": backend} if swept else {})
                )
                if not check.metrics:
                    expected = {}
                elif name == "SlowOst":
                    names = ("ost_ratio", "ost_read_ratio")
                    expected = dict.fromkeys(names, general(1, -0.5, None))
                elif name.startswith("IorPeer"):
                    expected = ior
                elif name == "Metadata":
                    expected = {"items_max": floor}
                elif name == "MdtestPeer":
                    expected = {"items_max": floor, "mdtest_create_rate": floor}
                elif check.application_mib or name == "ReadBack":
                    expected = {"total_max": floor}
                else:
                    expected = {"finish_fraction": most if backend in ratios else quarter}
                    if backend in ratios:
                        expected["ratio"] = general(ratios[backend], -0.5, None)
                    else:
                        expected["total_max"] = floor
                assert files[system].of(own) == expected, own


def test_what_is_written_is_whole_or_not_there(tmp_path, monkeypatch):
    folder = tmp_path / "written"
    folder.mkdir()
    (folder / "jasmin.yaml").write_text("old")
    assert write_references("jasmin", folder) == folder / "jasmin.yaml"
    assert (folder / "jasmin.yaml").read_text() == references("jasmin")
    with pytest.raises(UserError) as unknown:
        write_references("archre", folder)
    assert str(unknown.value) == f"no system 'archre': there are {', '.join(SYSTEMS)}"
    with pytest.raises(UserError, match=r"missing/local\.yaml: cannot be written"):
        write_references("local", tmp_path / "missing")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    (folder / "jasmin.yaml").write_text("old")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        write_references("jasmin", folder)
    assert [file.read_text() for file in folder.iterdir()] == ["old"]
    monkeypatch.setattr(published, "PUBLISHED", tmp_path)
    with pytest.raises(UserError, match="has no tables: install iowatch again"):
        references("local")
