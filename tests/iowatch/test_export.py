"""What is exported, as others' parsers read it, and the command."""

import json
import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cases import case, changed
from nights import (
    BLESSED,
    HDF5,
    MPIIO,
    at,
    invalid,
    night_id,
    ran,
    recorded,
    red,
    tonight,
    unmeasured,
    well,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as textfile
from reported import reported, session, store
from typer.testing import CliRunner

from iowatch import export, run
from iowatch.checks import METRICS
from iowatch.cli import app
from iowatch.export import document, httpjson, prometheus
from iowatch.night.record import COLOURS
from iowatch.run import Promise
from iowatch.verdict import Kind

ROOT = Path(__file__).parents[2]
DOCUMENTED = (ROOT / "docs/monitoring.md").read_text()
VERSIONS = case("LibraryVersions", "archer:fs3/cray")
FS2 = changed(HDF5, place="archer:fs2/cray", hints=(("cb_nodes", "4"),))


def families(text, parse=openmetrics):
    return {family.name: family for family in parse(text)}


def samples(text, name, **labels):
    """The values of the samples with these labels."""
    return [
        sample.value
        for sample in families(text)[name].samples
        if labels.items() <= sample.labels.items()
    ]


def test_both_parsers_read_the_same_and_every_number_is_the_nights():
    promised = Promise(5, "aa")
    slow = red(rate=3850.0, promise=promised, filesystem='/lustre "\\fs3\\"\n')
    night = tonight(
        *well(), ran(VERSIONS, metrics={}), ran(MPIIO), slow, invalid(FS2, promise=promised),
        blessed={HDF5: BLESSED, MPIIO: BLESSED, FS2: BLESSED}, problems=["a problem"],
    )  # fmt: skip
    other = recorded(ran(changed(HDF5, place="cirrus:lustre/gnu")), system="cirrus")
    there = changed(HDF5, place="lumi:flash/gnu")
    amber = recorded(unmeasured(there), ran(changed(there, backend="mpiio")), system="lumi")
    text = prometheus([night, other, amber])
    read = families(text)
    assert set(families(text, textfile)) == set(read)
    for name, family in families(text, textfile).items():
        assert family.samples == [replace_exemplar(sample) for sample in read[name].samples], (
            "the textfile collector's format and OpenMetrics"
        )
        assert family.type == read[name].type == "gauge"
        assert family.documentation
        unit = next((unit for unit, _ in export.UNITS.values() if name.endswith(f"_{unit}")), "")
        assert read[name].unit == unit, "a name ends with its unit"
        assert f"`{name}`" in DOCUMENTED

    of = {"system": "archer"}
    began = datetime.fromisoformat(night_id()).replace(tzinfo=UTC).timestamp()
    assert samples(text, "iowatch_night_start_timestamp_seconds", **of) == [began]
    assert samples(text, "iowatch_night_end_timestamp_seconds", **of) == [at(1).timestamp()]
    assert samples(text, "iowatch_night_colour", **of, colour="red") == [1]
    assert samples(text, "iowatch_night_colour", **of, colour="green") == [0]
    assert samples(text, "iowatch_night_colour", system="cirrus", colour="green") == [1]
    for colour in COLOURS:
        of_lumi = samples(text, "iowatch_night_colour", system="lumi", colour=colour)
        assert of_lumi == [colour == "amber"]
    assert samples(text, "iowatch_night_cases", system="lumi") == [1], "one was not measured"
    not_there = {"case": str(there)}
    assert samples(text, "iowatch_case_verdict", **not_there, verdict="not_measured") == [1]
    assert samples(text, "iowatch_case_red", **not_there) == [0]
    assert samples(text, "iowatch_case_rate_bytes_per_second", **not_there) == []
    assert samples(text, "iowatch_metric_bytes_per_second", **not_there) == []
    assert samples(text, "iowatch_night_problems", **of) == [1]
    assert samples(text, "iowatch_night_cases", **of) == [4]
    assert samples(text, "iowatch_night_promised_cases") == [5], "none is on record of the other"

    its = {"system": "archer", "case": str(HDF5)}
    (labels,) = [
        s.labels for s in read["iowatch_case_red"].samples if its.items() <= s.labels.items()
    ]
    assert labels == {
        **its, "partition": "fs3", "environ": "cray", "filesystem": '/lustre "\\fs3\\" ',
        "check": "SharedFileWrite", "backend": "hdf5", "stripe_count": "-1", "stripe_size": "1",
        "local_size": "128x128x128", "writers": "96",
    }  # fmt: skip
    verdicts = {
        sample.labels["verdict"]: sample.value
        for sample in read["iowatch_case_verdict"].samples
        if its.items() <= sample.labels.items()
    }
    assert verdicts == {kind: kind is Kind.REGRESSION for kind in Kind}
    assert samples(text, "iowatch_case_red", **its) == [1]
    for name, value in slow.metrics.items():
        unit, _ = export.UNITS[METRICS[name].unit]
        (found,) = samples(text, f"iowatch_metric_{unit}", **its, metric=name)
        assert math.isclose(found, value * (2**20 if unit == "bytes_per_second" else 1))
    assert samples(text, "iowatch_case_rate_bytes_per_second", **its) == [3850 * 2**20]
    (baseline,) = samples(text, "iowatch_case_baseline_bytes_per_second", **its)
    assert math.isclose(baseline, 7700 * 2**20)
    (deviation,) = samples(text, "iowatch_case_deviation_ratio", **its)
    assert math.isclose(deviation, -0.5)

    # Of what was not measured there is no number, and of what was never blessed nothing to compare.
    its["case"] = str(FS2)
    assert samples(text, "iowatch_case_verdict", **its, verdict="invalid") == [1]
    assert samples(text, "iowatch_metric_bytes_per_second", **its) == []
    assert samples(text, "iowatch_case_rate_bytes_per_second", **its) == []
    assert len(samples(text, "iowatch_case_baseline_bytes_per_second", **its)) == 1
    assert samples(text, "iowatch_case_deviation_ratio", **its) == []
    assert samples(text, "iowatch_case_baseline_bytes_per_second", system="cirrus") == []


def replace_exemplar(sample):
    return sample._replace(exemplar=None)


def test_what_was_left_out_was_not_promised():
    """An alert compares what was measured with what was promised; what was tried later is there."""
    absent = {"kind": "left_out", "metrics": {}, "promise": Promise(3, "aa")}
    runs = [ran(promise=Promise(3, "aa")), unmeasured(MPIIO, **absent), unmeasured(FS2, **absent)]
    promised = "iowatch_night_promised_cases"
    assert samples(prometheus([tonight(*runs)]), promised) == [1]
    assert samples(prometheus([tonight(*runs, ran(MPIIO, hour=3))]), promised) == [2]


def test_drift_stands_apart():
    metrics = {**ran().metrics, "drift": 0.25}
    text = prometheus([tonight(ran(metrics=metrics))])
    assert samples(text, "iowatch_case_drift_ratio") == [0.25]
    assert samples(text, "iowatch_metric_ratio", metric="drift") == []


def test_document_has_the_fields_that_are_documented_and_an_id_of_its_own():
    made = [document(each) for each in (ran(), red(), invalid(FS2), ran(hour=2, night=""))]
    fields = re.findall(
        r"^\| `([@\w]+)` \|", DOCUMENTED.partition("## A document")[2], re.MULTILINE
    )
    assert all([*each] == fields for each in made)
    assert len({each["id"] for each in made}) == 3, "a run that is read twice has one id"
    first, second, third, last = made
    assert first["@timestamp"] == "2026-11-20T01:00:00.000+00:00"
    assert (first["red"], second["red"], third["verdict"]) == (False, True, "invalid")
    assert third["parameters"]["hints"] == "cb_nodes=4"
    assert (first["night"], last["night"]) == (night_id(), None)
    conditions = {"hint cb_nodes": "4", "free space": "1 GiB"}
    assert document(ran(conditions=conditions))["conditions"].keys() == {
        "hint_cb_nodes", "free_space",
    }  # fmt: skip
    assert "\n" not in json.dumps(first)


@pytest.fixture
def database(tmp_path, monkeypatch):
    """Two systems, a night each, and what was run by hand on the day before."""
    file = tmp_path / "results.db"
    now = datetime.now(UTC)
    other = changed(HDF5, place="cirrus:lustre/gnu")
    night, day = run.night_id(now), timedelta(days=1)
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path))
    store(
        file,
        session(reported(HDF5, now - day), uuid="hand", began=now - day),
        session(reported(HDF5, now), reported(MPIIO, now), uuid="1", began=now, night=night),
        session(reported(other, now), uuid="2", began=now, night=night),
    )
    return file


