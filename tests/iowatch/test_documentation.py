"""The documentation site, and the command that opens it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from iowatch import cli
from iowatch.cases.verdict import Reason
from iowatch.cli import documentation, output_schema
from iowatch.measure.checks import CHECKS

ROOT = Path(__file__).parents[2]


def docs(monkeypatch, folder, *page):
    monkeypatch.setattr(documentation, "DOCUMENTATION", folder)
    return CliRunner().invoke(cli.app, ["docs", *page])


@pytest.mark.long
def test_site_is_built_without_a_warning_and_opened(tmp_path, monkeypatch):
    """A link to nothing is one."""
    sphinx = [sys.executable, "-m", "sphinx", "-qW", "-d", tmp_path / "doctrees"]
    html = tmp_path / "html"
    done = subprocess.run([*sphinx, ROOT / "docs", html], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = docs(monkeypatch, html, "runbook#own_past")
    runbook = html / "howto/runbook.html"
    assert done.output == f"{runbook.as_uri()}#own_past\n"
    assert set(Reason) <= set(re.findall(r' id="(\w+)"', runbook.read_text()))


def test_every_metric_of_a_check_says_what_it_is():
    metrics = {name: metric for check in CHECKS.values() for name, metric in check.metrics.items()}
    assert [name for name, metric in metrics.items() if not metric.about] == []


def test_schema_of_json_is_that_of_the_records():
    file = ROOT / "src/iowatch/iowatch.output-1.schema.json"
    anew = f"write it anew: python -m iowatch.cli.output_schema > {file}"
    assert file.read_text("utf-8") == output_schema.schema_text(), anew


def test_every_page_that_a_draft_or_a_message_names_is_there(tmp_path, monkeypatch):
    """As Markdown where `make docs` was not run, as after `pip install .`."""
    folders = ("src/iowatch", "reframe_checks", "site_configs")
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.[jp]*"))
    texts = (file.read_text() for file in files if file.suffix != ".pyc")
    named = {page for text in texts for page in re.findall(r"iowatch docs (\w+/[\w-]+)", text)}
    assert "howto/site" in named
    for page in sorted(named):
        assert docs(monkeypatch, tmp_path, page).output == f"{ROOT}/docs/{page}.md\n"


def test_docs_says_what_is_not_there(tmp_path, monkeypatch):
    (tmp_path / "howto").mkdir()
    (tmp_path / "index.html").touch()
    (tmp_path / "howto/site.html").touch()
    done = docs(monkeypatch, tmp_path, "cite")
    assert (done.exit_code, done.output) == (
        2,
        "iowatch: error: there is no page cite: is site meant?\n",
    )
