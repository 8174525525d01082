"""Parameters of a case: the values that each may have, and benchio's options for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from iowatch.base.records import COUNT, FLAG, Shape, choice, matching, number, optional

#: Elements of 8 bytes in x, y, z.
Size = tuple[int, int, int]

MIB = 2**20

CONTROL = "mpiio"  # every other backend is compared with it, in the same rounds of the same job
THROUGH_MPIIO = (CONTROL, "hdf5", "netcdf", "pnetcdf")  # libraries that open files by MPI-IO
SHARING = (*THROUGH_MPIIO, "adios2")  # libraries for one file of many processes
SUBFILING = ("hdf5", "adios2")  # libraries that make several files of one
BACKENDS = (*SHARING, "posix")
#: The backends as their makers write them.
TITLES = {
    "mpiio": "MPI-IO", "hdf5": "HDF5", "netcdf": "NetCDF", "pnetcdf": "PnetCDF",
    "adios2": "ADIOS2", "posix": "POSIX",
}  # fmt: skip

#: Operations of benchio: on names; single calls; a write whose files are kept; a read of what
#: another run kept.
METADATA, LATENCY, WRITE_KEEP, READ_EXISTING = "metadata", "latency", "write-keep", "read-existing"

_SIZE = re.compile(r"[1-9]\d*(x[1-9]\d*x[1-9]\d*)?", re.ASCII)
_BYTES = re.compile(r"([1-9]\d{0,9})(KiB|MiB|GiB)?", re.ASCII)
_UNITS = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


# Values


def parse_size(text: str | int) -> Size:
    """Read a size such as `128` (a cube) or `128x128x256`, as benchio does; ValueError."""
    if isinstance(text, bool) or not _SIZE.fullmatch(str(text)):
        raise ValueError
    edges = [int(edge) for edge in str(text).split("x")]
    x, y, z = edges if len(edges) == 3 else edges * 3
    return x, y, z


def format_size(size: Size) -> str:
    """Write a size with its three edges."""
    return "x".join(str(edge) for edge in size)


def format_bytes(size: int) -> str:
    """Write bytes such as `64KiB`, in the largest unit that divides them."""
    unit, factor = max(
        ((unit, factor) for unit, factor in _UNITS.items() if size % factor == 0),
        key=lambda pair: pair[1],
    )
    return f"{size // factor}{unit or ''}"


def _bytes(value: Any) -> int:
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    size = int(match[1]) * _UNITS[match[2]] if match else value
    if type(size) is not int or size % 8 or not 8 <= size <= 2**30:
        raise ValueError
    return size


def _files(value: Any) -> str:
    text = str(value)
    if text not in ("process", "node", "gather") and not (text.isdecimal() and int(text) > 1):
        raise ValueError
    return text


def _hints(value: Any) -> tuple[tuple[str, str], ...]:
    """Sort hints, so that one set of hints is one case."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError
    words = [(key, text if type(text) is not int else str(text)) for key, text in value.items()]
    return tuple(sorted((PLAIN.convert(key), PLAIN.convert(text)) for key, text in words))


def _pattern(value: Any) -> str | None:
    """Put the words of a pattern into one order, so that one pattern is one case."""
    if value is None or value == "blocks":
        return None
    if not isinstance(value, str) or not value:
        raise ValueError
    words = pattern_words(value)
    if {"strided", "random"} <= words.keys():
        raise ValueError("random is strided as well: name one")
    if "quantize" in words and "deflate" not in words:
        raise ValueError("quantize needs deflate=LEVEL: what is rounded takes as much room")
    if SUBFILED in words and {"steps", COMPRESSED} & words.keys():
        raise ValueError("HDF5 reads no chunks from subfiles: no subfiling with steps or deflate")
    return ":".join(f"{word}={number}" if number else word for word, number in words.items())


#: Without what a case id or a shell gives a meaning.
PLAIN = matching(r"[A-Za-z0-9_.-]+", "a name of letters, digits, '_', '.' and '-'")
SIZE = Shape("a size such as 128 or 128x128x256", parse_size)
BYTES = Shape("a multiple of 8 bytes up to 1GiB, such as '4MiB'", _bytes)
_STRIPES = Shape(
    f"{COUNT.phrase}, or -1", lambda value: -1 if value == -1 else COUNT.convert(value)
)
_FILES = Shape("process, node, gather or a number of files above 1", _files)
_HINTS = Shape(
    "a mapping such as {'romio_cb_write': 'enable'} of words of letters, digits, '_', '.' and '-'",
    _hints,
)
_PATTERN = Shape(
    "blocks or a pattern of strided or random, steps=N, variables=N, deflate=1..9, "
    "quantize=3..15, nonblocking and subfiling=1..512, joined by ':'",
    _pattern,
)


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
        "subfiling": range(1, 513),  # subfiles
    }
)
#: Words that have another name among benchio's options and in its result.
_ACCESS = MappingProxyType({"subfiling": "subfiles"})
_USUAL = MappingProxyType({"steps": 1, "variables": 1})  # 0 of the others