def run_export(database, *options):
    return CliRunner().invoke(app, ["export", "--db", str(database), *options])


def test_command(database, tmp_path):
    done = run_export(database)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("\n# EOF\n")
    systems = {s.labels["system"] for s in families(done.stdout)["iowatch_night_colour"].samples}
    assert systems == {"archer", "cirrus"}
    file = tmp_path / "iowatch.prom"
    file.write_text("old")
    assert run_export(database, "--to", str(file)).output == ""
    assert file.read_text() == done.stdout
    assert oct(file.stat().st_mode)[-3:] == "644", "the collector is another user"
    assert [path.name for path in tmp_path.glob("*iowatch.prom*")] == [file.name]
    one = run_export(database, "--system", "cirrus").stdout
    assert {s.labels["system"] for s in families(one)["iowatch_case_red"].samples} == {"cirrus"}

    lines = run_export(database, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["system"] for line in lines] == ["archer", "archer", "cirrus"]
    since = f"{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d}"
    lines = run_export(database, "--format", "jsonl", "--since", since).stdout.splitlines()
    assert [json.loads(line)["night"] is None for line in lines] == [True, False, False, False]
    lines = run_export(
        database, "--format", "jsonl", "--since", since, "--system", "cirrus"
    ).stdout.splitlines()
    assert [json.loads(line)["system"] for line in lines] == ["cirrus"]


def test_wrong_usage_is_one_line(database, tmp_path):
    empty = tmp_path / "empty.db"
    store(empty, session(reported(HDF5), began=datetime.now(UTC)))
    for db, options, said in (
        (database, ["--format", "csv"], "--format csv: there are prometheus and jsonl"),
        (database, ["--system", "nowhere"], "no night of system nowhere is on record; systems on"),
        (database, ["--system", "archer:fs3"], "--system archer:fs3: a night is the whole system"),
        (database, ["--since", "2026-01-01"], "--since goes with --format jsonl: Prometheus keeps"),
        (empty, [], f"{empty}: no night of any system is on record since a year ago: run iowatch"),
        (database, ["--to", str(tmp_path / "no" / "a.prom")], f"{tmp_path}/no/a.prom: cannot be"),
    ):
        done = run_export(db, *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"iowatch: error: {said}"), done.stderr
        assert done.stderr.count("\n") == 1


class Record:
    """ReFrame's, of a test that is no case."""

    check_case_id = ""


def test_what_is_no_case_is_not_sent():
    record = Record()
    record.check_case_id, record.check_result = "", "pass"
    assert httpjson(record, {}, []) is None
