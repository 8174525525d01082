"""JSON documents: records, whose types are the schema of what commands print with --json.

A field is `Annotated` with its meaning, or with keywords of JSON schema that no type has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

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


def structured(kind: type[Entry], document: Mapping[str, Any]) -> Entry:
    """Make a record of its document again; a case in it, and what else has no form of its own in
    JSON, stays a text. LookupError, TypeError, ValueError: it is of another form."""
    types = _types(kind)
    names = [field.name for field in attrs.fields(kind) if field.init]
    return kind(**{name: _read(types[name], document[name]) for name in names})


@cache
def _types(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    for inner in (hint, *get_args(hint)):
        if value is not None and attrs.has(inner):
            is_list = isinstance(value, list)
            return [structured(inner, v) for v in value] if is_list else structured(inner, value)
        if value is not None and inner in (datetime, date):
            return inner.fromisoformat(value)
    return value


def document(**parts: Any) -> str:
    """Write a document: records by their fields, a case, a time and a path as their texts."""
    return json.dumps({"schema": SCHEMA, **parts}, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return attrs.asdict(value, recurse=False) if attrs.has(type(value)) else str(value)
