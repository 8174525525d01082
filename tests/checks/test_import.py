"""The performance logs of a real night, imported: what its results database holds, exactly."""

from iowatch.history import read

CASE = "small:memory/{}/SharedFileWrite/backend={}/local_size=8x8x8/ranks=2"


def test_logs_of_a_night_are_its_database(measured_night, tmp_path):
    folder, old = measured_night.folder / "run", tmp_path / "old.sqlite"
    logs = sorted((folder / "perflogs").rglob("*.log*"))
    assert [log.name for log in logs if log.name.startswith("SharedFileWrite")]
    done = measured_night._run("iowatch", "import", *logs, "--to", old)
    assert done.returncode == 0, done.stdout
    assert "4 runs of 4 cases" in done.stdout
    assert "2 failed" in done.stdout
    imported = {str(run.case): run for run in read([old])}
    measured = {str(run.case): run for run in read([folder / "results.db"])}
    both = ("mpiio", "hdf5")
    assert set(imported) == {CASE.format(e, b) for e in ("fine", "broken") for b in both}
    for case, run in imported.items():
        assert run.metrics == measured[case].metrics
        assert abs(run.time - measured[case].time).total_seconds() < 1
        assert str(run.outcome) == (
            "ok (imported)" if run.metrics else "failed (job_failed, imported)"
        )
        assert f"state {measured[case].outcome.state}" in run.sentence
    assert all(imported[CASE.format("fine", backend)].metrics for backend in both)


def test_reframe_reads_what_was_imported(measured_night, tmp_path):
    """As any database of its own, and its nightly one is as it was."""
    folder, old = measured_night.folder / "run", tmp_path / "old" / "results.db"
    old.parent.mkdir()
    before = (folder / "results.db").read_bytes()
    log = folder / "perflogs" / "small" / "memory" / "SharedFileWrite.log"
    assert measured_night._run("iowatch", "import", log, "--to", old).returncode == 0
    assert [path.name for path in old.parent.iterdir()] == ["results.db"]
    assert (folder / "results.db").read_bytes() == before
    reframe = ("reframe", "--nocolor", "--system", "small")
    measured_night.environment["RFM_SQLITE_DB_FILE"] = str(old)
    done = measured_night._run(*reframe, "--list-stored-testcases=now-1d:now/mean:/+case_id")
    del measured_night.environment["RFM_SQLITE_DB_FILE"]
    assert done.returncode == 0, done.stdout
    for backend in ("mpiio", "hdf5"):
        rows = [row for row in done.stdout.splitlines() if CASE.format("fine", backend) in row]
        assert any("total_max" in row for row in rows), done.stdout
