"""The files of a log in classes of accesses, by the counts of Darshan's modules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from iowatch.users_io.access_class import (
    BLOCKS,
    CONTIGUOUS,
    GATHER,
    GROUPS,
    METADATA,
    NAMES,
    PROCESS,
    RANDOM,
    READ,
    SAME_NAME,
    SHARED,
    STRIDED,
    WRITE,
    AccessClass,
    Amount,
    log2,
)

# Modules of Darshan
POSIX, STDIO, MPIIO, H5F, H5D = "POSIX", "STDIO", "MPI-IO", "H5F", "H5D"
PNETCDF_FILE, PNETCDF_VAR, DFS, DAOS = "PNETCDF_FILE", "PNETCDF_VAR", "DFS", "DAOS"

#: Modules that count the bytes of a file, the nearest to the program first. Those that know of
#: datasets and variables come first where the sizes of calls are asked for.
_BYTES_OF = (MPIIO, POSIX, STDIO, DFS, DAOS)
SIZES_OF = (H5D, PNETCDF_VAR, *_BYTES_OF)
BELONGING = (H5D, PNETCDF_VAR)  # whose records belong to a file
NAMING = (H5F, PNETCDF_FILE)  # whose records say which library a file is of

#: Libraries by the end of a file's name, where Darshan has no module that says it.
_BY_SUFFIX = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".he5": "hdf5", ".nc": "netcdf", ".nc4": "netcdf",
}  # fmt: skip
_PLAIN = {MPIIO: "mpiio", POSIX: "posix", STDIO: "stdio", DFS: "daos", DAOS: "daos"}
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")

#: Bins of the sizes of calls: the end of their names, and the most bytes in each.
BINS = {
    "0_100": 100, "100_1K": 2**10, "1K_10K": 10 * 2**10, "10K_100K": 100 * 2**10,
    "100K_1M": 2**20, "1M_4M": 4 * 2**20, "4M_10M": 10 * 2**20, "10M_100M": 100 * 2**20,
    "100M_1G": 2**30, "1G_PLUS": 2**32,
}  # fmt: skip
_EDGES = (1, *BINS.values())

ALL = "all"  # ranks that have a file open

# What is to be said of a log
PARTIAL = "partial"  # Darshan had too little memory for it
NO_LIBRARY = "no library"  # names of files alone say that they are of HDF5 or NetCDF
MAPPED = "mapped"  # has files that are mapped into memory

_SIEVED = 1.5  # times the bytes: they are with gaps
_SPLIT = 2  # times the calls: each is in several pieces
_LARGE = 19  # log2 of bytes: pieces of this size are cut off for another reason
_FEW = 0.75  # of calls that follow no other by chance: half of those in random order go ahead
_MOST = 2**60  # bytes that a file may have moved; more is no count


class UnreadableLog(Exception):
    """A log cannot be counted; the message says why, without a name."""


@dataclass(slots=True)
class ModuleCounts:
    """The counts of one module for one file."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)  # calls of the commonest sizes
    movers: Counter[str] = field(default_factory=Counter)  # ranks that read, that write, and all
    first: dict[str, int] = field(default_factory=dict)  # the lowest of these


FileCounts = dict[str, ModuleCounts]


def classes_of(
    files: Mapping[int, FileCounts], names: Mapping[int, str], ranks: int, notes: set[str]
) -> Iterator[tuple[AccessClass, Amount]]:
    """Sum up the files of a log by classes.

    Which ranks have files by themselves is known when all files are: until then the number of ranks
    of a file is in the place of its class.
    """
    sums: defaultdict[tuple[AccessClass, int], Amount] = defaultdict(Amount)
    alone: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    groups: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    naming: defaultdict[str, int] = defaultdict(int)
    folders, namers = set(), set()
    for key, layers in files.items():
        name = names.get(key, "")
        if name in _STREAMS:
            continue
        if layers.get(POSIX, ModuleCounts()).counts["maps"] > 0:
            notes.add(MAPPED)
        for operation in (READ, WRITE):
            # Below MPI-IO, POSIX has the calls of MPI-IO itself: it reads what it writes around.
            modules = (MPIIO,) if MPIIO in layers else _BYTES_OF
            basis = next((m for m in modules if _moved(layers, m, operation)), None)
            if basis is None:
                continue
            library = _library(layers, basis, name, notes)
            layer = layers[basis]
            movers = 1 if _is_by_one(layer) else max(1, layer.movers[operation])
            if movers == 1:
                alone[operation, library].add(layer.first.get(operation, 0))
            elif movers < ranks:
                groups[operation, library].setdefault(layer.first[operation], movers)
            for access_class, amount in _of_file(layers, basis, operation, library, movers):
                sums[access_class, movers] += amount
        for module in (POSIX, STDIO):
            layer = layers.get(module, ModuleCounts())
            if layer.movers[ALL] > 1:
                naming[SAME_NAME] += layer.counts["names"]
            elif layer.counts["names"]:
                naming[NAMES] += layer.counts["names"]
                folders.add(hash(PurePath(name).parent))
                namers.add((layer.first[ALL], key))
    for (access_class, movers), amount in sums.items():
        known = (access_class.operation, access_class.library)
        yield _placed(access_class, movers, ranks, alone[known], groups[known]), amount
    yield from _names(naming, namers, len(folders), ranks)


