"""Parameters of a case: their types, and those that benchio's options stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

#: Elements of 8 bytes in x, y, z.
Size = tuple[int, int, int]

MIB = 2**20

CONTROL = "mpiio"  # every other backend is compared with it, in the same rounds of the same job
SHARING = (CONTROL, "hdf5", "netcdf", "pnetcdf")  # libraries for one file of many processes
BACKENDS = (*SHARING, "posix")

_SIZE = re.compile(r"[1-9]\d*(x[1-9]\d*x[1-9]\d*)?", re.ASCII)
_BYTES = re.compile(r"([1-9]\d{0,9})(KiB|MiB|GiB)?", re.ASCII)
_UNITS = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
#: Without what a case id or a shell gives a meaning.
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


# Types


class Type:
    """The values that a parameter may have."""

    def read(self, value: Any) -> Any:
        """Take a value from a site's configuration, or one that was parsed; ValueError."""
        return value

    def parse(self, text: str) -> Any:
        """Return what `read` takes for the text in a case id; ValueError."""
        return text

    def format(self, value: Any) -> str:
        """Return the text of a value in a case id."""
        return str(value)


@dataclass(frozen=True)
class Count(Type):
    """An integer of `least` or more, or the one besides."""

    least: int = 1
    besides: int | None = None
    phrase: str = "is not a positive integer"

    def read(self, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or (value < self.least and value != self.besides):
            raise ValueError(f"{self.phrase}: {value!r}")
        return int(value)

    def parse(self, text: str) -> int:
        return int(text)


class Choice(Type):
    """One of these texts; the phrase says which."""

    def __init__(self, *values: str, phrase: str) -> None:
        self.values, self.phrase = values, phrase

    def read(self, value: Any) -> str:
        if value not in self.values:
            raise ValueError(f"{self.phrase}: {value!r}")
        return str(value)


class Files(Type):
    """Who has a file: each process or node, all by the first process, or a number of groups."""

    def read(self, value: Any) -> str:
        text = str(value)
        if text not in ("process", "node", "gather") and not (text.isdecimal() and int(text) > 1):
            raise ValueError(
                f"is not process, node, gather or a number of files above 1: {value!r}"
            )
        return text


class Name(Type):
    """A name of letters, digits, '_', '.' and '-', which may be part of a case id."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not _PLAIN.fullmatch(value):
            raise ValueError(f"is no name of letters, digits, '_', '.' and '-': {value!r}")
        return value


class Flag(Type):
    """True or False, in a case id `yes` or `no`."""

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"is neither True nor False: {value!r}")
        return value

    def parse(self, text: str) -> bool:
        if text not in ("yes", "no"):
            raise ValueError(f"is neither yes nor no: {text!r}")
        return text == "yes"

    def format(self, value: Any) -> str:
        return "yes" if value else "no"


class Edges(Type):
    """A size such as `128` (a cube) or `128x128x256`, in a case id with its three edges."""

    def read(self, value: Any) -> Size:
        return parse_size(value)

    def format(self, value: Any) -> str:
        return format_size(value)


class Bytes(Type):
    """Bytes of whole elements in one call, at most what benchio allows, such as `64KiB`."""

    def read(self, value: Any) -> int:
        size = self.parse(value) if isinstance(value, str) else value
        if type(size) is not int or size % 8 or not 8 <= size <= 2**30:
            raise ValueError(f"is not a multiple of 8 bytes up to 1GiB, such as '4MiB': {value!r}")
        return size

    def parse(self, text: str) -> int:
        match = _BYTES.fullmatch(text)
        if not match:
            raise ValueError(f"is not a number of bytes such as 64KiB: {text!r}")
        return int(match[1]) * _UNITS[match[2]]

    def format(self, value: Any) -> str:
        return format_bytes(value)


class Pairs(Type):
    """Hints, such as `romio_cb_write=enable`, sorted so that one set of hints is one case."""

    def read(self, value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, Mapping) or not value:
            raise ValueError(
                f"is neither None nor a mapping such as {{'romio_cb_write': 'enable'}}: {value!r}"
            )
        for key, text in value.items():
            of_text = isinstance(key, str) and isinstance(text, str | int)
            is_plain = of_text and _PLAIN.fullmatch(key) and _PLAIN.fullmatch(str(text))
            if not is_plain or type(text) is bool:
                raise ValueError(
                    f"has a hint that is no text of letters, digits, '_', '.' and '-': {key!r}: "
                    f"{text!r}"
                )
        return tuple(sorted((key, str(text)) for key, text in value.items()))

    def parse(self, text: str) -> dict[str, str]:
        pairs = [pair.partition("=") for pair in text.split(":")]
        return {key: value for key, _, value in pairs}

    def format(self, value: Any) -> str:
        return ":".join(f"{key}={text}" for key, text in value)


@dataclass(frozen=True)
class OrNone(Type):
    """A value of another type, or None: in a case id `none`."""

    type: Type

    def read(self, value: Any) -> Any:
        return None if value is None else self.type.read(value)

    def parse(self, text: str) -> Any:
        return None if text == "none" else self.type.parse(text)

    def format(self, value: Any) -> str:
        return self.type.format(value) if value else "none"


class Pattern(Type):
    """Words of a pattern in one order, so that one pattern is one case; None: `blocks`."""

    def read(self, value: Any) -> str | None:
        if value is None or value == "blocks":
            return None
        if not isinstance(value, str) or not value:
            raise ValueError(f"is not a name: {value!r}")
        words = pattern_words(value)
        if {"strided", "random"} <= words.keys():
            raise ValueError("is strided and random, and random is strided as well: name one")
        if "quantize" in words and "deflate" not in words:
            raise ValueError("quantizes without deflate=LEVEL: what is rounded takes as much room")
        if SUBFILED in words and {"steps", COMPRESSED} & words.keys():
            raise ValueError(
                "has subfiling with steps or deflate: HDF5 reads no chunks from subfiles"
            )
        return ":".join(f"{word}={number}" if number else word for word, number in words.items())

    def format(self, value: Any) -> str:
        return value or "blocks"


def parse_size(text: str | int) -> Size:
    """The size written as `128` (a cube) or `128x128x256`, as benchio's command line has it."""
    if isinstance(text, bool) or not _SIZE.fullmatch(str(text)):
        raise ValueError(f"is not a size such as 128 or 128x128x256: {text!r}")
    edges = [int(edge) for edge in str(text).split("x")]
    x, y, z = edges if len(edges) == 3 else edges * 3
    return x, y, z


def format_size(size: Size) -> str:
    """The inverse of `parse_size`, always with three edges."""
    return "x".join(str(edge) for edge in size)


def format_bytes(size: int) -> str:
    """The inverse of what is read as `64KiB`, in the largest unit that it is a multiple of."""
    unit, factor = max(
        ((unit, factor) for unit, factor in _UNITS.items() if size % factor == 0),
        key=lambda one: one[1],
    )
    return f"{size // factor}{unit or ''}"


# Patterns

#: Words of a pattern, in the order that they have in a case id, and the numbers that they take.
_WORDS: Mapping[str, range | None] = MappingProxyType(
    {
        "strided": None,
        "random": None,
        "steps": range(2, 10001),
        "variables": range(2, 10001),
        "deflate": range(1, 10),  # the level
        "quantize": range(3, 16),  # significant decimal digits
        "nonblocking": None,
        "subfiling": range(1, 513),  # subfiles of HDF5's
    }
)
#: Words that have another name among benchio's options and in its result.
_ACCESS = MappingProxyType({"subfiling": "subfiles"})
_USUAL = MappingProxyType({"steps": 1, "variables": 1})  # 0 of the others

COMPRESSED = "deflate"  # less has to be stored than is written
SUBFILED = "subfiling"  # HDF5 makes several files of one


def pattern_words(pattern: str | None) -> dict[str, int]:
    """The words of a pattern such as `strided` or `steps=8:variables=4`, each with its number, 0
    where it takes none; None: there are none. ValueError."""
    words = {}
    for pair in pattern.split(":") if pattern else ():
        word, equals, number = pair.partition("=")
        most = _WORDS.get(word)
        is_right = number.isdecimal() and int(number) in most if most else not equals
        if word not in _WORDS or word in words or not is_right:
            raise ValueError(
                "is neither blocks nor a pattern of strided or random, steps=N, variables=N, "
                "deflate=1..9, quantize=3..15, nonblocking and subfiling=1..512, joined by ':': "
                f"{pattern!r}"
            )
        words[word] = int(number) if most else 0
    return {word: words[word] for word in _WORDS if word in words}


def pattern_of(access: Mapping[str, Any]) -> str:
    """The pattern of a run by its result's `access`; `blocks` if it has no word."""
    words = []
    for word, most in _WORDS.items():
        value = access.get(_ACCESS.get(word, word))
        if word == access["order"] or value is True:
            words.append(word)
        elif most and value != _USUAL.get(word, 0):
            words.append(f"{word}={value}")
    return ":".join(words) or "blocks"


def _pattern_options(pattern: str) -> str:
    """benchio's options for a pattern."""
    return " ".join(
        f"--order {word}" if word in ("strided", "random")
        else f"--{_ACCESS.get(word, word)}" + (f" {number}" if number else "")
        for word, number in pattern_words(pattern).items()
    )  # fmt: skip


# Parameters


@dataclass(frozen=True)
class Parameter:
    """What tells the cases of a check apart."""

    name: str
    type: Type

    def read(self, value: Any) -> Any:
        """Take a value as its type does; ValueError."""
        return self.type.read(value)

    def parse(self, text: str) -> Any:
        """Return the value with this text in a case id; ValueError."""
        return self.type.read(self.type.parse(text))

    def format(self, value: Any) -> str:
        """Return the text of a value in a case id."""
        return self.type.format(value)


@dataclass(frozen=True)
class Way(Parameter):
    """A way in which users' programs write or read, where it is not benchio's own.

    A suite may leave it out. A case names it only if it differs from `default`: one case has one
    name, and none got another when the parameter came.
    """

    default: Any = None  # benchio's own
    backends: Sequence[str] = BACKENDS  # for which anything else has a meaning
    option: Callable[[str], str] = str  # of benchio's, from the text in a case id
    words: str = "{}"  # for tables; braces stand for the text

    def said(self, value: Any) -> str:
        """A value in words; of hints there may be many."""
        return self.words.format(self.format(value).replace(":", ", "))


COUNT = Count()

BACKEND = Parameter(
    "backend",
    Choice(*BACKENDS, phrase=f"is not {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}"),
)
LAYOUT = Parameter("layout", Name())  # DEFAULT, or a name of the site's `layouts`
STRIPE_COUNT = Parameter("stripe_count", Count(besides=-1))  # OSTs; -1: all of them
STRIPE_SIZE = Parameter("stripe_size", COUNT)  # MiB
POOL = Parameter("pool", Name())  # of OSTs
LOCAL_SIZE = Parameter("local_size", Edges())  # of one writer
#: All of them together. A suite gives it as `nodes`, and `ranks_per_node` where these are not
#: the partition's.
RANKS = Parameter("ranks", COUNT)
NODES = Parameter("nodes", COUNT)
RANKS_PER_NODE = Parameter("ranks_per_node", COUNT)
FILES = Parameter("files", Files())
INSTANCES = Parameter("instances", COUNT)  # concurrent benchmarks
ITEMS = Parameter("items", COUNT)  # files, and as many directories, of each writer
#: Lustre's metadata target of names; only where a site names some.
MDT = Parameter("mdt", Count(0, phrase="is no number of a target, 0 or more"))

#: That of one file of all ranks, on a layout.
SHARED_FILE = (BACKEND, LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, LOCAL_SIZE, RANKS)

COLLECTIVE = Way(
    "collective", Flag(), True, SHARING, "--collective {}".format, "independent transfers"
)
COLLECTIVE_METADATA = Way(
    "collective_metadata", Flag(), True, ("hdf5",), "--collective-metadata {}".format,
    "independent metadata",
)  # fmt: skip
FLUSH = Way("flush", Flag(), False, option=lambda text: "--flush", words="a flush before close")
#: Bytes in one call.
TRANSFER = Way("transfer", Bytes(), 2**30, option="--transfer {}".format, words="pieces of {}")
#: Elements.
CHUNK = Way("chunk", OrNone(Edges()), None, ("hdf5", "netcdf"), "--chunk {}".format, "chunks of {}")
HINTS = Way(
    "hints", OrNone(Pairs()), None, SHARING,
    lambda text: " ".join(f"--hint {pair}" for pair in text.split(":")), "hints {}",
)  # fmt: skip
PATTERN = Way("pattern", Pattern(), option=_pattern_options, words="pattern {}")
WAYS = (COLLECTIVE, COLLECTIVE_METADATA, FLUSH, TRANSFER, CHUNK, HINTS, PATTERN)

# Layouts

#: The layout that users get, who ask for none.
DEFAULT = "default"
#: Those that a case has only where its filesystem is striped: a layout by its name, or a count and
#: a size, and a pool if it is to be of one.
STRIPING = (LAYOUT.name, STRIPE_COUNT.name, STRIPE_SIZE.name, POOL.name)
