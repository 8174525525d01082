"""The disk of the results fills up while a night runs: the night after is well."""


def test_disk_that_fills_up_while_the_night_runs(tmpfs, site):
    """ReFrame makes a database of 0 bytes then, if there is none."""
    disk = tmpfs("size=4m,nr_inodes=500")
    database = disk / "results.db"
    site.faults = {"gnu": "none"}
    site.environment = {"RFM_PREFIX": str(disk), "RFM_SQLITE_DB_FILE": str(database)}

    def fill_up():
        # Never the disk of the machine.
        site.partition["prepare_cmds"] = [
            f"mountpoint -q {disk} && cat /dev/zero > {disk}/full 2> /dev/null"
        ]
        done = site.iowatch("--quiet")
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stdout
        built = f"gnu does not build or run: no room is left on the disk of {disk}/stage/"
        assert built in done.stdout
        assert "make setup" not in done.stdout
        (disk / "full").unlink()
        del site.partition["prepare_cmds"]
        return done.stdout

    spoiled = fill_up()
    assert database.stat().st_size == 0, spoiled
    well = site.iowatch("--quiet")
    assert well.returncode == 0, (spoiled, well.stdout)
    assert "was empty, as a full disk leaves it" in well.stdout
    nights = database.read_bytes()
    spoiled = fill_up()
    assert len(database.read_bytes()) >= len(nights), spoiled


def test_disk_that_fills_up_while_a_case_is_measured(tmpfs, site):
    """As a home does: what has come of the job is cut off or empty."""
    disk = tmpfs("size=8m")
    site.environment = {"RFM_PREFIX": str(disk)}
    site.partition["prepare_cmds"] = [
        f"[[ $PWD != *SharedFileWrite* ]] || ! mountpoint -q {disk} || cat /dev/zero > {disk}/full"
    ]
    done = site.iowatch("--quiet")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "failed (no_output)\n" in done.stdout
    assert f": no room is left on the disk of {disk}/runs/" in done.stdout
