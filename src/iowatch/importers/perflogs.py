"""Performance logs of ReFrame: of this project's checks, and of any other test.

They come in two forms. Since ReFrame 4 a header names the columns:

    result|job_completion_time|...|name|...|triad_value|triad_unit|triad_ref|...
    pass|2024-02-21T22:51:16|...|stream_test|...|14813.0|MB/s|0|...

Before that, or with `perflog_compat`, each line has one metric:

    2020-06-24T00:27:06|reframe 3.1|stream_test on daint:gpu using gnu|triad=14813.0|ref=0 ...|MB/s
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from iowatch.case import Case, known_case
from iowatch.checks import DRIFT, METRICS, is_of_ost
from iowatch.files import UserError
from iowatch.importers.runs import UNITS, Run, as_number, case_of, mib_per_s

CASE = "case_id"  # the column that only logs of this project's checks have
TIMES = ("job_completion_time", "asctime")
EXACT = "job_completion_time_unix"
VALUE, UNIT = "_value", "_unit"
WIDTH = 3  # columns of a metric in a log of ours: value, lower and upper threshold

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
#: `stream_test on daint:gpu using gnu`, or as ReFrame 4 says it `stream_test /a1b2 @daint:gpu+gnu`
_INFO = (
    re.compile(r"(?P<name>.+) on (?P<system>.+):(?P<partition>.+) using (?P<environ>.+)"),
    re.compile(r"(?P<name>.+) @(?P<system>.+):(?P<partition>.+)\+(?P<environ>.+)"),
)
_PAIR = re.compile(r"([A-Za-z][\w.-]*)=(.*)")
_NO_METRICS = re.compile(r"ref|lower|upper|units?|jobid|num_\w+|output|stage")
_PARAMETER = re.compile(r"%(\w+)=(\S+)")
#: The fields that tell of which test a line is.
_TEST = ("info", "name", "display_name", "system", "partition", "environ")
_NONE = ("None", "null", "")


@dataclass(frozen=True)
class Line:
    """One result in a log."""

    number: int
    fields: Mapping[str, str]
    metrics: Mapping[str, tuple[str, str]]  # value and unit as they stand there


def is_header(line: str) -> bool:
    """Does this line name the columns of those that follow?"""
    return any(name in line.split("|") for name in TIMES)


def is_perflog(text: str) -> bool:
    """Does a file begin like a performance log?"""
    first = text.partition("\n")[0]
    return is_header(first) or bool(_STAMP.match(first) and "|" in first)


def read(file: Path, text: str, case: str = "", metric: str = "", unit: str = "") -> list[Run]:
    """The runs of one log; UserError if anything in it cannot be read.

    Of a test that is not ours, `case` is the case id, with {field} for what differs from line to
    line, and `metric` the one that is the bandwidth, in `unit` whatever the log says.
    """
    lines = list(_lines(file, text))
    if not lines:
        raise UserError(f"{file}: has no results")
    if len({CASE in line.fields for line in lines}) > 1:
        raise UserError(f"{file}: has lines of iowatch's checks and of others: part them")
    if CASE not in lines[0].fields:
        return _runs(file, lines, case, metric, unit)
    if case or metric:
        raise UserError(f"{file}: has the case of each line: leave out --case and --metric")
    return [_own_run(file, line) for line in lines if _is_measurement(line.fields[CASE])]


def _is_measurement(case: str) -> bool:
    """Not of a test that has no case, or whose check has no metrics."""
    known = known_case(case)
    return case not in _NONE and (known is None or bool(known.metrics))


def _own_run(file: Path, line: Line) -> Run:
    place, fields = f"{file}:{line.number}", line.fields
    metrics = {
        name: as_number(place, value)
        for name, (value, _) in line.metrics.items()
        if value not in _NONE
    }
    if fields.get("result") == "pass" and "total_max" not in metrics:
        raise UserError(f"{place}: truncated: the test has passed, but has no metrics")
    remark = f"verdict {fields.get('verdict') or fields.get('result')}"
    case = case_of(place, fields[CASE])
    return Run(case, _time(place, fields), metrics, file, line.number, remark)


def _runs(file: Path, lines: Sequence[Line], case: str, metric: str, unit: str) -> list[Run]:
    names = ", ".join(dict.fromkeys(name for line in lines for name in line.metrics))
    if not (case and metric):
        raise UserError(
            f"{file}: of a test that is not iowatch's: say with --case which case it measured, and "
            f"with --metric which of these is the bandwidth: {names}"
        )
    runs = []
    tests: dict[Case, tuple[int, list[str]]] = {}
    for line in lines:
        if metric not in line.metrics:  # the line is of another
            continue
        place = f"{file}:{line.number}"
        test = [line.fields[name] for name in _TEST if name in line.fields]
        fields = dict(_PARAMETER.findall(" ".join(test))) | dict(line.fields)
        measured = case_of(place, case, fields)
        first, other = tests.setdefault(measured, (line.number, test))
        if test != other:
            raise UserError(
                f"{place}: {' '.join(test)} is another test than {' '.join(other)} in line {first}:"
                f" tell them apart in --case with {{...}} of {', '.join(sorted(fields))}"
            )
        value, its_unit = line.metrics[metric]
        # In ReFrame's logs, None is the metric of a test that failed before it had one.
        rates = {} if value in _NONE else {"total_max": mib_per_s(place, value, unit or its_unit)}
        runs.append(Run(measured, _time(place, fields), rates, file, line.number, ""))
    if not runs:
        raise UserError(f"{file}: has no metric {metric}: it has {names}")
    return runs


def _time(place: str, fields: Mapping[str, str]) -> datetime:
    """When the job ended; a time without a time zone is of this machine's."""
    text = next(fields[name] for name in (EXACT, *TIMES) if name in fields)
    try:
        if EXACT in fields:
            return datetime.fromtimestamp(float(text), UTC)
        return datetime.fromisoformat(text.replace(",", ".")).astimezone()
    except (ValueError, OverflowError):
        raise UserError(f"{place}: {text!r} is no time") from None


