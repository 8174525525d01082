"""The documentation site, and the command that opens it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from iowatch import cli
from iowatch.cli import documentation
from iowatch.verdict import Reason

ROOT = Path(__file__).parents[2]


def docs(monkeypatch, folder, *page):
    monkeypatch.setattr(documentation, "DOCUMENTATION", folder)
    return CliRunner().invoke(cli.app, ["docs", *page])


def build(kind, folder):
    sphinx = [sys.executable, "-m", "sphinx", "-qW", "-b", kind, "-d", folder / "doctrees"]
    command = [*sphinx, ROOT / "docs", folder / kind]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "a warning is an error"
    return folder / kind


@pytest.mark.long
def test_site_is_built_without_a_warning_and_opened(tmp_path, monkeypatch):
    html, man = build("html", tmp_path), build("man", tmp_path)
    done = docs(monkeypatch, html, "runbook#own_past")
    assert done.output == f"{(html / 'howto/runbook.html').as_uri()}#own_past\n"
    anchors = re.findall(r' id="(\w+)"', (html / "howto/runbook.html").read_text())
    assert set(Reason) <= set(anchors)
    assert "--record" in (man / "iowatch.1").read_text().replace(r"\-", "-")


def test_docs_says_what_is_not_there(tmp_path, monkeypatch):
    done = docs(monkeypatch, tmp_path)
    assert (done.exit_code, "run `make docs` in a checkout" in done.output) == (2, True)
    (tmp_path / "howto").mkdir()
    (tmp_path / "howto/site.html").touch()
    done = docs(monkeypatch, tmp_path, "cite")
    assert (done.exit_code, done.output) == (
        2,
        "iowatch: error: there is no page cite: there are howto/site\n",
    )
