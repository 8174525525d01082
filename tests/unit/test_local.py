"""The site configuration and reference values of system local."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from iowatch.checks import CHECKS, SWEEPS
from iowatch.site import read_filesystem
from iowatch.verdict import read_references

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=SWEEPS)
def cases(request):
    """Every case of a sweep with its check."""
    config = runpy.run_path(ROOT / "site_configs" / "local.py")["site_configuration"]
    filesystems = [
        read_filesystem("local", part["name"], part["environs"], part["extras"], ["local.py"])
        for part in config["systems"][0]["partitions"]
    ]
    return [
        (check, filesystem.case("gnu", check, setting))
        for filesystem in filesystems
        for check in CHECKS
        for setting in filesystem.settings(request.param, check)
    ]


def test_all_backends_on_both_filesystems(cases):
    assert {case.partition for _, case in cases} == {"disk", "tmpfs"}
    assert {case.backend for _, case in cases} == {"mpiio", "hdf5", "netcdf", "pnetcdf", "stream"}
    assert {check for check, _ in cases} == set(CHECKS) - {"SlowOst", "IorPeer", "IorPeerRead"}


def test_every_case_has_exactly_one_entry_of_usable_references(cases):
    references = yaml.safe_load((ROOT / "reference_values" / "local.yaml").read_text())
    for check, case in cases:
        entries = references[check]
        assert entries["$index"] == ["case_id"]
        (entry,) = [entries[key] for key in entries if re.match(f"^{key}$", str(case))]
        assert read_references(case, entry)