def _moved(layers: FileCounts, module: str, operation: str) -> int:
    moved = layers[module].counts[f"{operation} bytes"] if module in layers else 0
    if moved > _MOST:
        raise UnreadableLog("its counts are no counts of bytes")
    return moved


def _is_by_one(counts: ModuleCounts) -> bool:
    """Return whether a single rank has moved all data of a file that other ranks opened as well."""
    sums = counts.counts
    moved = sums["read bytes"] + sums["write bytes"]
    return moved in (sums["fastest"], sums["slowest"])


def _library(layers: FileCounts, basis: str, name: str, notes: set[str]) -> str:
    """Name the library through which a program has moved the data of a file."""
    by_name = _BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    if PNETCDF_FILE in layers or PNETCDF_VAR in layers:
        return "pnetcdf"
    if H5F in layers or H5D in layers:
        return by_name or "hdf5"
    if by_name and basis in (MPIIO, POSIX):
        notes.add(NO_LIBRARY)
        return by_name
    return _PLAIN[basis]


def _of_file(
    layers: FileCounts, basis: str, operation: str, library: str, movers: int
) -> Iterator[tuple[AccessClass, Amount]]:
    """Deal out the bytes of a file, in one operation, by the sizes of its calls."""
    above = SIZES_OF if library not in ("posix", "mpiio") else (basis,)
    detail = next(layers[m] for m in (*above, basis) if _moved(layers, m, operation))
    sizes = _by_size(detail, operation)
    is_collective = movers > 1 and _is_collective(layers, basis, detail, operation, sizes)
    order = _order(layers, basis, detail, operation, movers, sizes, is_collective)
    is_plain = library in ("posix", "mpiio") and not is_collective and order != BLOCKS
    aligned = _is_aligned(layers) if is_plain else None
    count = _moved(layers, basis, operation)
    whole = sum(sizes.values())
    for number, (size, moved) in enumerate(sizes.items()):
        access_class = AccessClass(
            operation=operation,
            library=library,
            files=SHARED,
            ranks=0,
            size=size,
            collective=is_collective,
            order=order,
            aligned=aligned,
        )
        part = count * moved // whole
        # A file is counted once, with most of its bytes.
        yield access_class, Amount(part, movers if number == 0 else 0, int(number == 0))


def _by_size(layer: ModuleCounts, operation: str) -> dict[int, int]:
    """Return the bytes of calls of each size, its log2, the most bytes first.

    Calls of a bin are of the commonest size in it, if one is known: the four commonest sizes are of
    reads and writes together.
    """
    moved: Counter[int] = Counter()
    bins = {name: layer.counts[f"{operation} {name}"] for name in BINS}
    filled = [name for name, calls in bins.items() if calls]
    for number, (name, most) in enumerate(BINS.items()):
        if not bins[name]:
            continue
        least = _EDGES[number]
        common = {size: calls for size, calls in layer.sizes.items() if least < size <= most}
        size = (least * most) ** 0.5
        if len(filled) == 1:
            size = max(1.0, layer.counts[f"{operation} bytes"] / bins[name])
        elif common:
            size = sum(s * n for s, n in common.items()) / sum(common.values())
        moved[log2(size)] += max(1, round(bins[name] * size))
    if not moved:  # a module without bins
        calls = max(1, layer.counts[f"{operation} calls"])
        moved[log2(layer.counts[f"{operation} bytes"] / calls)] = 1
    return dict(moved.most_common())


