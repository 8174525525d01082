"""What a site expects: the files it writes, those that are made from published values, and failures
until a day."""

import math
import re
from collections import defaultdict
from datetime import date
from functools import cache
from pathlib import Path

import pytest
import yaml
from bounds import references, write_references
from cases import case, changed
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused, refusals

from iowatch.base.files import UserError
from iowatch.base.yaml_text import load
from iowatch.cases.metric import Reference
from iowatch.cases.parameters import parse_size
from iowatch.cases.verdict import OK
from iowatch.judge.judge import by_references
from iowatch.measure.checks import CHECKS, METRICS
from iowatch.measure.kinds.array import GENERAL_BOUNDS
from iowatch.site import published
from iowatch.site.declared import excuse, read_expected
from iowatch.site.published import read_tables
from iowatch.site.references import ReferenceFile, read_references

ROOT = Path(__file__).parents[2]
FILES = ROOT / "reference_values"
SYSTEMS = sorted(file.stem for file in FILES.glob("*.yaml"))
ROWS = read_tables()
HDF5 = case("SharedFileWrite", "archer:fs2/gnu", local_size=(8, 8, 8), ranks=2)
MPIIO = changed(HDF5, backend="mpiio")


# YAML


def load_yaml(text):
    return load(Path("x"), text)


KEYS = st.text("abcxyz <é_.*/=[]:&#'\"", max_size=5) | st.integers() | st.booleans()
TREES = st.recursive(
    st.none() | KEYS | st.floats(allow_nan=False) | st.dates() | st.binary(max_size=4),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(KEYS, values, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(TREES, st.sampled_from([True, False, None]))
def test_yaml_is_what_safe_load_makes_of_it(tree, flow):
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True)
    assert load_yaml(text) == yaml.safe_load(text) == tree


@settings(max_examples=50)
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4), st.data())
def test_key_that_stands_twice_is_refused(tree, data):
    key = data.draw(st.sampled_from(list(tree)))
    parts = [yaml.safe_dump({name: value}) for name, value in [*tree.items(), (key, 1)]]
    text = "".join(parts)
    line = "".join(parts[:-1]).count("\n") + 1
    with pytest.raises(
        UserError, match=f"^x: line {line}: key .* stands in line .* already: remove"
    ):
        load_yaml(text)
    nested = "a:\n- " + text.replace("\n", "\n  ")
    with pytest.raises(UserError, match=rf"^x: line {line + 1}: key "):
        load_yaml(nested)


def test_what_people_write_and_yaml_reads_otherwise():
    text = "a: &a {x: 1, y: 1}\nb: {b: &b {<<: *a, x: 2}}\nd: {<<: *b, y: 3}\nf: [{x: 1}, {x: 1}]"
    assert load_yaml(text) == yaml.safe_load(text), "what is merged may be changed"
    assert load_yaml("1: a\n'1': 2026-01-31") == {1: "a", "1": date(2026, 1, 31)}
    assert load_yaml("[0, -1, 1_000, 007.5, '010']") == [0, -1, 1000, 7.5, "010"]
    wrong = [
        ("a: &a {b: 1}\nc: {<<: *a, b: 2, b: 3}", "^x: line 2: key 'b'"),
        *(
            (f"a:\n- {text}", f"^x: line 2: {text} is no number")
            for text in ("0100", "1:30", "0x10")
        ),
        *((text, "^.+$") for text in ("[", "a: 2026-02-30", "\x00", "!!bool x", "? [1]\n: 2")),
        ("[" * 9999, "^.+$"),
    ]
    assert_refused(UserError, load_yaml, wrong)


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


def plain(text, folder):
    """Without the folder, and without what Python and its libraries say."""
    others = r"(for case ids|is no day or time): .*"
    return re.sub(others, r"\1: ...", text.replace(str(folder), ""))


REFERENCES = """\
general:
  .*/SlowOst/.*: {ost_ratio: [0, 0.5, null]}
  .*/SlowOsts/.*: {ost_ratio: [0, 0.5, null]}
  .*/backend=hdf5/.*: &hdf5 {ratio: [0.9, -0.5, null], total_max: [1, 0, null]}
  .*/backend=netcdf4/.*: {ratio: [0.9, -0.5, null]}
SharedFileWrite:
  archer:fs2/.*/ranks=2: {total_max: [100, -0.2, 0.5, MiB/s], ratio: [0.9, -0.5, null, '1']}
  archer:fs2/.*/ranks=48: {<<: *hdf5, total_max: [4200, -0.3, null]}
  archer:fs2/.*/ranks=96: {}
  archer:fs2/.*/backend=HDF5/.*: {total_max: [100, -0.2, null]}
  archer:fs9/.*: {total_max: [1, -0.2, null]}
SharedFileRead:
  .*/backend=hdf5/.*: {ratio: [0.9, -0.4, null]}
FilePerProcess:
  .*: {ratio: [0.9, -0.5, null]}
"""
RATIO = Reference(0.9, -0.5, None, is_general=True)
GENERAL = {"ratio": RATIO, "total_max": Reference(1, 0, None, is_general=True)}


