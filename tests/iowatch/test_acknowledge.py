"""Acknowledged faults: what the command writes, what it refuses, and what a night makes of it."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
import yaml
from cases import changed
from nights import HDF5, MPIIO, tonight, unverified, well
from refusals import assert_refused
from typer.testing import CliRunner

from iowatch import cli
from iowatch.base.files import UserError
from iowatch.cases.case import short_names
from iowatch.site.declared import ExpectedFailure, acknowledge, pattern_of, read_expected
from iowatch.site.site import read_site

FS2 = changed(HDF5, place="archer:fs2/cray")
READ = changed(HDF5, "SharedFileRead")
CASES = [HDF5, MPIIO, FS2, READ]
NAMES = short_names(CASES)
TODAY = date(2026, 11, 20)
DAY = timedelta(days=1)
YEAR = TODAY + 366 * DAY


def entry(pattern=f"{HDF5}", until=TODAY + 10 * DAY, why="it is slow", **more):
    return ExpectedFailure(case=re.compile(pattern), until=until, why=why, **more)


def test_case_is_known_by_its_name_its_id_or_a_part_of_either():
    for text, cases in (
        (NAMES[HDF5], {HDF5}),
        (str(HDF5), {HDF5}),
        (NAMES[FS2], {FS2}),
        ("archer:fs3/", {HDF5, MPIIO, READ}),
        ("fs3|fs2", {*CASES}),
        ("^archer:fs2", {FS2}),
        ("archer:fs3/.*/backend=hdf5/.*", {HDF5, READ}),
        ("SharedFileRead", {READ}),
        ("mpiio on", {MPIIO}),  # a part of one name alone
    ):
        pattern = pattern_of(text, CASES, NAMES)
        assert {case for case in CASES if re.fullmatch(pattern, str(case))} == cases, text
    assert pattern_of("archer:fs3/.*", CASES, NAMES) == "archer:fs3/.*", "as it was written"
    assert pattern_of(str(HDF5), [HDF5], {}) == str(HDF5)
    dotted = changed(HDF5, place="archer:fs3/gnu-4.9")
    assert not re.fullmatch(pattern_of(str(dotted), [dotted], {}), str(dotted).replace(".", "x"))


def test_case_that_the_site_does_not_have_is_refused_with_what_may_be_meant():
    gone = changed(HDF5, place="archer:fs9/cray")
    wanted = [
        (str(gone), f"one of these meant: .*{re.escape(str(HDF5))}"),
        (NAMES[HDF5].replace("hdf5", "hfd5"), f"one of these meant: .*{NAMES[HDF5]}"),
        ("on fs3", "^on fs3: .* have it in their ids or names, .*, "),
        ("xyzzy", "^xyzzy: no case has it"),
        ("fs3[", "no case has it"),
        ("(?i)FS3", "no case has it"),  # within others it would be no expression
    ]
    assert_refused(UserError, lambda text: pattern_of(text, CASES, NAMES), wanted)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "expected_failures" / "archer.yaml"


def acknowledged(file, *entries):
    for one in entries:
        assert acknowledge("archer", file.parents[1], one, TODAY) == file
    return read_expected("archer", file.parents[1])


def test_entry_is_appended_and_all_else_stays(file):
    one = entry(owner="jane", ticket="OPS-1")
    other = entry("archer:fs2/.*", why="# é: 'odd', \"x\"")
    assert acknowledged(file, one, other) == [one, other]
    assert "iowatch docs howto/faults" in file.read_text().splitlines()[0]
    for text in (
        "# by hand\n\n  - case: archer:fs4/.*  # why\n    until: 2027-01-31\n    why: old",
        "- {case: 'archer:fs4/.*', until: 2027-01-31, why: old}\n# to be continued\n",
        "# nothing yet\n",
        "",
    ):
        file.write_text(text)
        assert acknowledged(file, one)[-1] == one
        assert file.read_text().startswith(text)


def test_file_to_which_nothing_can_be_appended_stays_as_it_is(file):
    file.parent.mkdir()
    for text, message in (
        ("[]\n", "nothing can be appended"),
        ("[{case: 'archer:fs4/.*', until: 2027-01-31, why: old}]\n", "nothing can be appended"),
        ("- case: 5\n", "entry 1: has no until"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            acknowledged(file, entry())
        assert file.read_text() == text


def test_what_excuses_too_much_or_nothing_new_is_refused(file):
    wanted = [
        (entry(until=TODAY - DAY), "--until 2026-11-19: is over"),
        (entry(until=YEAR + DAY), "would excuse until 2027-11-22, more than a year ahead"),
        (entry("archer:.*"), "would excuse cases that it does not name: "),
    ]
    assert_refused(UserError, lambda one: acknowledged(file, one), wanted)
    assert not file.exists()
    acknowledged(file, entry(until=TODAY), entry(until=YEAR))
    with pytest.raises(UserError, match=r"is expected until 2027-11-21: it is slow already"):
        acknowledged(file, entry(until=YEAR - DAY))
    assert len(acknowledged(file)) == 2


def test_two_at_once_are_refused(file, locked_elsewhere):
    acknowledged(file, entry())
    with (
        locked_elsewhere(file.parent / ".lock"),
        pytest.raises(UserError, match=r"somebody else is writing to it"),
    ):
        acknowledged(file, entry("archer:fs2/.*"))
    assert len(acknowledged(file, entry("archer:fs2/.*"))) == 2


def test_what_is_not_verified_is_never_excused():
    for verdict in ("failed (io_error, known)", "failed (above_ceiling, known)"):
        night = tonight(*well(), unverified(verdict=verdict, result="xfail"), expected=[entry()])
        assert (night.colour, night.cases[0].known) == ("red", "")


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command's exit code and output at a real site, whose last night had CASES."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    site = read_site("archer")
    cases = sorted(site.cases("nightly"), key=str)
    monkeypatch.setattr(cli.people, "_asked", lambda system, now: (site, short_names(cases)))

    def run(case="archer:fs3/", **more):
        options = {"until": datetime.now(UTC).date() + DAY, "why": "slow", **more}
        words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
        done = CliRunner().invoke(cli.app, ["ack", case, *words])
        return done.exit_code, done.output

    run.cases = cases
    return run


def test_command_says_who_until_when_and_why(command, file):
    until = datetime.now(UTC).date() + DAY
    code, output = command(owner="jane", ticket="OPS-1")
    assert code == 0, output
    count = sum(case.partition == "fs3" for case in command.cases)
    message, written = output.splitlines()
    assert message.startswith(f"{count} cases expected until {until}, jane, ticket OPS-1: slow: ")
    assert written == f"written: {file}"
    (one,) = yaml.safe_load(file.read_text())
    told = {"until": until, "why": "slow", "owner": "jane", "ticket": "OPS-1", "when": until - DAY}
    assert one == {"case": ".*archer:fs3/.*", **told}
    name = short_names(command.cases)[command.cases[0]]
    code, output = command(case=name, system="archer")
    assert (code, output[:22]) == (0, "1 case expected until ")
    assert "@" in read_expected("archer", file.parents[1])[-1].owner, "who has typed it"


def test_wrong_use_of_the_command_is_one_line(command, file):
    for changes, message in (
        ({"why": " "}, "--why is empty"),
        ({"case": "archer:nosuch/"}, "archer:nosuch/: no case has it"),
        ({"until": "2020-01-01"}, "--until 2020-01-01: is over"),
    ):
        code, output = command(**changes)
        assert (code, output.count("\n")) == (2, 1), (changes, output)
        assert output.startswith(f"iowatch: error: {message}")
    assert not file.exists()
