"""YAML that people write: no key twice, and no number that YAML reads otherwise than they do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from iowatch.files import UserError


def text_of(file: Path) -> str:
    """Read a file; FileNotFoundError if there is none, UserError if it cannot be read."""
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as err:
        why = err.strerror if isinstance(err, OSError) else err
        raise UserError(f"{file}: cannot be read: {why}") from None


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


class _Loader(yaml.SafeLoader):
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
