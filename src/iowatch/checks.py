"""What iowatch measures: an object for each check, with everything that only the check knows.

Whoever adds a check writes its class in reframe_checks, its object here, and a test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iowatch.case import Case

#: Elements of 8 bytes in x, y, z.
Size = tuple[int, int, int]

CONTROL = "mpiio"  # every other backend is compared with it, in the same rounds of the same job
SHARING = (CONTROL, "hdf5", "netcdf", "pnetcdf")  # libraries for one file of many processes
BACKENDS = (*SHARING, "posix")

_SIZE = re.compile(r"[1-9]\d*(x[1-9]\d*x[1-9]\d*)?", re.ASCII)
_BYTES = re.compile(r"([1-9]\d{0,9})(KiB|MiB|GiB)?", re.ASCII)
_UNITS = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
#: Without what a case id or a shell gives a meaning.
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


# Metrics


@dataclass(frozen=True)
class Metric:
    """A number that is recorded of a verified run; none is below 0."""

    unit: str  # MiB/s, 1/s (operations), s, or 1: a part or a ratio
    lower_is_better: bool = False
    largest: float = math.inf


_RATE, _SECONDS, _RATIO = Metric("MiB/s"), Metric("s", lower_is_better=True), Metric("1")
_PART = Metric("1", lower_is_better=True, largest=1)
_OPERATIONS = Metric("1/s")

DRIFT = "drift"  # how near the nights so far are to an alarm: 1. Judged already: has no reference.
#: Followed by its number: the rate of one OST, of which there may be any number, by operation.
OST: Mapping[str, str] = MappingProxyType({"write": "ost_", "read": "ost_read_"})
#: The rate of the slowest OST over the median of its peers.
OST_RATIO: Mapping[str, str] = MappingProxyType({"write": "ost_ratio", "read": "ost_read_ratio"})

METADATA = "metadata"  # benchio's operation on names
#: What is done to names, each as a phase of its own and in this order; after `create` they are
#: synced.
NAME_PHASES = ("mkdir", "create", "stat", "list", "rename", "read", "unlink", "rmdir")
#: The most operations a second in each of them.
NAME_RATES: Mapping[str, str] = MappingProxyType({name: f"{name}_rate" for name in NAME_PHASES})
#: The same of mdtest, in those that it has as well.
MDTEST_RATES: Mapping[str, str] = MappingProxyType(
    {name: f"mdtest_{name}_rate" for name in ("create", "stat", "read", "unlink")}
)

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "total_max": _RATE,
        "total_median": _RATE,
        "total_mean": _RATE,
        "total_min": _RATE,
        "stable_max": _RATE,
        "stable_median": _RATE,
        "data_median": _RATE,
        "open_s": _SECONDS,
        "define_s": _SECONDS,
        "write_s": _SECONDS,
        "read_s": _SECONDS,
        "flush_s": _SECONDS,
        "close_s": _SECONDS,
        "sync_s": _SECONDS,
        "unlink_s": _SECONDS,
        "finish_fraction": _PART,
        "ratio": _RATIO,
        "stored_fraction": _PART,
        "instance_min": _RATE,
        "ost_ratio": _RATIO,
        "ost_read_ratio": _RATIO,
        "ior_max": _RATE,
        "ior_median": _RATE,
        "ior_ratio": _RATIO,
        "items_max": _OPERATIONS,
        "items_median": _OPERATIONS,
        **dict.fromkeys(NAME_RATES.values(), _OPERATIONS),
        **{f"{name}_s": _SECONDS for name in NAME_PHASES},
        **dict.fromkeys(MDTEST_RATES.values(), _OPERATIONS),
        "mdtest_ratio": _RATIO,
        "output_s": _SECONDS,
        DRIFT: _PART,
    }
)
_TOTALS = ("total_max", "total_median", "total_mean", "total_min")  # from opening to closing
_STABLE = ("stable_max", "stable_median")  # from opening to having synced what was written
_FINISH = ("finish_fraction", "ratio", "stored_fraction")
_WRITE = (
    *(*_TOTALS, *_STABLE, "data_median"),
    *("open_s", "define_s", "write_s", "flush_s", "close_s", "sync_s", "unlink_s", *_FINISH),
)
_READ = (*_TOTALS, "data_median", "open_s", "read_s", "close_s", *_FINISH)
_IOR = ("ior_max", "ior_median", "ior_ratio")
_NAMES = (
    *("items_max", "items_median"),  # names that go through all phases
    *NAME_RATES.values(),
    *(f"{name}_s" for name in ("sync", *NAME_PHASES)),
)
_MDTEST = (*MDTEST_RATES.values(), "mdtest_ratio")
_APPLICATION = (*_TOTALS, *_STABLE, "output_s", "sync_s", "ratio")


def metric(name: str) -> Metric:
    """The metric of this name, that of one OST among them."""
    return METRICS.get(name, _RATE)


def is_of_ost(name: str) -> bool:
    """Is this metric the rate of one OST?"""
    return bool(re.fullmatch("ost_(read_)?[0-9]+", name))


def rate_name(metrics: Mapping[str, float]) -> str:
    """The metric that is compared with a case's past and the physical ceiling: of a write with its
    sync, which a read has not, and of which nothing is known of imported runs; of names all phases
    together.
    """
    return next((name for name in ("stable_max", "items_max") if name in metrics), "total_max")


def rate_unit(metrics: Mapping[str, float]) -> str:
    """The unit of that metric, as it stands behind a number."""
    return "items/s" if rate_name(metrics) == "items_max" else "MiB/s"


# Parameters


@dataclass(frozen=True)
class Parameter:
    """What tells the cases of a check apart.

    `read` takes the value from a site's configuration and raises ValueError; `parse` and `format`
    are between it and its text in a case id.
    """

    name: str
    read: Callable[[Any], Any]
    parse: Callable[[str], Any] = str
    format: Callable[[Any], str] = str


def read_text(value: Any) -> str:
    """A non-empty string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"is not a name: {value!r}")
    return value


