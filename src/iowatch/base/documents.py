"""JSON documents: records, whose types are the schema of what commands print with --json.

A field is `Annotated` with its meaning, or with keywords of JSON schema that no type has.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, TypeVar

import attrs

SCHEMA = "iowatch.output/1"

Count = Annotated[int, {"minimum": 0}]

Entry = TypeVar("Entry", bound="attrs.AttrsInstance")


def filled(kind: type[Entry], /, *sources: Any, **others: Any) -> Entry:
    """Make a record of `others`, and of what the first source that has a field of it has."""
    names = [field.name for field in attrs.fields(kind) if field.name not in others]
    known = {
        n: getattr(source, n) for source in reversed(sources) for n in names if hasattr(source, n)
    }
    return kind(**known, **others)


def document(**parts: Any) -> str:
    """Write a document: records by their fields, a case, a time and a path as their texts."""
    return json.dumps({"schema": SCHEMA, **parts}, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return attrs.asdict(value, recurse=False) if attrs.has(type(value)) else str(value)
