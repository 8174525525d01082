"""Which change it was: what job scripts differ in, and what follows from the rounds."""

import gzip
import io
import json
import random
from dataclasses import replace

import pytest
from attrs import evolve
from cases import case
from nights import BLESSED, HDF5, SLOW, USUAL, night_id, ran, red, row_of
from refusals import assert_refused
from result_file import make_result
from rich.console import Console

from iowatch.base.documents import document
from iowatch.base.files import UserError
from iowatch.night.blame import ask, good_before, turns
from iowatch.night.finding import Culprit, Tried, interval, worse
from iowatch.night.job_script import Difference, as_planned, in_words, read_script
from iowatch.night.trend import Change
from iowatch.pages.listings import show_blame

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
THEN = read_script(SCRIPT)


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
    assert THEN.asked == now.asked == ("#SBATCH --ntasks=4",)
    difference = Difference.compare(THEN, now)
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
    every = [change.name for change in difference.changes]
    assert difference.parts([]) == list(THEN.parts)
    assert difference.parts(every) == list(now.parts)
    one = as_planned("#!/bin/bash -l", difference.parts(["the module hdf5"]))
    before = SCRIPT.splitlines()
    assert one["environment"] == [
        before[0], *before[3:5], "module load hdf5/1.8.16", *before[6:8]
    ]  # fmt: skip
    launch = "srun --hint=nomultithread /opt/benchio --backend mpiio,hdf5 --stripe-count -1"
    assert one["command"] == launch


def test_what_moved_is_a_change_and_what_is_lost_is_none():
    both = ["module load PrgEnv/8", "module load hdf5/1.10.8"]
    moved = changed(("\n".join(both), "\n".join(both[::-1])))
    difference = Difference.compare(THEN, moved)
    (change,) = difference.changes
    names = {f"the module {name} (in another place now)" for name in ("PrgEnv", "hdf5")}
    assert in_words(change) in names
    assert difference.parts([change.name]) == list(moved.parts)

    now = changed(("/opt/benchio", "/new/benchio"), ("A=1", "A=2"))
    difference = Difference.compare(THEN, now, {"benchio"})
    assert [change.name for change in difference.changes] == ["the variable A"]
    assert "/new/benchio" in as_planned("", difference.parts([]))["command"]


def test_what_spack_has_built_is_one_change():
    old, new = "benchio@1 ^hdf5@1.10 /abc", "benchio@1 ^hdf5@1.8 /def"
    then = read_script(SCRIPT, "export P=/a;\nexport Q=/a;\n", old)
    text = SCRIPT.replace("/opt/benchio", "/spack/benchio")
    now = read_script(text, "export P=/b;\nexport Q=/b;\n", new)
    assert [*Difference.compare(then, now).changes] == [Change("Spack's benchio", old, new)]


def test_a_script_that_cannot_be_run_again_is_refused():
    many = SCRIPT.replace("result.json", "result.$round.json")
    refused = "does not run benchio once"
    wanted = [("", refused), (SCRIPT.replace("ends here", ""), refused), (many, refused)]
    assert_refused(ValueError, read_script, wanted)
    others = [case("LibraryVersions"), case("Metadata", files="shared", items=100)]
    wanted = [(str(of), f"{of}: environments take turns only in a job") for of in others]
    assert_refused(UserError, lambda text: ask(text, 9), wanted)


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
    assert worse("overhead_fraction", 0.71, 0.04) == pytest.approx(0.67)
    assert worse("close_s", 3.0, 2.0) == pytest.approx(0.5)


# The sentence

HEALTHY = [1000.0, 900.0, 1100.0, 500.0, 1000.0, 1050.0, 950.0, 990.0, 1010.0]
WILD = [value * (1.1, 0.7, 0.3)[n % 3] for n, value in enumerate(HEALTHY)]
X, Y = Change("the module hdf5", "hdf5/1.10.8", "hdf5/1.8.16"), Change("the variable A", "1", "2")
GOOD = Tried(None, HEALTHY, HEALTHY)
CRASH = "it crashed"


def tried(what, part):
    """What an environment reaches that has this part of the good one's bandwidth."""
    if isinstance(part, str):
        return Tried(what, fault=part)
    rates = [value * part * (1 + 0.02 * (n % 3 - 1)) for n, value in enumerate(HEALTHY)]
    return Tried(what, rates, rates)


def finding(whole, *alone, usual=1000.0, tonight=290.0):
    """What is to be said if all changes together, and each alone, reach this part."""
    every = [GOOD, tried(None if alone else X, whole)]
    every += [tried(change, part) for change, part in zip((X, Y), alone, strict=False)]
    good, bad = ran(ago=1, rate=usual), red(rate=tonight)
    return Culprit(HDF5, "stable_max", good, bad, every)


