"""Suites that most sites ask for: other programs beside benchio, and programs that learn."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from iowatch.cases.parameters import BACKENDS, DEFAULT, parse_size
from iowatch.measure.kinds.application import APPLICATIONS
from iowatch.measure.kinds.ior import EASY, HARD, IO500_CALL

#: A layout of files on a filesystem that is not striped.
PLAIN: Mapping[str, Sequence[Any]] = MappingProxyType({})

#: Processes on a node: what is computed is small, and few processes write it in any case.
_OF_AN_APPLICATION = 4

#: Files of each process, as in the sites' suites of Metadata.
_ITEMS = 100

#: Profile: white paper, 24 ranks; with fewer, headers could not be told from data.
_PROFILE = {"local_size": [32], "nodes": [1]}


def second_opinions(
    size: int | str,
    nodes: int,
    shared: Mapping[str, Sequence[Any]] = PLAIN,
    per_process: Mapping[str, Sequence[Any]] = PLAIN,
    reads: bool = True,
    profile: Mapping[str, Sequence[Any]] = PLAIN,
    backends: Collection[str] = BACKENDS,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Cross-checks of the suites `nightly` and `acceptance`: IOR, mdtest, Darshan, applications.

    A night has few of them. An acceptance test has all applications, mdtest and IO500's patterns.
    It also has each library of IOR, with a shared file and with a file per process.

    `size` is a local size of a multiple of 2 MiB, which ior-hard rounds to its rows. `shared` is
    the layout of a shared file, `per_process` the layout of a file per process. Without `reads`
    IOR reads nothing, as from a cache. `profile` has `ranks_per_node` where a node has fewer than
    12. `backends` are the libraries that benchio has.
    """
    at = {"local_size": [size], "nodes": [nodes]}
    one_file = {**at, **shared}
    file_each = {**at, **per_process, "files": ["process"]}
    edge = max(1, math.isqrt(8 * math.prod(parse_size(size)) // IO500_CALL[HARD]))
    rows = f"{IO500_CALL[HARD] // 8}x{edge}x{edge}"
    night = [{**one_file, "backend": ["posix"]}]  # no library between either program and its calls
    every = [
        {**one_file, "backend": ["posix", *_among(["mpiio", "hdf5", "pnetcdf"], backends)]},
        {**file_each, "backend": ["posix", *_among(["mpiio", "hdf5"], backends)]},
        {**file_each, "backend": ["posix"], "io500": [EASY]},
        {**one_file, "backend": ["posix"], "io500": [HARD], "local_size": [rows]},
    ]
    profiled = {"backend": _among(["mpiio", "hdf5", "netcdf"], backends)}
    profiles = [{**_PROFILE, **profiled, **shared, **profile}]
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


def _among(names: Sequence[str], backends: Collection[str]) -> list[str]:
    return [name for name in names if name in backends]


#: After MLPerf Storage: ResNet-50's images, in files of 137 MiB; CosmoFlow's universes.
_IMAGE, _IMAGES_OF_A_FILE, _UNIVERSE = "110KiB", 1280, "2688KiB"
#: A shard of a checkpoint, and the shards of a rank in a night and in an acceptance test.
_SHARD, _SHARDS, _MORE_SHARDS = "64MiB", 2, 8
#: Files of an installed Python environment with a library for learning.
_ENVIRONMENT = 50_000


def learning(
    samples: int,
    files: int,
    nodes: int,
    layout: Mapping[str, Sequence[Any]] = PLAIN,
    shard: str = _SHARD,
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Reads and checkpoints of programs that learn, for the suites `nightly` and `acceptance`.

    A night reads so many samples on each rank, from few large files, and a tree of so many files.
    It writes two shards of a checkpoint on each rank. An acceptance test writes eight, and also
    reads small files of one sample, larger samples, and an environment.
    """
    at = {"nodes": [nodes], **layout}
    images = {**at, "items": [samples], "sample": [_IMAGE]}
    large = {**images, "per_file": [_IMAGES_OF_A_FILE]}
    universes = {**at, "items": [max(1, samples // 20)], "sample": [_UNIVERSE], "per_file": [1]}
    return {
        "nightly": {
            "SampleReads": [large],
            "EnvironmentStart": [{**at, "items": [files]}],
            "Checkpoint": [{**at, "items": [_SHARDS], "sample": [shard]}],
        },
        "acceptance": {
            "SampleReads": [large, {**images, "per_file": [1]}, universes],
            "EnvironmentStart": [{**at, "items": [_ENVIRONMENT]}],
            "Checkpoint": [{**at, "items": [_MORE_SHARDS], "sample": [shard]}],
        },
    }
