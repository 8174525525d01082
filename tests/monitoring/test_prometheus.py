"""An export as a centre's own Prometheus has it: Debian's promtool, node exporter and server, on
this machine alone, with their state in a temporary folder."""

import json
import math
import re
import subprocess
import time
import urllib.parse
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import servers
import yaml
from cases import changed
from nights import (
    BLESSED,
    HDF5,
    MPIIO,
    month,
    ran,
    red,
    tonight,
    unmeasured,
    unverified,
    well,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from shown import prometheus

from iowatch.cases.run import Promise

DOCS = Path(__file__).parents[2] / "docs"
FS2 = changed(HDF5, place="archer:fs2/cray")
RULES = (DOCS / "examples/prometheus-alerts.yaml").read_text()
ALERTS = [rule["expr"] for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((DOCS / "examples/grafana.json").read_text())
EXPRESSIONS = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
VARIABLES = [
    variable["query"]["query"]
    for variable in DASHBOARD["templating"]["list"]
    if variable["type"] == "query"
]


@pytest.fixture(scope="module")
def text():
    metrics = {**ran().metrics, "drift": 0.5}
    return prometheus([
        tonight(
            *well(), ran(MPIIO, promise=Promise(5, "aa")),
            red(rate=3850.0, filesystem='/fs3 "\\x"'), unverified(FS2),
            ran(changed(MPIIO, place="archer:fs2/cray"), metrics=metrics),
            blessed={HDF5: BLESSED, MPIIO: BLESSED},
        )
    ])  # fmt: skip


@contextmanager
def running(command, url, folder):
    """A server, once it answers; ended with the block."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=folder)
    try:
        try:
            servers.get(url)
        except OSError as err:
            pytest.fail(f"{err}\n{log.read_text()}")
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_promtool_has_nothing_to_complain_of(text, need, tmp_path):
    promtool = need("promtool")
    of_hours = prometheus([replace(tonight(ran()), hours=month(days=2))])
    for given in (text, of_hours):
        done = subprocess.run(
            [promtool, "check", "metrics"], input=given, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    (tmp_path / "rules.yml").write_text(RULES)
    subprocess.run([promtool, "check", "rules", tmp_path / "rules.yml"], check=True)


SKIPPED = {
    "verdict": "skipped (not_installed)",
    "metrics": {},
    "sentence": "there is no ior",
}


@pytest.mark.parametrize(
    ("runs", "alerts"),
    [
        ((ran(), ran(MPIIO)), set()),
        ((ran(), unmeasured(MPIIO, **SKIPPED)), set()),
        ((ran(), unmeasured(MPIIO)), set()),  # amber
        ((ran(), red(MPIIO)), {"IoNightRed"}),
        ((ran(),), {"IoNightIncomplete"}),
    ],
    ids=["green", "skipped", "amber", "red", "incomplete"],
)
def test_documented_alerts_speak_of_what_is_wrong_alone(runs, alerts, need, tmp_path):
    promised = [replace(run, promise=Promise(2, "aa")) for run in runs]
    exported = prometheus([tonight(*well(), *promised)])
    samples = [sample for family in openmetrics(exported) for sample in family.samples]
    series = []
    for sample in samples:
        labels = ",".join(f"{name}={json.dumps(text)}" for name, text in sample.labels.items())
        series.append({"series": f"{sample.name}{{{labels}}}", "values": f"{sample.value}"})
    names = [rule["alert"] for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
    fires = [{"labels": "{}", "value": 1}]
    asked = [
        {"expr": f"count({e})", "eval_time": "0m", "exp_samples": fires if name in alerts else []}
        for name, e in zip(names, ALERTS, strict=True)
    ]
    test = {"tests": [{"input_series": series, "promql_expr_test": asked}]}
    (tmp_path / "test.yml").write_text(json.dumps(test))  # which is YAML
    done = subprocess.run(
        [need("promtool"), "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_has_every_number_through_the_textfile_collector(text, need, tmp_path):
    """And the dashboard's and the documented alerts' expressions find something there."""
    exporter, server = need("prometheus-node-exporter"), need("prometheus")
    folder = tmp_path / "textfile"
    folder.mkdir()
    (folder / "iowatch.prom").write_text(text)
    of_exporter, of_server = f"127.0.0.1:{servers.free_port()}", f"127.0.0.1:{servers.free_port()}"
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [of_exporter]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
    collect = [
        exporter, "--collector.disable-defaults", "--collector.textfile",
        f"--collector.textfile.directory={folder}", f"--web.listen-address={of_exporter}",
    ]  # fmt: skip
    serve = [
        server, f"--config.file={tmp_path}/prometheus.yml", f"--web.listen-address={of_server}",
        f"--storage.tsdb.path={tmp_path}/tsdb",
    ]  # fmt: skip

    def query(expression):
        asked = urllib.parse.urlencode({"query": expression})
        answer = json.loads(servers.get(f"http://{of_server}/api/v1/query?{asked}"))
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    with (
        running(collect, f"http://{of_exporter}/metrics", tmp_path),
        running(serve, f"http://{of_server}/-/ready", tmp_path),
    ):
        end = time.monotonic() + 60
        while not (scraped := query('{__name__=~"iowatch_.*"}')) and time.monotonic() < end:
            time.sleep(0.3)
        (error,) = query("node_textfile_scrape_error")
        assert error["value"][1] == "0"
        found = {
            frozenset(sample["metric"].items()): float(sample["value"][1]) for sample in scraped
        }
        scrape = {"job": "node", "instance": of_exporter}
        sent = [sample for family in openmetrics(text) for sample in family.samples]
        assert len(found) == len(sent) > 80
        for sample in sent:
            key = frozenset({"__name__": sample.name, **sample.labels, **scrape}.items())
            assert math.isclose(found[key], sample.value), sample
        for expression in EXPRESSIONS:
            wanted = re.sub(r"\$\w+", ".*", expression)
            assert query(wanted), expression
        (night,) = query('iowatch_night_colour{colour="red"} == 1')
        assert night["metric"]["system"] == "archer"
        for alert in ALERTS:
            assert query(re.sub(r"> 36 \* 3600", "> -1e12", alert)), alert
        # What is exported next takes the place of it: no alarm stays.
        green = prometheus([tonight(*well(), ran(), ran(MPIIO))])
        new = folder / "new"
        new.write_text(green)
        new.replace(folder / "iowatch.prom")
        end = time.monotonic() + 60
        while query('iowatch_night_colour{colour="red"} == 1') and time.monotonic() < end:
            time.sleep(0.3)
        assert query('iowatch_night_colour{colour="red"} == 1') == []
        assert query("sum(iowatch_case_red)")[0]["value"][1] == "0"


def test_dashboard_names_what_is_exported(text):
    """With the labels, too, that it selects or shows by."""
    exported = {
        family.name: {label for sample in family.samples for label in sample.labels}
        for family in openmetrics(text)
    }
    labels = set().union(*exported.values())
    named = set()
    for expression in [*EXPRESSIONS, *VARIABLES]:
        for name, selected in re.findall(r"\b(iowatch_\w+)(?:\{([^}]*)\})?", expression):
            named.add(name)
            assert set(re.findall(r"(\w+)=", selected)) <= exported[name], expression
    assert len(named) >= 12
    shown = {
        label
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"])
    }
    assert shown <= labels
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