def test_the_first_key_that_matches_a_whole_case_counts(written):
    """What the general section says of a case is general wherever it stands."""
    file = written(REFERENCES)
    assert file.name == "reference_values/archer.yaml"
    process = {"check": "FilePerProcess", "files": "process"}
    for changes, expected in (
        ({}, {"total_max": Reference(100, -0.2, 0.5), "ratio": Reference(0.9, -0.5, None)}),
        ({"ranks": 48}, {"total_max": Reference(4200, -0.3, None), "ratio": RATIO}),
        ({"ranks": 24}, GENERAL),  # the key is of 2 ranks
        ({"place": "archer:fs3/gnu"}, GENERAL),
        ({"ranks": 24, "backend": "mpiio"}, {}),
        ({"ranks": 96}, {}),  # its own section comes first
        ({"check": "SharedFileRead"}, {"ratio": Reference(0.9, -0.4, None)}),
        ({"check": "SharedFileRead", "backend": "mpiio"}, {}),
        (process, {"ratio": RATIO}),
        ({"check": "IoProfile"}, {}),  # it has no metrics
    ):
        assert file.bounds_of(changed(HDF5, **changes)) == expected, changes
    assert written("SharedFileWrite:\n").bounds_of(HDF5) == {}


def test_key_that_is_of_no_case_is_idle(written):
    file = written(REFERENCES)
    general = [".*/SlowOsts/.*", ".*/backend=netcdf4/.*"]
    ranks = [f"archer:fs2/.*/ranks={count}" for count in (48, 96)]
    named = [*general, *ranks, "archer:fs2/.*/backend=HDF5/.*", "archer:fs9/.*"]
    assert file.idle({HDF5, case("LibraryVersions", "archer:fs2/gnu")}) == named
    assert file.idle({changed(HDF5, "FilePerProcess", files="process")}) == general
    assert file.idle(set()) == []


SECTION = "SharedFileWrite:\n  archer:.*: "
BAD_FILES = [
    *("", "- a", "a: 1\na: 2", "SharedFileWrit: {}", "SharedFileWrite: [1]", "general: 0"),
    *("SharedFileWrite: ''", "SharedFileWrite: {5: {}}"),
    f"{SECTION}{{}}\nSlowOst: {{'(': {{}}}}",
    f"{SECTION}5",
    f"{SECTION}{{overhead_fraction: [0, null, 25, '1']}}",
    *("retired: {'archer:fs2/.*': ''}", "retired: {'archer:.*': moved}", "retired: [1]"),
]


def test_file_that_cannot_be_used_is_named(written, tmp_path, golden):
    text = refusals(UserError, lambda text: written(text).bounds_of(HDF5), BAD_FILES)
    golden("references-files.txt", plain(text, tmp_path))
    with pytest.raises(UserError, match=r"archer.yaml: cannot be read: 'utf-8' co"):
        written("\udcff")
    with pytest.raises(UserError, match=r"nosuch.yaml cannot be used .*: there is no such file"):
        ReferenceFile(tmp_path / "nosuch.yaml")


NAN, INF = float("nan"), float("inf")
#: By metric; the last of each are bounds that no run could be worse than.
BAD_BOUNDS = {
    "totl_max": [[1, -0.1, None]],
    "drift": [[0, None, 1]],
    "total_max": [
        [1, -0.1, None, "GB/s"], ("a bug", [1, -0.1, None]), 5, [0, None, None],
        [10, 9, None], [10, -20, None], [10, "a", None],
        *([1, None, upper] for upper in (-0.1, NAN, INF, 10**400)),
        *([value, -0.1, None] for value in ("1e3", None, True, -1, NAN, 10**400)),
        [1, None, 0], [1, -1, 0.5], [0, 0, None], [0, -5, None],
    ],
    "close_s": [[1, -0.5, None]],
    "ratio": [[0.9, None, 0.1]],
    "overhead_fraction": [
        [0, None, 25], [25, -0.5, 0.5], [0.7, None, 0.5], [0, None, 1], [0.5, -0.5, None]
    ],
}  # fmt: skip


