"""Which change it was: what job scripts differ in, and what follows from the rounds."""

import gzip
import io
import json
import random
from dataclasses import replace

import pytest
from nights import BLESSED, HDF5, SLOW, USUAL, night_id, ran, red, row_of
from refusals import assert_refused
from result_file import make_result
from rich.console import Console

from iowatch.files import UserError
from iowatch.night.blame import good_before, turns
from iowatch.night.case_night import Change
from iowatch.night.finding import Finding, Tried, interval, worse
from iowatch.night.job_script import Difference, as_planned, in_words, read_script
from iowatch.tables import show_blame

SCRIPT = """\
#!/bin/bash -l
#SBATCH --job-name="rfm_job"
#SBATCH --ntasks=4
ulimit -s unlimited
module load PrgEnv/8
module load hdf5/1.10.8
export A=1
export B="two words"
# iowatch: the environment ends here
cd "/stage" || exit 1
srun --hint=nomultithread /opt/benchio --backend mpiio,hdf5 --stripe-count -1 --repeats 10 --dir \
"$RUNDIR" --run-id x --json result.json --phase-limit 180
echo $? > exit_code
"""


def changed(*replacements):
    text = SCRIPT
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return read_script(text)


def test_job_scripts_differ_in_what_a_reader_calls_a_change():
    now = changed(
        ("module load PrgEnv/8\nmodule load hdf5/1.10.8\n", "module load hdf5/1.8.16\n"),
        ("export A=1\n", "export A=1\nexport LD_PRELOAD=/x.so\n"),
        ("unlimited", "8192"),
        (" --hint=nomultithread", ""),
        ("/opt/benchio", "/new/benchio"),
        ("--stripe-count -1", "--stripe-count 4 --flush"),
        ("--run-id x", "--run-id y"),
        ("rfm_job", "rfm_other"),
    )
    then = read_script(SCRIPT)
    assert then.asked == now.asked == ("#SBATCH --ntasks=4",)
    difference = Difference.of(then, now)
    assert {in_words(change) for change in difference.changes} == {
        "the line 'ulimit -s unlimited' (there before, not there now)",
        "the line 'ulimit -s 8192' (not there before, there now)",
        "the module PrgEnv (PrgEnv/8 before, not there now)",
        "the module hdf5 (hdf5/1.10.8 before, hdf5/1.8.16 now)",
        "the variable LD_PRELOAD (not there before, /x.so now)",
        "the launcher (srun --hint=nomultithread before, srun now)",
        "benchio (/opt/benchio before, /new/benchio now)",
        "benchio's --stripe-count (-1 before, 4 now)",
        "benchio's --flush (not there before, given now)",
    }
    every = [change.what for change in difference.changes]
    assert difference.parts([]) == list(then.parts)
    assert difference.parts(every) == list(now.parts)
    one = as_planned("#!/bin/bash -l", difference.parts(["the module hdf5"]))
    assert one == {
        "environment": [
            "#!/bin/bash -l",
            "ulimit -s unlimited",
            "module load PrgEnv/8",
            "module load hdf5/1.8.16",
            "export A=1",
            'export B="two words"',
        ],
        "command": "srun --hint=nomultithread /opt/benchio --backend mpiio,hdf5 --stripe-count -1",
    }


def test_what_moved_is_a_change_and_what_is_lost_is_none():
    both = ["module load PrgEnv/8", "module load hdf5/1.10.8"]
    moved = changed(("\n".join(both), "\n".join(both[::-1])))
    difference = Difference.of(read_script(SCRIPT), moved)
    (change,) = difference.changes
    assert in_words(change) in {
        "the module PrgEnv (in another place now)",
        "the module hdf5 (in another place now)",
    }
    assert difference.parts([change.what]) == list(moved.parts)

    now = changed(("/opt/benchio", "/new/benchio"), ("A=1", "A=2"))
    difference = Difference.of(read_script(SCRIPT), now, {"benchio"})
    assert [change.what for change in difference.changes] == ["the variable A"]
    assert "/new/benchio" in as_planned("", difference.parts([]))["command"]


def test_what_spack_has_built_is_one_change():
    then = read_script(SCRIPT, "export P=/a;\nexport Q=/a;\n", "benchio@1 ^hdf5@1.10 /abc")
    now = read_script(
        SCRIPT.replace("/opt/benchio", "/spack/benchio"),
        "export P=/b;\nexport Q=/b;\n",
        "benchio@1 ^hdf5@1.8 /def",
    )
    (change,) = Difference.of(then, now).changes
    assert change == Change(
        "Spack's benchio", "benchio@1 ^hdf5@1.10 /abc", "benchio@1 ^hdf5@1.8 /def"
    )


@pytest.mark.parametrize(
    "text",
    ["", SCRIPT.replace("ends here", ""), SCRIPT.replace("result.json", "result.$round.json")],
    ids=["empty", "no mark", "many runs"],
)
def test_a_script_that_cannot_be_run_again_is_refused(text):
    with pytest.raises(ValueError, match="does not run benchio once"):
        read_script(text)


