"""Result files and login nodes made up for one test."""

import json

import pytest
from unit.result_file import make_result

from iowatch.result import read_result as load


@pytest.fixture
def spoil(tmp_path):
    """spoil(change, ...): a valid result of CASE, loaded after `change` has changed it."""

    def run(change=lambda result: None, **options):
        result = make_result(**{"backends": ["mpiio", "hdf5"], **options})
        change(result)
        path = tmp_path / "result.json"
        path.write_text(json.dumps(result))
        return load(path)

    return run


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """commands(sinfo="text", ...): a machine that has these commands only, which say that."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(**said):
        for name, text in said.items():
            script = tmp_path / name
            script.write_text(f"#!/bin/sh\n/bin/cat <<'EOF'\n{text}\nEOF\n")
            script.chmod(0o755)

    return make


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """mounted(lustre="fs3", ...): /proc/self/mountinfo of a machine with these in tmp_path."""
    for name in ("SCRATCH", "PSCRATCH", "WORK", "PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "z01")

    def text(*lines):
        table = "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
        for number, (type_, name) in enumerate(lines):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
            table += f"{number} 27 0:{number} / {tmp_path}/{name} rw - {type_} server:/{name} rw\n"
        return table

    return text