def read_count(value: Any) -> int:
    """An integer of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"is not a positive integer: {value!r}")
    return value


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


def _backend(value: Any) -> str:
    if value not in BACKENDS:
        raise ValueError(f"is not {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}: {value!r}")
    return str(value)


def _stripe_count(value: Any) -> int:
    return -1 if value == -1 else read_count(value)


def read_name(value: Any) -> str:
    """A name of letters, digits, '_', '.' and '-', which may be part of a case id."""
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        raise ValueError(f"is no name of letters, digits, '_', '.' and '-': {value!r}")
    return value


def read_flag(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"is neither True nor False: {value!r}")
    return value


def _parse_flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"is neither yes nor no: {text!r}")
    return text == "yes"


def _format_flag(value: bool) -> str:
    return "yes" if value else "no"


def _read_bytes(value: Any) -> int:
    """Bytes of whole elements in one call, at most what benchio allows."""
    size = _parse_bytes(value) if isinstance(value, str) else value
    if type(size) is not int or size % 8 or not 8 <= size <= 2**30:
        raise ValueError(f"is not a multiple of 8 bytes up to 1GiB, such as '4MiB': {value!r}")
    return size


def _parse_bytes(text: str) -> int:
    match = _BYTES.fullmatch(text)
    if not match:
        raise ValueError(f"is not a number of bytes such as 64KiB: {text!r}")
    return int(match[1]) * _UNITS[match[2]]


def format_bytes(size: int) -> str:
    """The inverse of what is read as `64KiB`, in the largest unit that it is a multiple of."""
    unit, factor = max(
        ((unit, factor) for unit, factor in _UNITS.items() if size % factor == 0),
        key=lambda one: one[1],
    )
    return f"{size // factor}{unit or ''}"


def _chunk(value: Any) -> Size | None:
    return None if value is None else parse_size(value)


def _parse_chunk(text: str) -> str | None:
    return None if text == "none" else text


def _format_chunk(chunk: Size | None) -> str:
    return "none" if chunk is None else format_size(chunk)


def _hints(value: Any) -> tuple[tuple[str, str], ...] | None:
    """Sorted, so that one set of hints is one case."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise ValueError(
            f"is neither None nor a mapping such as {{'romio_cb_write': 'enable'}}: {value!r}"
        )
    for key, text in value.items():
        is_text = isinstance(key, str) and isinstance(text, str | int) and type(text) is not bool
        if not is_text or not (_PLAIN.fullmatch(key) and _PLAIN.fullmatch(str(text))):
            raise ValueError(
                f"has a hint that is no text of letters, digits, '_', '.' and '-': {key!r}: "
                f"{text!r}"
            )
    return tuple(sorted((key, str(text)) for key, text in value.items()))


