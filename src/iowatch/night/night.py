"""A night of a system, as page, mail, chat, text, JSON, JUnit, export and index show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iowatch.night import comparison, document, headline, summary, user_cost
from iowatch.night.verdicts import NightVerdicts


@dataclass(frozen=True, kw_only=True)
class Night(NightVerdicts):
    """The verdicts of a night, and what they come to: each is made once, when it is first shown."""

    headline = cached_property(headline.headline)
    user_costs = cached_property(user_cost.user_costs)
    worst_costs = cached_property(lambda night: user_cost.worst_of(night.user_costs))
    document = cached_property(lambda night: document.night_document(night, night.headline))
    baselines = cached_property(summary.baselines)
    acknowledged = cached_property(summary.acknowledged)
    matrix = cached_property(summary.matrix)
    since_last_night = cached_property(summary.SinceLastNight)
    recent_marks = cached_property(lambda night: summary.recent_marks(night, night.headline))
    comparisons = cached_property(lambda night: comparison.comparisons(night.cases))
