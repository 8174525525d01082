"""Events: `iowatch event` puts on record what may have changed a rate, such as new firmware.

They stand in reference_values/events/<system>.yaml, and the trends of every page show them:

    - at: 2026-11-18 06:30:00+00:00
      event: firmware 7.2 on all OSS
      who: jane
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import attrs

from iowatch.base.records import INSTANT, TEXT, Record, append, key, public_text

_HEADER = "# Events: `iowatch event` adds to this list, and the trends of every page show it.\n"


@attrs.frozen(kw_only=True)
class Event(Record):
    """Something that happened to a system."""

    at: datetime = key(INSTANT, "When it happened.")
    event: str = key(TEXT, "The event, as trends name it.")
    who: str = key(TEXT, "Who says so.")
    public: str = public_text()


def events_path(system: str, folder: Path) -> Path:
    return folder / "events" / f"{system}.yaml"


def read_events(system: str, folder: Path) -> list[Event]:
    """Read the events of a system; none without a file. UserError."""
    return Event.read_list(events_path(system, folder))


def add_event(system: str, folder: Path, event: Event) -> Path:
    """Append an event to those of a system, and return the file; UserError."""
    path = events_path(system, folder)
    append(path, _HEADER, event, {name: v for name, v in attrs.asdict(event).items() if v})
    return path
