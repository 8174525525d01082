"""YAML that people write: no key twice, no number that YAML reads otherwise than they do, and no
alias that stands for much more than is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from iowatch.base.bounded import DEEPEST, reason_of, regular_text
from iowatch.base.files import UserError

MOST = 2**23  # bytes of a file
_VALUE = 64  # of the weight of a value, besides the characters of a text
_ALIASED = 2**23  # of the weight of all values, with whatever is not written but by an alias


def text_of(file: Path) -> str:
    """Read a file; FileNotFoundError if there is none, UserError if it cannot be read."""
    try:
        return regular_text(file, MOST)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as err:
        raise UserError(f"{file}: cannot be read: {reason_of(err)}") from None


def load(file: Path, text: str | None = None) -> Any:
    """Read a YAML file, or this text in its place; FileNotFoundError, UserError."""
    text = text_of(file) if text is None else text
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as err:
        line = f"line {err.problem_mark.line + 1}: " if err.problem_mark else ""
        why = line + ", ".join(filter(None, [err.context, err.problem]))
    except Exception as err:  # of many kinds: `until: 2026-02-30` is a ValueError
        why = str(err)
    raise UserError(f"{file}: {' '.join(why.split())}")


def _weight(node: yaml.Node, weights: dict[yaml.Node, int]) -> int:
    """How much a node stands for: a value, and each character of a text, as often as it is said."""
    if node not in weights:
        weights[node] = -1  # until it is known
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inside = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            inside = node.value
        itself = _VALUE + (0 if inside else len(node.value))
        weights[node] = itself + sum(_weight(part, weights) for part in inside)
    elif weights[node] < 0:
        raise ValueError(f"line {node.start_mark.line + 1}: a value stands in itself")
    return weights[node]


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuses what is nested too deeply."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"line {self.line + 1}: it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Refuses a text whose aliases stand for much more than is written."""
        node, weights = super().get_single_node(), dict[yaml.Node, int]()
        if node and _weight(node, weights) > _ALIASED + 2 * _VALUE * len(weights):
            raise ValueError("its aliases stand for too much: write out what is meant")
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Only as people read it: to YAML 010 is 8, and 1:30 is 90."""
        text = str(node.value)
        if not re.fullmatch(r"[-+]?(0|[1-9][\d_]*)", text):
            line = node.start_mark.line + 1
            raise ValueError(
                f"line {line}: {text} is no number as people write it: mend it, or quote it"
            )
        return super().construct_yaml_int(node)

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> Any:
        """A day or a time that there is."""
        try:
            return super().construct_yaml_timestamp(node)
        except (ValueError, OverflowError) as err:
            line = node.start_mark.line + 1
            raise ValueError(f"line {line}: {node.value} is no day or time: {err}") from None

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Looks at the keys before `<<` is merged: what it brings may be changed."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if first := lines.get((key.tag, key.value)):
                raise ValueError(
                    f"line {line}: key {key.value!r} stands in line {first} already: remove one"
                )
            lines[key.tag, key.value] = line
        return node


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_timestamp)
