"""Login nodes, result files of benchio and locks of other processes, made up for one test."""

import json
import subprocess
import sys
from contextlib import contextmanager
from importlib.resources import files

import jsonschema
import pytest
from clock import clock  # noqa: F401
from login_node import findmnt, say
from result_file import make_result

from iowatch.adopt import mounts
from iowatch.measure.result import read_result


@pytest.fixture
def spoil(tmp_path):
    """spoil(change, ...): a valid result of CASE, loaded after `change` has changed it."""

    def run(change=lambda result: None, **options):
        result = make_result(**{"backends": ["mpiio", "hdf5"], **options})
        change(result)
        path = tmp_path / "result.json"
        path.unlink(missing_ok=True)  # what is written over goes to the disk at once
        path.write_text(json.dumps(result))
        return read_result(path)

    return run


@pytest.fixture(scope="session")
def documented():
    """documented(text): what `--json` printed, which is as the schema in the package says."""
    schema = json.loads(files("iowatch").joinpath("iowatch.output-1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)

    def read(text):
        read_document = json.loads(text)
        checker.validate(read_document)
        return read_document

    return read


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


@pytest.fixture
def locked_elsewhere():
    """locked_elsewhere(file): another process holds this lock inside the block."""

    @contextmanager
    def held(file):
        program = (
            "import fcntl, sys; "
            f"lock = open({str(file)!r}, 'a'); fcntl.flock(lock, fcntl.LOCK_EX); "
            "print(flush=True); sys.stdin.read()"
        )
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", program], **pipes) as other:
            other.stdout.readline()
            yield
            other.stdin.close()

    return held
