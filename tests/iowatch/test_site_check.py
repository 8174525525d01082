"""What `iowatch site check` says of a job, from the files that the job has left."""

import json

import pytest
from result_file import make_result
from rich.console import Console

from iowatch.adopt import site_check
from iowatch.adopt.probe import outcome, setting_at
from iowatch.base.documents import document
from iowatch.site.suites import read_filesystem

SUITE = {"SharedFileWrite": {"backend": ["hdf5"], "local_size": [64], "nodes": [1, 2]}}
EXTRAS = {
    "filesystem": "scratch",
    "path": "/scratch/iowatch",
    "type": "tmpfs",
    "peak": 1e5,
    "osts": None,
    "cached_reads": False,
    "ranks_per_node": 2,
    "keep_days": 60,
    "suites": {"nightly": SUITE, "acceptance": {}},
}
NODES = "node1\nnode1\nnode2\nnode2\n"
SCRIPT = """\
#!/bin/bash
module load gcc/12
module load hdf5
# iowatch: the environment ends here
"""
#: What a job leaves where all is in order; of a file that is None there is nothing.
LEFT = {
    "rfm_job.sh": SCRIPT,
    "rfm_job.err": "",
    "modules": "gcc/12.2:hdf5/1.14.3:gcc/12\n",
    "program": "benchio 0.1.0\nmpiio  Open MPI 4.1.4\nhdf5  1.14.3\nnetcdf  4.9.0\n",
    "ranks": NODES,
    "ranks.err": "",
    "seen": NODES,
    "room": "1048576\n-1\n",
    "quotas": "",
    "filesystem": "tmpfs at /scratch on node1\nnone\n/scratch\nrw,size=1g\n",
    "fstab": "# made up\nnone /scratch tmpfs defaults 0 0\nnone /scratch\\040b tmpfs rw 0 0\n",
}


@pytest.fixture
def tell(tmp_path):
    """tell(failed, FILE=text, ...): the lines of a job at a place with these extras."""

    def lines(failed="", why="", extras=None, **files):
        place = read_filesystem("hydra", "scratch", ["gnu"], {**EXTRAS, **(extras or {})}, [])
        files = LEFT | {name.replace("_", "."): text for name, text in files.items()}
        files["rfm_job.sh"], files["rfm_job.err"] = SCRIPT, files.get("err", "")
        result = make_result(backends=["mpiio"], ranks=4, local_size=(64, 64, 64), repeats=3)
        files["result.json"] = json.dumps(result)
        for name, text in files.items():
            (tmp_path / name).unlink(missing_ok=True)
            if text is not None:
                (tmp_path / name).write_text(text)
        return [str(line) for line in outcome(tmp_path, place, "gnu", failed, why)]

    return lines


def test_all_is_in_order(tell):
    *lines, ceiling = tell()
    assert lines == [
        "ok  launcher   4 ranks on node1, node2",
        "ok  modules    gcc/12, hdf5",
        "ok  program    benchio 0.1.0; mpiio Open MPI 4.1.4; hdf5 1.14.3; netcdf 4.9.0",
        "ok  directory  /scratch/iowatch, seen from 2 nodes: tmpfs at /scratch on node1, mounted "
        "from none with rw,size=1g",
        "ok  room       1 GiB free; needed at one time: nightly 16 MiB",
        "ok  quota      none is known to be set",
    ]
    assert ceiling.startswith("ok  ceiling    100000 MiB/s; ")


def test_another_mpis_launcher_is_no_launcher(tell):
    """It starts as many processes as were asked for, and benchio refuses them."""
    failed = "mpirun of MPICH started it: start it by the launcher of that MPI"
    lines = tell(failed, "configuration", result_json=None)
    assert lines[0] == (f"FIX launcher   {failed}: mend 'launcher' and 'access' of the partition")
    assert sum(line.startswith("FIX") for line in lines) == 1


def test_the_job_is_as_wide_as_the_widest_case_of_a_night():
    wide = {**SUITE, "Metadata": {"items": [1], "files": ["shared"], "nodes": [4]}}
    suites = {
        "nightly": wide,
        "acceptance": {**SUITE, "Metadata": {**wide["Metadata"], "nodes": [9]}},
    }
    extras = {**EXTRAS, "suites": suites, "type": "lustre", "osts": [0, 1]}
    suites["nightly"]["SharedFileWrite"] = {**SUITE["SharedFileWrite"], "layout": ["default"]}
    suites["acceptance"]["SharedFileWrite"] = suites["nightly"]["SharedFileWrite"]
    setting = setting_at(read_filesystem("hydra", "scratch", ["gnu"], extras, []))
    assert (setting.nodes, setting.ranks_per_node) == (4, 2)
    assert setting.text == "backend=mpiio/layout=default/local_size=64x64x64/ranks=8"


NO_MODULE = "Lmod has detected the following error: unknown module: hdf5\n"


