"""Every figure can be computed again from the times, of writes and of reads, in every layout."""

import re
import subprocess
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, each

from iowatch.cases.parameters import format_size

RANKS, ROUNDS = 3, 6
# Of a rank's block in each layout. Rank 0 gathers more than the 8 MiB that it moves at a time.
SIZES = {"shared": (32, 32, 32), "process": (32, 32, 32), "gather": (64, 64, 96)}
LAYOUTS = tuple(SIZES)
FLUSHED = "process"  # the layout whose run flushes
SLACK = 1 + 1e-6  # of what is said in decimal digits

PHASES = {
    "write": ("open", "define", "write", "close", "total", "sync", "stable", "unlink"),
    "read": ("open", "define", "read", "close", "total"),
}
APART = {"total", "sync", "stable", "unlink"}  # from the phases that total is the sum of

Outcome = tuple[dict[str, Any], str]  # the result file, and the table


@pytest.fixture(scope="module")
def outcomes(mpirun, read_result, tmp_path_factory):
    """The result file and the table of a run in each layout, on this disk."""
    folder = tmp_path_factory.mktemp("figures")
    tables = {}

    def start(files):
        directory = folder / files
        directory.mkdir()
        done = mpirun(
            RANKS, "--backend", ",".join(BACKENDS), "--operation", "write,read", "--files", files,
            "--local-size", format_size(SIZES[files]), "--warmup", 1, "--repeats", ROUNDS - 1,
            *(["--flush"] if files == FLUSHED else []), "--time-limit", 3600,
            "--dir", directory, "--json", folder / f"{files}.json",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert list(directory.iterdir()) == [], "a file outlives the run"
        tables[files] = done.out

    each(LAYOUTS, start)
    return {files: (read_result(folder / f"{files}.json"), tables[files]) for files in LAYOUTS}


def repetitions(result):
    """Yield each case with each of its repetitions."""
    for case in result["cases"]:
        for repetition in case["repetitions"]:
            yield case, repetition


def median_of(values):
    """Return the median; None for a case that has no such value."""
    known = [value for value in values if value is not None]
    return float(np.median(known)) if len(known) == len(values) else None


@pytest.mark.parametrize("files", LAYOUTS)
def test_rounds_rotate(outcomes, files):
    """Each has its start and its witness, who is of the write and of its reading alike."""
    result, _ = outcomes[files]
    asked = [(operation, name) for operation in ("write", "read") for name in BACKENDS]
    assert [(case["operation"], case["backend"]) for case in result["cases"]] == asked
    starts = {}
    witnesses: dict[Any, list[Any]] = {}
    for case in result["cases"]:
        of_case = case["repetitions"]
        assert [r["round"] for r in of_case] == list(range(1, ROUNDS + 1))
        assert [r["warmup"] for r in of_case] == [True] + [False] * (ROUNDS - 1)
        assert len({r["position"] for r in of_case}) == len(BACKENDS), "the order does not rotate"
        for r in of_case:
            starts[r["round"], r["position"], case["operation"] == "read"] = r["started"]
            witnesses.setdefault((r["round"], case["backend"]), []).append(r["witness"])
            assert r["witness"]["bytes"] == result["run"]["bytes"]
    assert sorted(starts) == [
        (round_, place, reads)
        for round_ in range(1, ROUNDS + 1)
        for place in range(1, len(BACKENDS) + 1)
        for reads in (False, True)
    ]
    in_order = [result["started"]] + [starts[at] for at in sorted(starts)]
    assert in_order == sorted(in_order)
    assert len(set(in_order)) > len(in_order) / 2
    assert all(of_write == of_read for of_write, of_read in witnesses.values())


@pytest.mark.parametrize("files", LAYOUTS)
def test_rates_follow_from_windows(outcomes, files):
    result, _ = outcomes[files]
    mebibytes = result["run"]["bytes"] / 2**20
    assert mebibytes == RANKS * prod(SIZES[files]) / 2**17
    assert (result["status"], result["run"]["time_limit"]) == ("ok", 3600), "it was not reached"
    assert result["run"]["flush"] == (files == FLUSHED)
    for case, repetition in repetitions(result):
        windows = {name: phase["window"] for name, phase in repetition["phases"].items()}
        seconds = {"data": windows[case["operation"]], "total": windows["total"]}
        if case["operation"] == "write":
            seconds["stable"] = windows["stable"]
        rates = {name: mebibytes / of_rate for name, of_rate in seconds.items()}
        assert repetition["rates"] == pytest.approx(rates)


@pytest.mark.parametrize("files", LAYOUTS)
def test_phases_fit_into_each_other(outcomes, files):
    """Ranks in their file's window, files in that of all, parts in their phase, phases in total."""
    result, _ = outcomes[files]
    for case, repetition in repetitions(result):
        operation, phases = case["operation"], repetition["phases"]
        expected = {*PHASES[operation]}
        if files == FLUSHED and operation == "write":
            expected.add("flush")
        assert set(phases) == expected
        parts = repetition["parts"]
        # From a block with its halo NetCDF takes only a copy; what was gathered has none.
        packs = case["backend"] == "netcdf" and files != "gather"
        assert set(parts) == ({"pack"} if packs else {"gather"} if files == "gather" else set())
        for times in (*phases.values(), *parts.values()):
            assert 0 <= times["min"] <= times["mean"] * SLACK
            assert times["mean"] <= times["max"] * SLACK
            assert 0 <= times["slowest_rank"] < RANKS
            assert times["slowest_host"] in result["run"]["hosts"]
        for phase in phases.values():
            assert 0 < phase["max"] <= phase["file_window"] * SLACK
            assert phase["file_window"] <= phase["window"] * SLACK
            if files != "process":  # there is one file
                assert phase["window"] == pytest.approx(phase["file_window"])
        for part in parts.values():
            assert part["max"] <= phases[operation]["max"] * SLACK
        means = sum(phase["mean"] for name, phase in phases.items() if name not in APART)
        assert means <= phases["total"]["mean"] * SLACK
        within = {name: phase["window"] for name, phase in phases.items() if name not in APART}
        spans = {"total": within}
        if operation == "write":
            spans["stable"] = within | {"sync": phases["sync"]["window"]}
        for span, windows in spans.items():
            time = phases[span]
            whole = sum(windows.values()) + time["between"] - time["overlap"]
            assert whole == pytest.approx(time["window"])
            assert max(windows.values()) <= time["window"] * SLACK
            assert time["window"] == time["by_ranks"] <= time["by_rank_0"] * SLACK, "on one node"
            if files != "process":  # whose files wait for none of the others
                assert time["overlap"] == 0
        assert repetition["clocks_agree"]


@pytest.mark.parametrize("files", LAYOUTS)
def test_table_says_the_same(outcomes, files):
    """The table has the measured rounds in fewer digits, and the witness's word."""
    result, table = outcomes[files]
    assert f"run {result['run']['id']}: {result['run']['directory']}" in table
    header = re.search(r"^case +min +median +max +mean +median +(open .*)$", table, re.MULTILINE)
    assert header, table
    phases = header[1].split()
    expected = {*PHASES["write"], "read"} | ({"flush"} if files == FLUSHED else set())
    assert set(phases) == expected
    for case in result["cases"]:
        row = re.search(rf"^{case['operation']} +{case['backend']} +(.+)$", table, re.MULTILINE)
        assert row, table
        counted = [r for r in case["repetitions"] if not r["warmup"]]
        total = [r["rates"]["total"] for r in counted]
        rates = [min(total), np.median(total), max(total), np.mean(total)]
        rates.append(median_of([r["rates"].get("stable") for r in counted]))
        seconds = [
            median_of([r["phases"].get(name, {}).get("window") for r in counted]) for name in phases
        ]
        said = [None if word == "-" else float(word) for word in row[1].split()]
        for values, digits in ((rates, 1), (seconds, 4)):
            of_row, said = said[: len(values)], said[len(values) :]
            assert of_row == [
                None if value is None else pytest.approx(value, abs=0.51 * 10**-digits)
                for value in values
            ]
        assert said == []
    for backend in BACKENDS:
        line = re.search(rf"^{backend}: every byte of every round .*$", table, re.MULTILINE)
        assert line, table
        is_direct = {
            repetition["witness"]["direct"]
            for case, repetition in repetitions(result)
            if case["backend"] == backend
        }
        assert ("past the page cache" in line[0]) == (is_direct == {True})


@pytest.mark.parametrize("files", LAYOUTS)
def test_what_is_in_memory_is_suspect(outcomes, files):
    """Whether this disk's filesystem drops its pages or not: the result says so."""
    result, _ = outcomes[files]
    # Others may have caches beside the kernel's.
    on_disk = result["run"]["filesystem"]["type"] in ("ext4", "xfs", "btrfs")
    for case in result["cases"]:
        if case["operation"] == "write":
            continue
        cache = case["cache"]
        assert cache["suspect"] == (cache["page_cache_fraction"] > 0.01 or not on_disk), case
        assert cache["other_node_byte_fraction"] == 0


@pytest.fixture
def says(own_mounts, tmp_path):
    """says("/proc/loadavg", text): for this test, a file that a kernel makes has that in it."""
    mounted = []

    def replace(path, text):
        file = tmp_path / path.replace("/", "_")
        file.write_text(text)
        subprocess.run(["mount", "--bind", file, path], check=True)
        mounted.append(path)

    yield replace
    for path in mounted:
        subprocess.run(["umount", path], check=True)


def test_what_else_a_node_does(mpirun, directory, read_result, says):
    """The result has each fact once for the node; what a kernel says wrongly is not known."""

    def seen():
        file = directory.parent / "result.json"
        options = ("--backend", "posix", "--local-size", 8, "--repeats", 1, "--dir", directory)
        done = mpirun(2, *options, "--json", file)
        assert done.code == 0, done.err
        (node,) = read_result(file)["run"]["nodes"]
        return node

    facts = ("load", "io_waiting", "cpu_waiting", "memory_waiting", "stolen", "others")
    node = seen()
    assert [*node] == ["host", *facts]
    assert all(node[fact] is None or node[fact] >= 0 for fact in facts)

    some = "some avg10={0} avg60={0} avg300=0.00 total={1}\nfull avg10=0 avg60=0 avg300=0 total=0\n"
    says("/proc/loadavg", "64.25 12.00 3.00 3/176 13600\n")
    says("/proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    if Path("/proc/pressure").is_dir():
        says("/proc/pressure/io", some.format("12.50", 1000))
        says("/proc/pressure/memory", some.format("1.00", 1000))
        says("/proc/pressure/cpu", "some avg10=full\n")
        node = seen()
        assert (node["io_waiting"], node["memory_waiting"]) == (0.125, 0), "counters stand still"
        assert node["cpu_waiting"] is None
    else:
        node = seen()
        assert {node[fact] for fact in facts if fact.endswith("waiting")} == {None}
    assert node["load"] == 64.25
    assert node["stolen"] is node["others"] is None, "no processor time has gone by"
