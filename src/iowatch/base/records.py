"""Records that people write: one declaration reads a record, refuses it, and lists its keys."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs

from iowatch.base.bounded import quoted
from iowatch.base.files import UserError, whole
from iowatch.base.locks import exclusive
from iowatch.base.text import one_line

_SHAPE, _NAME, _ABOUT, _UNIT = "shape", "name", "about", "unit"


@attrs.frozen
class Shape:
    """The values that a key may have."""

    phrase: str  # the values in a refusal, behind "not"
    #: Makes what the record holds of it; ValueError, perhaps with a reason: of another shape.
    convert: Callable[[Any], Any]

    def read(self, value: Any) -> Any:
        """Make what a record holds of a value; ValueError says what is wrong with the value."""
        try:
            return self.convert(value)
        except (ValueError, TypeError, OverflowError) as err:
            shown = str(value) if isinstance(value, date) else quoted(value)
            why = f": {err}" if str(err) else ""
            raise ValueError(f"is {shown}, not {self.phrase}{why}") from None

    def accepts(self, value: Any) -> bool:
        """Return whether a value is of this shape."""
        try:
            self.convert(value)
        except (ValueError, TypeError, OverflowError):
            return False
        return True


def key(shape: Shape, about: str = "", *, name: str = "", unit: str = "", **options: Any) -> Any:
    """Declare an attribute of a record that people write, as a key of this shape.

    `about` and `unit` are what the table of keys says of it; `name` is the key where it differs
    from the attribute. `options` are those of attrs, such as `default`: without one the key is
    required.
    """
    metadata = {_SHAPE: shape, _NAME: name, _ABOUT: about, _UNIT: unit}
    return attrs.field(metadata=metadata, **options)


@attrs.frozen(kw_only=True)
class KeyRow:
    """One row of a table of keys, as a reference prints it."""

    key: str
    values: str  # that the key may have, in words
    is_required: bool
    default: str = ""  # empty: it is required, or the key is left out
    unit: str = ""
    about: str = ""  # a sentence


class Record:
    """A mapping that people write; attributes that `key` declares are its keys.

    A subclass is an attrs class with keyword-only attributes.
    """

    #: Other keys belong to somebody else.
    has_foreign_keys: ClassVar[bool] = False

    @classmethod
    def read(cls, where: str, entry: Any, **more: Any) -> Self:
        """Make a record of a mapping; `more` are attributes that stand elsewhere.

        Raises: UserError, which names the place, the key and its value.
        """
        keys = cls.keys()
        if not isinstance(entry, Mapping):
            needed = ", ".join(cls._needed())
            raise UserError(f"{where}: is {quoted(entry)}, not a mapping with {needed}")
        if not cls.has_foreign_keys:
            require_known(where, entry, keys)
        for name in cls._needed():
            if name not in entry:
                like = [other for other, near in near_misses(entry, keys).items() if near == name]
                hint = f": is {like[0]} meant to be that?" if like else ""
                raise UserError(f"{where}: has no {name}{hint}")
        for name, attribute in keys.items():
            if name not in entry:
                continue
            try:
                more[attribute.name] = attribute.metadata[_SHAPE].read(entry[name])
            except ValueError as err:
                raise UserError(f"{where}: {name} {err}") from None
        record = cls(**more)
        if why := record.contradiction():
            raise UserError(f"{where}: {why}")
        return record

    @classmethod
    def read_list(cls, file: Path, text: str | None = None) -> list[Self]:
        """Read a YAML file that is a list of records, or this text in its place; none without a
        file. UserError."""
        from iowatch.base.yaml_text import load

        try:
            entries = load(file, text)
        except FileNotFoundError:
            entries = None
        if not isinstance(entries, list | None):
            needed = ", ".join(cls._needed())
            raise UserError(f"{file}: is {quoted(entries)}, not a list of entries with {needed}")
        numbered = enumerate(entries or [], start=1)
        return [cls.read(f"{file}, entry {place}", entry) for place, entry in numbered]

    def contradiction(self) -> str:
        """Say which keys cannot stand together; empty if all can."""
        return ""

    @classmethod
    def _needed(cls) -> list[str]:
        """List the keys that are required."""
        return [name for name, attr in cls.keys().items() if attr.default is attrs.NOTHING]

    @classmethod
    def keys(cls) -> dict[str, attrs.Attribute[Any]]:
        """List the keys with their attributes, in the order of declaration."""
        every = attrs.fields(cls)  # type: ignore[arg-type]  # subclasses are attrs classes
        declared = (attr for attr in every if _SHAPE in attr.metadata)
        return {attr.metadata[_NAME] or attr.name: attr for attr in declared}


def table(record: type[Record]) -> list[KeyRow]:
    """List what a record's declaration says of each key."""
    return [
        KeyRow(
            key=name,
            values=attribute.metadata[_SHAPE].phrase,
            is_required=attribute.default is attrs.NOTHING,
            default=_in_words(attribute.default),
            unit=attribute.metadata[_UNIT],
            about=attribute.metadata[_ABOUT],
        )
        for name, attribute in record.keys().items()
    ]


def _in_words(default: Any) -> str:
    """Write a default; empty if the other keys decide, or nothing stands for the key."""
    is_value = isinstance(default, str | int | float)
    return str(default) if is_value and default not in (0, "") else ""


