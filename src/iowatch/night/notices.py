"""The summary of a night, sent: as a mail through the machine's own sendmail, like cron's, and to
the incoming webhook of a chat."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from iowatch.base.commands import run
from iowatch.base.files import UserError
from iowatch.base.text import counted, one_line

TIMEOUT_S = 60
WEBHOOK_TIMEOUT_S = 15
LONGEST = 4000  # characters: more is cut off by Slack


class NotSent(Exception):
    """A notice was not accepted; one line says why."""


@dataclass(frozen=True)
class Notice:
    title: str
    text: str  # all of it
    brief: str  # what a chat needs


def channels(address: str | None, webhook: str | None) -> list[Outbox | Hook]:
    """A mail address, a webhook, both or none; UserError if one of them cannot be used."""
    mail = [Outbox(address)] if address else []
    return [*mail, *([Hook(webhook)] if webhook else [])]


# Mail


@dataclass(frozen=True)
class Outbox:
    """A mail address; UserError if it is none."""

    address: str

    def __post_init__(self) -> None:
        if not self.address.isascii() or not re.fullmatch(r"[^\s,;<>-][^\s,;<>]*", self.address):
            raise UserError(f"--mail {self.address}: not one mail address")

    def __str__(self) -> str:
        return self.address

    def send(self, notice: Notice) -> None:
        """Hand over one mail; NotSent if it is refused, or nobody takes it."""
        # Cron's PATH has neither.
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib"])
        sendmail = shutil.which("sendmail", path=path)
        if sendmail is None:
            raise NotSent(
                f"no mail to {self.address}: there is no sendmail on this machine: install a mail "
                "server"
            )
        mail = EmailMessage()
        mail["To"], mail["Subject"] = self.address, one_line(notice.title)
        mail["Auto-Submitted"] = "auto-generated"  # no answer from people on holiday
        mail.set_content(notice.text.encode("utf-8", "replace").decode())  # a name may be no UTF-8
        answer = run(sendmail, "-i", self.address, given=bytes(mail), timeout_s=TIMEOUT_S)
        if answer.trouble:
            why = " ".join((answer.errors or answer.text).split()) or answer.trouble
            raise NotSent(f"no mail to {self.address}: {sendmail}: {why}")


# Webhook


@dataclass(frozen=True)
class Hook:
    """An incoming webhook, as Slack, Mattermost and others have it: it takes `{"text": ...}`.

    UserError if the URL is none. No sentence has more of it than the host: it is a secret.
    """

    url: str

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_whole = parts.scheme in ("http", "https") and parts.hostname
            _ = parts.port
        except ValueError:
            is_whole = False
        if not is_whole or not self.url.isascii() or " " in self.url:
            raise UserError(
                "--webhook: not a URL: give the URL that the chat has made for the webhook, "
                "https://..."
            )

    def __str__(self) -> str:
        return f"the webhook at {urlsplit(self.url).hostname}"

    def send(self, notice: Notice) -> None:
        """Post it; NotSent if it is refused, or not answered in time."""
        lines = [f"{notice.title}\n", *notice.brief.splitlines(keepends=True)]
        text, kept = "", 0
        for line in lines:
            if len(text) + len(line) > LONGEST:
                text += f"... and {counted(len(lines) - kept, 'line')} more"
                break
            text, kept = text + line, kept + 1
        # In a message, <...> and &...; are markup. All chats know these three.
        for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(sign, name)
        request = urllib.request.Request(
            self.url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
        )
        try:
            with _OPENER.open(request, timeout=WEBHOOK_TIMEOUT_S):
                pass
        except urllib.error.HTTPError as err:
            raise NotSent(
                f"nothing posted to {self}: it answered {err.code} {err.reason}"
            ) from None
        except (OSError, http.client.HTTPException) as err:
            why = err.reason if isinstance(err, urllib.error.URLError) else err
            raise NotSent(f"nothing posted to {self}: {why}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """To follow one is to GET, and what was to be said is lost."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