def _is_collective(
    layers: FileCounts, basis: str, detail: ModuleCounts, operation: str, sizes: Mapping[int, int]
) -> bool:
    """Return whether ranks move the data of a file together.

    A library may move what describes the data in the other way. So as many calls have to be
    collective as there are large ones.
    """
    if H5D in layers and detail is layers[H5D]:
        return detail.counts["collective data"] > 0
    layer = layers[basis]
    if PNETCDF_VAR in layers and detail is layers[PNETCDF_VAR] and _calls(detail, operation):
        collective = detail.counts[f"{operation} collective"]
        independent = detail.counts[f"{operation} calls"] - collective
        if collective or not layer.counts[f"{operation} collective"]:
            return collective >= independent
    large = _large_calls(layer, operation, sizes)
    return layer.counts[f"{operation} collective"] >= max(1, _FEW * large)


def _large_calls(layer: ModuleCounts, operation: str, sizes: Mapping[int, int]) -> int:
    """Count the calls that move most of the data: others move what describes them."""
    usual = next(iter(sizes))
    return sum(
        layer.counts[f"{operation} {name}"] for name, most in BINS.items() if log2(most) >= usual
    )


def _calls(layer: ModuleCounts, operation: str) -> int:
    return layer.counts[f"{operation} calls"]


def _order(
    layers: FileCounts,
    basis: str,
    detail: ModuleCounts,
    operation: str,
    movers: int,
    sizes: Mapping[int, int],
    is_collective: bool,
) -> str:
    """Say in which order the calls of each rank reach the file."""
    layer, posix = layers[basis], layers.get(POSIX, ModuleCounts())
    if is_collective:
        by_itself = basis == MPIIO and detail is layer and not layer.counts["views"]
        return CONTIGUOUS if by_itself else BLOCKS
    lower = posix if detail is layer else layer
    if movers > 1 and lower is not detail and _calls(lower, operation):
        of_lower = _by_size(lower, operation)
        pieces = _large_calls(lower, operation, of_lower)
        is_small = next(iter(of_lower)) < _LARGE
        is_split = is_small and pieces > _SPLIT * _calls(detail, operation)
        is_sieved = basis == MPIIO and posix.counts[f"{operation} bytes"] > (
            _SIEVED * layer.counts[f"{operation} bytes"]
        )
        if is_split or is_sieved:
            return BLOCKS
    if _large_calls(detail, operation, sizes) <= movers:
        return CONTIGUOUS
    after_another = _large_calls(posix, operation, _by_size(posix, operation)) - movers
    if 2 * posix.counts[f"{operation} consecutive"] >= after_another:
        return CONTIGUOUS
    if posix.counts[f"{operation} sequential"] < _FEW * after_another:
        return RANDOM
    return STRIDED if movers > 1 else CONTIGUOUS


def _is_aligned(layers: FileCounts) -> bool:
    """Return whether most calls begin where a block of the filesystem does."""
    counts = layers.get(POSIX, ModuleCounts()).counts
    return 2 * counts["unaligned"] <= counts["read calls"] + counts["write calls"]


def _placed(
    access_class: AccessClass,
    movers: int,
    ranks: int,
    alone: set[int],
    groups: Mapping[int, int],
) -> AccessClass:
    """Say which ranks have the files of a class."""
    if movers == 1:
        files = GATHER if len(alone) == 1 and ranks > 1 else PROCESS
        many = ranks if files == GATHER else len(alone)
        return replace(access_class, files=files, ranks=log2(many))
    if movers < ranks and len(groups) > 1:
        many = sum(groups.values())
        return replace(
            access_class, files=GROUPS, ranks=log2(min(many, ranks)), per_file=log2(movers)
        )
    return replace(access_class, ranks=log2(movers), per_file=log2(movers))


def _names(
    naming: Mapping[str, int], namers: set[tuple[int, int]], folders: int, ranks: int
) -> Iterator[tuple[AccessClass, Amount]]:
    """Sum up the metadata operations of a log."""
    by_itself = {rank for rank, _ in namers}
    for order, count in naming.items():
        if not count:
            continue
        is_own = order == NAMES
        many = len(by_itself) if is_own else ranks
        yield (
            AccessClass(
                operation=METADATA,
                library="posix",
                files=PROCESS if is_own and folders >= many else SHARED,
                ranks=log2(many),
                size=log2(len(namers) / many) if is_own else 0,
                order=order,
            ),
            Amount(count, many, len(namers) if is_own else 0),
        )