def _lines(file: Path, text: str) -> Iterator[Line]:
    lines = text.split("\n")
    if lines[-1]:
        raise UserError(f"{file}:{len(lines)}: truncated: the line has no end")
    header: list[str] = []
    expected = 0  # fields of each line without a header
    for number, line in enumerate(lines, 1):
        place, fields = f"{file}:{number}", line.rstrip("\r").split("|")
        if is_header(line):
            # A log of one metric a line has one, too, but says all itself.
            header = [] if "perf_var" in line else fields
        elif line.strip() and CASE in header:
            yield _own(place, number, header, fields)
        elif line.strip() and header:
            yield _row(place, number, header, fields)
        elif line.strip():
            expected = expected or len(fields)
            yield _pairs(place, number, expected, fields)


def _row(place: str, number: int, header: list[str], fields: list[str]) -> Line:
    """A line under a header."""
    if len(fields) != len(header):
        raise UserError(
            f"{place}: truncated or garbled: {len(fields)} columns, and {len(header)} in the header"
        )
    row = dict(zip(header, fields, strict=True))
    names = [name.removesuffix(VALUE) for name in header if name.endswith(VALUE)]
    return Line(
        number, row, {name: (row[name + VALUE], row.get(name + UNIT, "")) for name in names}
    )


def _own(place: str, number: int, header: list[str], fields: list[str]) -> Line:
    """A line of a log of ours, the metrics last.

    ReFrame's header has the metrics of a session's first test only: others may have more or fewer,
    and none at all if they failed.
    """
    there = [name.removesuffix(VALUE) for name in header if name.endswith(VALUE)]
    first = header.index(there[0] + VALUE) if there else len(header) - 1
    columns = dict(zip(header[:first], fields, strict=False))
    values = [] if fields[first:] == [""] else fields[first:]
    if len(columns) < first or not fields[first:]:
        raise UserError(f"{place}: truncated: it ends in front of the metrics")
    if not values or columns[CASE] in _NONE:
        return Line(number, columns, {})
    if foreign := [name for name in there if name not in METRICS and not is_of_ost(name)]:
        raise UserError(f"{place}: {foreign[0]} is no metric of this iowatch")
    case = case_of(place, columns[CASE])
    names = case.metrics + [n for n in there if is_of_ost(n)]
    if len(values) == WIDTH * (len(names) + 1):  # with a baseline there is one more
        names.append(DRIFT)
    if len(values) != WIDTH * len(names):
        raise UserError(
            f"{place}: truncated, or of another iowatch: {len(values)} columns of metrics, and not "
            f"{WIDTH * len(names)}"
        )
    metrics = {name: (value, "") for name, value in zip(names, values[::WIDTH], strict=True)}
    return Line(number, columns, metrics)


def _pairs(place: str, number: int, expected: int, fields: list[str]) -> Line:
    """A line of one metric."""
    infos = (info.fullmatch(part) for part in fields for info in _INFO)
    info = next((match for match in infos if match), None)
    if not _STAMP.match(fields[0]) or not info or len(fields) != expected:
        raise UserError(
            f"{place}: truncated or garbled: not of the form TIME|...|TEST on SYSTEM:PARTITION "
            "using ENVIRON|...|NAME=VALUE|...|UNIT"
        )
    pairs = {m[1]: m[2] for part in fields if (m := _PAIR.fullmatch(part))}
    unit = pairs.get("units") or pairs.get("unit") or next(filter(UNITS.get, fields), "")
    metrics = {}
    for name, value in pairs.items():
        # In some logs the rest is in brackets: triad=14813.0 (0, None, None, MB/s)
        bare, _, rest = value.partition(" (")
        if not _NO_METRICS.fullmatch(name):
            metrics[name] = (bare, rest.rstrip(")").split(", ")[-1] if rest else unit)
    return Line(number, {**pairs, **info.groupdict(), TIMES[0]: fields[0]}, metrics)
