"""A night that tells others of itself: a real ReFrame, and a real server for what it posts."""

import json

import pytest
from checks.conftest import new_site
from servers import posts

NOT_RUN = "2 of 4 cases were not run: "


@pytest.fixture(scope="module")
def told(tmp_path_factory, benchio):
    """A site, its server, and the output, after a night of which a case did not run."""
    with new_site(tmp_path_factory.mktemp("told"), benchio) as site, posts() as server:
        site.faults = {"fine": "none", "broken": "cut off"}
        site.environment |= {"RFM_HTTPJSON_URL": server.url, "no_proxy": "127.0.0.1"}
        yield site, server, site.iowatch("--record", "-n", "SharedFileWrite")


def test_reframe_sends_a_document_of_each_run_that_an_export_has_too(told):
    site, server, night = told
    assert night.returncode == 1, night.stdout
    sent = {document["id"]: document for document in server.got}
    assert len(sent) == len(server.got) == 2
    assert {document["verdict"] for document in server.got} == {"ok", "invalid"}
    command = ("iowatch", "export", "--format", "jsonl")
    exported = [json.loads(line) for line in site._run(*command).stdout.splitlines()]
    assert sent == {document["id"]: document for document in exported}
    (fine,) = [document for document in exported if document["verdict"] == "ok"]
    assert fine["metrics"]["stable_max"] > 0
    assert fine["folder"].startswith(str(site.kept / fine["night"]))


def test_what_was_wrong_with_a_night_as_a_whole_is_seen_wherever_it_is(told):
    site, _, night = told
    assert f"problem: {NOT_RUN}" in night.stdout
    (record,) = site.database.parent.glob("nights/small-*.json")
    assert json.loads(record.read_text())["problems"][0].startswith(NOT_RUN)
    page = site._run("iowatch", "report", "--system", "small", "--format", "md")
    assert f"**Problem:** {NOT_RUN}" in page.stdout
    text = site._run("iowatch", "export").stdout
    assert 'iowatch_night_colour{system="small",colour="red"} 1.0\n' in text
    (problems,) = [line for line in text.splitlines() if line.startswith("iowatch_night_problems")]
    assert float(problems.split()[-1]) >= 1
    assert 'iowatch_night_promised_cases{system="small"} 4.0\n' in text


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("refuses", "HTTP response code 500"),
        ("is away", "could not connect to server 127.0.0.1:1"),
        pytest.param("hangs", "could not log performance data", marks=pytest.mark.slow),
    ],
)
def test_collector_that_takes_nothing_changes_nothing(told, what, said):
    """Left alone, ReFrame would wait for an answer without end."""
    site, server, _ = told
    site.environment["RFM_HTTPJSON_URL"] = (
        "http://127.0.0.1:1/nobody" if what == "is away" else server.url
    )
    server.status = 500 if what == "refuses" else 200
    (server.answers.clear if what == "hangs" else server.answers.set)()
    done = site.reframe("-r", "--mode=record", "-n", "SharedFileWrite")
    assert said in done.stdout
    results = {test["environ"]: test["result"] for test in site.report()}
    assert results == {"fine": "pass", "broken": "fail"}, done.stdout
    if what != "is away":
        assert len({document["id"] for document in server.got[-2:]}) == 2
