"""The kinds of criteria: each is a class in a module of this folder, and nothing else knows it."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from iowatch.base.bounded import quoted
from iowatch.base.files import UserError
from iowatch.evidence.criteria.criterion import KINDS, Criterion

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def criterion_of(where: str, entry: Any) -> Criterion:
    """Read one criterion of a contract; UserError."""
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"{where}: kind is {quoted(kind)}, not one of {', '.join(sorted(KINDS))}")
    keys = {name: value for name, value in entry.items() if name != "kind"}
    return KINDS[kind].read(f"{where} ({kind})", keys)