def test_reference_that_could_never_fail_is_refused(golden):
    wrong = [(HDF5, {name: one}) for name, bounds in BAD_BOUNDS.items() for one in bounds]
    wrong += [(MPIIO, {"ratio": [1, -0.1, None]}), (case("IoProfile"), {"total_max": [1, 0, None]})]
    text = refusals(UserError, lambda *given: read_references(*given), wrong)
    golden("references-bounds.txt", re.sub("0{99,}", "0...", text))
    for name, entry in (
        ("total_max", [1, 0, None]),
        ("total_max", [0, 1e-9, 9e9]),
        ("ratio", [9, -0.99, None]),
        ("overhead_fraction", [0, None, 0.999]),
        ("overhead_fraction", [0, None, 0]),
        ("sync_s", [0, None, 9e9]),
    ):
        assert read_references(HDF5, {name: entry})[name].value == entry[0]


NUMBERS = st.sampled_from([0, 0.5, 1, 10]) | st.floats(0, 1e6)
LOWER, UPPER = (st.none() | st.just(0) | st.floats(*ends) for ends in ((-1, 0), (0, 2)))


@given(
    st.sampled_from(["total_max", "ratio", "overhead_fraction", "sync_s"]), NUMBERS, LOWER, UPPER
)
def test_a_bound_that_is_accepted_can_be_met_and_broken(name, value, lower, upper):
    try:
        reference = read_references(HDF5, {name: [value, lower, upper]})[name]
    except UserError:
        return
    metric, worst = METRICS[name], -math.inf
    bound = reference.lower
    if metric.lower_is_better:
        bound, worst = reference.upper, math.inf
    beyond = math.nextafter(bound, worst)
    assert 0 <= beyond <= metric.largest
    assert outcome(HDF5, healthy(HDF5, name, bound), {name: reference}) == OK
    assert outcome(HDF5, healthy(HDF5, name, beyond), {name: reference}) != OK


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


NAMED = (
    *("archer:fs3/.*", ".*/backend=hdf5/.*", "archer:.*/SlowOst/.*", "archer:fs3/[^/]+/.*"),
    *(".*/gnu/.*", "archer:fs[23]/.*/backend=hdf5/.*", str(HDF5), "archer:fs3/gnu/.*Versions"),
    *(".*/SystemLoad/.*/instances=.*", ".*/ranks=96"),
)
EVERYTHING = (
    *(".*", "archer:.*", "archer:.*/.*/.*", r"archer:\w+/\w+/.*", "[^ ]*", ".*/backend=.*"),
    *(r"archer:.*/ranks=\d+", ".*/local_size=[^/]+/ranks=.*/instances=.*", ".*size.*"),
    "([^/]+/){3}backend=[^/]+/local_size=.*",
)


def test_entry_that_excuses_too_much_says_so(expected):
    year, unnamed = "until {}, more than a year ahead", "cases that it does not name"
    for patterns, day, excess in (
        (NAMED, "2027-07-01", ""),
        (NAMED, "2027-07-03", year),
        (EVERYTHING, "2027-07-01", unnamed),
        (EVERYTHING, "9999-12-31", f"{year} and {unnamed}"),
        (EVERYTHING, "2026-07-01", unnamed),
        (EVERYTHING, "2026-06-30", ""),
    ):
        for pattern in patterns:
            (entry,) = expected(f"- {{case: '{pattern}', until: {day}, why: '{WHY}'}}")
            assert entry.excess("archer", date(2026, 7, 1)) == excess.format(day), (pattern, day)


def test_entry_that_says_too_little_is_an_error(expected, tmp_path, golden):
    day = "2027-01-31"
    wrong = [
        "case: x",
        "- x",
        ENTRY + "  until: 2028-01-31\n",
        ENTRY + "  verdict: defect\n",
    ]
    wrong += [ENTRY.replace(day, other) for other in ("2027-02-30", "soon", f"{day} 10:00:00")]
    wrong += [ENTRY.replace(f"  why: {WHY}\n", ""), ENTRY + ENTRY.replace("fs[23]", "fs[23")]
    wrong += [ENTRY.replace("archer:fs[23]/.*/backend=hdf5/.*", "5")]
    wrong += [ENTRY.replace(WHY, other) for other in ("''", "5")]
    text = refusals(UserError, expected, wrong)
    golden("references-expected.txt", plain(text, tmp_path))


