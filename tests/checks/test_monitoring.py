"""A session that posts its runs: a real ReFrame, and a real server."""

import json

import pytest
from cases import verdict_of
from checks.conftest import new_site
from servers import posts


@pytest.fixture(scope="module")
def told(tmp_path_factory, benchio):
    """A site, its server, and the output, after a night of which a case did not run."""
    with new_site(tmp_path_factory.mktemp("told"), benchio) as site, posts() as server:
        site.faults = {"fine": "none", "broken": "cut off"}
        site.environment |= {"RFM_HTTPJSON_URL": server.url, "no_proxy": "127.0.0.1"}
        yield site, server, site.iowatch("--record")


def test_reframe_sends_a_document_of_each_run_that_an_export_has_too(told):
    site, server, night = told
    assert night.returncode == 1, night.stdout
    sent = {document["id"]: document for document in server.got}
    assert len(sent) == len(server.got) == 4
    assert {verdict_of(document) for document in server.got} == {"ok", "failed (no_output)"}
    command = ("iowatch", "export", "--format", "jsonl")
    exported = [json.loads(line) for line in site._run(*command).stdout.splitlines()]
    assert sent == {document["id"]: document for document in exported}
    (fine,) = [document for document in exported if document["metrics"]]
    assert fine["metrics"]["stable_max"] > 0
    assert fine["folder"].startswith(str(site.kept / fine["night"]))


@pytest.mark.slow
def test_collector_that_gives_no_answer_changes_nothing(told):
    """Left alone, ReFrame would wait for one without end."""
    site, server, _ = told
    server.answers.clear()
    done = site.reframe("-r", "--mode=record", "-n", "SharedFileWrite")
    assert "could not log performance data" in done.stdout
    results = {test["environ"]: test["result"] for test in site.report()}
    assert results == {"fine": "pass", "broken": "fail"}, done.stdout
