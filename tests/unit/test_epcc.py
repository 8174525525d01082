"""What is read in outputs of EPCC's benchio, and what is refused: tests/data/README.md."""

import os
import re
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean, median

import pytest

from iowatch.importers.epcc import read
from iowatch.importers.runs import ImportFailed

DATA = Path(__file__).parents[1] / "data"
PLACE = "archer:fs3/gnu"
STRIPES = {
    "unstriped": "count=1/size=1",
    "striped": "count=4/size=1",
    "defstriped": "count=4/size=8",
    "fullstriped": "count=-1/size=1",
    "benchio_files": "count=none/size=none",
}


@pytest.fixture
def output(tmp_path):
    """output(text): the runs in an output of benchio with this text."""

    def write(text, stripes=STRIPES):
        path = tmp_path / "job.out"
        path.write_text(text)
        os.utime(path, (1.5e9, 1.5e9))
        return read(path, text, PLACE, stripes)

    return write


def sample(name):
    return (DATA / f"benchio-{name}.out").read_text()


def by_case(runs):
    return {str(run.case).removeprefix(f"{PLACE}/write/"): run for run in runs}


def rates(text, name, factor=1.0):
    """All rates printed for a file, in MiB/s."""
    part = text.partition(f"Writing to {name}")[2].partition("Writing to")[0]
    return [float(rate) * factor for rate in re.findall(r", rate = +(\S+)", part)]


END = "local=32x32x32/writers=2"


def test_ten_rates_of_each_library(output):
    text = sample("mib")
    runs = by_case(output(text))
    libraries = {"gather/stream": "serial", "shared/mpiio": "mpiio"}
    libraries |= {"shared/hdf5": "hdf5", "shared/netcdf": "netcdf"}
    assert set(runs) == {f"{kind}/count=none/size=none/{END}" for kind in libraries}
    control = max(rates(text, "benchio_files/mpiio.dat"))
    for kind, name in libraries.items():
        run = runs[f"{kind}/count=none/size=none/{END}"]
        expected = rates(text, f"benchio_files/{name}.dat")
        assert len(expected) == 10
        assert run.figures == {
            "total_max": max(expected),
            "total_median": median(expected),
            "total_mean": fmean(expected),
            "total_min": min(expected),
            **({"ratio": max(expected) / control} if name in ("hdf5", "netcdf") else {}),
        }
        assert run.time == datetime(2017, 7, 14, 2, 40, tzinfo=timezone.utc), "of the file"
        assert f"Writing to benchio_files/{name}.dat" in text.splitlines()[run.line - 1]


def test_rates_in_gib_and_folders_striped_in_different_ways(output):
    text = sample("gib")
    runs = by_case(output(text))
    assert len(runs) == 3 * 6
    for folder in ("unstriped", "striped", "fullstriped"):
        for kind, name in (
            ("process/stream", "proc000000"),
            ("node/stream", "node000000"),
            ("shared/mpiio", "mpiio"),
            ("shared/netcdf", "netcdf"),
        ):
            (rate,) = rates(text, f"{folder}/{name}.dat", 1024)
            run = runs[f"{kind}/{STRIPES[folder]}/{END}"]
            assert run.figures["total_max"] == run.figures["total_min"] == rate
            assert ("ratio" in run.figures) == (name == "netcdf")
    ratio = rates(text, "striped/hdf5.dat")[0] / rates(text, "striped/mpiio.dat")[0]
    run = runs[f"shared/hdf5/count=4/size=1/{END}"]
    assert run.figures["ratio"] == pytest.approx(ratio), "in the same folder"


def test_file_per_process(output):
    runs = by_case(output(sample("fpp")))
    folders = ("unstriped", "striped", "defstriped")
    assert set(runs) == {f"process/stream/{STRIPES[folder]}/{END}" for folder in folders}


@pytest.mark.parametrize("errors", ["error on rank", "HDF5-DIAG"])
def test_rate_of_a_failed_write_is_no_figure(output, errors):
    """Whichever rank says so, and when: after 'Finished', or in front of it."""
    text = sample("failed")
    assert len(rates(text, "unstriped/mpiio.dat")) == 1
    other = {"error on rank": "HDF5-DIAG", "HDF5-DIAG": "error on rank"}[errors]
    text = "\n".join(line for line in text.splitlines() if other not in line) + "\n"
    runs = output(text)
    assert [(run.figures, errors in run.remark) for run in runs] == [({}, True)] * 2
    runs = output(re.sub(f".*{errors}.*", "", text).partition("#000")[0])
    assert [bool(run.figures) for run in runs] == [True] * 2, "it was for these lines"


