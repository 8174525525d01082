"""Mails, with a stand-in for sendmail that keeps what it is given."""

from email import message_from_bytes, policy

import pytest
from servers import ONE_ADDRESS, posts

from iowatch.files import UserError
from iowatch.night import notices

NOTICE = notices.Notice("subject", "text", "brief")


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
    notices.outbox("io@example.org").send(
        notices.Notice("iowatch archer 2026-11-21: green, 2 cases", text, "brief")
    )
    assert (tmp_path / "arguments").read_text() == "-i io@example.org\n"
    got = message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)
    assert got["To"] == "io@example.org"
    assert got["Subject"] == "iowatch archer 2026-11-21: green, 2 cases"
    assert got["Auto-Submitted"] == "auto-generated"
    assert got.get_content_type() == "text/plain"
    assert got.get_content() == text


def test_refused_mail_says_why(sendmail):
    program = sendmail("cat > /dev/null; echo 'no such\nuser' >&2; exit 67")
    with pytest.raises(notices.NotSent) as refused:
        notices.outbox("io@example.org").send(NOTICE)
    assert str(refused.value) == (
        f"no mail to io@example.org: {program} ended with exit code 67: no such user"
    )


def test_sendmail_that_hangs_is_given_up(sendmail, monkeypatch):
    monkeypatch.setattr(notices, "TIMEOUT_S", 0.2)
    sendmail("exec sleep 60")
    with pytest.raises(notices.NotSent, match=r"no mail to root: .*timed out"):
        notices.outbox("root").send(NOTICE)


def test_what_is_no_address(sendmail):
    sendmail("exit 0")
    for address in ("", "größe@b", "-oQ/tmp", "a b", "a@b,c@d", "<a@b>", "a@b\nBcc: c@d"):
        with pytest.raises(UserError, match="not one mail address"):
            notices.outbox(address)


def test_no_sendmail(monkeypatch):
    monkeypatch.setattr(notices.shutil, "which", lambda name, path: None)
    with pytest.raises(notices.NotSent, match="to root: there is no sendmail on this machine"):
        notices.outbox("root").send(NOTICE)


def test_sendmail_is_found_where_cron_does_not_look(monkeypatch):
    asked = []
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(notices.shutil, "which", lambda name, path: asked.append(path) or "/false")
    with pytest.raises(notices.NotSent, match="No such file or directory: '/false'"):
        notices.outbox("root").send(NOTICE)
    assert asked == ["/usr/bin:/bin:/usr/sbin:/usr/lib"]


def test_long_message_is_cut_off_between_lines_and_says_so(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    lines = "\n".join(f"{number:3} " + "x" * 95 for number in range(100))
    with posts() as server:
        notices.hook(server.url).send(notices.Notice("title", "", lines))
    (text,) = (document["text"] for document in server.got)
    assert text.startswith("title\n  0 xxx")
    assert text.endswith("x\n... and 61 lines more")
    assert text.count("\n") == 40
