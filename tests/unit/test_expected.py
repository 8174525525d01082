from datetime import date

import pytest

from iowatch.references import ExpectedError, excuse, read_expected

ENTRY = """\
- case: archer:fs[23]/.*/hdf5/.*
  until: 2027-01-31
  why: HDF5 1.8.14 closes slowly, ticket 4711
"""
CASE = "archer:fs2/gnu/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=2"
LAST_DAY = date(2027, 1, 31)


@pytest.fixture
def written(tmp_path):
    (tmp_path / "expected_failures").mkdir()

    def write(text):
        (tmp_path / "expected_failures" / "archer.yaml").write_text(text)
        return tmp_path

    return write


def test_failure_is_excused_up_to_its_last_day(written):
    failures = read_expected("archer", written(ENTRY))
    found = excuse(failures, CASE, LAST_DAY)
    assert str(found) == "expected until 2027-01-31: HDF5 1.8.14 closes slowly, ticket 4711"
    assert excuse(failures, CASE, date(2027, 2, 1)) is None


def test_other_cases_are_not_excused(written):
    failures = read_expected("archer", written(ENTRY))
    assert excuse(failures, CASE.replace("fs2", "fs4"), LAST_DAY) is None
    assert excuse(failures, f"x{CASE}", LAST_DAY) is None, "the whole id must match"


def test_first_entry_that_is_in_force_counts(written):
    longer = ENTRY.replace("2027-01-31", "2028-01-31").replace("4711", "4712")
    failures = read_expected("archer", written(ENTRY + longer))
    assert "4711" in str(excuse(failures, CASE, LAST_DAY))
    assert "4712" in str(excuse(failures, CASE, date(2027, 2, 1)))


def test_system_without_a_file_expects_nothing(tmp_path):
    assert read_expected("archer", tmp_path) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("case: x", "archer.yaml: is no list of entries"),
        ("- [", "archer.yaml: while parsing"),
        (ENTRY + "  until: 2028-01-31\n", "archer.yaml: line 4: key 'until' stands in line 2"),
        (ENTRY.replace("01-31", "02-30"), "archer.yaml: day is out of range"),
        (
            ENTRY.replace("  why: HDF5 1.8.14 closes slowly, ticket 4711\n", ""),
            "entry 1: needs case",
        ),
        (ENTRY + "  verdict: defect\n", "entry 1: needs case, until and why, and nothing else"),
        (ENTRY.replace("2027-01-31", "soon"), "until is 'soon': write a day such as"),
        (ENTRY.replace("2027-01-31", "2027-01-31 10:00:00"), "until is datetime"),
        (ENTRY + ENTRY.replace("fs[23]", "fs[23"), r"entry 2: case is 'archer:fs\[23/"),
        (ENTRY.replace("archer:fs[23]/.*/hdf5/.*", "5"), "case is 5, no regular expression"),
        (ENTRY.replace("HDF5 1.8.14 closes slowly, ticket 4711", "''"), "why is ''"),
    ],
)
def test_entry_that_says_too_little_is_an_error(written, text, sentence):
    with pytest.raises(ExpectedError, match=sentence):
        read_expected("archer", written(text))
