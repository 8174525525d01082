"""The identity of a case: the key of every figure, reference value and plot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

#: Elements of 8 bytes in x, y, z.
Size = tuple[int, int, int]

_SIZE = re.compile(r"[1-9]\d*(x[1-9]\d*x[1-9]\d*)?", re.ASCII)
_NAME = r"[A-Za-z0-9_.-]+"
_CASE = re.compile(
    rf"(?P<system>{_NAME}):(?P<partition>{_NAME})/(?P<environ>{_NAME})/(?P<operation>{_NAME})"
    rf"/(?P<files>{_NAME})/(?P<backend>{_NAME})"
    r"/count=(?P<stripe_count>none|-1|[1-9]\d*)/size=(?P<stripe_size>none|[1-9]\d*)"
    r"/local=(?P<local_size>\d+x\d+x\d+)/writers=(?P<writers>[1-9]\d*)"
    r"(/instances=(?P<instances>[1-9]\d*))?(?P<each_ost>/offset=each)?(?P<ior_peer>/peer=ior)?",
    re.ASCII,
)


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


def parse_stripe(text: str) -> int | None:
    """A stripe count or stripe size; `none` means that the filesystem is not striped."""
    return None if text == "none" else int(text)


def format_stripe(value: int | None) -> str:
    """The inverse of `parse_stripe`."""
    return "none" if value is None else str(value)


@dataclass(frozen=True)
class Case:
    """What was measured and where.

    The string form has no `|` (ReFrame's perflog delimiter, and an operator in the regular
    expressions that reference files use as keys). The last three fields are in it where they apply.
    """

    system: str
    partition: str  # a node type seen with one filesystem
    environ: str
    operation: str  # write, read
    files: str  # shared, process, node, or a number of files
    backend: str  # mpiio, hdf5, netcdf, pnetcdf, stream
    stripe_count: int | None  # OSTs; -1: all of them; None: not striped
    stripe_size: int | None  # MiB; None: not striped
    local_size: Size  # of one writer
    writers: int  # of all instances together
    instances: int | None = None  # of a load test: independent concurrent benchmarks
    each_ost: bool = False  # one OST after the other, instead of those the filesystem chooses
    ior_peer: bool = False  # in turn with IOR, which writes the same bytes

    def __str__(self) -> str:
        return (
            f"{self.system}:{self.partition}/{self.environ}/{self.operation}/{self.files}"
            f"/{self.backend}/count={format_stripe(self.stripe_count)}"
            f"/size={format_stripe(self.stripe_size)}/local={format_size(self.local_size)}"
            f"/writers={self.writers}"
            + ("" if self.instances is None else f"/instances={self.instances}")
            + ("/offset=each" if self.each_ost else "")
            + ("/peer=ior" if self.ior_peer else "")
        )

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case with this string form; ValueError if it is not one."""
        match = _CASE.fullmatch(text)
        if not match:
            raise ValueError(f"not a case: {text!r}")
        fields: dict[str, Any] = match.groupdict()
        return cls(
            **{
                **fields,
                "stripe_count": parse_stripe(fields["stripe_count"]),
                "stripe_size": parse_stripe(fields["stripe_size"]),
                "local_size": parse_size(fields["local_size"]),
                "writers": int(fields["writers"]),
                "instances": fields["instances"] and int(fields["instances"]),
                "each_ost": fields["each_ost"] is not None,
                "ior_peer": fields["ior_peer"] is not None,
            }
        )
