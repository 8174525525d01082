"""Applications beside benchio, through ReFrame: real ones where the machine has them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cases import verdict_of
from checks.stand_ins import GROMACS, gromacs, program, set_back
from conftest import LOST_RANK

from iowatch.measure.kinds.application import APPLICATIONS

NAMES = [check.name for check in APPLICATIONS]

REFERENCES = """
GromacsTrajectory: &floor
  small:.*: {total_max: [0.001, 0, null, MiB/s]}
Cp2kRestart: *floor
MeepState: *floor
"""
METRICS = {
    *("total_max", "total_median", "total_mean", "total_min", "stable_max", "stable_median"),
    *("output_s", "sync_s", "ratio"),
}
with_gromacs = pytest.mark.skipif(not shutil.which("gmx_mpi"), reason="there is no gmx_mpi on PATH")
with_cp2k = pytest.mark.skipif(
    not shutil.which("cp2k.psmp"), reason="there is no cp2k.psmp on PATH"
)
with_meep = pytest.mark.skipif(not shutil.which("meep"), reason="there is no meep on PATH")


@pytest.fixture
def application(site):
    """The site, where only GROMACS is asked for."""
    site.write = {"nodes": [1]}
    site.suite = {"GromacsTrajectory": site.write}
    site.references = REFERENCES
    return site


def by_environ(site, repeats):
    more = [word for name in NAMES for word in ("-S", f"{name}.repeats={repeats}")]
    site.said = site.reframe("-r", "-n", "|".join(NAMES), *more).stdout
    return {test["environ"]: test for test in site.report()}


# Environment -> what its sentence says. All of them ended with 0, but for those that say so.
FAULTS = {
    "no input": "the input of GROMACS could not be made: Fatal error: no water",
    "fails": "GROMACS ended with 1: Fatal error: Cannot write trajectory; see application.1.out",
    "no output": "GROMACS ended well and has not written water.trr; see application.1.out",
    "missing frames": "cannot read what it has written: gmx check finds 50 frames of positions and "
    "50 of velocities, of 51; see reader.1.out",
    "other bytes": "water.trr of round 2 has other bytes than that of round 1",
    "no sync": "what GROMACS has written could not be synced; see application.1.out",
    "no times": "GROMACS says that its output took None s of a run of ",
}


def decimal_commas(folder):
    """Variables of a user whose awk writes them; none where a locale has no source."""
    if not Path("/usr/share/i18n/locales/de_DE").exists():
        print("not tried with decimal commas: there are no sources of locales")
        return []
    locale = folder / "de_DE.UTF-8"
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", locale], check=True)
    return [["LOCPATH", str(folder)], ["LC_ALL", locale.name]]


def test_only_what_an_application_can_read_again_counts(application, tmp_path):
    environs = application.environs
    for fault in ["none", *FAULTS]:
        gromacs(application, fault.replace(" ", "-"), f'FAULT="{fault}" exec {GROMACS} "$@"')
    # One node's data are not stable; the others' are, before mpirun ends them for that.
    fails = 'case "$OMPI_COMM_WORLD_RANK $*" in 1*fsync) sleep 1; exit 1 ;; esac\nexec /bin/dd "$@"'
    sync = application.program("no-sync", "dd", fails)
    environs["no-sync"]["env_vars"] = [["PATH", f"{sync.parent}:$PATH"]]
    # Read past the page cache, or said to be read from it.
    dd = application.program("none", "dd", f'echo "$*" >> {tmp_path}/dd\nexec /bin/dd "$@"')
    environs["none"]["env_vars"] = [["PATH", f"{dd.parent}:$PATH"], *decimal_commas(tmp_path)]
    set_back(application, "set-back")  # GROMACS may have timed its output by that clock
    gromacs(application, "set-back", f'exec {GROMACS} "$@"')
    environs["gone"] = {"extras": {"gromacs": "/nowhere/gmx_mpi"}}
    # Debian has it beside all other programs: these are linked one by one.
    links = tmp_path / "bin"
    links.mkdir()
    for file in Path("/usr/bin").iterdir():
        if not file.name.startswith("gmx"):
            (links / file.name).symlink_to(file)
    environs["without"] = {"env_vars": [["PATH", str(links)]]}
    # mpirun of Open MPI 4 alone fails, of GROMACS or of benchio, and all rounds are verified.
    says = f'[ "$1 $OMPI_COMM_WORLD_RANK" != "mdrun 0" ] || {{ echo "{LOST_RANK}" >&2; exit 1; }}'
    gromacs(application, "lost", f'{GROMACS} "$@" || exit\n{says}')
    gromacs(application, "late", f'exec {GROMACS} "$@"')
    environs["late"]["env_vars"] = [["STAND_IN_SAYS", f"'{LOST_RANK}'"]]
    gromacs(application, "stopped", f'exec {GROMACS} "$@"')
    faults = {"late": "ends late", "stopped": "no result"}
    application.faults = dict.fromkeys(environs, "none") | faults
    found = by_environ(application, repeats=2)
    assert verdict_of(found["none"]) == "ok", found["none"]["sentence"]
    for name in ("lost", "late"):
        assert verdict_of(found[name]) == "ok", found[name]["sentence"]
        assert Path(found[name]["kept"], "application.2.json").exists()
    assert "after its result was written: its launcher ended with 1: " in found["late"]["sentence"]
    assert list(application.scratch.iterdir()) == []
    for fault, says in FAULTS.items():
        test = found[fault.replace(" ", "-")]
        assert (test["result"], test["state"]) == ("fail", "failed"), fault
        assert says in test["sentence"], test["sentence"]
        assert test["metrics"] == {}, fault
    assert verdict_of(found["set-back"]) == "unjudged (wrong_clock)", found["set-back"]["sentence"]
    assert re.match(r"the clock of \S+ was set back by (4\.9|5)", found["set-back"]["sentence"])
    assert found["set-back"]["metrics"] == {}
    files = {name: {file.name for file in Path(test["kept"]).glob("*")}
             for name, test in found.items() if test["kept"]}  # fmt: skip
    # The first failure ends the job.
    assert verdict_of(found["stopped"]) == "failed (no_output)"
    assert "said.1" in files["stopped"]
    assert "said.2" not in files["stopped"]
    for fault in ("fails", "no-output", "missing-frames"):
        assert "application.1.json" in files[fault], fault
        assert "application.2.json" not in files[fault], fault
    reads = [line for line in (tmp_path / "dd").read_text().splitlines() if "bs=4M" in line]
    assert "iflag=direct" in reads[0]
    assert verdict_of(found["gone"]) == "failed (not_installed)"
    assert "there is no program /nowhere/gmx_mpi" in found["gone"]["sentence"]
    assert "name as 'gromacs': mend the path there" in found["gone"]["sentence"]
    assert verdict_of(found["without"]) == "skipped (not_installed)"
    assert "there is no gmx_mpi on PATH or in Spack: `spack install gromacs`" in application.said


@with_gromacs
@pytest.mark.slow
def test_a_trajectory_of_gromacs(application):
    """Two rounds of the real one; and one where a trajectory is cut off, by what GROMACS finds."""
    gromacs(application, "real", 'exec gmx_mpi "$@"')
    cut = '[ "$1 $OMPI_COMM_WORLD_RANK" != "mdrun 0" ] || truncate -s -300000 water.trr'
    gromacs(application, "cut", f'gmx_mpi "$@" || exit\n{cut}')
    application.injected = {"real": "", "cut": ""}  # the real benchio
    found = by_environ(application, repeats=2)
    test = found["real"]
    assert verdict_of(test) == "ok", test["sentence"]
    metrics = {name: entry[0] for name, entry in test["metrics"].items()}
    assert set(metrics) == METRICS
    first, second = (
        json.loads(Path(test["kept"], f"application.{number}.json").read_text())
        for number in (1, 2)
    )
    mib = 51 * (21087 * 24 + 144) / 2**20  # of 3 coordinates and 3 velocities, and what leads in
    assert metrics["total_max"] == pytest.approx(
        mib / min(first["output_s"], second["output_s"]), rel=1e-3
    )
    assert metrics["stable_max"] < metrics["total_max"]
    assert first["files"] == second["files"]
    said = test["provenance"]["confirmed"]
    assert said.startswith("the same bytes in all rounds, ")
    assert said.endswith("gmx check finds 51 frames of positions and 51 of velocities, of 51")
    assert test["provenance"]["GROMACS"].startswith("20")
    assert "Write traj." in Path(test["kept"], "application.2.out").read_text()
    assert verdict_of(found["cut"]) == "failed (corrupt)"
    assert "finds 50 frames of positions and 50 of velocities" in found["cut"]["sentence"]


@with_cp2k
@pytest.mark.slow
def test_cp2k_goes_on_from_what_it_has_written(application):
    """Spoilt are: a block of a density, the wave function, without which it begins anew, and a
    density that is not there."""
    application.suite = {"Cp2kRestart": application.write}
    first = '[ "${2##*/} $OMPI_COMM_WORLD_RANK" != "h2.inp 0" ] ||'
    hole = "dd if=/dev/zero of=h2-ELECTRON_DENSITY-1_1.cube bs=4k seek=9 count=1 conv=notrunc"
    for environ, spoil in (
        ("real", "true"),
        ("hole", hole),
        ("anew", "head -c 228 /dev/zero > h2-RESTART.wfn"),
        ("fewer", "rm h2-ELECTRON_DENSITY-1_2.cube"),
    ):
        program(application, environ, "cp2k.psmp", f'cp2k.psmp "$@" || exit\n{first} {spoil}')
    application.injected = dict.fromkeys(application.environs, "")
    found = by_environ(application, repeats=1)
    test = found["real"]
    assert verdict_of(test) == "ok", test["sentence"]
    assert set(test["metrics"]) == METRICS
    said = test["provenance"]["confirmed"]
    assert said == "in part, 3 densities of 2 electrons each, and CP2K goes on from step 2"
    assert {verdict_of(found[environ]) for environ in ("hole", "anew", "fewer")} == {
        "failed (corrupt)"
    }
    assert "there are 2 densities, of 3" in found["fewer"]["sentence"]
    assert "h2-ELECTRON_DENSITY-1_1.cube has " in found["hole"]["sentence"]
    assert "CP2K cannot read what it has written: CP2K " in found["anew"]["sentence"]


@with_meep
@pytest.mark.slow
def test_meep_goes_on_from_what_it_has_written(application, need):
    """Spoilt are: a block of the fields, the end of a file, and a file that is another's. A Meep
    that is not parallel would be as many as there are tasks. In `real`, the first process prints so
    slowly that the other prints between its words."""
    application.suite = {"MeepState": application.write}
    ended = '[ "${1##*/} $OMPI_COMM_WORLD_RANK" != "light.ctl 0" ] ||'
    first = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] ||'
    alone = f"""{first} exit 0