# References of published values


def test_committed_references_are_those_generated():
    for system in SYSTEMS:
        committed = (FILES / f"{system}.yaml").read_text()
        assert committed == references(system), f"run `scripts/paper/paper.py references {system}`"


#: Settings that a table leaves open, as our cases state them.
DEFAULTS = {"archer": (4, 1), "cirrus": (1, 1), "cosma6": (1, 1), "c3hpc": (1, 1)}
PARTITIONS = {"cirrus": "work", "cosma5": "data", "cosma6": "data", "jasmin": "group"}


def published_cases():
    """(case, published row, better documented row of the same case) of every write."""
    first = {}
    for row in sorted(ROWS, key=lambda r: (r["table"] == "21", r["median"] is None)):
        if row["operation"] == "read" or row["instance"] or row["table"] == "21":
            continue
        if (row["table"], row["files"]) == ("E1", "shared"):
            continue
        system = row["system"]
        count, size = DEFAULTS.get(system, (None, None))
        values = {
            "backend": row["backend"],
            "stripe_count": row["stripe_count"] or count,
            "stripe_size": row["stripe_size_mib"] or size,
            "local_size": parse_size(row["local_size"] or 128),
            "ranks": row["ranks"],
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


@cache
def keys_of(system):
    """The keys of a system's file that a check's cases may match, by check."""
    sections = yaml.load((FILES / f"{system}.yaml").read_text(), yaml.CSafeLoader)
    return {name: [*sections.get(name, {}), *sections["general"]] for name in CHECKS}


def matching(own):
    return [key for key in keys_of(own.system)[own.check.name] if re.fullmatch(key, str(own))]


def healthy(own, name, value):
    parts = {"overhead_fraction": 0.0}
    return {**dict.fromkeys(own.metrics, value), "ratio": 1.0, **parts, name: value}


def outcome(own, metrics, bounds):
    return by_references(metrics, bounds, "file", 1e9).outcome


@pytest.mark.long
def test_every_published_case_has_its_own_entry_before_the_general_one():
    owners = defaultdict(set)
    for own, _, _ in CASES:
        special = matching(own)
        assert len(special) == 2, own
        assert special[1] == f"{own.system}:.*/backend={own.backend}/.*"
        owners[own.system, own.check.name, special[0]].add(own)
    assert all(len(cases) == 1 for cases in owners.values())
    keys = {
        (system, check, key)
        for system in SYSTEMS
        for check, every in keys_of(system).items()
        if CHECKS[check].metrics
        for key in every
        if not key.startswith(f"{system}:.*")
    }
    assert set(owners) == keys, "none without a published case"
    striped = next(own for own, _, _ in CASES if own.stripe_count == 120)
    assert matching(striped)[0] == matching(changed(striped, stripe_count=-1))[0]


def test_the_published_night_is_ok_and_a_quarter_of_it_is_not(files):
    for own, row, better in CASES:
        bounds = files[own.system].bounds_of(own)
        load = (own.instances or 1) > 1
        value = row["mean"] if row["max"] is None else row["max"]
        name = "total_mean" if load else "total_max"
        assert bounds[name].value == (better["mean"] if better["max"] is None else better["max"])
        assert set(bounds) == {name, *GENERAL_BOUNDS[own.backend]}
        assert outcome(own, healthy(own, name, value), bounds) == OK, own
        assert outcome(own, healthy(own, name, value / 4), bounds).is_regression, own
        if median := better["median"]:
            assert outcome(own, healthy(own, name, median), bounds) == OK, own
            assert outcome(own, healthy(own, name, 0.99 * median), bounds).is_regression, own
    assert len({own.system for own, _, _ in CASES}) == 7


def test_a_file_of_references_is_written_for_a_system_that_is_known(tmp_path, monkeypatch):
    file = tmp_path / "jasmin.yaml"
    assert write_references("jasmin", tmp_path) == file
    assert file.read_text() == references("jasmin")
    with pytest.raises(UserError, match=f"^no system 'archre': there are {', '.join(SYSTEMS)}$"):
        write_references("archre", tmp_path)
    with pytest.raises(UserError, match=r"missing/local\.yaml: cannot be written"):
        write_references("local", tmp_path / "missing")
    monkeypatch.setattr(published, "PUBLISHED", tmp_path)
    with pytest.raises(UserError, match="has no tables: install iowatch again"):
        references("local")
