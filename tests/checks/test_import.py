"""The performance logs of a real night, imported: what its results database holds, exactly."""

from iowatch.past.history import read

CASE = "small:memory/{}/SharedFileWrite/backend={}/local_size=8x8x8/ranks=2"


def test_logs_of_a_night_are_its_database(measured_night, tmp_path):
    folder, old = measured_night.folder / "run", tmp_path / "old.sqlite"
    logs = sorted((folder / "perflogs").rglob("*.log*"))
    assert [log.name for log in logs if log.name.startswith("SharedFileWrite")]
    done = measured_night._run("iowatch", "import", *logs, "--output", old)
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
