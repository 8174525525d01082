"""A night of a system, as page, mail, chat, text, JSON, JUnit, export and index show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iowatch.night.document import NightDocument, night_document
from iowatch.night.headline import Headline, headline
from iowatch.night.user_cost import UserCost, user_costs, worst_of
from iowatch.night.verdicts import NightVerdicts


@dataclass(frozen=True, kw_only=True)
class Night(NightVerdicts):
    """The verdicts of a night, and what they come to, made once."""

    @cached_property
    def headline(self) -> Headline:
        return headline(self)

    @cached_property
    def user_costs(self) -> list[UserCost]:
        return user_costs(self)

    @property
    def worst_costs(self) -> list[UserCost]:
        return worst_of(self.user_costs)

    @cached_property
    def document(self) -> NightDocument:
        return night_document(self, self.headline)