COMPRESSED = "deflate"  # less has to be stored than is written
SUBFILED = "subfiling"  # the library makes several files of one


def pattern_words(pattern: str | None) -> dict[str, int]:
    """Read the words of a pattern such as `strided` or `steps=8:variables=4`, each with its number,
    0 where it takes none; None: there are none. ValueError."""
    words = {}
    for pair in pattern.split(":") if pattern else ():
        word, equals, number = pair.partition("=")
        most = _WORDS.get(word)
        is_right = number.isdecimal() and int(number) in most if most else not equals
        if word not in _WORDS or word in words or not is_right:
            raise ValueError
        words[word] = int(number) if most else 0
    return {word: words[word] for word in _WORDS if word in words}


def pattern_of(access: Mapping[str, Any]) -> str:
    """Return the pattern of a run by its result's `access`; `blocks` if it has no word."""
    words = []
    for word, most in _WORDS.items():
        value = access.get(_ACCESS.get(word, word))
        if word == access["order"] or value is True:
            words.append(word)
        elif most and value != _USUAL.get(word, 0):
            words.append(f"{word}={value}")
    return ":".join(words) or "blocks"


def _pattern_options(pattern: str) -> str:
    """Return benchio's options for a pattern."""
    return " ".join(
        f"--order {word}" if word in ("strided", "random")
        else f"--{_ACCESS.get(word, word)}" + (f" {number}" if number else "")
        for word, number in pattern_words(pattern).items()
    )  # fmt: skip


# Parameters


@dataclass(frozen=True)
class Parameter:
    """A parameter that tells the cases of a check apart."""

    name: str
    shape: Shape  # of its values
    from_text: Callable[[str], Any] = str  # makes what the shape takes of a text in a case id
    to_text: Callable[[Any], str] = str
    nothing: str = ""  # the text of None
    unit: str = ""
    about: str = ""  # a sentence for a reference

    def parse(self, text: str) -> Any:
        """Return the value with this text in a case id; ValueError."""
        if text and text == self.nothing:
            return None
        try:
            value = self.from_text(text)
        except ValueError:
            value = text
        return self.shape.read(value)

    def format(self, value: Any) -> str:
        """Return the text of a value in a case id."""
        return self.nothing if value is None else self.to_text(value)


@dataclass(frozen=True, kw_only=True)
class Way(Parameter):
    """A way in which users' programs write or read, where it is not benchio's own.

    A suite may leave it out. A case names it only if it differs from `default`: one case has one
    name, and none got another when the parameter came.
    """

    nothing: str = "none"
    default: Any = None  # benchio's own
    backends: Sequence[str] = BACKENDS  # for which anything else has a meaning
    option: Callable[[str], str] = str  # of benchio's, from the text in a case id
    words: str = "{}"  # for tables; braces stand for the text

    def in_words(self, value: Any) -> str:
        """Return a value in words; of hints there may be many."""
        return self.words.format(self.format(value).replace(":", ", "))


_flag = partial(
    Way,
    shape=FLAG,
    from_text=lambda text: {"yes": True, "no": False}.get(text, text),
    to_text=lambda value: "yes" if value else "no",
)