def test_jobs_after_each_other_in_one_file(output):
    runs = output("Job 7 begins\n" + sample("mib") + "Application resources: 3 s\n" + sample("gib"))
    assert len(runs) == 4 + 18


def test_lines_of_at_most_80_columns(output):
    text = sample("mib")
    wrapped = text.replace("       MiB/s", "\n MiB/s").replace(" , rate", "\n , rate")
    assert wrapped.count("\n") > 1.5 * text.count("\n")
    figures = [run.figures for run in output(text)]
    assert [run.figures for run in output(wrapped)] == figures


def test_library_that_is_not_measured_here_is_left_out(output):
    runs = output(sample("mib").replace("netcdf.dat", "adios.dat "))
    assert len(runs) == 3


@pytest.mark.parametrize(
    ("name", "pattern", "put", "where", "sentence"),
    [
        ("mib", "Finished", "", "", "truncated: its end, 'Finished', is missing"),
        ("mib", r"(?s)Deleting: benchio_files/hdf5.*", "", "", "truncated: its end, 'Finished'"),
        ("mib", r"rate =    314\.", "rate =    14.", "14.", "garbled: time x rate is not 0.5 MiB"),
        ("gib", "GiB/s", "MiB/s", "MiB/s", "garbled: time x rate is not 0.5 MiB"),
        ("mib", "MiB/s", "MB/s", "MB/s", "MB/s' is garbled, or what is before it truncated"),
        ("mib", r"maxrate = +\d", "maxrate = 9", "maxrate", "garbled: maxrate is not that of the"),
        ("mib", r" time = .*314\..*\n", "", "avgrate", "garbled: avgrate is not that of the rates"),
        ("mib", r"time =    1.59.*", "time =    1.59", "1.59", "'time =    1.59' is garbled, or"),
        ("mib", r"time =    1.59.*rate.*", "rate = ", "rate", "'rate =' is garbled, or what is"),
        ("gib", r" time = .*33137.*\n", "", "Finished", "garbled: not the same number of"),
        ("gib", r" Writing to striped/hdf5.*\n", "", "Finished", "garbled: not the same number of"),
        ("mib", r"Running on.*", "", "rate", "garbled: time x rate is not 0 MiB"),
        ("mib", r"Array size is.*", "Array size is (", "Array", "'Array size is (' is garbled, or"),
        ("mib", r"mpiio\.dat", "posix.dat", "posix", "posix is none of mpiio, hdf5, netcdf,"),
        ("mib", r"(?s)Serial.*", "\n Finished\n", "Finished", "garbled: not the same number of"),
        ("mib", r"(?s)^.*(?=Writing to benchio_files/hdf5)", "", "hdf5.dat", "is garbled, or what"),
        (
            "mib",
            "Finished",
            "Simple Parallel IO benchmark",
            "Simple",
            "is garbled, or what is befo",
        ),
    ],
)
def test_output_that_is_not_whole_is_refused(output, name, pattern, put, where, sentence):
    text = sample(name)
    changed = re.sub(pattern, put, text, count=name == "mib")
    assert changed != text
    with pytest.raises(ImportFailed) as err:
        output(changed)
    number, said = re.fullmatch(r"\S+/job\.out(?::(\d+))?: (.*)", str(err.value)).groups()
    assert sentence in said
    assert where in changed.splitlines()[int(number) - 1] if where else number is None


@pytest.mark.parametrize("name", ["mib", "gib", "fpp"])
def test_cut_anywhere(output, name):
    text = sample(name)
    whole = text.index("Finished") + len("Finished")
    for end in range(text.index("benchmark") + len("benchmark"), len(text), 31):
        if end < whole:
            with pytest.raises(ImportFailed):
                output(text[:end])
        else:
            assert output(text[:end])


def test_every_folder_must_be_described(output):
    with pytest.raises(
        ImportFailed, match=r"job.out: say how fullstriped and striped is striped: "
    ):
        output(sample("gib"), {"unstriped": STRIPES["unstriped"]})
