"""One allocation for all cases of a filesystem, with a stand-in for Slurm whose squeue often fails;
a real Slurm is in tests/filesystems."""

import os
import sys
from pathlib import Path

import pytest
from cases import verdict_of

#: They keep what is asked of them in `asked`, beside them, and refuse whatever else they are asked.
SLURM = {
    "sbatch": """\
[[ "$*" == "--parsable --job-name=iowatch_memory --dependency=singleton --nodes=1 "\
"--ntasks-per-node=2 --time=2:00:00 --output=/dev/null --wrap while "* ]] || exit 1
printf 'Welcome to 2 clusters\\n77\\n'  # as a centre's sbatch greets""",
    "scancel": '[ "$*" = 77 ] && touch ended',
    # Every other answer is that of a controller which begins anew, unless this one is steady.
    "squeue": """\
case "$*" in
"-h -u $(id -un) -o %A %T %L") ;;
"-h -a -t R -o job %A %D" | "-h -j 77 -o %N" | "-h -a -t R -w "*" -o here %A") exit ;;
*) exit 1 ;;
esac
if [ ! "$STEADY" ] && [ ! -e asked.once ]; then
    touch asked.once
    echo "slurm_load_jobs error: Unable to contact slurm controller" >&2
    exit 1
fi
rm -f asked.once
[ -e ended ] || echo "77 RUNNING $LEFT\"""",
    "srun": """\
[ "$SLURM_JOB_ID" = 77 ] || exit 1
while [[ "$1" = --* ]]; do
    case "$1" in
    --ntasks=*) tasks=${1#*=} ;;
    --time=2 | --nodes=1 | --ntasks-per-node=?) ;;
    *) exit 1 ;;
    esac
    shift
done
cd - >/dev/null
exec mpirun -np "$tasks" "$@\"""",
}


@pytest.fixture
def cluster(site):
    folder = site.folder / "slurm"
    folder.mkdir()
    for name, does in SLURM.items():
        (folder / name).write_text(f'#!/bin/bash\ncd {folder}\necho "{name} $*" >> asked\n{does}\n')
        (folder / name).chmod(0o755)
    places = [folder, Path(sys.executable).parent, os.environ["PATH"]]
    site.environment = {"PATH": ":".join(map(str, places)), "LEFT": "1:00:00"}
    site.extras["allocation"] = "2:00:00"
    site.partition = {"launcher": "srun", "max_jobs": 1}
    site.faults = {"gnu": "none"}
    site.write["local_size"] = [8, 16]
    return site


def test_squeue_that_fails_for_a_moment_ends_no_allocation(cluster):
    done = cluster.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 0, done.stdout
    assert {verdict_of(test) for test in cluster.report()} == {"ok"}
    asked = (cluster.folder / "slurm/asked").read_text().splitlines()
    assert [line.split()[0] for line in asked].count("sbatch") == 1
    assert [line for line in asked if "scancel" in line] == ["scancel 77"], "when all had run"


def test_allocation_that_has_no_time_left_or_has_ended(cluster):
    """Time is asked for once the first case has run."""
    cluster.environment |= {"LEFT": "1:00", "STEADY": "yes"}
    done = cluster.reframe("-r", "-n", "SharedFileWrite")
    first, second = cluster.report()
    assert (verdict_of(first), verdict_of(second)) == ("ok", "unjudged (no_time_left)"), done.stdout
    assert "job 77, had 1:00 left at its turn, and it may take 2 minutes" in second["sentence"]

    (cluster.folder / "slurm/ended").touch()
    done = cluster.reframe("-r", "-n", "SharedFileWrite")
    assert done.returncode == 1, done.stdout
    assert "the allocation, job 77, has ended" in done.stdout, done.stdout
    first, second = cluster.report()
    assert (verdict_of(first), verdict_of(second)) == (
        "failed (no_output)",
        "unjudged (no_time_left)",
    ), done.stdout
    assert "job 77, had ended before its turn" in second["sentence"]
