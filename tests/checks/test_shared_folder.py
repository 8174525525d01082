"""One folder of a site for several systems, and for the members of a group."""

import stat

import pytest
from conftest import ROOT


@pytest.mark.long
def test_systems_of_one_folder_do_not_judge_each_other(site):
    """Each with the same suites, as two untouched drafts have them, and a night in turn."""
    site.faults = {"gnu": "none"}
    site._write()
    other = (site.folder / "small.py").read_text()
    (site.folder / "other.py").write_text(
        other.replace("'name': 'small'", "'name': 'other'").replace("['small']", "['other']")
    )
    (site.folder / "other.yaml").write_text("general: {}\n")
    files = (ROOT / "site_configs/settings.py", site.folder / "small.py", site.folder / "other.py")
    site.environment["RFM_CONFIG_FILES"] = ":".join(map(str, files))
    for system in ("small", "other", "small", "other"):
        done = site.iowatch("--quiet", "--record", system=system)
        assert done.returncode == 0, done.stdout
        assert "green: 2 cases measured, 0 with a red verdict, 0 problems" in done.stdout


@pytest.mark.long
def test_members_of_a_group_may_write_all_that_one_of_them_has_written(site):
    """The usual umask, which takes that from the group, is for folders of one's own."""
    site.faults = {"gnu": "none"}
    folder = site.folder / "run"
    folder.mkdir()
    folder.chmod(0o2770)
    assert site.iowatch("--quiet", "--record").returncode == 0
    assert site.reframe("-r", "--mode=record").returncode == 0
    written = [path for path in folder.rglob("*") if not path.is_symlink()]
    assert {"results.db", "results.db.runs", ".db.lock", "nightly.small.lock", "reframe.log"} < {
        path.name for path in written
    }
    closed = [path for path in written if not path.stat().st_mode & stat.S_IWGRP]
    assert closed == []
    assert not any(path.stat().st_mode & stat.S_IWOTH for path in written)
