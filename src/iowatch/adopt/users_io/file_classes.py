"""The files of a log in classes of accesses, by the counters of Darshan's modules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from pathlib import PurePath
from typing import Literal, NamedTuple

from iowatch.measure.darshan_counts import (
    _BYTES,
    _BYTES_OF,
    _CALLS,
    _NAMES,
    COLLECTIVE,
    DAOS,
    DFS,
    H5D,
    H5F,
    MPIIO,
    PNETCDF_FILE,
    PNETCDF_VAR,
    POSIX,
    SIZES_OF,
    STDIO,
    FileCounts,
    ModuleCounts,
    Operation,
    log2,
)

#: Libraries by the end of a file's name, where Darshan has no module that says it.
_BY_SUFFIX = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".he5": "hdf5", ".nc": "netcdf", ".nc4": "netcdf",
}  # fmt: skip
_PLAIN = {MPIIO: "mpiio", POSIX: "posix", STDIO: "stdio", DFS: "daos", DAOS: "daos"}
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")


NO_LIBRARY = "no library"  # names of files alone say that they are of HDF5 or NetCDF
MAPPED = "mapped"  # has files that are mapped into memory

_SIEVED = 1.5  # times the bytes: they are with gaps
_SPLIT = 2  # times the calls: each is in several pieces
_LARGE = 19  # log2 of bytes: pieces of this size are cut off for another reason
_FEW = 0.75  # of calls that follow no other by chance: half of those in random order go ahead


def classes_of(
    files: Mapping[int, FileCounts],
    names: Mapping[int, str],
    stripes: Mapping[int, str],
    ranks: int,
    notes: set[str],
) -> Iterator[tuple[AccessClass, Amount]]:
    """Sum up the files of a log by classes.

    Which ranks have files by themselves is known when all files are: until then the number of ranks
    of a file is in the place of its class.
    """
    sums: defaultdict[tuple[AccessClass, int], Amount] = defaultdict(Amount)
    # The ranks of a file, by the lowest of them: of files of one rank (True), of some, and of all.
    parties: defaultdict[tuple[str, str, bool], dict[int, int]] = defaultdict(dict)
    opened: Counter[bool] = Counter()  # operations on names, by whether the name is of one rank
    folders, namers = set(), set()
    for key, layers in files.items():
        name = names.get(key, "")
        if name in _STREAMS:
            continue
        if POSIX in layers and layers[POSIX].counts["MMAPS"]:
            notes.add(MAPPED)
        for data in _data_of(layers, name, notes):
            first, movers = data.basis.first.get(data.operation, 0), data.movers
            parties[data.operation, data.library, movers == 1].setdefault(first, movers)
            for access_class, amount in data.classes(stripes.get(key, "")):
                sums[access_class, movers] = sums[access_class, movers].plus(amount)
        for layer in (layers[module] for module in (POSIX, STDIO) if module in layers):
            count = sum(layer.counts[counter] for counter in _NAMES)
            is_of_one = layer.ranks["all"] == 1
            opened[is_of_one] += count
            if is_of_one and count:
                folders.add(hash(name.rpartition("/")[0]))
                namers.add((layer.first["all"], key))
    for (access_class, movers), amount in sums.items():
        party = parties[access_class.operation, access_class.library, movers == 1]
        yield _placed(access_class, movers, ranks, party), amount
    if opened[False]:
        shape = AccessClass("metadata", "posix", "shared", log2(ranks), 0, order="one name")
        yield shape, Amount(opened[False], ranks)
    if opened[True]:
        many = len({rank for rank, _ in namers})
        where: Files = "process" if len(folders) >= many else "shared"
        shape = AccessClass("metadata", "posix", where, log2(many), log2(len(namers) / many))
        yield shape, Amount(opened[True], many, len(namers))


def _placed(
    access_class: AccessClass, movers: int, ranks: int, party: Mapping[int, int]
) -> AccessClass:
    """Say which ranks have the files of a class."""
    if movers == 1:
        if len(party) == 1 and ranks > 1:
            return access_class._replace(files="gather", ranks=log2(ranks))
        return access_class._replace(files="process", ranks=log2(len(party)))
    if movers < ranks and sum(many < ranks for many in party.values()) > 1:
        many = min(sum(party.values()), ranks)
        return access_class._replace(files="groups", ranks=log2(many), per_file=log2(movers))
    return access_class._replace(ranks=log2(movers))


@dataclass
class _FileData:
    """The data of a file that a program has read, or written."""

    layers: FileCounts
    operation: Operation
    basis: ModuleCounts  # has all bytes
    library: str

    @cached_property
    def detail(self) -> ModuleCounts:
        """The counts of the calls that the program has made."""
        if self.library in ("posix", "mpiio"):
            return self.basis
        above = (self.layers[module] for module in SIZES_OF if module in self.layers)
        return next(layer for layer in above if layer.bytes(self.operation))

    @cached_property
    def movers(self) -> int:
        """The ranks that have moved the data; one may have moved all where others opened too."""
        counts = self.basis.counts
        moved = sum(self.basis.bytes(operation) for operation in _BYTES)
        if moved in (counts["FASTEST_RANK_BYTES"], counts["SLOWEST_RANK_BYTES"]):
            return 1
        return max(1, self.basis.ranks[self.operation])

    def classes(self, stripes: str) -> Iterator[tuple[AccessClass, Amount]]:
        """Deal out the bytes of the file by the sizes of its calls."""
        is_collective = self.movers > 1 and self._is_collective
        order = self._order(is_collective)
        is_plain = self.detail is self.basis and self.library in ("posix", "mpiio")
        is_placed = is_plain and not is_collective and order != "blocks"
        posix = self.layers.get(POSIX, ModuleCounts())  # most calls begin where a block does
        is_aligned = 2 * posix.counts["FILE_NOT_ALIGNED"] <= sum(map(posix.calls, _CALLS))
        sizes, moved = self.detail.by_size(self.operation), self.basis.bytes(self.operation)
        whole = sum(sizes.values())
        for number, (size, part) in enumerate(sizes.items()):
            access_class = AccessClass(
                operation=self.operation,
                library=self.library,
                files="shared",
                ranks=0,
                size=size,
                collective=is_collective,
                order=order,
                aligned=is_aligned if is_placed else None,
                stripes=stripes if self.movers > 1 else "",
            )
            # A file is counted once, with most of its bytes.
            yield access_class, Amount(moved * part // whole, *(() if number else (self.movers, 1)))

    @property
    def _is_collective(self) -> bool:
        """Return whether ranks move the data of the file together.

        A library may move what describes the data in the other way. So as many calls have to be
        collective as there are large ones.
        """
        operation, detail = self.operation, self.detail
        if detail is self.layers.get(H5D):
            return detail.counts["USE_MPIIO_COLLECTIVE"] > 0
        below = self.basis.calls(operation, COLLECTIVE)
        if detail is self.layers.get(PNETCDF_VAR) and detail.calls(operation):
            collective = detail.calls(operation, COLLECTIVE)
            if collective or not below:
                return 2 * collective >= detail.calls(operation)
        return below >= max(1, _FEW * self.basis.large_calls(operation))

    def _order(self, is_collective: bool) -> Order:
        """Say in which order the calls of each rank reach the file."""
        operation, detail, basis = self.operation, self.detail, self.basis
        posix = self.layers.get(POSIX, ModuleCounts())
        is_mpiio = basis is self.layers.get(MPIIO)
        if is_collective:
            by_itself = is_mpiio and detail is basis and not basis.counts["VIEWS"]
            return "contiguous" if by_itself else "blocks"
        lower = posix if detail is basis else basis
        if self.movers > 1 and lower is not detail and lower.calls(operation):
            is_small = next(iter(lower.by_size(operation))) < _LARGE
            pieces, calls = lower.large_calls(operation), detail.calls(operation)
            is_sieved = posix.bytes(operation) > _SIEVED * basis.bytes(operation)
            if (is_small and pieces > _SPLIT * calls) or (is_mpiio and is_sieved):
                return "blocks"
        after_another = posix.large_calls(operation) - self.movers
        is_once = detail.large_calls(operation) <= self.movers
        if is_once or 2 * posix.counts[f"CONSEC_{_CALLS[operation]}"] >= after_another:
            return "contiguous"
        if posix.counts[f"SEQ_{_CALLS[operation]}"] < _FEW * after_another:
            return "random"
        return "strided" if self.movers > 1 else "contiguous"


def _data_of(layers: FileCounts, name: str, notes: set[str]) -> Iterator[_FileData]:
    """Return what a program has read of a file, and what it has written."""
    # Below MPI-IO, POSIX has the calls of MPI-IO itself: it reads what it writes around.
    modules = (MPIIO,) if MPIIO in layers else [module for module in _BYTES_OF if module in layers]
    for operation in _BYTES:
        for module in modules:
            if layers[module].bytes(operation):
                library = _library(layers, module, name, notes)
                yield _FileData(layers, operation, layers[module], library)
                break


def _library(layers: FileCounts, module: str, name: str, notes: set[str]) -> str:
    """Name the library through which a program has moved the data of a file."""
    by_name = _BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    if PNETCDF_FILE in layers or PNETCDF_VAR in layers:
        return "pnetcdf"
    if H5F in layers or H5D in layers:
        return by_name or "hdf5"
    if by_name and module in (MPIIO, POSIX):
        notes.add(NO_LIBRARY)
        return by_name
    return _PLAIN[module]


OPERATIONS: tuple[Operation, ...] = ("write", "read", "metadata")

#: Which ranks have a file: all of a job or one group of them, one, several groups of them with a
#: file each, or one rank of many.
Files = Literal["shared", "process", "groups", "gather"]

#: In which order the calls of a rank reach a file: one after the other, with the same gap between
#: them, in no order; or calls that are in several pieces in the file, as of an array's block.
#: Metadata operations are of one name if several ranks open that file.
Order = Literal["contiguous", "strided", "random", "blocks", "one name"]


class AccessClass(NamedTuple):
    """A class by its rounded properties: there are thousands at most, however many the logs."""

    operation: Operation
    library: str  # a backend of benchio's, or stdio or daos
    files: Files
    ranks: int  # log2 of the ranks of a job that move data to such files
    size: int  # log2 of the bytes of a call; for metadata, of the names of a rank
    per_file: int = 0  # log2 of the ranks of a file, where groups of ranks have files
    collective: bool = False
    order: Order = "contiguous"
    aligned: bool | None = None  # None: the library places the data
    stripes: str = ""  # of a shared file on Lustre, such as 4x1; empty: not known, or several


class Amount(NamedTuple):
    """The weight of a class."""

    total: int = 0  # bytes, or metadata operations
    blocks: int = 0  # parts of a file that a rank has moved
    files: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(*map(add, self, other))


@dataclass
class Usage:
    """The classes of many logs, and what is to be said of the logs."""

    classes: dict[AccessClass, Amount] = field(default_factory=dict)
    logs: int = 0  # that were read
    notes: Counter[str] = field(default_factory=Counter)  # logs, by what is to be said of them
    unread: Counter[str] = field(default_factory=Counter)  # logs and folders, by reason

    def add(self, classes: Iterable[tuple[AccessClass, Amount]], notes: Iterable[str] = ()) -> None:
        """Add what a log holds."""
        self.logs += 1
        self.notes.update(notes)
        for access_class, amount in classes:
            self.classes[access_class] = self.classes.get(access_class, Amount()).plus(amount)

    def total(self, operation: Operation) -> int:
        """Return the bytes, or metadata operations, of all classes of an operation."""
        return sum(a.total for c, a in self.classes.items() if c.operation == operation)
