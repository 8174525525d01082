"""What the suites of most sites have alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from iowatch.kinds.application import APPLICATIONS
from iowatch.kinds.ior import EASY, HARD, IO500_CALL
from iowatch.parameters import DEFAULT, parse_size

#: A layout of files on a filesystem that is not striped.
PLAIN: Mapping[str, Sequence[Any]] = MappingProxyType({})

#: Processes on a node: what is computed is small, and few processes write it in any case.
_OF_AN_APPLICATION = 4

#: Files of each process, as in the sites' suites of Metadata.
_ITEMS = 100

#: Of a profile: white paper, 24 ranks; of fewer, headers could not be told from data.
_PROFILE = {"backend": ["mpiio", "hdf5", "netcdf"], "local_size": [32], "nodes": [1]}


def second_opinions(
    size: int | str,
    nodes: int,
    shared: Mapping[str, Sequence[Any]] = PLAIN,
    own: Mapping[str, Sequence[Any]] = PLAIN,
    reads: bool = True,
    profile: Mapping[str, Sequence[Any]] = PLAIN,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The checks IorPeer, IorPeerRead and IoProfile of the suites `nightly` and `acceptance`, and
    those of applications: few in a night; for an acceptance test each library that IOR has, with
    one file and with one of each process, IO500's ior-easy and ior-hard, all applications, and the
    check MdtestPeer, also as IO500's mdtest-easy and mdtest-hard.

    `size` is a local size of a multiple of 2 MiB, which ior-hard rounds to its own rows; `shared`
    is the layout of one file, `own` that of one of each process. Without `reads` IOR reads nothing,
    as from a cache; `profile` has `ranks_per_node` where there are fewer than 12 on a node.
    """
    at = {"local_size": [size], "nodes": [nodes]}
    one, each = {**at, **shared}, {**at, **own, "files": ["process"]}
    edge = max(1, math.isqrt(8 * math.prod(parse_size(size)) // IO500_CALL[HARD]))
    rows = f"{IO500_CALL[HARD] // 8}x{edge}x{edge}"
    night = [{**one, "backend": ["posix"]}]  # no library between either program and its calls
    every = [
        {**one, "backend": ["posix", "mpiio", "hdf5", "pnetcdf"]},
        {**each, "backend": ["posix", "mpiio", "hdf5"]},
        {**each, "backend": ["posix"], "io500": [EASY]},
        {**one, "backend": ["posix"], "io500": [HARD], "local_size": [rows]},
    ]
    profiles = [{**_PROFILE, **shared, **profile}]
    users = {"layout": [DEFAULT]} if shared else {}  # who ask for none
    applications = [check.name for check in APPLICATIONS]
    application = [{**users, "nodes": [nodes], "ranks_per_node": [_OF_AN_APPLICATION]}]
    names = {"items": [_ITEMS], "nodes": [nodes]}
    mdtest = [
        {**names, "files": ["shared", "process"]},
        {**names, "files": ["process"], "io500": [EASY]},
        {**names, "files": ["shared"], "io500": [HARD]},
    ]
    return {
        suite: {
            "IorPeer": cases,
            **({"IorPeerRead": cases} if reads else {}),
            **({"MdtestPeer": mdtest} if suite == "acceptance" else {}),
            "IoProfile": profiles,
            **dict.fromkeys(programs, application),
        }
        for suite, cases, programs in (
            ("nightly", night, applications[:1]),
            ("acceptance", every, applications),
        )
    }