def append(
    path: Path,
    header: str,
    entry: Record,
    written: Mapping[str, Any],
    objection: Callable[[list[Any]], str] = lambda before: "",
) -> None:
    """Append an entry to a YAML file that is a list of such records, and keep all else in it.

    `header` begins a new file, `written` has the entry's keys, and `objection` says why the entries
    before refuse it. UserError.
    """
    import yaml

    from iowatch.base.yaml_text import text_of

    try:
        with exclusive(path.parent / ".lock", f"{path}: somebody else is writing to it"):
            before = type(entry).read_list(path)
            if why := objection(before):
                raise UserError(f"{path}: {why}")
            text = text_of(path) if path.exists() else header
            margin = match[1] if (match := re.search(r"^( *)- ", text, re.MULTILINE)) else ""
            lines = yaml.safe_dump(
                [{**written}], sort_keys=False, allow_unicode=True, width=10**6
            ).splitlines()
            text += "" if text.endswith("\n") or not text else "\n"
            text += "".join(f"{margin}{line}\n" for line in lines)
            try:
                is_added = type(entry).read_list(path, text) == [*before, entry]
            except UserError:
                is_added = False
            if not is_added:
                raise UserError(
                    f"{path}: nothing can be appended: write each entry of it as a line "
                    f"`- {next(iter(written))}: ...` with its other keys below"
                )
            with whole(path) as temporary:
                temporary.write_text(text, "utf-8")
    except OSError as err:
        raise UserError(f"{path.parent} cannot be written: {err.strerror}") from None


def near_misses(names: Iterable[Any], keys: Collection[str]) -> dict[str, str]:
    """Map each name that is no key, but is like one, to that key."""
    others = [str(name) for name in names if name not in keys]
    near = {name: difflib.get_close_matches(name, keys, 1) for name in others}
    return {name: like[0] for name, like in near.items() if like}


def require_known(where: str, names: Collection[Any], keys: Collection[str]) -> None:
    """UserError if one of these names is no key, and which key it is like."""
    near = near_misses(names, keys)
    for name in names:
        if name not in keys:
            like = near.get(str(name))
            hint = f"is {like} meant?" if like else f"there are {', '.join(keys)}"
            raise UserError(f"{where}: there is no key {name}: {hint}")


# Shapes


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError


def number(
    phrase: str, least: float = -math.inf, most: float = 1e300, *, is_whole: bool = False
) -> Shape:
    """A number between two others, both included; no flag, no infinity and no nan."""

    def convert(value: Any) -> Any:
        _require(isinstance(value, int if is_whole else int | float))
        _require(least <= value <= most and not isinstance(value, bool))
        return value

    return Shape(phrase, convert)


def choice(*words: str) -> Shape:
    """One of these words."""

    def convert(value: Any) -> str:
        _require(isinstance(value, str) and value in words)
        return str(value)

    *others, last = words
    return Shape(f"{', '.join(others)} or {last}", convert)


def optional(shape: Shape, nothing: str = "null") -> Shape:
    """A value of this shape, or nothing: null in YAML."""
    return Shape(
        f"{shape.phrase}, or {nothing}",
        lambda value: None if value is None else shape.convert(value),
    )


def list_of(shape: Shape, phrase: str, *, may_be_empty: bool = False) -> Shape:
    """A list of values of one shape, none of them twice; the record holds a tuple."""

    def convert(value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list | tuple))
        items = tuple(map(shape.convert, value))
        _require(len(set(items)) == len(items) and (may_be_empty or bool(items)))
        return items

    return Shape(phrase, convert)


def _text(value: Any) -> str:
    _require(isinstance(value, str) and bool(value.strip()))
    return one_line(value.strip())


def _name(value: Any) -> str:
    """Take a number, too: names may look like one. YAML reads a bare `no` as false."""
    _require(isinstance(value, str | int) and not isinstance(value, bool))
    _require(bool(str(value).strip()) and str(value).isprintable())
    return str(value)


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return bool(value)


def _day(value: Any) -> date:
    _require(type(value) is date)  # a time is a date to Python
    return value  # type: ignore[no-any-return]


def _instant(value: Any) -> datetime:
    """Take a text, too: to YAML a time without seconds is one."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(re.sub(r" *([+-]\d\d:?\d\d|Z)$", r"\1", value.strip()))
    _require(isinstance(value, datetime) and value.tzinfo is not None)
    return value  # type: ignore[no-any-return]


def pattern_of_cases(value: Any) -> re.Pattern[str]:
    """A regular expression for whole case ids; ValueError."""
    try:
        return re.compile(value)
    except (re.error, TypeError, OverflowError, RecursionError) as err:
        raise ValueError(str(err)) from None


def mapping_of(names: Shape, values: Shape, phrase: str) -> Shape:
    """A mapping of names to values of one shape each."""

    def convert(value: Any) -> dict[Any, Any]:
        _require(isinstance(value, Mapping))
        return {names.read(name): values.convert(item) for name, item in value.items()}

    return Shape(phrase, convert)


def matching(pattern: str, phrase: str) -> Shape:
    """A text that this regular expression matches whole."""

    def convert(value: Any) -> str:
        _require(isinstance(value, str) and bool(re.fullmatch(pattern, value, re.ASCII)))
        return str(value)

    return Shape(phrase, convert)


TEXT = Shape("a text", _text)


def public_text() -> Any:
    """Declare the key by which an entry stands on the status page for users."""
    return key(
        TEXT,
        "The text for users on the page of `iowatch report --public`. Without it the page does "
        "not mention the entry.",
        default="",
    )


NAME = Shape("a name: write one in quotes", _name)
DAY = Shape("a day such as 2027-01-31", _day)
#: The zone is required: the reader's may be another than the login node's.
INSTANT = Shape(
    "a time with its zone, such as 2027-01-12 08:00 +01:00, or with Z for UTC",
    _instant,
)
CASES = Shape("a regular expression for case ids", pattern_of_cases)
FLAG = Shape("true or false", _flag)
COUNT = number("a positive whole number", 1, is_whole=True)
