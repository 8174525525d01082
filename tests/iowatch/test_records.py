"""Records that people write: how they are read and refused, and the table of their keys."""

import math
from datetime import date

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from iowatch.base.files import UserError
from iowatch.base.records import (
    COUNT,
    NAME,
    TEXT,
    KeyRow,
    Record,
    choice,
    key,
    list_of,
    number,
    table,
)
from iowatch.cases.filesystem import Filesystem
from iowatch.evidence import contract, terms
from iowatch.evidence.criteria.criterion import KINDS
from iowatch.measure.checks import CHECKS
from iowatch.site import declared, references, suites
from iowatch.site.declared import Event, UserOutput


@attrs.frozen(kw_only=True)
class Tape(Record):
    label: str = key(NAME)
    speed: float = key(number("a speed above 1", 1), "The speed of the tape.", unit="MiB/s")
    drives: int = key(COUNT, default=2)
    state: str = key(choice("free", "used", "lost"), default="free", name="is")
    rooms: tuple[str, ...] = key(list_of(NAME, "a list of rooms"), default=())
    why: str = key(TEXT, default="")
    site: str = attrs.field(default="here")

    def contradiction(self):
        return "is lost, and in a room" if self.state == "lost" and self.rooms else ""


#: The declarations of what people write into files, but for the kinds of criteria.
FILES = (
    *(Filesystem, references.ReferenceEntry, declared.ExpectedFailure, declared.Maintenance),
    *(
        UserOutput,
        Event,
        contract.Contract,
        terms.Rules,
        terms.Storage,
        terms.Exclusion,
    ),
)

GIVEN = {"label": "A1", "speed": 360}


def test_a_record_has_what_its_keys_say_and_what_stands_elsewhere():
    tape = Tape.read("tapes, 1", {**GIVEN, "is": "used", "rooms": [1, "b"]}, site="there")
    assert tape == Tape(label="A1", speed=360.0, state="used", rooms=("1", "b"), site="there")
    assert (tape.drives, Tape.read("x", GIVEN).site) == (2, "here")


def test_what_cannot_be_a_record_is_refused_by_place_key_and_value():
    wrong = [
        (None, "^tapes, 1: is None, not a mapping with label, speed$"),
        ({"label": "A1"}, "^tapes, 1: has no speed$"),
        ({**GIVEN, "drive": 1}, "^tapes, 1: there is no key drive: is drives meant[?]$"),
        ({**GIVEN, 7: 1}, "there is no key 7: there are label, speed, drives, is, rooms, why$"),
        ({**GIVEN, "state": "used"}, "there is no key state: there are"),
        ({**GIVEN, "site": "x"}, "there is no key site"),
        ({**GIVEN, "speed": 0.5}, "^tapes, 1: speed is 0.5, not a speed above 1$"),
        ({**GIVEN, "label": False}, "label is False, not a name: write one in quotes"),
        ({**GIVEN, "label": date(2026, 1, 2)}, "label is 2026-01-02, not a name"),
        ({**GIVEN, "drives": 1.5}, "drives is 1.5, not a positive whole number"),
        ({**GIVEN, "is": ["used"]}, r"is is \['used'\], not free, used or lost"),
        ({**GIVEN, "rooms": []}, r"rooms is \[\], not a list of rooms"),
        ({**GIVEN, "rooms": [1, "1"]}, "not a list of rooms"),
        ({**GIVEN, "rooms": "ab"}, "rooms is 'ab', not a list of rooms"),
        ({**GIVEN, "why": " "}, "why is ' ', not a text"),
        ({**GIVEN, "is": "lost", "rooms": ["a"]}, "^tapes, 1: is lost, and in a room$"),
    ]
    assert_refused(UserError, lambda entry: Tape.read("tapes, 1", entry), wrong)


def test_a_reference_prints_what_the_declaration_says_of_each_key():
    rows = {row.key: row for row in table(Tape)}
    assert [*rows] == ["label", "speed", "drives", "is", "rooms", "why"]
    assert rows["speed"] == KeyRow(
        key="speed", values="a speed above 1", is_required=True, unit="MiB/s",
        about="The speed of the tape.",
    )  # fmt: skip
    defaults = {name: row.default for name, row in rows.items() if not row.is_required}
    assert defaults == {"drives": "2", "is": "free", "rooms": "", "why": ""}


def test_the_declaration_of_all_that_people_write_describes_every_key():
    records = (*FILES, *KINDS.values())
    rows = [(record.__name__, row) for record in records for row in table(record)]
    rows += [(check.name, row) for check in CHECKS.values() for row in suites.table(check)]
    assert not [(name, row.key) for name, row in rows if not (row.values and row.about)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "2", None, 10**400])
def test_no_number_is_taken_that_is_none(value):
    with pytest.raises(UserError, match="speed is "):
        Tape.read("x", {**GIVEN, "speed": value})


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()))
def test_whatever_stands_there_is_taken_or_refused_in_one_line(value):
    for name in ("label", "speed", "drives", "is", "rooms", "why"):
        message = f"x: {name} is , not"
        try:
            Tape.read("x", {**GIVEN, name: value})
        except UserError as err:
            message = str(err)
        assert message.startswith(f"x: {name} is ")
        assert "\n" not in message
