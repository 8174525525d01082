"""The performance logs of a real night, imported: what its results database holds, exactly."""

import pytest

from iowatch.history import read

CASE = "small:memory/{}/write/shared/{}/count=none/size=none/local=8x8x8/writers=2"


@pytest.fixture(scope="module")
def site_after_a_night(module_site):
    """Two cases with other figures that are fine, and two that are invalid."""
    module_site.faults = {"fine": "none", "broken": "cut off"}
    module_site.write["backend"] = ["mpiio", "hdf5"]
    assert module_site.reframe("-r", "--mode=record").returncode == 1
    return module_site


def test_logs_of_a_night_are_its_database(site_after_a_night, tmp_path):
    run, old = site_after_a_night.folder / "run", tmp_path / "old.sqlite"
    logs = sorted((run / "perflogs").rglob("*.log*"))
    assert [log.name for log in logs if log.name.startswith("SharedFileWrite")]
    done = site_after_a_night._run("iowatch", "import", *logs, "--to", old)
    assert done.returncode == 0, done.stdout
    assert "4 run(s) of 4 case(s)" in done.stdout
    assert "2 invalid" in done.stdout
    imported = {str(record.case): record for record in read([old])}
    measured = {str(record.case): record for record in read([run / "results.db"])}
    both = ("mpiio", "hdf5")
    assert set(imported) == {CASE.format(e, b) for e in ("fine", "broken") for b in both}
    for case, record in imported.items():
        assert record.figures == measured[case].figures
        assert abs(record.time - measured[case].time).total_seconds() < 1
        assert record.verdict == ("imported" if record.figures else "invalid")
        assert f"verdict {measured[case].verdict}" in record.sentence
    assert all(imported[CASE.format("fine", backend)].figures for backend in both)


def test_reframe_reads_what_was_imported(site_after_a_night, tmp_path):
    """As any database of its own, and its nightly one is as it was."""
    run, old = site_after_a_night.folder / "run", tmp_path / "old" / "results.db"
    old.parent.mkdir()
    before = (run / "results.db").read_bytes()
    log = run / "perflogs" / "small" / "memory" / "SharedFileWrite.log"
    assert site_after_a_night._run("iowatch", "import", log, "--to", old).returncode == 0
    assert [path.name for path in old.parent.iterdir()] == ["results.db"]
    assert (run / "results.db").read_bytes() == before
    reframe = ("reframe", "--nocolor", "--system", "small")
    site_after_a_night.environment["RFM_SQLITE_DB_FILE"] = str(old)
    done = site_after_a_night._run(*reframe, "--list-stored-testcases=now-1d:now/mean:/+case_id")
    del site_after_a_night.environment["RFM_SQLITE_DB_FILE"]
    assert done.returncode == 0, done.stdout
    for backend in ("mpiio", "hdf5"):
        rows = [row for row in done.stdout.splitlines() if CASE.format("fine", backend) in row]
        assert any("total_max" in row for row in rows), done.stdout
