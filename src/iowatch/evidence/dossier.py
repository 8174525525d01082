"""The dossier of an acceptance test: its verdicts in lines, on a page, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import attrs
from markupsafe import Markup

from iowatch.base import svg
from iowatch.base.documents import Count, document, filled
from iowatch.base.svg import Axis, element, interval_bar, path, round_values, text
from iowatch.base.text import brief, counted, one_line
from iowatch.evidence.bundle import Seal
from iowatch.evidence.contract import Contract
from iowatch.evidence.criteria.criterion import Certified, Criterion, Finding
from iowatch.evidence.exhibits import Evidence
from iowatch.evidence.judgement import Judgement
from iowatch.evidence.terms import Exclusion

SCRIPT = "rfm_job.sh"


@dataclass(frozen=True, kw_only=True)
class Judged(Judgement):
    """An acceptance test, as far as its evidence says."""

    template: ClassVar[str] = "dossier.html.j2"

    contract: Contract
    exclusions: Sequence[Exclusion]
    evidence: Evidence
    findings: Mapping[Criterion, Finding]

    @property
    def overall(self) -> Certified:
        """The verdict on the contract: the worst of any criterion."""
        worst_first = [*Certified]
        return min((f.verdict for f in self.findings.values()), key=worst_first.index)

    @property
    def passes(self) -> bool:
        return self.overall == Certified.PASS

    @property
    def counts(self) -> str:
        """How many criteria have each verdict, in words."""
        verdicts = [finding.verdict for finding in self.findings.values()]
        return ", ".join(f"{verdicts.count(v)} {v}" for v in Certified if v in verdicts)

    @property
    def provenance(self) -> dict[str, list[str]]:
        """All values that the runs met with, by their names."""
        met: dict[str, dict[str, None]] = {}
        for exhibit in self.evidence.exhibits:
            for name, value in exhibit.provenance.items():
                met.setdefault(name, {})[value] = None
        return {name: [*values] for name, values in sorted(met.items())}

    @staticmethod
    def files_of(finding: Finding, seal: Seal) -> list[tuple[str, str]]:
        """The files that a verdict rests on, with the SHA-256 of each."""
        folders = tuple(f"{run.folder}/" for run in finding.exhibits)
        return [(name, sha) for name, sha in seal.digests.items() if name.startswith(folders)]

    @staticmethod
    def script_of(finding: Finding, seal: Seal, folder: Path) -> tuple[str, str] | None:
        """The name and text of the job script of the first run that a verdict rests on."""
        names = (f"{run.folder}/{SCRIPT}" for run in finding.exhibits)
        name = next((name for name in names if name in seal.digests), None)
        return (name, (folder / name).read_text("utf-8", "replace")) if name else None

    def sentences(self) -> Iterator[str]:
        """Yield the title, the sessions, and the verdict on every criterion."""
        yield self.contract.title
        counting, others = self.evidence.counting, self.evidence.sessions
        yield f"{len(counting)} of {self.contract.rules.sessions} sessions count, of " + (
            f"{len(others)} on record"
        )
        yield from self.degraded()
        for session in others:
            if not session.counts:
                when = f"{session.began:%Y-%m-%d %H:%M UTC}"
                yield f"session {session.uuid} of {when} does not count: {session.why_not}"
        if replaced := self.evidence.replaced:
            runs = counted(len(replaced), "run", "were")
            yield f"{runs} replaced by re-runs; the dossier names them"
        for criterion, finding in self.findings.items():
            line = f"{finding.verdict}: {criterion.name}: {criterion.in_words(finding.measured)}"
            if finding.low is not None and finding.high is not None:
                line += f" ({criterion.amount(finding.low)} to {criterion.amount(finding.high)})"
            line += f", {criterion.bound} {criterion.amount(criterion.committed)} committed"
            yield line + (f"; {finding.reason}" if finding.reason else "")

    def degraded(self) -> Iterator[str]:
        """Say how many sessions count that were without OSTs, for each number of these."""
        wanted, evidence = self.contract.rules.sessions, self.evidence
        for condition in sorted({s.condition for s in evidence.sessions if s.counts and s.away}):
            without = " and ".join(f"{counted(osts, 'OST')} of {name}" for name, osts in condition)
            count = len(evidence.counting_with(condition))
            yield f"{count} of {wanted} sessions count that were without {without}"

    def bars(self) -> dict[Criterion, Markup]:
        """Draw how many times as good as committed each measured value is."""
        logs = {
            criterion: [
                criterion.goodness(value)
                for value in (finding.measured, finding.low, finding.high)
                if value is not None
            ]
            for criterion, finding in self.findings.items()
        }
        reach = max([math.log(2), *(abs(log) for values in logs.values() for log in values)])
        return {
            criterion: interval_bar(
                f"{criterion.name}: measured against committed", values, reach, 0.0,
                color=_colour(self.findings[criterion]),
            )
            for criterion, values in logs.items()
            if values
        }  # fmt: skip

    def charts_of(self, criterion: Criterion, finding: Finding) -> Iterator[tuple[str, Markup]]:
        """Draw what each session measured against what was committed, and of a scaling the rate
        over nodes. Yields titles and drawings."""
        storage = self.contract.filesystems[criterion.filesystem]
        colour, points = _colour(finding), [*enumerate(finding.values.values(), start=1)]
        if not points:
            return

        def number(value: float) -> str:
            return criterion.amount(value).split(" ")[0]

        levels = {"committed": criterion.committed, "peak": criterion.ceiling(storage)}
        lines = {name: (level, level) for name, level in levels.items() if level}
        title = f"{criterion.name}: each session that judges"
        yield title, _chart(title, "session", colour, points, 0.5, lines, number)
        if curve := criterion.curve(self.evidence, finding.values):
            rates, straight = curve
            peak = {"peak": (storage.peak, storage.peak)} if storage.peak else {}
            title = f"{criterion.name}: MiB/s over the number of nodes"
            yield title, _chart(title, "nodes", colour, rates, 0.0, {**straight, **peak}, brief)

    def document(self, lines: Sequence[str], is_same: bool = True) -> str:
        return document(
            acceptance=Acceptance(
                title=self.contract.title,
                verdict=self.overall,
                as_told=is_same,
                sessions=SessionCounts(
                    wanted=self.contract.rules.sessions,
                    counting=len(self.evidence.counting),
                    on_record=len(self.evidence.sessions),
                ),
                criteria=[
                    filled(CriterionEntry, finding, criterion, reason=one_line(finding.reason))
                    for criterion, finding in self.findings.items()
                ],
                lines=lines,
            )
        )


@attrs.frozen(kw_only=True)
class Acceptance:
    """The verdicts of an acceptance test."""

    title: str
    verdict: Certified
    as_told: Annotated[bool, "Are the verdicts those that the maker of the evidence was told?"]
    sessions: SessionCounts
    criteria: Sequence[CriterionEntry]
    lines: Annotated[Sequence[str], "What is printed without --json."]


@attrs.frozen(kw_only=True)
class SessionCounts:
    """The sessions of an acceptance test."""

    wanted: Annotated[Count, "By the contract."]
    counting: Annotated[Count, "That count."]
    on_record: Annotated[Count, "In all."]


@attrs.frozen(kw_only=True)
class CriterionEntry:
    """The verdict on one criterion."""

    name: str
    kind: str
    filesystem: str
    verdict: Certified
    reason: str
    committed: Annotated[float, "The committed value."]
    bound: Annotated[str, {"enum": ["at least", "at most"]}]
    unit: str
    measured: Annotated[float | None, "The median over sessions, or the statistic of the kind."]
    low: Annotated[float | None, "The confidence interval; null: there is none."]
    high: float | None


_COLOURS = {
    Certified.PASS: "#009e73",
    Certified.FAIL: "#d55e00",
}  # legible on white and on black, in a PDF, too


def _colour(finding: Finding) -> str:
    return _COLOURS.get(finding.verdict, "#b07d00")


# A PDF gives drawings no style sheet: what they look like stands in them.
_LOOK = {"fill": "currentColor", "font_family": "DejaVu Sans, sans-serif", "font_size": 10}
_STROKE = {"fill": "none", "stroke": "currentColor"}
_DASHES = ("3.7 1.6", "1 2", "6 2 1 2")
_HIGHEST = 1.05  # of the axis, times the highest value
_NAME_HEIGHT = 11.0
_TICKS = 6  # of the axis of y, at most
_CHART_LEFT, _CHART_RIGHT = 62, 300  # of the points; names of lines stand beside them
_CHART_TOP, _CHART_BOTTOM = 8, 110


def _chart(
    title: str,
    x_label: str,
    colour: str,
    points: Sequence[tuple[float, float]],
    beside: float,
    lines: Mapping[str, tuple[float, float]],
    in_words: Callable[[float], str],
) -> Markup:
    """Draw measured points, and lines by their values at both ends of the axis of x, which has so
    much beside the points; that of y begins at 0."""
    left, right, bottom = _CHART_LEFT, _CHART_RIGHT, _CHART_BOTTOM
    highest = _HIGHEST * max(*(y for _, y in points), *(max(line) for line in lines.values()))
    first, last = points[0][0] - beside, points[-1][0] + beside
    x_of = Axis(low=first, high=last, begin=left, end=right).place
    y_of = Axis(low=0.0, high=highest, begin=bottom, end=_CHART_TOP).place
    x_ticks = [(x_of(x), f"{x:g}") for x, _ in points]
    y_ticks = [(y_of(y), in_words(y)) for y in round_values(highest, _TICKS, (1, 2, 5))]
    axes = f"M{left} {_CHART_TOP}V{bottom}H{right}"
    axes += "".join(f"M{left} {y}h-3" for y, _ in y_ticks)
    axes += "".join(f"M{x} {bottom}v3" for x, _ in x_ticks)
    end, middle = ({"text_anchor": anchor, "font_size": 9} for anchor in ("end", "middle"))
    shapes = [
        path(axes, stroke_width=0.8, **_STROKE),
        *(text(left - 6, y + 3.5, number, **end) for y, number in y_ticks),
        *(text(x, bottom + 14, number, **middle) for x, number in x_ticks),
        text(right, bottom + 28, x_label, **end),
    ]
    above = 0.0
    highest_first = sorted(lines.items(), key=lambda line: -line[1][1])
    for (name, (first, last)), dashes in zip(highest_first, _DASHES, strict=False):
        level = f"M{left} {y_of(first)}L{right} {y_of(last)}"
        label_y = max(y_of(last) + 3.5, above)
        above = label_y + _NAME_HEIGHT
        shapes.append(path(level, class_="level", stroke_dasharray=dashes, **_STROKE))
        shapes.append(text(right + 5, label_y, name, font_size=9))
    places = [(x_of(x), y_of(y)) for x, y in points]
    curve = svg.line(places)
    shapes.append(path(curve, class_="curve", fill="none", stroke=colour, stroke_width=1.5))
    shapes += [element("circle", cx=x, cy=y, r=2.5, fill=colour) for x, y in places]
    return svg.drawing(title, 360, bottom + 32, *shapes, **_LOOK)
