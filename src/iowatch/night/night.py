"""A night of a system, and its document: page, mail, chat, text, JSON, JUnit, export and index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iowatch.night.described import night_document, night_page, night_summary
from iowatch.night.document import NightSummary
from iowatch.night.verdicts import NightVerdicts


@dataclass(frozen=True, kw_only=True)
class Night(NightVerdicts):
    """The verdicts of a night, and what they come to: each is made once, when it is first shown."""

    summary = cached_property(lambda night: night_summary(NightSummary, night))
    document = cached_property(night_document)
    for_page = cached_property(lambda night: night_page(night, night.document))