def test_interval_of_a_median_holds_it_in_95_of_100():
    assert interval(range(6)) == (0, 5)  # 96.9 %
    assert interval(range(8)) == (0, 7)
    assert interval(range(9)) == (1, 7)  # 96.1 %
    assert interval(range(20)) == (5, 14)  # 95.9 %
    lot = random.Random(1)
    for count in (6, 9, 20):
        held = 0
        for _ in range(2000):
            low, high = interval([lot.expovariate(1) for _ in range(count)])
            held += low <= 0.6931 <= high
        assert 0.94 <= held / 2000 <= 0.985, count


def test_every_environment_has_its_turn_in_every_round_and_each_order_is_run_backwards():
    orders = turns(4, 9)
    assert len(orders) == 9
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    for first, second in zip(orders[0:8:2], orders[1:8:2], strict=True):
        assert second == first[::-1]
    assert len({tuple(order) for order in turns(4, 40)}) > 4


def test_worse_is_a_part_of_what_was_or_a_difference_of_parts():
    assert worse("stable_max", 290.0, 1000.0) == pytest.approx(0.71)
    assert worse("ratio", 1.2, 1.0) == pytest.approx(-0.2)
    assert worse("finish_fraction", 0.71, 0.04) == pytest.approx(0.67)
    assert worse("close_s", 3.0, 2.0) == pytest.approx(0.5)


# The sentence

HEALTHY = [1000.0, 900.0, 1100.0, 500.0, 1000.0, 1050.0, 950.0, 990.0, 1010.0]
X, Y = Change("the module hdf5", "hdf5/1.10.8", "hdf5/1.8.16"), Change("the variable A", "1", "2")
BOTH = "the environments of 2026-11-19T003000 and 2026-11-20T003000 are equally"


def times(part, jitter=0.02):
    """What an environment reaches that has this part of the good one's bandwidth."""
    return [value * part * (1 + jitter * (n % 3 - 1)) for n, value in enumerate(HEALTHY)]


def found(whole, *alone, usual=1000.0, tonight=290.0):
    """What is said if all changes together, and each alone, reach this part."""
    changes = [X, Y][: len(alone)] or [X]
    tried = [Tried(None, HEALTHY, HEALTHY)]
    tried.append(Tried(None if alone else X, times(whole), times(whole)))
    for change, part in zip(changes, alone, strict=False):
        if isinstance(part, str):
            tried.append(Tried(change, fault=part))
        else:
            tried.append(Tried(change, times(part), times(part)))
    good = ran(ago=1, rate=usual)
    return Finding(HDF5, "stable_max", good, red(rate=tonight), tried)


def test_the_guilty_change_is_named_with_its_interval():
    only = found(0.29)
    assert only.is_sure
    assert only.conclusion == (
        "the module hdf5 (hdf5/1.10.8 before, hdf5/1.8.16 now) carries the loss: stable_max is "
        "71 % lower [70 to 72 %] with it"
    )
    one_of_two = found(0.29, 0.3, 1.0).conclusion
    assert one_of_two == (
        "the module hdf5 (hdf5/1.10.8 before, hdf5/1.8.16 now) carries the loss: stable_max is "
        "70 % lower [69 to 71 %] with it alone"
    )
    assert "variable A (1 before, 2 now) carries the loss" in found(0.29, 1.0, 0.3).conclusion
    assert "carries the loss" in found(0.29, "it crashed", 0.3).conclusion


def test_figures_that_are_printed_make_the_loss_that_is_concluded():
    """A filesystem that others use: the medians of both are 99 and 82.5, which is 17 % lower, and
    in most rounds a third is lost."""
    good = [50.0, 60.0, 70.0, 80.0, 99.0, 125.0, 130.0, 140.0, 150.0]
    slow = [49.0, 58.0, 20.0, 16.0, 98.0, 82.5, 85.8, 92.4, 99.0]
    tried = [Tried(None, good, good), Tried(X, slow, [2 * rate for rate in slow])]
    finding = replace(found(0.29), tried=tried)
    text = io.StringIO()
    show_blame(finding, Console(file=text, width=200))
    _, title, of_good, of_red, *_, conclusion = text.getvalue().splitlines()
    assert title.split()[:3] == ["stable_max", "good", "MiB/s"]
    assert of_good.split()[:3] == ["99", "-", "99"]
    assert of_red.split()[:6] == ["82.5", "125", "165", "34", "%", "lower"]
    assert "stable_max is 34 % lower [" in conclusion


