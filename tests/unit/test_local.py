"""The site configuration and reference values of system local."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from iowatch.site import read_filesystem
from iowatch.verdict import read_references

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cases():
    config = runpy.run_path(ROOT / "site_configs" / "local.py")["site_configuration"]
    partitions = config["systems"][0]["partitions"]
    return {
        case
        for part in partitions
        for case in read_filesystem(
            "local", part["name"], part["environs"], part["extras"], ["local.py"]
        ).cases()
    }


def test_all_backends_on_both_filesystems(cases):
    assert len(cases) == 12
    assert {case.partition for case in cases} == {"disk", "tmpfs"}
    assert {case.backend for case in cases} == {"mpiio", "hdf5", "netcdf"}


def test_every_case_has_exactly_one_entry_of_usable_references(cases):
    references = yaml.safe_load((ROOT / "reference_values" / "local.yaml").read_text())
    entries = references["SharedFileWrite"]
    assert entries.pop("$index") == ["case_id"]
    for case in cases:
        (entry,) = [entry for key, entry in entries.items() if re.match(f"^{key}$", str(case))]
        assert read_references(case.backend, entry)
