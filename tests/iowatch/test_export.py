"""What is exported, as others' parsers read it, and the command."""

import json
import math
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from cases import case, changed
from nights import (
    BLESSED,
    HDF5,
    MPIIO,
    night_id,
    ran,
    recorded,
    red,
    tonight,
    unmeasured,
    unverified,
    well,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as textfile
from reported import of_night, reported, session, store
from shown import prometheus
from typer.testing import CliRunner

from iowatch.cases.run import Promise
from iowatch.cases.verdict import State
from iowatch.cli import app
from iowatch.measure.checks import METRICS
from iowatch.pages import export
from iowatch.pages.export import document, httpjson

FS2 = changed(HDF5, place="archer:fs2/cray", hints=(("cb_nodes", "4"),))
PROMISED = "iowatch_night_promised_cases"


def families(text, parse=openmetrics):
    return {family.name: family for family in parse(text)}


def samples(text, name, **labels):
    """The values of the samples with these labels."""
    return [
        sample.value
        for sample in families(text)[name].samples
        if labels.items() <= sample.labels.items()
    ]


def test_both_parsers_read_the_same_and_every_number_is_the_nights(golden):
    promised = Promise(5, "aa")
    slow = red(rate=3850.0, promise=promised, filesystem='/lustre "\\fs3\\"\n')
    versions = ran(case("LibraryVersions", "archer:fs3/cray"), metrics={})
    night = tonight(
        *well(), versions, ran(MPIIO), slow, unverified(FS2, promise=promised),
        blessed={HDF5: BLESSED, MPIIO: BLESSED, FS2: BLESSED}, problems=["a problem"],
    )  # fmt: skip
    other = recorded(ran(changed(HDF5, place="cirrus:lustre/gnu")), system="cirrus")
    there = changed(HDF5, place="lumi:flash/gnu")
    amber = recorded(unmeasured(there), ran(changed(there, backend="mpiio")), system="lumi")
    text = prometheus([night, other, amber])
    golden("night.prom", text)

    read, as_textfile = families(text), families(text, textfile)
    assert set(as_textfile) == set(read)
    for name, family in as_textfile.items():
        assert family.samples == [sample._replace(exemplar=None) for sample in read[name].samples]
        assert family.type == read[name].type == "gauge"
        assert family.documentation
        unit = next((unit for unit, _ in export.UNITS.values() if name.endswith(f"_{unit}")), "")
        assert read[name].unit == unit, "a name ends with its unit"

    labels = {"system": "archer", "case": str(HDF5)}
    for state in State:
        value = samples(text, "iowatch_case_state", **labels, state=str(state))
        assert value == [state is State.REGRESSION]
    assert samples(text, "iowatch_case_reason", **labels, reason="own_past") == [1]
    assert len(samples(text, "iowatch_case_reason", **labels)) == 1, "of others there is none"
    assert samples(text, "iowatch_case_red", **labels) == [1]
    for system, colours in (("archer", [0, 0, 1]), ("cirrus", [1, 0, 0]), ("lumi", [0, 1, 0])):
        assert samples(text, "iowatch_night_colour", system=system) == colours
    for name, value in slow.metrics.items():
        unit, _ = export.UNITS[METRICS[name].unit]
        (exported,) = samples(text, f"iowatch_metric_{unit}", **labels, metric=name)
        assert math.isclose(exported, value * (2**20 if unit == "bytes_per_second" else 1))
    (deviation,) = samples(text, "iowatch_case_deviation_ratio", **labels)
    assert math.isclose(deviation, -0.5)
    # Of what was not measured there is no number, and of what was never blessed nothing to compare.
    for labels in ({"case": str(there)}, {"case": str(FS2)}):
        assert samples(text, "iowatch_case_rate_bytes_per_second", **labels) == []
        assert samples(text, "iowatch_metric_bytes_per_second", **labels) == []
    assert samples(text, "iowatch_case_baseline_bytes_per_second", system="cirrus") == []


def test_what_was_skipped_was_not_promised():
    """An alert compares what was measured with what was promised; what was tried later is there."""
    absent = {"verdict": "skipped (not_installed)", "metrics": {}, "promise": Promise(3, "aa")}
    runs = [ran(promise=Promise(3, "aa")), unmeasured(MPIIO, **absent), unmeasured(FS2, **absent)]
    assert samples(prometheus([tonight(*runs)]), PROMISED) == [1]
    assert samples(prometheus([tonight(*runs, ran(MPIIO, hour=3))]), PROMISED) == [2]


def test_drift_stands_apart():
    text = prometheus([tonight(ran(metrics={**ran().metrics, "drift": 0.25}))])
    assert samples(text, "iowatch_case_drift_ratio") == [0.25]
    assert samples(text, "iowatch_metric_ratio", metric="drift") == []


def test_document_has_the_documented_fields_and_a_unique_id():
    made = [document(each) for each in (ran(), red(), unverified(FS2), ran(hour=2, night=""))]
    assert all([*each] == [*export.FIELDS] for each in made)
    assert len({each["id"] for each in made}) == 3, "a run that is read twice has one id"
    first, second, third, last = made
    assert first["@timestamp"] == "2026-11-20T01:00:00.000+00:00"
    assert (first["red"], second["red"], third["reason"]) == (False, True, "io_error")
    assert third["parameters"]["hints"] == "cb_nodes=4"
    assert (first["night"], last["night"]) == (night_id(), None)
    with_spaces = document(ran(provenance={"hint cb_nodes": "4", "free space": "1 GiB"}))
    assert with_spaces["provenance"].keys() == {"hint_cb_nodes", "free_space"}
    assert "\n" not in json.dumps(first)
    of_no_case = SimpleNamespace(check_case_id="", check_result="pass")
    assert httpjson(of_no_case, {}, []) is None


# The command


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command, with two systems on record, a night each, and a hand run of the day before."""
    now, day = datetime.now(UTC), timedelta(days=1)
    other = changed(HDF5, place="cirrus:lustre/gnu")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path))
    store(
        tmp_path / "results.db",
        session(reported(HDF5, now - day), uuid="hand", began=now - day),
        of_night(now, reported(HDF5, now), reported(MPIIO, now), uuid="1"),
        of_night(now, reported(other, now), uuid="2"),
    )

    def run(*options):
        databases = [] if "--db" in options else ["--db", str(tmp_path / "results.db")]
        return CliRunner().invoke(app, ["export", *databases, *options])

    return run


def test_command(command, tmp_path):
    done = command()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("\n# EOF\n")
    assert {s.labels["system"] for s in families(done.stdout)["iowatch_night_colour"].samples} == {
        "archer", "cirrus"
    }  # fmt: skip
    file = tmp_path / "iowatch.prom"
    assert command("--output", str(file)).output == ""
    assert file.read_text() == done.stdout
    assert oct(file.stat().st_mode)[-3:] == "644", "the collector is another user"
    text = command("--system", "cirrus").stdout
    assert {s.labels["system"] for s in families(text)["iowatch_case_red"].samples} == {"cirrus"}

    def documents(*options):
        lines = command("--format", "jsonl", *options).stdout.splitlines()
        runs = map(json.loads, lines)
        return [(run["system"], run["night"] is None) for run in runs]

    since = "--since", f"{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d}"
    tonight = [("archer", False)] * 2 + [("cirrus", False)]
    assert documents() == tonight
    assert documents(*since) == [("archer", True), *tonight]
    assert documents(*since, "--system", "cirrus") == tonight[2:]


def test_wrong_usage_is_one_line(command, tmp_path):
    empty = tmp_path / "empty.db"
    store(empty, session(reported(HDF5), began=datetime.now(UTC)))
    for options, message in (
        (["--format", "csv"], "--format csv: there are prometheus and jsonl"),
        (["--system", "nowhere"], "no night of system nowhere is on record; systems on record: "),
        (["--system", "archer:fs3"], "--system archer:fs3: a night is the whole system's"),
        (["--since", "2026-01-01"], "--since goes with --format jsonl: Prometheus keeps the past"),
        (["--db", str(empty)], f"{empty}: no night of any system is on record since a year ago: "),
    ):
        done = command(*options)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), options
        assert done.stderr.startswith(f"iowatch: error: {message}"), done.stderr