def _parse_hints(text: str) -> dict[str, str] | None:
    if text == "none":
        return None
    pairs = [pair.partition("=") for pair in text.split(":")]
    return {key: value for key, _, value in pairs}


def _format_hints(hints: Sequence[tuple[str, str]] | None) -> str:
    return ":".join(f"{key}={value}" for key, value in hints) if hints else "none"


#: Words of a pattern, in the order that they have in a case id, and the numbers that they take.
_PATTERN: Mapping[str, range | None] = MappingProxyType(
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


def pattern_words(pattern: str | None) -> dict[str, int]:
    """The words of a pattern such as `strided` or `steps=8:variables=4`, each with its number, 0
    where it takes none; None: there are none. ValueError."""
    found = {}
    for pair in pattern.split(":") if pattern else ():
        word, equals, number = pair.partition("=")
        most = _PATTERN.get(word)
        is_right = number.isdecimal() and int(number) in most if most else not equals
        if word not in _PATTERN or word in found or not is_right:
            raise ValueError(
                "is neither blocks nor a pattern of strided or random, steps=N, variables=N, "
                "deflate=1..9, quantize=3..15, nonblocking and subfiling=1..512, joined by ':': "
                f"{pattern!r}"
            )
        found[word] = int(number) if most else 0
    return {word: found[word] for word in _PATTERN if word in found}


def pattern_of(access: Mapping[str, Any]) -> str:
    """The pattern of a run by its result's `access`; `blocks` if it has no word."""
    words = []
    for word, most in _PATTERN.items():
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


def _pattern(value: Any) -> str | None:
    """In one order of its words, so that one pattern is one case."""
    if value is None or value == "blocks":
        return None
    words = pattern_words(read_text(value))
    if {"strided", "random"} <= words.keys():
        raise ValueError("is strided and random, and random is strided as well: name one of them")
    if "quantize" in words and "deflate" not in words:
        raise ValueError("quantizes without deflate=LEVEL: what is rounded takes as much room")
    if SUBFILED in words and {"steps", COMPRESSED} & words.keys():
        raise ValueError("has subfiling with steps or deflate: HDF5 reads no chunks from subfiles")
    return ":".join(f"{word}={number}" if number else word for word, number in words.items())


def _pattern_objection(values: Mapping[str, Any]) -> str:
    """Why no case can have this pattern with its other values; empty if one can."""
    pattern, backend = values[PATTERN.name], values[BACKEND.name]
    words = pattern_words(pattern)
    layers = words.get("steps", 1) * words.get("variables", 1)
    for word, backends in _PATTERN_BACKENDS.items():
        if word in words and backend not in backends:
            return f"pattern {pattern} with {backend}: {word} is of {' and '.join(backends)} alone"
    if SUBFILED in words and values.get(CHUNK.name):
        return f"pattern {pattern} with chunks: HDF5 reads none from subfiles collectively"
    if SUBFILED in words and (values.get("files") != "shared" or values.get("instances")):
        return f"pattern {pattern} with other than one shared file, of which it makes several"
    if words and values.get("files") == "gather":
        return f"pattern {pattern} with files gather, whose first process moves whole planes"
    if values["local_size"][2] % layers:
        return (
            f"pattern {pattern} with local size {format_size(values['local_size'])}: steps and "
            f"variables share the elements along z, which are to be a multiple of {layers}"
        )
    if values.get("collective", True):
        return ""
    alone = {"deflate", "nonblocking"} | ({"steps"} if backend in ("netcdf", "pnetcdf") else set())
    if found := [word for word in words if word in alone]:
        return f"pattern {pattern} with collective no: {found[0]} needs collective transfers"
    return ""


_PATTERN_BACKENDS = {"deflate": ("hdf5", "netcdf"), "quantize": ("netcdf",),
                     "nonblocking": ("pnetcdf",), "subfiling": ("hdf5",)}  # fmt: skip


def _files(value: Any) -> str:
    text = str(value)
    if text not in ("process", "node", "gather") and not (text.isdecimal() and int(text) > 1):
        raise ValueError(f"is not process, node, gather or a number of files above 1: {value!r}")
    return text


def _io500(value: Any) -> str | None:
    if value is not None and value not in (EASY, HARD):
        raise ValueError(f"is neither None nor {EASY!r} nor {HARD!r}: {value!r}")
    return value  # type: ignore[no-any-return]


def _ior_files(value: Any) -> str:
    if value not in ("shared", "process"):
        raise ValueError(f"is not shared or process, and IOR has no others: {value!r}")
    return str(value)


def _directories(value: Any) -> str:
    if value not in ("shared", "process"):
        raise ValueError(
            f"is not shared, one directory for all, or process, one for each: {value!r}"
        )
    return str(value)


def read_index(value: Any) -> int:
    """An integer of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"is no number of a target, 0 or more: {value!r}")
    return value


#: What IO500 calls ior-easy: large calls, a file of each process; and ior-hard: all processes in
#: turn, each so many bytes, in one file.
EASY, HARD = "easy", "hard"
#: Bytes of a call of each, by IO500's rules.
IO500_CALL: Mapping[str, int] = MappingProxyType({EASY: 2 * 2**20, HARD: 47008})

BACKEND = Parameter("backend", _backend)
LAYOUT = Parameter("layout", read_name)  # DEFAULT, or a name of the site's `layouts`
STRIPE_COUNT = Parameter("stripe_count", _stripe_count, int)  # OSTs; -1: all of them
STRIPE_SIZE = Parameter("stripe_size", read_count, int)  # MiB
POOL = Parameter("pool", read_name)  # of OSTs
LOCAL_SIZE = Parameter("local_size", parse_size, format=format_size)  # of one writer
#: All of them together. A sweep gives it as `nodes`, and `writers_per_node` where these are not
#: the partition's.
WRITERS = Parameter("writers", read_count, int)
NODES = Parameter("nodes", read_count, int)
WRITERS_PER_NODE = Parameter("writers_per_node", read_count, int)
FILES = Parameter("files", _files)  # of each process or node, gathered, or a number of them
IOR_FILES = Parameter("files", _ior_files)
INSTANCES = Parameter("instances", read_count, int)  # concurrent benchmarks
DIRECTORIES = Parameter("files", _directories)  # that all share, or of each process
ITEMS = Parameter("items", read_count, int)  # files, and as many directories, of each writer
MDT = Parameter("mdt", read_index, int)  # that they are on; only where a site names some


@dataclass(frozen=True)
class Way(Parameter):
    """A way in which users' programs write or read, where it is not benchio's own.

    A sweep may leave it out. A case names it only if it differs from `default`: one case has one
    name, and none got another when the parameter came.
    """

    default: Any = None  # benchio's own
    backends: Sequence[str] = BACKENDS  # for which anything else has a meaning
    option: Callable[[str], str] = str  # of benchio's, from the text in a case id
    words: str = "{}"  # for tables; braces stand for the text

    def said(self, value: Any) -> str:
        """A value in words; of hints there may be many."""
        return self.words.format(self.format(value).replace(":", ", "))


COLLECTIVE = Way(
    "collective", read_flag, _parse_flag, _format_flag, True, SHARING,
    lambda text: f"--collective {text}", "independent transfers",
)  # fmt: skip
COLLECTIVE_METADATA = Way(
    "collective_metadata", read_flag, _parse_flag, _format_flag, True, ("hdf5",),
    lambda text: f"--collective-metadata {text}", "independent metadata",
)  # fmt: skip
FLUSH = Way(
    "flush", read_flag, _parse_flag, _format_flag, False,
    option=lambda text: "--flush", words="a flush before close",
)  # fmt: skip
TRANSFER = Way(  # bytes in one call
    "transfer", _read_bytes, _parse_bytes, format_bytes, 2**30,
    option=lambda text: f"--transfer {text}", words="pieces of {}",
)  # fmt: skip
CHUNK = Way(  # elements
    "chunk", _chunk, _parse_chunk, _format_chunk, None, ("hdf5", "netcdf"),
    lambda text: f"--chunk {text}", "chunks of {}",
)  # fmt: skip
HINTS = Way(
    "hints", _hints, _parse_hints, _format_hints, None, SHARING,
    lambda text: " ".join(f"--hint {pair}" for pair in text.split(":")), "hints {}",
)  # fmt: skip
PATTERN = Way(
    "pattern", _pattern, _pattern, lambda pattern: pattern or "blocks",
    option=_pattern_options, words="pattern {}",
)  # fmt: skip
WAYS = (COLLECTIVE, COLLECTIVE_METADATA, FLUSH, TRANSFER, CHUNK, HINTS, PATTERN)
#: What is read was written before the clock runs.
WAYS_OF_READING = tuple(way for way in WAYS if way is not FLUSH)

IO500 = Way(  # of IOR, and of benchio beside it
    "io500", _io500, lambda text: None if text == "none" else text, lambda value: value or "none",
    None, ("posix",), lambda text: f"--transfer {IO500_CALL[text]}", "IO500's ior-{}",
)  # fmt: skip
IO500_NAMES = replace(IO500, words="IO500's mdtest-{}")  # of mdtest alone

#: The layout that users get, who ask for none.
DEFAULT = "default"
#: Those that a case has only where its filesystem is striped: a layout by its name, or a count and
#: a size, and a pool if it is to be of one.
STRIPING = (LAYOUT.name, STRIPE_COUNT.name, STRIPE_SIZE.name, POOL.name)
_STRIPES = re.compile(
    r"(?P<count>-1|[1-9]\d*)x(?P<size>[1-9]\d*)(:(?P<pool>[A-Za-z0-9_.-]+))?", re.ASCII
)


def format_layout(value: Callable[[str], Any]) -> str | None:
    """All of STRIPING in a word: a layout's name, or stripes such as `-1x4` (count, MiB), and of a
    pool `-1x4:flash`. `value` gives that of a parameter; None: there is none."""
    layout, count, size, pool = map(value, STRIPING)
    if layout is not None or size is None:
        return layout  # type: ignore[no-any-return]
    return f"{count}x{size}:{pool}" if pool else f"{count}x{size}"


def parse_layout(text: str) -> dict[str, Any]:
    """The inverse; ValueError."""
    if stripes := _STRIPES.fullmatch(text):
        return {
            STRIPE_COUNT.name: int(stripes["count"]),
            STRIPE_SIZE.name: int(stripes["size"]),
            POOL.name: stripes["pool"],
        }
    return {LAYOUT.name: read_name(text)}


#: Operations of benchio: a write whose files are kept, and a read of what another run has kept.
WRITE_KEEP, READ_EXISTING = "write-keep", "read-existing"

SHARED_FILE = (BACKEND, LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, LOCAL_SIZE, WRITERS)


# Checks

#: Bounds of reference values that hold on any machine, by backend: a case beyond them is suspect.
#: The header of every generated reference file says why.
_RATE_BOUND = {"total_max": [1, 0, None, "MiB/s"]}
_CLOSE_BOUND = {"finish_fraction": [0, None, 0.25, "1"]}  # of these two it is the close
_FINISH_BOUND = {"finish_fraction": [0, None, 0.45, "1"]}
GENERAL_BOUNDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mpiio": _RATE_BOUND | _CLOSE_BOUND,
        "hdf5": {"ratio": [0.9, -0.5, None, "1"]} | _FINISH_BOUND,
        "netcdf": {"ratio": [0.7, -0.5, None, "1"]} | _FINISH_BOUND,
        "pnetcdf": {"ratio": [0.7, -0.5, None, "1"]} | _FINISH_BOUND,
        "posix": _RATE_BOUND | _CLOSE_BOUND,
    }
)
#: The same of cases that compress: less has to be stored than was written, or it was for nothing.
COMPRESSED = "deflate"
#: Of cases whose file is several, which HDF5 has made of it.
SUBFILED = "subfiling"
COMPRESSED_BOUNDS = MappingProxyType({**_RATE_BOUND, "stored_fraction": [0, None, 0.9, "1"]})


def _no_options(case: Case) -> list[str]:
    return []


@dataclass(frozen=True, eq=False)
class Check:
    """One kind of measurement."""

    name: str  # of its class in reframe_checks
    short: str  # of its cases; a parameter in braces stands for its value
    operation: str = "write"  # that its cases are judged by: write, read, metadata
    reads_too: bool = False  # besides what it writes
    parameters: Sequence[Parameter] = SHARED_FILE  # in the order that they have in a case id
    ways: Sequence[Way] = ()  # that it can vary besides; they end a case id
    #: Of parameters that a sweep may leave out.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: What other checks vary and this one does not.
    fixed: Mapping[str, Any] = field(default_factory=lambda: {"files": "shared"})
    backends: Sequence[str] = BACKENDS
    is_impossible: Callable[[Mapping[str, Any]], str] = lambda values: ""  # why; empty: it is not
    has_control: bool = True  # other backends take turns with MPI-IO
    repeats: int = 10  # timed rounds of a job, as in the white paper
    metrics: Sequence[str] = _WRITE
    #: That hold on any machine; None: those of the backend.
    bounds: Mapping[str, Any] | None = None
    bounds_comment: str = ""  # why
    options: Callable[[Case], list[str]] = _no_options  # of benchio's, besides those of every check
    #: That an application writes in a round at most, beside MPI-IO; 0: benchio writes all there is.
    application_mib: int = 0
    is_everywhere: bool = False  # no sweep names it: it runs wherever another check does
    needs_stripes: bool = False  # it looks at each OST by itself
    reads_existing: bool = False  # what an earlier night has kept; its job keeps files for the next

    @property
    def has_mdtest(self) -> bool:
        """Does mdtest take turns with benchio?"""
        return "mdtest_ratio" in self.metrics

    @property
    def operations(self) -> list[str]:
        """What benchio is to time of what a case is judged by."""
        if self.reads_existing:
            return [READ_EXISTING]
        return [self.operation, "read"] if self.reads_too else [self.operation]

    def parameters_with(self, given: Collection[str]) -> list[Parameter]:
        """All those of a case that has these among others: of its stripes there may be none, nor
        of an MDT."""
        striping = set(STRIPING) & set(given)
        if LAYOUT.name in striping:
            has = {LAYOUT.name}
        elif striping:
            has = {STRIPE_COUNT.name, STRIPE_SIZE.name} | striping
        else:
            has = set()
        has |= {MDT.name} & set(given)
        return [p for p in self.parameters if p.name not in (*STRIPING, MDT.name) or p.name in has]

    def objection(self, values: Mapping[str, Any]) -> str:
        """Why no case can have these values; empty if one can."""
        values = {**self.fixed, **values}
        for way in self.ways:
            value, backend = values[way.name], values["backend"]
            if value != way.default and backend not in way.backends:
                return (
                    f"{way.name} {way.format(value)} with {backend}: it has a meaning for "
                    f"{' and '.join(way.backends)} alone"
                )
        if values.get(PATTERN.name) and (why := _pattern_objection(values)):
            return why
        return self.is_impossible(values)

    def format_ways(self, value: Callable[[str], Any]) -> str | None:
        """All ways other than benchio's own in a word, as they end a case id, such as
        `flush=yes/chunk=8x8x8`; None: there are none. `value` gives that of a parameter."""
        values = ((way, value(way.name)) for way in self.ways)
        words = [f"{way.name}={way.format(own)}" for way, own in values if own != way.default]
        return "/".join(words) or None

    def parse_ways(self, text: str) -> dict[str, Any]:
        """The inverse, with benchio's own of the others; ValueError."""
        known = {way.name: way for way in self.ways}
        values = {name: way.default for name, way in known.items()}
        for name, _, value in (word.partition("=") for word in text.split("/")):
            if name not in known:
                raise ValueError(f"{self.name} has no way {name!r}: it has {', '.join(known)}")
            values[name] = known[name].read(known[name].parse(value))
        return values

    def command_line(self, case: Case) -> list[str]:
        """benchio's options for a case of this check, but for its layout, which is the site's."""
        if self.operation == METADATA:
            mdt = case.get(MDT.name)
            return [
                f"--operation {METADATA}",
                f"--files {case.files}",
                f"--items {case.items}",
                *([] if mdt is None else [f"--mdt-index {mdt}"]),
            ]
        options = [
            f"--backend {','.join(case.backends)}",
            f"--operation {','.join([WRITE_KEEP] if self.reads_existing else self.operations)}",
            f"--files {case.files}",
            f"--local-size {format_size(case.local_size)}",
        ]
        if case.instances is not None:
            options.append(f"--instances {case.instances}")
        options += [way.option(way.format(value)) for way, value in case.ways]
        if case.subfiles:  # HDF5 sends each row by itself that does not follow another
            options.append("--halo 0")
            if not {"strided", "random"} & pattern_words(case.get(PATTERN.name)).keys():
                options.append(f"--grid 1x1x{case.writers}")
        return options + self.options(case)


def _no_ior(values: Mapping[str, Any]) -> str:
    """Why IOR cannot write or read what is asked for, or not as IO500 does; empty if it can."""
    backend, files, io500 = (values[name] for name in ("backend", "files", IO500.name))
    if (backend, files) == ("pnetcdf", "process"):
        return "IOR has no pnetcdf with a file of each process"
    if io500 is None:
        return ""
    call, size = IO500_CALL[io500], values["local_size"]
    if io500 == EASY and files == "process" and 8 * math.prod(size) % call == 0:
        return ""
    if io500 == HARD and files == "shared" and 8 * size[0] == call:
        return ""
    return f"io500 {io500} with files {files} and local_size {format_size(size)}: " + (
        "it has a file of each process, of a multiple of 2 MiB, such as 128"
        if io500 == EASY
        else f"it has one file, and rows of {call} bytes, such as {call // 8}x64x64"
    )


def _no_mdtest(values: Mapping[str, Any]) -> str:
    """Why mdtest cannot do as IO500 does; empty if it can, or is not to."""
    io500, files = values[IO500.name], values["files"]
    wanted = {None: files, EASY: "process", HARD: "shared"}[io500]
    if files == wanted:
        return ""
    return f"io500 {io500} with files {files}: it has files {wanted}"


def _blocks_of_ior(case: Case) -> list[str]:
    """That with which benchio's blocks lie in the file, and in memory, as IOR's do: one with a halo
    ROMIO writes by half a MiB, and reads each from the file before."""
    if case.files != "shared":
        return ["--halo 0"]
    # Rows of all writers in turn, or a contiguous block of each.
    grid = f"{case.writers}x1x1" if case.get(IO500.name) else f"1x1x{case.writers}"
    return [f"--halo 0 --grid {grid}"]


_SHARED_FILE_WRITE = Check("SharedFileWrite", "write shared", ways=WAYS, backends=SHARING)
#: MPI-IO's in it takes turns with an application.
BESIDE_APPLICATION = _SHARED_FILE_WRITE
_METADATA = Check(
    "Metadata",
    "names {files}",
    operation=METADATA,
    parameters=(ITEMS, WRITERS, DIRECTORIES, MDT),
    fixed={"backend": "posix"},
    has_control=False,  # no library has a part in it
    repeats=5,  # ten times as many calls as items in each
    metrics=_NAMES,
    bounds={"items_max": [1, 0, None, "1/s"]},
    bounds_comment="Slower than this, it hangs; bless nights to have more found.",
)
_IOR_PEER = Check(
    "IorPeer",
    "write {files}, IOR",
    parameters=(*SHARED_FILE, IOR_FILES),
    defaults={"files": "shared"},
    fixed={},
    backends=("mpiio", "hdf5", "pnetcdf", "posix"),  # of which IOR has the libraries
    ways=(IO500,),
    is_impossible=_no_ior,
    has_control=False,  # IOR is
    metrics=(*_TOTALS, *_STABLE, *_IOR),
    bounds={"ior_ratio": [1, -0.95, None, "1"]},
    bounds_comment="A twentieth of IOR's rate: of 8 MiB on busy cores a tenth was seen in health.",
    options=_blocks_of_ior,
)


def application(name: str, short: str, program: str, mib: int) -> Check:
    """A check of what an application writes, so many MiB in a round at most; its name stands where
    others have a backend."""
    return Check(
        name,
        short,
        parameters=(LAYOUT, STRIPE_COUNT, STRIPE_SIZE, POOL, WRITERS),
        fixed={"backend": program},
        backends=(program,),
        has_control=False,  # no backend is
        application_mib=mib,
        repeats=3,
        metrics=_APPLICATION,
        bounds=_RATE_BOUND,
        bounds_comment="The floor of total_max only says that something moved.",
    )


#: All of them, in the order in which tables list their cases.
CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        check.name: check
        for check in (
            Check(
                "FilePerProcess",
                "write {files}",
                parameters=(*SHARED_FILE, FILES),
                ways=WAYS,
                fixed={},
            ),
            _SHARED_FILE_WRITE,
            Check(
                "SystemLoad",
                "write shared x{instances}",
                parameters=(*SHARED_FILE, INSTANCES),
                ways=WAYS,
                backends=SHARING,
                metrics=(*_WRITE, "instance_min"),
            ),
            Check(
                "SlowOst",
                "each OST",
                reads_too=True,
                parameters=(STRIPE_SIZE, LOCAL_SIZE, WRITERS),
                # Of two nodes: what one has written, it might read from its cache.
                fixed={"files": "shared", "backend": "mpiio", "stripe_count": 1, "nodes": 2},
                metrics=(*_TOTALS, *_STABLE, "ost_ratio", "ost_read_ratio"),  # and those of OSTs
                repeats=3,  # the best of each OST counts
                bounds={
                    "ost_ratio": [1, -0.5, None, "1"],
                    "ost_read_ratio": [1, -0.5, None, "1"],
                },
                bounds_comment="Half the rate of its peers: the exercises report found all OSTs of "
                "a system of the same order.",
                options=lambda case: ["--targets $TARGETS"],
                needs_stripes=True,
            ),
            _IOR_PEER,
            Check(
                "SharedFileRead",
                "read shared",
                operation="read",
                ways=WAYS_OF_READING,
                backends=SHARING,
                metrics=_READ,
            ),
            Check(
                "FilePerProcessRead",
                "read {files}",
                operation="read",
                parameters=(*SHARED_FILE, FILES),
                ways=WAYS_OF_READING,
                fixed={},
                metrics=_READ,
            ),
            Check(
                "ReadBack",
                "read back",
                operation="read",
                backends=SHARING,
                repeats=3,  # as many files of each backend are kept, and each is read once
                metrics=_READ,
                bounds=_RATE_BOUND,
                bounds_comment="Only that something moved: of few reads, each of another file, no "
                "ratio holds on any machine.",
                reads_existing=True,
            ),
            replace(
                _IOR_PEER,
                name="IorPeerRead",
                short="read {files}, IOR",
                operation="read",
                metrics=(*_TOTALS, *_IOR),
            ),
            _METADATA,
            replace(
                _METADATA,
                name="MdtestPeer",
                short="names {files}, mdtest",
                parameters=(ITEMS, WRITERS, DIRECTORIES),
                ways=(IO500_NAMES,),
                is_impossible=_no_mdtest,
                metrics=(*_NAMES, *_MDTEST),
                bounds={
                    "items_max": [1, 0, None, "1/s"],
                    MDTEST_RATES["create"]: [1, 0, None, "1/s"],
                },
                bounds_comment="Only that both moved: they sync and verify at other times, so no "
                "ratio holds on any machine.",
            ),
            Check(
                "IoProfile",
                "profile shared",
                backends=("mpiio", "hdf5", "netcdf"),
                repeats=1,  # of one, every independent write is seen
                metrics=(),  # Darshan takes time: there is no bandwidth in it
                options=lambda case: ["--warmup 0"],
            ),
            application("GromacsTrajectory", "trajectory", "GROMACS", 64),
            application("Cp2kRestart", "restart and density", "CP2K", 64),
            application("MeepState", "state of fields", "Meep", 96),
            Check(
                "LibraryVersions",
                "versions",
                parameters=(),
                fixed={},
                metrics=(),
                is_everywhere=True,
            ),
        )
    }
)
RANK = {name: number for number, name in enumerate(CHECKS)}
#: Checks of applications, by name.
APPLICATIONS = [name for name, check in CHECKS.items() if check.application_mib]
