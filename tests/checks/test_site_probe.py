"""`iowatch site check` on this machine."""

import sys

import pytest


def site_check(site, system):
    return site._run(sys.executable, "-m", "iowatch", "site", "check", "--system", system)


@pytest.mark.long
def test_site_in_order(site):
    """It has nothing on record afterwards: no night, no raw results and no test of ReFrame's."""
    done = site_check(site, "small")
    assert done.returncode == 0, done.stdout
    assert "FIX" not in done.stdout
    for line in (
        "launcher   2 ranks on ",
        "program    benchio ",
        "ceiling    1000000 MiB/s; ",
        "night      2 jobs; ",
    ):
        assert f"\nok  {line}" in done.stdout, done.stdout
    assert done.stdout.endswith("all is in order: iowatch run --system small --record\n")
    left = {file.name for file in (site.folder / "run").iterdir()}
    assert left <= {"nightly.small.lock", "reframe.beside.log"}
    assert [file for file in site.scratch.iterdir() if file.name != ".iowatch.lock"] == []
