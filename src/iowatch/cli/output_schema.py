"""What commands print with --json: `python -m iowatch.cli.output_schema` prints the schema."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import attrs

from iowatch.adopt.probe import SiteLine
from iowatch.adopt.users_io.proposal_text import SuiteProposal
from iowatch.base.documents import SCHEMA
from iowatch.evidence.dossier import Acceptance
from iowatch.evidence.plan import AcceptancePlan
from iowatch.evidence.sheet import Certificate
from iowatch.judge.backtest import BacktestDocument
from iowatch.night.document import CaseDocument, NightDocument, NightEntry, SystemEntry
from iowatch.night.finding import BlameDocument
from iowatch.night.on_record import CaseHistory
from iowatch.past.cost import RunPlan

_WIDTH = 200


@attrs.frozen
class CommandOutput:
    """One document for each command. Rates are in MiB/s where MiB is 2^20 bytes, or in items/s;
    times are in UTC. What is added keeps the number in `schema`; what is removed, or means
    something else, raises it.
    """

    nights: Annotated[Sequence[NightEntry], "nights: the last first."]
    systems: Annotated[Sequence[SystemEntry], "status: the last night of each system."]
    night: Annotated[NightDocument, "show NIGHT, and report."]
    case: Annotated[CaseDocument, "show CASE, in its last night."]
    cases: Annotated[Sequence[CaseHistory], "history: every case on record."]
    blame: Annotated[BlameDocument, "blame."]
    site_check: Annotated[Sequence[SiteLine], "site check: a line for each thing that was tried."]
    plan: Annotated[RunPlan, "run --plan."]
    suite_proposal: Annotated[
        SuiteProposal, "suite from-darshan: the cases that stand for what users do."
    ]
    acceptance_plan: Annotated[AcceptancePlan, "accept plan."]
    acceptance: Annotated[Acceptance, "accept judge and accept verify."]
    certificate: Annotated[Certificate, "compare, and accept verify of its evidence."]
    backtest: Annotated[Sequence[BacktestDocument], "backtest."]


def schema_text() -> str:
    """Write the schema."""
    defs = dict[str, Any]()
    output = _record(CommandOutput, defs)
    output["properties"] = {"schema": {"const": SCHEMA}, **output["properties"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What iowatch prints with --json",
        **output,
        "required": ["schema"],
        "minProperties": 2,
        "maxProperties": 2,
        "$defs": defs,
    }
    return f"{_lines(schema)}\n"


def _lines(node: Any, indent: str = "") -> str:
    """Write what fits on one line, and else a line for each key."""
    line = json.dumps(node, ensure_ascii=False)
    if len(line) <= _WIDTH or not isinstance(node, dict):
        return line
    keys = [f'{indent}  "{key}": {_lines(inner, f"{indent}  ")}' for key, inner in node.items()]
    return "\n".join(["{", ",\n".join(keys), f"{indent}}}"])


_TYPES = {bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def _schema(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """Describe the values of a type; records go to `defs`, by name."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        node = _schema(args[0], defs)
        for remark in args[1:]:
            node |= {"description": remark} if isinstance(remark, str) else remark
        return node
    if kind is Any:
        return {}
    if origin in (Union, UnionType):
        nodes = [_schema(arg, defs) for arg in args]
        if all({*node} == {"type"} for node in nodes):
            return {"type": [node["type"] for node in nodes]}
        return {"oneOf": nodes}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(args[1], defs)}
    if origin is Sequence:
        return {"type": "array", "items": _schema(args[0], defs)}
    if attrs.has(kind):
        defs.setdefault(kind.__name__, {}).update(_record(kind, defs))
        return {"$ref": f"#/$defs/{kind.__name__}"}
    words = {"enum": [*kind]} if issubclass(kind, StrEnum) else {}
    return {"type": _TYPES.get(kind, "string"), **words}


def _record(kind: type, defs: dict[str, Any]) -> dict[str, Any]:
    """Describe a record by its docstring and its fields."""
    types = get_type_hints(kind, include_extras=True)
    names = [field.name for field in attrs.fields(kind)]
    return {
        "description": " ".join((inspect.getdoc(kind) or "").split()),
        "type": "object",
        "additionalProperties": False,
        "required": names,
        "properties": {name: _schema(types[name], defs) for name in names},
    }


if __name__ == "__main__":
    print(schema_text(), end="")
