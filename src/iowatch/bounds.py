"""Bounds of reference values that hold on any machine."""

from __future__ import annotations

from typing import Any

import yaml

from iowatch.case import Case

_FLOOR = {"total_max": [1, 0, None, "MiB/s"]}
_CLOSE = {"close_fraction": [0, None, 0.25, "1"]}
#: By backend; the header of every generated reference file says why.
GENERAL: dict[str, dict[str, Any]] = {
    "mpiio": _FLOOR | _CLOSE,
    "hdf5": {"ratio": [0.9, -0.5, None, "1"]} | _CLOSE,
    "netcdf": {"ratio": [0.7, -0.5, None, "1"]} | _CLOSE,
    "pnetcdf": {"ratio": [0.7, -0.5, None, "1"]} | _CLOSE,
    "stream": _FLOOR | _CLOSE,
}
SLOW_OST: dict[str, Any] = {"ost_ratio": [1, -0.5, None, "1"]}
IOR_PEER: dict[str, Any] = {"ior_ratio": [1, -0.5, None, "1"]}


def general(case: Case) -> dict[str, Any]:
    """The bounds of a case that has no others."""
    if case.each_ost:
        return SLOW_OST
    return IOR_PEER if case.ior_peer else GENERAL[case.backend]


def flow(value: Any) -> str:
    """YAML in one line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