BACKEND = Parameter(
    "backend",
    choice(*BACKENDS),
    about="The I/O library. MPI-IO runs along with each, as its control; posix is for files of "
    "each process alone, and for IOR.",
)
LAYOUT = Parameter(
    "layout",
    PLAIN,
    about="In place of stripes and pool: default, what users get who ask for nothing, or a name "
    "from the site's `layouts`.",
)
STRIPE_COUNT = Parameter(
    "stripe_count", _STRIPES, int, about="The number of OSTs; -1 for all, or for all of the pool."
)
STRIPE_SIZE = Parameter("stripe_size", COUNT, int, unit="MiB", about="The size of a stripe.")
POOL = Parameter(
    "pool",
    PLAIN,
    about="A name from the site's `pools`; without it the filesystem chooses among all OSTs.",
)
LOCAL_SIZE = Parameter(
    "local_size",
    SIZE,
    to_text=format_size,
    about="Elements of 8 bytes that each rank writes; a number alone is the edge of a cube.",
)
#: All of them together. A suite gives it as `nodes`, and `ranks_per_node` where these are not
#: the partition's.
RANKS = Parameter("ranks", COUNT, int)
NODES = Parameter(
    "nodes",
    COUNT,
    about="The number of nodes; reads of a shared file want at least 2, because a node's cache may "
    "return what the node has written.",
)
RANKS_PER_NODE = Parameter(
    "ranks_per_node", COUNT, about="Ranks on each node, where these are not the partition's."
)
FILES = Parameter(
    "files",
    _FILES,
    about="Files of all ranks: one of each process or node, gather (one rank writes for all), or a "
    "number.",
)
ONE_OR_EACH = Parameter(
    "files",
    choice("shared", "process"),
    about="One file, or directory, for all processes, or one for each.",
)
INSTANCES = Parameter(
    "instances", COUNT, int, about="Benchmarks at once; the number divides the number of ranks."
)
#: Numbers that names of benchio have room for.
NAMED = number("a whole number from 1 to 9999999", 1, 9_999_999, is_whole=True)
ITEMS = Parameter(
    "items",
    NAMED,
    int,
    about="Small files, and directories, of each rank; choose a number that takes about a minute.",
)
SECONDS = Parameter(
    "seconds",
    number("a number of seconds from 1 to 600", 1, 600, is_whole=True),
    int,
    about="How long calls are timed; the p99.9 of 120 s has an interval with two ends.",
)
MDT = Parameter(
    "mdt",
    number("the number of a target, 0 or more", 0, is_whole=True),
    int,
    about="On Lustre, one of the site's `mdts`. Without it Lustre chooses, perhaps another each "
    "night.",
)

#: Parameters of one file of all ranks, on a layout.
SHARED_FILE = (BACKEND, LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, LOCAL_SIZE, RANKS)

COLLECTIVE = _flag(
    "collective",
    default=True, backends=THROUGH_MPIIO, option="--collective {}".format,
    words="independent transfers",
    about="Collective transfers; False: each rank by itself, the libraries' default.",
)  # fmt: skip
COLLECTIVE_METADATA = _flag(
    "collective_metadata",
    default=True, backends=("hdf5",), option="--collective-metadata {}".format,
    words="independent metadata",
    about="Collective metadata; False is HDF5's default. For hdf5 only.",
)  # fmt: skip
FLUSH = _flag(
    "flush", default=False, option="--flush".format, words="a flush before close",
    about="H5Fflush, nc_sync or their like before the close. For writes only.",
)  # fmt: skip
TRANSFER = Way(
    "transfer", BYTES, to_text=format_bytes,
    default=2**30, option="--transfer {}".format, words="pieces of {}",
    about="The most that a rank hands to the library in one call.",
)  # fmt: skip
CHUNK = Way(
    "chunk", optional(SIZE, "None"), to_text=format_size,
    backends=("hdf5", "netcdf"), option="--chunk {}".format, words="chunks of {}",
    about="The elements of a chunk; None: contiguous. For hdf5 and netcdf only.",
)  # fmt: skip
HINTS = Way(
    "hints",
    optional(_HINTS, "None"),
    lambda text: dict(pair.partition("=")[::2] for pair in text.split(":")),
    lambda pairs: ":".join(f"{key}={text}" for key, text in pairs),
    backends=THROUGH_MPIIO,
    option=lambda text: " ".join(f"--hint {pair}" for pair in text.split(":")),
    words="hints {}",
    about="Hints for MPI-IO. No result proves that a hint does anything.",
)
PATTERN = Way(
    "pattern", _PATTERN, nothing="blocks", option=_pattern_options, words="pattern {}",
    about="The pattern in which the ranks write.",
)  # fmt: skip
WAYS = (COLLECTIVE, COLLECTIVE_METADATA, FLUSH, TRANSFER, CHUNK, HINTS, PATTERN)

# Layouts

#: The layout that users get, who ask for none.
DEFAULT = "default"
#: Parameters that a case has only on a striped filesystem: a layout by its name, or a count and a
#: size, and a pool if it is to be of one.
STRIPING = (LAYOUT.name, STRIPE_COUNT.name, STRIPE_SIZE.name, POOL.name)
