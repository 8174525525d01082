"""Login nodes, and result files of benchio, made up for one test."""

import json

import pytest
from login_node import findmnt, say
from result_file import make_result

from iowatch.adopt import mounts
from iowatch.result import read_result


@pytest.fixture
def spoil(tmp_path):
    """spoil(change, ...): a valid result of CASE, loaded after `change` has changed it."""

    def run(change=lambda result: None, **options):
        result = make_result(**{"backends": ["mpiio", "hdf5"], **options})
        change(result)
        path = tmp_path / "result.json"
        path.write_text(json.dumps(result))
        return read_result(path)

    return run


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """commands(sinfo="text", ...): a machine that has these commands only, which say that."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return lambda **said: say(tmp_path, **said)


@pytest.fixture
def mounted(tmp_path, monkeypatch, commands):
    """mounted(("lustre", "fs3"), ...): what a machine mounts that has a disk and, in tmp_path,
    these."""
    for name in ("SCRATCH", "PSCRATCH", "WORK", "PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "z01")

    def read(*given):
        for _, name in given:
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        commands(
            findmnt=findmnt(*((kind, "server:/", f"{tmp_path}/{name}") for kind, name in given))
        )
        return mounts.read_mounts()

    return read