def test_several_changes():
    shared = found(0.29, 0.7, 0.75).conclusion
    every = "stable_max is 71 % lower [70 to 72 %] with all changes together"
    assert shared == (
        "each of several changes carries a part of the loss: stable_max is 30 % lower [29 to 31 %] "
        "with the module hdf5 (hdf5/1.10.8 before, hdf5/1.8.16 now) alone, 25 % lower "
        f"[24 to 26 %] with the variable A (1 before, 2 now) alone; {every}"
    )
    assert found(0.29, 1.0, 0.7).conclusion == (
        "one change alone carries a part of the loss: stable_max is "
        f"30 % lower [29 to 31 %] with the variable A (1 before, 2 now) alone; {every}"
    )
    each = found(0.29, 0.3, 0.31).conclusion
    assert each.startswith("each of several changes carries the loss: stable_max is 70 % lower ")
    assert found(0.29, 1.0, 1.0).conclusion == f"no change alone carries the loss: {every}"
    assert found(0.29, "it crashed", 1.0).conclusion == (
        f"no change alone carries the loss (the module hdf5 cannot be run alone): {every}"
    )


def test_no_change_is_guilty_of_what_is_slow_with_either_environment():
    slow = found(1.0, 1.0, 1.0, usual=5000.0, tonight=1000.0)
    assert slow.is_sure
    assert slow.conclusion == (
        f"no change carries the loss: {BOTH} slow now (stable_max is 0 % lower [-2 to 2 %] with "
        "the environment of the latter): the cause is the filesystem, or something that no script "
        "says"
    )
    gone = found(1.0, 1.0, 1.0)
    assert gone.is_sure
    assert gone.conclusion == (
        f"no change carries the loss: {BOTH} fast now (stable_max is 0 % lower [-2 to 2 %] with "
        "the environment of the latter): what caused the loss has gone"
    )
    # What is certain and hardly anything is not the culprit.
    assert found(0.95).conclusion.startswith("no change carries the loss: ")


def test_a_part_of_the_loss_is_no_more_than_that():
    part = found(0.75)
    assert part.is_sure
    assert part.conclusion.endswith(
        "25 % lower [24 to 26 %] with it; on 2026-11-20T003000 it was 71 % lower, and the rest "
        "comes from no environment"
    )


def test_what_is_not_certain_is_said_to_be_so():
    finding = found(1.0)
    wild = [value * (1.1, 0.7, 0.3)[n % 3] for n, value in enumerate(HEALTHY)]
    finding = replace(finding, tried=[finding.tried[0], Tried(X, wild, wild)])
    assert not finding.is_sure
    assert finding.conclusion == (
        "not certain: stable_max is 30 % lower [-10 to 70 %] with the environment of "
        "2026-11-20T003000 than with that of 2026-11-19T003000, which may be nothing or all that "
        "was lost: try again when the filesystem is quieter, or with more --rounds"
    )
    broken = replace(finding, tried=[Tried(None, fault="no such module"), finding.tried[1]])
    assert not broken.is_sure
    assert broken.conclusion == (
        "not certain: the environment of 2026-11-19T003000 no longer runs: no such module"
    )
    same = replace(finding, tried=())
    assert same.conclusion.endswith(
        "so nothing was run: the cause is the filesystem, or something that is not on record"
    )


# What is on record


def leave(folder, compress=False):
    """The raw results of a run."""
    folder.mkdir(parents=True)
    files = {"rfm_job.sh": SCRIPT, "result.json": json.dumps(make_result())}
    for name, text in files.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    return str(folder)


def test_the_last_good_night_before_the_loss_whose_raw_results_are_kept(tmp_path):
    runs = [
        ran(ago=5, folder=leave(tmp_path / "5", compress=True)),
        ran(ago=4, folder=leave(tmp_path / "4", compress=True)),
        ran(ago=3, folder=str(tmp_path / "3")),  # they are gone
        red(ago=2, folder=leave(tmp_path / "2")),
        red(folder=leave(tmp_path / "0")),
    ]
    row = row_of(*runs)
    kept = good_before(row)
    assert kept.night == night_id(4)
    assert kept.script == read_script(SCRIPT)
    (tmp_path / "4" / "rfm_job.sh.gz").write_bytes(b"cut off")
    assert good_before(row).night == night_id(5)

    # Nights that were green though the loss had begun are none to compare with.
    days = range(30, 0, -1)
    folders = {ago: leave(tmp_path / "slow" / str(ago)) for ago in days}
    past = [ran(ago=ago, rate=USUAL if ago > 20 else SLOW, folder=folders[ago]) for ago in days]
    blessed = replace(BLESSED, first=night_id(70), last=night_id(40))
    row = row_of(*past, red(rate=SLOW), blessed={HDF5: blessed})
    assert len(row.good) == 30
    assert good_before(row).night == night_id(21)

    nothing = "nothing to compare 2026-11-20T003000 with: "
    wanted = [
        (
            row_of(runs[2], runs[4]),
            f"{nothing}of the 1 good night before it no raw results are left",
        ),
        (row_of(runs[3], runs[4]), f"{nothing}no night before it was good"),
    ]
    assert_refused(UserError, good_before, wanted)
