"""`iowatch site check` on this machine: a site in order, and one with a mistake at each place."""

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

    (site.folder / "small.yaml").unlink()
    site.references = None
    done = site_check(site, "small")
    assert done.returncode == 1
    assert "\nFIX references " in done.stdout
    assert done.stdout.endswith("no job was started: mend this first\n")
    done = site_check(site, "smal")
    assert done.returncode == 2
    assert "--system smal: no configuration file has this system" in done.stdout


@pytest.mark.slow  # six jobs
def test_mistakes_of_a_site(site):
    """Each is named at its place, with what to do, and none hides another."""
    site.faults = {"fine": "none", "gone": "broken", "other": "no result"}
    site.environs = {"gone": {"extras": {"benchio": "/nosuch/benchio"}}}
    gone = {"path": f"{site.scratch}/nosuch/iowatch"}
    site.partitions = {
        "memory": {"extras": {"peak": 1}},
        "alone": {"launcher": "local", "environs": ["fine"]},
        "lacking": {"extras": gone, "environs": ["fine"]},
    }
    done = site_check(site, "small")
    assert done.returncode == 1, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("FIX")]
    begins = [
        "FIX ceiling    1 MiB/s; ",
        "FIX job        /nosuch/benchio does not build or run: ",
        "FIX write      benchio: error: stand-in: wrote nothing",
        "FIX launcher   1 rank on ",
        "FIX directory  on ",
    ]
    assert len(lines) == len(begins), done.stdout
    assert all(map(str.startswith, lines, begins)), done.stdout
    assert not site.database.exists()
