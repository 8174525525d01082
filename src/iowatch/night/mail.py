"""The summary of a night as a mail, through the machine's own sendmail, like cron's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from email.message import EmailMessage

from iowatch.files import UserError, one_line

TIMEOUT_S = 60


class MailError(Exception):
    """The mail was not accepted; one line says why."""


@dataclass(frozen=True)
class Outbox:
    """Where mails to one address go."""

    sendmail: str
    address: str

    def send(self, subject: str, text: str) -> None:
        """Hand over one mail; MailError if it is refused."""
        mail = EmailMessage()
        mail["To"], mail["Subject"] = self.address, one_line(subject)
        mail["Auto-Submitted"] = "auto-generated"  # no answer from people on holiday
        mail.set_content(text.encode("utf-8", "replace").decode())  # a name may be no UTF-8
        try:
            done = subprocess.run(
                [self.sendmail, "-i", self.address],
                input=bytes(mail),
                capture_output=True,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise MailError(f"no mail to {self.address}: {err}") from None
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
            raise MailError(
                f"no mail to {self.address}: {self.sendmail} ended with exit code "
                f"{done.returncode}: {said or 'and no reason'}"
            )


def outbox(address: str) -> Outbox:
    """The outbox for an address; UserError if no mail can be sent there."""
    if not address.isascii() or not re.fullmatch(r"[^\s,;<>-][^\s,;<>]*", address):
        raise UserError(f"--mail {address}: not one mail address")
    # Cron's PATH has neither.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib"])
    program = shutil.which("sendmail", path=path)
    if program is None:
        raise UserError("--mail: there is no sendmail on this machine: install a mail server")
    return Outbox(program, address)