@pytest.mark.parametrize(
    ("left", "line"),
    [
        ({"program": None, "failed": "it waits"}, "FIX job        it waits"),
        (
            {"ranks": "", "ranks_err": "rfm_job.sh: srun: command not found\n"},
            "FIX launcher   no rank started: rfm_job.sh: srun: command not found: mend 'launcher' "
            "and 'access' of the partition",
        ),
        (
            {"ranks": "node1\n" * 4},
            "FIX launcher   4 ranks on node1, and 4 on 2 nodes were asked for: mend 'launcher' and "
            "'access' of the partition",
        ),
        (
            {"modules": "gcc/12\n", "err": NO_MODULE},
            f"FIX modules    hdf5 not loaded: {NO_MODULE[:-1]}: mend 'modules' of environment "
            "'gnu', or of the partition",
        ),
        # An alias, of which the shell does not complain.
        ({"modules": "gcc/12:phdf5/1.14\n"}, "ok  modules    gcc/12, hdf5"),
        (
            {"program": "libmpi.so: no such file\n"},
            "FIX program    benchio does not run: libmpi.so: no such file: name one that runs "
            "on the nodes as 'benchio' in the extras of environment 'gnu'",
        ),
        (
            {"program": "benchio 1\nmpiio  MPICH\nhdf5  not built in\n"},
            "FIX program    benchio has no hdf5: build it with hdf5, or leave that out of the "
            "suites",
        ),
        (
            {"room": None, "failed": "mktemp: Read-only file system"},
            "FIX directory  mktemp: Read-only file system: mend that, or 'path' of partition "
            "scratch",
        ),
        (
            {"room": None, "failed": "no quota is left", "why": "quota"},
            "FIX quota      no quota is left: mend that, or 'path' of partition scratch",
        ),
        (
            {"seen": "node1\n", "failed": "rank 2: realpath"},
            "FIX directory  /scratch/iowatch is not the same on node2: mount it there, or leave "
            "these nodes out by 'access'",
        ),
        (
            {"quotas": "kib 512 user 1\nnames 900 user 1\nkib 1024 project 7\n"},
            "FIX quota      512 KiB left to user 1; needed at one time: nightly 16 MiB: have it "
            "raised, or choose smaller cases",
        ),
        (
            {"quotas": "names 1 project 7\nkib 99999 user 1\n"},
            "FIX quota      1 file left to project 7; needed at one time: nightly 3 files: have it "
            "raised, or choose smaller cases",
        ),
        (
            {"room": "1048576\n0\n"},
            "FIX room       0 files more can be there; needed at one time: nightly 3 files: make "
            "room, or choose smaller cases",
        ),
        (
            {"filesystem": "ext4 u-u-i-d at / on node1\n/dev/sda\n/\nrw\n"},
            "FIX directory  /scratch/iowatch is on ext4 u-u-i-d at / on node1, mounted from "
            "/dev/sda with rw, and /etc/fstab has a mount point /scratch above it: mount that",
        ),
        (
            {"failed": "filesystem is nfs, not tmpfs", "why": "wrong_filesystem"},
            "FIX write      filesystem is nfs, not tmpfs: see 'type' or 'path' of partition "
            "scratch",
        ),
    ],
)
def test_what_is_to_be_mended(tell, left, line):
    lines = tell(**left)
    assert line in lines, "\n".join(lines)
    assert [other for other in lines if other.startswith("FIX")] in ([line], [])


def test_ceiling_beside_what_was_measured(tell):
    low, high = (tell(extras={"peak": peak})[-1] for peak in (1, 12.5e9))
    assert low.startswith("FIX ceiling    1 MiB/s; ")
    rate = float(low.split("; ")[1].split()[0])
    near = [tell(extras={"peak": part * rate})[-1][:11] for part in (0.9, 1.1)]
    assert near == ["FIX ceiling", "ok  ceiling"]
    assert low.endswith(" MiB/s written and verified: raise 'peak', which nothing may exceed")
    assert high.endswith(": mend 'peak', which is in MiB/s: 2 nodes cannot move as much")


def test_no_job_is_started_before_the_files_are_in_order(monkeypatch, tmp_path, capsys, documented):
    monkeypatch.setenv("RFM_PREFIX", str(tmp_path))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "none"))
    monkeypatch.setattr(site_check, "_run", lambda *_: pytest.fail("a job was started"))
    tried = site_check.check_site("local", [], Console())
    assert not all(line["ok"] for line in documented(document(site_check=tried))["site_check"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("FIX references")]
    assert lines[-1] == "no job was started: mend this first"


def test_module_that_is_not_there_is_named_on_the_line_of_modules(tell):
    """ReFrame's word has the whole of what the module command printed, base64 and all."""
    printed = (
        "[jobid=None] spawned process error: command 'lmod python load nosuch' failed with exit "
        "code 1:\n--- stdout ---\n"
        'os.environ["_ModuleTable001_"] = "X01vZHVsZVRhYmxlXyA9IHsKTVR2ZXJzaW9uID0gMywKY19yZWJ1";\n'
        "--- stdout ---\n--- stderr ---\nLmod has detected the following error: The following "
        'module(s) are unknown: "nosuch"\n--- stderr ---\n'
    )
    refused = (
        printed.partition("--- stderr")[0] + "--- stderr ---\nsbatch: error: no\n--- stderr ---"
    )

    def lines(reason):
        place = read_filesystem("hydra", "scratch", ["gnu"], EXTRAS, [])
        test = {"name": "SiteProbe", "partition": "scratch", "environ": "gnu", "result": "fail"}
        _, why, _ = site_check._ended(place, "gnu", [test | {"fail_reason": reason}])
        return tell(why, program=None)

    remedy = "mend 'modules' of environment 'gnu', or of the partition"
    unknown = 'The following module(s) are unknown: "nosuch"'
    assert lines(printed) == [f"FIX modules    {unknown}: {remedy}"]
    assert lines(refused) == ["FIX job        sbatch: error: no: mend 'access' of the partition"]
