"""What is read in performance logs of ReFrame, and what is refused."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cases import case
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import assert_refused

from iowatch.case import Case
from iowatch.files import UserError
from iowatch.importers.perflogs import is_perflog, read
from iowatch.importers.runs import UNITS

DATA = Path(__file__).parents[1] / "data"
MB = 1e6 / 2**20  # in MiB


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Times without a time zone are of London: an hour ahead in summer."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "GMT0BST,M3.5.0/1,M10.5.0")
        time.tzset()
        yield
    time.tzset()


def runs(tmp_path, *lines, end="\n", **options):
    text = "\n".join(lines) + end
    assert is_perflog(text)
    return read(tmp_path / "old.log", text, **options)


def refused(tmp_path, *lines, **options):
    """Why a log is refused, without the path of its folder."""
    with pytest.raises(UserError) as err:
        runs(tmp_path, *lines, **options)
    assert "\n" not in str(err.value)
    return str(err.value).removeprefix(f"{tmp_path}/")


# Of this project's checks: the header has the metrics of the session's first test only.
OWN = "small:memory/gnu/{}/local_size=8x8x8/writers=2"
HDF5, MPIIO = (f"SharedFileWrite/backend={name}" for name in ("hdf5", "mpiio"))
NAMES = Case.parse(OWN.format(HDF5)).metrics
VALUES = [100.1234567890123 + number for number in range(len(NAMES))]


def header(*names):
    columns = [f"{n}_{c}" for n in names for c in ("value", "lower_thres", "upper_thres")]
    return "|".join(["job_completion_time|result|case_id|verdict", *(columns or [""])])


def own(kind, metrics, verdict="ok", result="pass", time="2026-07-01T03:00:00"):
    columns = [f"{value}|-0.5|None" for value in metrics] or [""]
    return "|".join([time, result, OWN.format(kind), verdict, *columns])


@pytest.mark.parametrize("first", [NAMES, NAMES[:-1], [*NAMES, "drift"], []])
def test_metrics_of_our_checks_are_exact_under_any_header(tmp_path, first):
    control, library, judged, invalid, stopped = runs(
        tmp_path,
        header(*first),
        own(MPIIO, VALUES[:-1]),
        own(HDF5, VALUES, "regression", "fail"),
        own(HDF5, [*VALUES, -0.25], time="2026-12-02T03:00:00"),
        own(HDF5, [], "invalid", "fail"),
        own(HDF5, [], "null", "fail"),
    )
    assert NAMES[-1] == "ratio"
    assert control.metrics == dict(zip(NAMES[:-1], VALUES[:-1], strict=True))
    assert library.metrics == dict(zip(NAMES, VALUES, strict=True))
    assert judged.metrics == {**library.metrics, "drift": -0.25}
    assert invalid.metrics == stopped.metrics == {}
    assert str(library.case) == OWN.format(HDF5)
    assert (library.remark, library.line) == ("verdict regression", 3)
    assert library.time == datetime(2026, 7, 1, 2, tzinfo=UTC)
    assert judged.time == datetime(2026, 12, 2, 3, tzinfo=UTC)


@given(st.lists(st.floats(0, 1e12) | st.none(), min_size=10, max_size=10), st.integers(0, 999))
def test_what_a_log_of_ours_says_comes_back(tmp_path_factory, values, ost):
    """Metrics of OSTs are those of the header, and one that is none is left out."""
    names = [*case("SlowOst", stripe_size=1).metrics, f"ost_{ost}", f"ost_read_{ost}"]
    assume(values[names.index("total_max")] is not None)
    folder = tmp_path_factory.getbasetemp()
    (run,) = runs(folder, header(*names), own("SlowOst/stripe_size=1", values))
    known = dict(zip(names, values, strict=True))
    assert run.metrics == {name: value for name, value in known.items() if value is not None}


def test_check_without_a_case_is_no_run(tmp_path):
    assert runs(tmp_path, header(), "2026-07-01T03:00:00|pass|null|null|") == []


WHOLE = own(HDF5, VALUES)
IN_ALL = 3 * len(NAMES)  # columns: a metric and its two thresholds


OF_ANOTHER = "truncated, or of another iowatch: {} columns of metrics, and not"
GARBLED = [
    (WHOLE.rpartition("|")[0], OF_ANOTHER.format(IN_ALL - 1)),
    (f"{WHOLE}|1", OF_ANOTHER.format(IN_ALL + 1)),
    ("2026-07-01T03:00:00|pa", "truncated: it ends in front of the metrics"),
    (own(HDF5, []), "truncated: the test has passed, but has no metrics"),
    (WHOLE.replace("100.", "1o0."), "'1o0.1234567890123' is no number"),
    (WHOLE.replace("100.1234567890123", "nan"), "'nan' is no number"),
    (WHOLE.replace("=hdf5", "=hdf6"), "'small:memory/gnu/SharedFileWrite/backend=hdf6/"),
    (WHOLE.replace("2026-07", "2026-13"), "'2026-13-01T03:00:00' is no time"),
]


def test_garbled_line_of_ours_is_named(tmp_path):
    def attempt(line):
        runs(tmp_path, header(*NAMES), WHOLE, line)

    wanted = [(line, rf"/old\.log:3: {re.escape(said)}") for line, said in GARBLED]
    assert_refused(UserError, attempt, wanted)


def test_our_logs_need_no_options_and_no_metric_that_is_unknown_here(tmp_path):
    said = refused(tmp_path, header(*NAMES[:-1], "speed"), WHOLE)
    assert said == "old.log:2: speed is no metric of this iowatch"
    for option in ({"case": "a:b/c/write"}, {"metric": "ratio"}):
        said = refused(tmp_path, header(*NAMES), WHOLE, **option)
        assert said == "old.log: has the case of each line: leave out --case and --metric"


# Of other tests: with a header, as ReFrame 4 has it ...
KIND = "SharedFileWrite/backend=mpiio/stripe_count=4/stripe_size=1/local_size=8x8x8"
CASE = f"big:{{partition}}/{{environ}}/{KIND}/writers={{num_tasks}}"
COLUMNS = (
    "result|job_completion_time|environ|name|num_tasks|partition|read_value|read_unit|read_ref"
    "|write_value|write_unit|write_ref|system"
)
ROW = "pass|2024-02-21T22:51:16|gnu|Ior|24|fs3|9.5|GB/s|0|14813.0|MB/s|0|big"
# ... and with a metric in each line, as before.
EXACT = f"{COLUMNS}|job_completion_time_unix"
LINES = (
    "2020-06-24T00:27:06|reframe 3.1|Ior on big:fs3 using gnu|jobid=7|num_tasks=24|read=9.5|"
    "ref=0 (l=null, u=null)|GB/s",
    "2020-06-24T00:27:06|reframe 3.1|Ior on big:fs3 using gnu|jobid=7|num_tasks=24|write=14813.0|"
    "ref=0 (l=null, u=null)|MB/s",
)
WRITE = {"case": CASE, "metric": "write"}


TABLE = (COLUMNS, ROW)


def row(old, new):
    """The table with another text in its row."""
    return COLUMNS, ROW.replace(old, new)


@pytest.mark.parametrize(("log", "month"), [(TABLE, 2), (LINES, 6)])
def test_bandwidth_of_another_test(tmp_path, log, month):
    (run,) = runs(tmp_path, *log, **WRITE)
    assert str(run.case) == CASE.format(partition="fs3", environ="gnu", num_tasks=24)
    assert run.metrics == {"total_max": pytest.approx(14813.0 * MB)}
    assert (run.time.month, run.time.tzinfo is not None) == (month, True)
    (run,) = runs(tmp_path, *log, **{**WRITE, "metric": "read"})
    assert run.metrics == {"total_max": pytest.approx(9500 * MB)}
    (run,) = runs(tmp_path, *log, **WRITE, unit="GiB/s")
    assert run.metrics == {"total_max": 14813.0 * 1024}


OTHER_FORMS = [
    "{time}|reframe 4.3.2|Ior %n=2 /de04c10b @big:fs3+gnu|num_tasks=24|write=512|MiB/s|ref=0",
    "{time}|reframe 3.9|Ior on big:fs3 using gnu|num_tasks=24|write=512|ref=1|units=MiB/s",
    "{time}|reframe 3.1|Ior on big:fs3 using gnu|num_tasks=24|write=512 (0, null, null, MiB/s)",
]


def test_other_forms_of_a_line(tmp_path):
    for form in OTHER_FORMS:
        line = form.format(time="2020-06-24T00:27:06+03:00")
        (run,) = runs(tmp_path, line, **WRITE)
        assert (run.metrics, run.case.writers) == ({"total_max": 512.0}, 24), line
        assert run.time == datetime(2020, 6, 23, 21, 27, 6, tzinfo=UTC), line


def test_header_may_stand_before_lines_and_comes_again_where_logs_were_joined(tmp_path):
    head = "job_completion_time|version|info|perf_var=perf_value|ref=perf_ref|perf_unit"
    assert len(runs(tmp_path, head, *LINES, **WRITE)) == 1
    longer = f"{COLUMNS}|tags", f"{ROW}|io".replace("-02-", "-03-")
    first, second = runs(tmp_path, *TABLE, *longer, **WRITE)
    assert (first.time.month, second.time.month) == (2, 3)


def test_parameters_of_a_test_tell_its_cases_apart(tmp_path):
    case = CASE.replace("writers={num_tasks}", "writers={nodes}")
    rows = [ROW.replace("Ior", f"Ior %nodes={nodes} %api=MPIIO") for nodes in (1, 2)]
    found = runs(tmp_path, COLUMNS, *rows, case=case, metric="write")
    assert [run.case.writers for run in found] == [1, 2]
    said = refused(tmp_path, COLUMNS, *rows, **WRITE)
    assert said.startswith("old.log:3: Ior %nodes=2 %api=MPIIO big fs3 gnu is another test than")
    assert "in line 2: tell them apart in --case with {...} of api, environ," in said


def test_units(tmp_path):
    for unit in UNITS:
        (run,) = runs(tmp_path, *row("MB/s", unit), **WRITE)
        power = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}.get(unit[0], 0)
        bytes_per_s = 14813.0 * (1024 if "i" in unit else 1000) ** power
        assert run.metrics == {"total_max": pytest.approx(bytes_per_s / 2**20)}, unit
    (failed,) = runs(tmp_path, *row("14813.0", "None"), **WRITE)
    assert failed.metrics == {}


REFUSED = [
    (TABLE, {}, "old.log: of a test that is not iowatch's: say with --case"),
    (TABLE, {"metric": "write"}, "old.log: of a test that is not iowatch's"),
    (TABLE, {**WRITE, "metric": "bw"}, "old.log: has no metric bw: it has read, wr"),
    (LINES, {**WRITE, "metric": "bw"}, "old.log: has no metric bw: it has read, wr"),
    (TABLE, {**WRITE, "case": "{host}"}, "old.log:2: has no {host} for --case: it"),
    (TABLE, {**WRITE, "case": "{name}"}, "old.log:2: 'Ior' is not a case id: SYSTEM"),
    (TABLE, {**WRITE, "unit": "mph"}, "old.log:2: mph is no unit of bandwidth: give"),
    (row("MB/s", "Mb/s"), WRITE, "old.log:2: Mb/s is no unit of bandwidth"),
    ((LINES[0], LINES[1][:-5]), WRITE, "old.log:2: truncated or garbled: not of the form TIME"),
    ((LINES[1].replace("MB/s", "M"),), WRITE, "old.log:1: the metric has no unit: give it"),
    ((LINES[1].replace("on big", "on"), *LINES), WRITE, "old.log:1: truncated or garbled"),
    ((*LINES, "x" + LINES[1]), WRITE, "old.log:3: truncated or garbled"),
    ((*TABLE, ROW[:-4]), WRITE, "old.log:3: truncated or garbled: 12 columns, and 13 in"),
    (row("14813", "-14813"), WRITE, "old.log:2: -14813.0 is no bandwidth"),
    (row("14813.0", "0"), WRITE, "old.log:2: 0 is no bandwidth"),
    (row("14813", "14.8.13"), WRITE, "old.log:2: '14.8.13.0' is no number"),
    (row("14813.0", "inf"), WRITE, "old.log:2: 'inf' is no number"),
    (row("2024-", "24-"), WRITE, "old.log:2: '24-02-21T22:51:16' is no t"),
    (row("2024-02-21T22:51:16", "None"), WRITE, "old.log:2: 'None' is no t"),
    ((COLUMNS,), WRITE, "old.log: has no results"),
    ((*TABLE, header(), WHOLE), {}, "old.log: has lines of iowatch's checks and of oth"),
    ((EXACT, f"{ROW}|1e999"), WRITE, "old.log:2: '1e999' is no time"),
]


def test_what_is_refused(tmp_path):
    def attempt(log, options):
        runs(tmp_path, *log, **options)

    wanted = [((log, options), f"/{re.escape(said)}") for log, options, said in REFUSED]
    assert_refused(UserError, attempt, wanted)


def test_last_line_without_end_is_truncated(tmp_path):
    for log, options in ((TABLE, WRITE), (LINES, WRITE), ((header(*NAMES), WHOLE), {})):
        said = refused(tmp_path, *log, end="", **options)
        assert said == "old.log:2: truncated: the line has no end"


@pytest.mark.parametrize("form", ["columns", "lines"])
def test_logs_that_reframe_wrote(form):
    """Two runs with metrics, then two whose sanity check failed."""
    text = (DATA / f"perflog-{form}.log").read_text()
    case = f"old:default/{{environ}}/{KIND}/writers={{array}}"
    for metric, values in (
        ("triad", [14040.0 * MB, 15080.0 * MB]),
        ("copy", [20064.0 * MB, 20128.0 * MB]),
    ):
        found = read(DATA / "x.log", text, case, metric)
        assert [run.metrics.get("total_max") for run in found] == pytest.approx(
            [*values, None, None]
        )
        assert [run.case.writers for run in found] == [64, 128, 64, 128]
        assert {run.case.environ for run in found} == {"builtin"}
    if form == "columns":  # whatever the time zone here
        assert found[0].time.timestamp() == 1795278190.954753


def test_other_texts_are_no_logs():
    for text in ("", "\n", "x|y\n", "2020-06-24T00:27:06 x\n", " Simple Parallel IO benchmark\n"):
        assert not is_perflog(text), text
