"""Mails, with a stand-in for sendmail, and messages to the webhook of a real server."""

from email import message_from_bytes, policy

import pytest
from refusals import assert_refused
from servers import ONE_ADDRESS, free_port, posts

from iowatch.base.files import UserError
from iowatch.night import notices
from iowatch.night.notices import Hook, NotSent, Outbox

NOTICE = notices.Notice("subject", "text", "brief")
IO = "io@example.org"


@pytest.fixture
def sendmail(tmp_path, monkeypatch):
    """sendmail(script): a stand-in for sendmail, first on PATH."""

    def make(script):
        program = tmp_path / "sendmail"
        program.write_text(f"#!/bin/sh\n# Stands in for sendmail.\n{ONE_ADDRESS}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return program

    return make


def test_mail_is_handed_to_sendmail(sendmail, tmp_path):
    sendmail(f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/mail')
    text = "partition case\ndisk      write shared Größe\n.\nnot the end\n"
    title = "iowatch archer 2026-11-21: green, 2 cases"
    Outbox(IO).send(notices.Notice(title, text, "brief"))
    assert (tmp_path / "arguments").read_text() == f"-i {IO}\n"
    got = message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)
    assert (got["To"], got["Subject"], got["Auto-Submitted"]) == (IO, title, "auto-generated")
    assert (got.get_content_type(), got.get_content()) == ("text/plain", text)
    Outbox(IO).send(notices.Notice("no\nline", "no UTF-8: \udcff", ""))
    assert b"\nSubject: no line\n" in (tmp_path / "mail").read_bytes()


def test_mail_that_nobody_takes_says_why(sendmail, monkeypatch):
    program = sendmail("cat > /dev/null; echo 'no such\nuser' >&2; exit 67")
    failed = f"^no mail to {IO}: {program}: no such user$"
    with pytest.raises(NotSent, match=failed):
        Outbox(IO).send(NOTICE)
    monkeypatch.setattr(notices, "TIMEOUT_S", 0.2)
    sendmail("exec sleep 60")
    with pytest.raises(NotSent, match=r"no mail to root: .*gave no answer within"):
        Outbox("root").send(NOTICE)
    asked = []
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for place, message in ((None, "there is no sendmail"), ("/none", "there is no /none")):

        def which(name, path, place=place):
            asked.append(path)
            return place

        monkeypatch.setattr(notices.shutil, "which", which)
        with pytest.raises(NotSent, match=message):
            Outbox("root").send(NOTICE)
    assert {*asked} == {"/usr/bin:/bin:/usr/sbin:/usr/lib"}, "where cron does not look"


def test_what_is_no_address():
    wrong = ("", "größe@b", "-oQ/tmp", "a b", "a@b,c@d", "<a@b>", "a@b\nBcc: c@d")
    assert_refused(UserError, Outbox, [(address, "not one mail address") for address in wrong])


def test_message_that_is_not_taken_says_why_and_the_url_remains_a_secret(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    gone = f"http://127.0.0.1:{free_port()}/secret"
    with posts() as server:
        for url, status, location, answers, why in (
            (server.url, 500, "", True, "it answered 500 Internal Server Error"),
            (server.url, 302, server.url, True, "it answered 302 Found"),
            (gone, 200, "", True, "[Errno 111] Connection refused"),
            (server.url, 200, "", False, "timed out"),
        ):
            server.status, server.location = status, location
            if not answers:
                server.answers.clear()
                monkeypatch.setattr(notices, "WEBHOOK_TIMEOUT_S", 0.3)
            with pytest.raises(NotSent) as refused:
                Hook(url).send(NOTICE)
            assert str(refused.value) == f"nothing posted to the webhook at 127.0.0.1: {why}"


def test_long_message_is_cut_off_between_lines_and_says_so(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    lines = "\n".join(f"{number:3} " + "x" * 95 for number in range(100))
    with posts() as server:
        Hook(server.url).send(notices.Notice("title", "", lines))
    (text,) = (document["text"] for document in server.got)
    assert text.startswith("title\n  0 xxx")
    assert text.endswith("x\n... and 61 lines more")
    assert text.count("\n") == 40
