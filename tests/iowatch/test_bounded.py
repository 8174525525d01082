"""What others wrote is read within bounds, whoever reads it, and refused in a line."""

import gzip
import json
import os
from functools import partial

import pytest

from iowatch.base import bounded
from iowatch.base.files import UserError
from iowatch.base.yaml_text import load
from iowatch.evidence import bundle, contract
from iowatch.evidence.stored_run import reading
from iowatch.judge import bless
from iowatch.judge.backtest import past_of_table
from iowatch.measure import job_folder
from iowatch.past import hours
from iowatch.site import declared, references
from iowatch.site.declared import read_outputs

LAUGHS = "\n".join(
    ["- &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
)
MERGED = "\n".join(
    ["a0: &a0 {k: v}"]
    + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 10)]
)


def text(content):
    return lambda file: file.write_text(content)


def link(target):
    return lambda file: file.symlink_to(target)


def huge(file):
    file.touch()
    os.truncate(file, 2**31)


#: What may stand in the place of any file.
NO_FILES = {
    "a device": link("/dev/zero"),
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a huge file": huge,
}
YAMLS = {
    **NO_FILES,
    "aliases of aliases": text(LAUGHS),
    "merged aliases": text(MERGED),
    "a value in itself": text("&a [*a]"),
    "a long text, often": text(f"- &a {'x' * 100_000}\n" + "- *a\n" * 1000),
    "deep": text("[" * 100_000),
    "deep mappings": text("".join(f"{' ' * n}a:\n" for n in range(500))),
    "bytes": lambda file: file.write_bytes(b"\xff\xfe\x00"),
    "a large value": text(f"[[{'[1], ' * 1000}]]"),
}


def in_folder(read, path):
    """A reader of a system's file below a folder."""

    def read_at(file):
        return read("local", file.parents[1])

    return read_at, lambda folder: path("local", folder)


def plain(read):
    return read, lambda folder: folder / "file.yaml"


READERS = {
    "contract": plain(contract.read),
    "exclusions": plain(partial(contract.read_exclusions, rules=None)),
    "reference values": plain(references.ReferenceFile),
    "expected failures": in_folder(declared.read_expected, declared.expected_path),
    "maintenance": in_folder(declared.read_maintenance, declared.maintenance_path),
    "events": in_folder(declared.read_events, lambda s, f: f / "events" / f"{s}.yaml"),
    "outputs": in_folder(read_outputs, lambda s, f: f / "user_outputs" / f"{s}.yaml"),
    "baselines": in_folder(bless.baselines_of, bless.path_of),
}


def refused(read, file):
    """The refusal of a file, in a line that names it."""
    with pytest.raises(UserError) as refusal:
        read(file)
    message = str(refusal.value)
    assert message.startswith(str(file)), message
    assert len(message) < len(str(file)) + 700, message
    return message


@pytest.mark.parametrize("content", YAMLS)
@pytest.mark.parametrize("reader", READERS)
def test_yaml_of_others(tmp_path, reader, content):
    read, path = READERS[reader]
    file = path(tmp_path)
    file.parent.mkdir(exist_ok=True)
    YAMLS[content](file)
    refused(read, file)


def test_aliases_that_a_site_needs_are_read(tmp_path):
    file = tmp_path / "file.yaml"
    entries = "".join(f"case{n}: {{<<: *usual, bound: {n}}}\n" for n in range(2000))
    file.write_text(f"usual: &usual {{value: 1, lower: -0.1, upper: null, unit: MiB/s}}\n{entries}")
    assert load(file)["case7"] == {
        "value": 1,
        "lower": -0.1,
        "upper": None,
        "unit": "MiB/s",
        "bound": 7,
    }


OTHERS = {
    "a table of nights": past_of_table,
    "a bundle": lambda file: bundle.unpack(file, file.parent / "unpacked"),
}


@pytest.mark.parametrize("content", NO_FILES)
@pytest.mark.parametrize("reader", OTHERS)
def test_other_files_of_others(tmp_path, reader, content):
    file = tmp_path / "file"
    NO_FILES[content](file)
    (tmp_path / "unpacked").mkdir()
    if (reader, content) != ("a bundle", "a huge file"):  # of which nothing is read at once
        refused(OTHERS[reader], file)


def test_hours_and_their_lines(tmp_path):
    file = tmp_path / hours.FOLDER / "archer-2026-11.jsonl"
    file.parent.mkdir()
    for content in (*NO_FILES.values(), text("[" * 100_000 + "\n")):
        content(file)
        refused(lambda _: hours.read("archer", [tmp_path], None), file)
        file.rmdir() if file.is_dir() else file.unlink()


def test_json_of_others(tmp_path):
    """In a bundle, a job's folder or beside the database: each reader takes ValueError."""
    file = tmp_path / "site.json"
    for deep in ("[" * 100_000, '{"a":' * 100_000, "[" * 61 + "]" * 61, "[" * 900 + "]" * 900):
        file.write_text(deep)
        with pytest.raises(ValueError, match=r"nested more than 60 deep|Expecting"):
            bounded.json_of(file)
        with pytest.raises(UserError, match="is no evidence that this iowatch"), reading(tmp_path):
            bounded.json_of(file)
    for count in (1, 60):
        file.write_text("[" * count + "]" * count)
        assert json.dumps(bounded.json_of(file)) == file.read_text()


def test_what_is_compressed_is_bounded_too(tmp_path):
    packed = gzip.compress(bytes(2**20))
    assert len(bounded.unpacked(packed, 2**20)) == 2**20
    with pytest.raises(ValueError, match="it has more than 1 MiB"):
        bounded.unpacked(packed, 2**20 - 1)
    file = tmp_path / "result.json.gz"
    file.write_bytes(packed * 300)
    with pytest.raises(ValueError, match="it has more than 256 MiB"):
        job_folder.read_bytes(file)
