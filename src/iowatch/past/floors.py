"""The marked block of a reference file in which every blessed case has a floor, for ReFrame."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from iowatch.bounds import flow, general
from iowatch.case import Case
from iowatch.errors import UserError
from iowatch.sweep import CHECKS, check_of

FLOOR = -0.5  # of the baseline's median: ReFrame's own check is coarse, the detector is not
BEGIN, END = "  # blessed: `iowatch bless` writes these", "  # blessed: end"
_BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n", re.M | re.S)


class FloorError(UserError):
    """A reference file has no room for floors; one line says where."""


def floors_of(text: str) -> set[str]:
    """The cases with a floor in a reference file."""
    keys = re.findall(r"^  (\S+): ", "".join(_BLOCK.findall(text)), re.M)
    return {key.removeprefix("(?:").removesuffix(")").replace(r"\.", ".") for key in keys}


def with_floors(text: str, bandwidths: Mapping[Case, float]) -> str:
    """A reference file with a floor for each of these cases, by its baseline's MiB/s, first in each
    check's section, instead of those that it had.

    FloorError if a section is not of the form that the README shows.
    """
    text = _BLOCK.sub("", text)
    before: dict[str, Any] = yaml.safe_load(text) or {}
    for check in CHECKS:
        section = before.get(check)
        entries = section if isinstance(section, dict) else {}
        floors = "".join(
            f"  {_key(case, entries)}: {flow(_floor(case, rate, entries))}\n"
            for case, rate in sorted(bandwidths.items(), key=lambda item: str(item[0]))
            if check_of(case) == check
        )
        if floors:
            head = rf"^{check}:(\n  \$index: \[case_id\]| \{{\$index: \[case_id\]\}})[^\n]*\n"
            block = f"{check}:\n  $index: [case_id]\n{BEGIN}\n{floors}{END}\n"
            # A backslash in a replacement must be doubled.
            text, count = re.subn(head, block.replace("\\", r"\\"), text, flags=re.M)
            if count == 0 and check in before:
                raise FloorError(
                    f"section {check} of the reference file cannot be added to: begin it with the "
                    f"lines `{check}:` and `  $index: [case_id]`"
                )
            text += "" if count else f"\n{block}"
    return text


def _floor(case: Case, bandwidth: float, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds that the case had so far, for its floor will hide their entry; and the floor."""
    matching = (entries[key] for key in entries if re.fullmatch(key, str(case)))
    try:
        bounds = next(matching, general(case))
        return {**bounds, "total_max": [bandwidth, FLOOR, None, "MiB/s"]}
    except (re.error, TypeError) as err:
        raise FloorError(f"{case}: the reference file's entry cannot be used: {err}") from None


def _key(case: Case, entries: Collection[str]) -> str:
    """A regular expression that only this case matches, and that is no key yet."""
    key = str(case).replace(".", r"\.")
    return f"(?:{key})" if key in entries else key
