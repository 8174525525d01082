"""Versions of I/O libraries, and those that are known to be slow on a type of filesystem."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from iowatch.cases.parameters import SHARING
from iowatch.measure.kinds.kind import Kind
from iowatch.measure.result import VERSION_NUMBER

VERSIONS = Kind(
    name="LibraryVersions", short="versions", parameters=(), fixed={}, is_everywhere=True
)


#: A library, its first and last version that is slow on a type of filesystem, and why.
#: The white paper, section 6: "HDF5 Performance" found all versions on ARCHER slow, "from the
#: default 1.8.14 to the most current 1.10.0"; "NetCDF Performance" says "avoid the use of NetCDF
#: versions 4.3.3.1 and below", section 7 "versions of NetCDF below 4.4.0".
KNOWN_FAULTS = [
    ("hdf5", (1, 8, 14), (1, 10, 0), "lustre",
     "H5Fclose sets the file's size, which is slow on Lustre (white paper, section 6)"),
    ("netcdf", (0,), (4, 3, 3, 1), "lustre",
     "netCDF below 4.4.0 closes files through that path of HDF5 (white paper, section 6)"),
]  # fmt: skip

_LINE = re.compile(rf"^({'|'.join(SHARING)}) +(\S.*?) *$", re.MULTILINE)


def read_versions(text: str) -> dict[str, str]:
    """The version of each library in what `benchio --version` prints."""
    return dict(_LINE.findall(text))


def known_faults(versions: Mapping[str, str], filesystems: Collection[str]) -> list[str]:
    """A sentence for each library whose version is known to be slow on one of these types."""
    return [
        f"{library} {versions[library]}: {reason}"
        for library, first, last, filesystem, reason in KNOWN_FAULTS
        if filesystem in filesystems
        and (number := VERSION_NUMBER.search(versions.get(library, "")))
        and first <= tuple(map(int, number[0].split("."))) <= last
    ]