NOT_CERTAIN = replace(finding(1.0), tried=[GOOD, Tried(X, WILD, WILD)])
FINDINGS = {
    "the only change": finding(0.29),
    "the first of two": finding(0.29, 0.3, 1.0),
    "the second of two": finding(0.29, 1.0, 0.3),
    "the second, and the first cannot be run": finding(0.29, CRASH, 0.3),
    "each a part": finding(0.29, 0.7, 0.75),
    "one a part": finding(0.29, 1.0, 0.7),
    "each all of it": finding(0.29, 0.3, 0.31),
    "none alone": finding(0.29, 1.0, 1.0),
    "none alone, and one cannot be run": finding(0.29, CRASH, 1.0),
    "slow with either": finding(1.0, 1.0, 1.0, usual=5000.0, tonight=1000.0),
    "fast with either": finding(1.0, 1.0, 1.0),
    "certain, and hardly anything": finding(0.95),
    "a part of the loss": finding(0.75),
    "nothing to run": replace(NOT_CERTAIN, tried=()),
}
UNCERTAIN = {
    "rounds that vary": NOT_CERTAIN,
    "good no longer runs": replace(NOT_CERTAIN, tried=[tried(None, CRASH), NOT_CERTAIN.tried[1]]),
}


def test_conclusion_names_the_guilty_change_with_its_interval(golden, documented):
    every = FINDINGS | UNCERTAIN
    show_blame(UNCERTAIN["good no longer runs"].document, Console(file=io.StringIO()))
    written = [documented(document(blame=each.document))["blame"] for each in every.values()]
    assert [entry["conclusion"] for entry in written] == [
        each.conclusion for each in every.values()
    ]
    golden("blame.txt", "".join(f"# {title}\n{each.conclusion}\n" for title, each in every.items()))
    assert [title for title, each in every.items() if not each.is_sure] == [*UNCERTAIN]
    guilty = {title: each.conclusion.partition(" carries the loss")[0] for title, each in
              FINDINGS.items()}  # fmt: skip
    assert guilty["the only change"] == guilty["the first of two"] == in_words(X)
    assert guilty["the second of two"] == in_words(Y)
    assert guilty["slow with either"] == guilty["certain, and hardly anything"] == "no change"


def test_figures_that_are_printed_make_the_loss_that_is_concluded():
    """A filesystem that others use: the medians of both are 99 and 82.5, which is 17 % lower, and
    in most rounds a third is lost."""
    good = [50.0, 60.0, 70.0, 80.0, 99.0, 125.0, 130.0, 140.0, 150.0]
    slow = [49.0, 58.0, 20.0, 16.0, 98.0, 82.5, 85.8, 92.4, 99.0]
    rounds = [Tried(None, good, good), Tried(X, slow, [2 * rate for rate in slow])]
    text = io.StringIO()
    show_blame(replace(finding(0.29), tried=rounds).document, Console(file=text, width=200))
    _, title, of_good, of_red, *_, conclusion = text.getvalue().splitlines()
    assert title.split()[:3] == ["stable_max", "good", "MiB/s"]
    assert of_good.split()[:3] == ["99", "-", "99"]
    assert of_red.split()[:6] == ["82.5", "125", "165", "34", "%", "lower"]
    assert "stable_max is 34 % lower [" in conclusion


# What is on record


def leave(folder, compress=False):
    """The raw results of a run."""
    folder.mkdir(parents=True)
    for name, text in (("rfm_job.sh", SCRIPT), ("result.json", json.dumps(make_result()))):
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    return str(folder)


def test_the_last_good_night_before_the_loss_whose_raw_results_are_kept(tmp_path):
    good = [ran(ago=ago, folder=leave(tmp_path / f"{ago}", compress=True)) for ago in (5, 4)]
    gone = ran(ago=3, folder=str(tmp_path / "3"))
    bad = [red(ago=ago, folder=leave(tmp_path / f"{ago}")) for ago in (2, 0)]
    row = row_of(*good, gone, *bad)
    kept = good_before(row)
    assert (kept.night, kept.script) == (night_id(4), THEN)
    (tmp_path / "4" / "rfm_job.sh.gz").write_bytes(b"cut off")
    assert good_before(row).night == night_id(5)

    # Nights that were green though the loss had begun are none to compare with.
    folders = {ago: leave(tmp_path / "slow" / str(ago)) for ago in range(30, 0, -1)}
    past = [ran(ago=ago, rate=USUAL if ago > 20 else SLOW, folder=folder)
            for ago, folder in folders.items()]  # fmt: skip
    blessed = evolve(BLESSED, first=night_id(70), last=night_id(40))
    row = row_of(*past, red(rate=SLOW), blessed={HDF5: blessed})
    assert len(row.good) == 30
    assert good_before(row).night == night_id(21)

    nothing = "nothing to compare 2026-11-20T003000 with: "
    wanted = [
        (row_of(gone, bad[1]), f"{nothing}of the 1 good night before it no raw results are left"),
        (row_of(*bad), f"{nothing}no night before it was good"),
    ]
    assert_refused(UserError, good_before, wanted)