for name in $(env | grep -oE '^(OMPI|PMIX|ORTE)_[^=]*' | grep -v ALLOW); do unset $name; done"""
    slowly = f"{need('strace')} -f -o /dev/null -e trace=write -e inject=write:delay_enter=5000"
    program(application, "real", "meep", f'{first} exec meep "$@"\nexec {slowly} meep "$@"')
    program(application, "serial", "meep", f'{alone}\nexec meep "$@"')
    for environ, spoil in (
        ("hole", "dd if=/dev/zero of=fields-2.h5 bs=4k seek=3000 count=1 conv=notrunc"),
        ("cut", "truncate -s 10M fields-3.h5"),
        ("other", "cp fields-1.h5 fields-3.h5"),
        ("gone", "rm fields-2.h5"),
    ):
        program(application, environ, "meep", f'meep "$@" || exit\n{ended} {spoil}')
    application.injected = dict.fromkeys(application.environs, "")
    found = by_environ(application, repeats=2)
    test = found.pop("real")
    assert verdict_of(test) == "ok", test["sentence"]
    assert set(test["metrics"]) == METRICS
    mib = 3 * 12 * 62 * 62 * 62 * 8 / 2**20  # E, D, B and H, and a voxel around either half
    said = test["provenance"]
    assert said["confirmed"] == (
        "in part, Meep goes on from 3 states, of 3, with the energy that there was"
    )
    assert said["Meep"].startswith("1.")
    one = json.loads(Path(test["kept"], "application.1.json").read_text())
    assert sum(file["bytes"] for file in one["files"]) / 2**20 == pytest.approx(mib, rel=0.1)
    cannot = "Meep cannot read what it has written: Meep"
    for environ, says in (
        ("hole", f"{cannot} goes on with energy "),
        ("cut", f"{cannot} cannot go on"),
        ("other", f"{cannot} goes on with energy "),
        ("gone", "Meep ended well and has not written fields-2.h5"),
        ("serial", "Meep ended with 1: error: this Meep does not run as 2 processes of MPI"),
    ):
        test = found.pop(environ)
        assert (test["state"], test["metrics"]) == ("failed", {}), (environ, test["sentence"])
        assert says in test["sentence"], test["sentence"]
    assert found == {}
