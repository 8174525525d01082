"""`iowatch site check` under Slurm: the job starts on the nodes asked for, or why it does not."""

import re
from contextlib import ExitStack

import pytest
from filesystems.centre import Centre
from filesystems.test_slurm_suite import ONE, left

pytestmark = pytest.mark.slow


def test_places_in_order_and_not(centre: Centre) -> None:
    """One node lacks a filesystem, a module is unknown, and an account is."""
    folder, nodes = centre.slurm.folder, "--nodelist=node1,node2"
    directory = centre.add("fs2", ONE)
    centre.add("fs3", ONE)
    centre.add("modules", ONE, on="fs2")
    centre.add("refused", ONE, on="fs2")
    for partition in centre.partitions:
        partition["access"] = [nodes]
    centre.partitions[2]["prepare_cmds"] = ["module load nosuch/1.0"]
    centre.partitions[3]["access"] = ["--partition=nosuch"]
    with ExitStack() as mounts:
        mount = ("mount", "-t", "tmpfs", "none", folder / "fs3")
        centre.slurm.sh(*centre.slurm.on_node("node2", *mount))
        mounts.callback(centre.slurm.sh, *centre.slurm.on_node("node2", "umount", folder / "fs3"))
        done = centre.run(centre.iowatch("site", "check", "--system", "cluster"))
    assert done.code == 1, done.out + done.err
    places = re.split(r"\ncluster:(\w+), gnu\n", done.out)
    lines = dict(zip(places[1::2], places[2::2], strict=True))
    assert "FIX" not in lines["fs2"]
    assert "ok  launcher   4 ranks on node1, node2; " in lines["fs2"]
    assert f"ok  directory  {directory}, seen from 2 nodes: " in lines["fs2"]
    for place, line in {
        "fs3": rf"FIX directory  {folder}/fs3/iowatch is not the same on node2: ",
        "modules": r"FIX modules    nosuch/1.0 not loaded: .*module: command not found: mend ",
        "refused": r"FIX job        .*nosuch.*: mend 'access' of the partition\n",
    }.items():
        (fault,) = re.findall("FIX .*\n", lines[place])
        assert re.match(line, fault), fault
    assert left(centre, directory) == []
    assert not (centre.folder / "run/results.db").exists()
