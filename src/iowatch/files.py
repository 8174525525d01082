"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

ROOM = 2**20  # bytes; with less, a job script or what a job says may be cut off


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path`, or of what that links to, at the end;
    none is left if that fails.

    UserError if it cannot be written, or if `path` is a device or a pipe, which would be gone.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: cannot be written: it is no regular file")
        # Made here and now: what others have put in its place is not written through.
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
        temporary.replace(target)
    except OSError as err:  # Pillow's have no number
        raise UserError(f"{path}: cannot be written: {err.strerror or err}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def no_room(*folders: Path) -> str:
    """The first of these folders whose disk is full, in words; empty: all have room."""
    for folder in folders:
        with suppress(OSError):
            disk = os.statvfs(folder)
            # Some disks do not count files, and have none.
            if disk.f_bavail * disk.f_frsize < ROOM or (disk.f_files and not disk.f_favail):
                return f"no room is left on the disk of {folder}"
    return ""


class UserError(Exception):
    """A mistake in what was given: the message is one line that says what and what to do.

    Not one of ReFrame's own exceptions: with those it would skip a check and exit with 0.
    """

    def __str__(self) -> str:  # what was given may be anything
        return one_line(super().__str__())


def one_line(text: str) -> str:
    """A text without line breaks, and with a question mark for what does not print."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def brief(value: float) -> str:
    """To four digits or to the unit, and never with an exponent for large ones."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


class BadYaml(Exception):
    """A text cannot be used; one line says why."""


def text_of(path: Path) -> str:
    """What the file says; FileNotFoundError if there is none, BadYaml if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise
    except OSError as err:
        raise BadYaml(f"cannot be read: {err.strerror}") from None
    except UnicodeDecodeError as err:
        raise BadYaml(f"cannot be read: {err}") from None


def load_yaml(text: str) -> Any:
    """What the text says; BadYaml."""
    try:
        return yaml.load(text, _Loader)
    except Exception as err:  # of many kinds: `until: 2026-02-30` is a ValueError
        raise BadYaml(" ".join(str(err).split())) from None


class _Loader(yaml.SafeLoader):
    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Only as people read it: to YAML 010 is 8, and 1:30 is 90."""
        text = str(node.value)
        if not re.fullmatch(r"[-+]?(0|[1-9][\d_]*)", text):
            line = node.start_mark.line + 1
            raise BadYaml(
                f"line {line}: {text} is no number as people write it: mend it, or quote it"
            )
        return super().construct_yaml_int(node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Looks at the keys before `<<` is merged: what it brings may be changed."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if first := lines.get((key.tag, key.value)):
                raise BadYaml(
                    f"line {line}: key {key.value!r} stands in line {first} already: remove one"
                )
            lines[key.tag, key.value] = line
        return node


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
