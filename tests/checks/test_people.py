"""What people put on record, with the real ReFrame: a fault that is known, and a new name."""

from datetime import UTC, datetime, timedelta

from iowatch import __version__, bless, build, history

SLOW = "SharedFileWrite:\n  small:{}/.*:\n    ratio: [100, -0.5, null, '1']\n"


def test_fault_is_acknowledged_and_its_filesystem_gets_another_name(site):
    site.faults = {"gnu": "none"}
    site.write |= {"backend": ["hdf5"]}
    site.references = SLOW.format("memory")
    night = site.iowatch("--quiet")
    assert night.returncode == 1, night.stdout
    until = datetime.now(UTC).date() + timedelta(days=2)  # it may be midnight soon
    acknowledged = site._run(
        "iowatch", "ack", "hdf5 on memory", "--until", until, "--why", "it is slow", "--owner",
        "jane", "--ticket", "OPS-1", "--system", "small",
    )  # fmt: skip
    assert acknowledged.returncode == 0, acknowledged.stdout

    site.partitions = {"ram": {}}
    site.references = None  # the command writes them
    renamed = site._run("iowatch", "rename", "small:memory", "small:ram", "--why", "its new name")
    assert renamed.returncode == 0, renamed.stdout
    assert "0 baselines and 2 cases of 1 night on record follow\n" in renamed.stdout
    assert (site.folder / "small.yaml").read_text() == SLOW.format("ram")
    night = site.iowatch("--quiet")
    assert night.returncode == 0, night.stdout
    said = f"expected until {until}, jane, ticket OPS-1: it is slow"
    assert "regression" in night.stdout
    assert "known)" in night.stdout
    assert said in " ".join(night.stdout.split())
    assert "note: " not in night.stdout
    listed = site._run("iowatch", "history")
    assert "small:ram/gnu/" in listed.stdout
    assert "small:memory/" not in listed.stdout
    for run in history.read([site.database]):
        assert run.provenance["iowatch"] == build.version(__version__)
        assert "/runs/" in run.folder
    assert not bless.path_of("small", site.folder).exists()
