"""Builds of a library side by side: two environments of one partition, each with a benchio of its
own, measured by one session of ReFrame, and its page. What HDF5 1.8.16 and 1.10.0 did on Lustre is
brought back by slow_shim.c, for one version is to be had here: HDF5 sets the size of every file at
its close, and that is slow."""

import re
import subprocess

import pytest
from conftest import compiled

from iowatch import history
from iowatch.night.comparison import comparisons
from iowatch.report import read

pytestmark = pytest.mark.slow  # its words and its page are made of other nights, too

OLD, NEW = "hdf5-1-8-16", "hdf5-now"


@pytest.fixture(scope="module")
def measured(module_site, tmp_path_factory):
    """Both environments, by hand: the site, ReFrame's output, and the session as a night."""
    site = module_site
    shim = compiled("slow_shim.c", tmp_path_factory.mktemp("shim"))
    site.injected = {OLD: f"LD_PRELOAD={shim} SLOW=MPI_File_set_size SLOW_S=1", NEW: "NONE=1"}
    here = version_here(site.benchio)
    site.environs[NEW] = {"extras": {"spack": f"benchio@0.1.0+hdf5 ^hdf5@{here} /abcdefg"}}
    site.write |= {"backend": ["mpiio", "hdf5"], "local_size": [32]}
    site.references = "SharedFileWrite:\n  small:.*: {finish_fraction: [0, null, 0.5, '1']}\n"
    done = site.reframe("-r", "-n", "SharedFileWrite", "-S", "repeats=2")
    (session,) = history.starts(site.database)
    return site, done, session


def version_here(benchio):
    said = subprocess.run([benchio, "--version"], capture_output=True, text=True, check=True)
    return re.search(r"^hdf5 +(\S+)$", said.stdout, re.MULTILINE)[1]


def report(site, *options):
    return site._run("iowatch", "report", "--system", "small", *options)


def test_one_session_by_hand_measures_all_and_its_page_compares_them(measured):
    site, done, session = measured
    assert done.returncode == 1
    night = read("small", [site.database], session=session)
    (comparison,) = comparisons(night.cases)
    assert (comparison.partition, set(comparison.environs)) == ("memory", {OLD, NEW})
    assert set(comparison.settings) == {"hdf5 on memory", "mpiio on memory"}
    column = list(comparison.environs).index(OLD)
    slow, fast = (comparison.settings["hdf5 on memory"][n] for n in (column, 1 - column))
    assert slow.kind == "defect"
    assert slow.metrics["finish_fraction"] > 0.5 > fast.metrics["finish_fraction"]
    assert slow.metrics["ratio"] < fast.metrics["ratio"]
    assert not fast.is_red, fast.sentence
    assert not any(row.is_red for row in comparison.settings["mpiio on memory"])


def test_what_spack_built_it_of_is_on_record_and_is_what_ran(measured):
    site, _, _ = measured
    runs = {str(run.case): run for run in history.read([site.database])}
    for text, run in runs.items():
        assert run.conditions.get("spack", "").startswith("benchio@0.1.0") == (NEW in text)
    site.environs[NEW] = {"extras": {"spack": "benchio@0.1.0+hdf5 ^hdf5@1.99.5 /abcdefg"}}
    done = site.reframe("-r", "-n", "LibraryVersions", "-p", NEW)
    assert done.returncode == 1
    assert "where Spack was asked for hdf5@1.99.5" in done.stdout


def test_a_hand_run_is_shown_by_its_session_alone(measured):
    site, _, session = measured
    past = site._run("iowatch", "history")
    assert f", by hand in session {session}\n" in past.stdout
    wrong = {
        (): "no night of system small is on record, only what was run by hand: --session shows one",
        ("--session", "0-0"): "--session 0-0: nothing of system small is on record of it: there ",
        ("--session", session, "--night", "2026-11-22"): "leave out --night",
    }
    for options, why in wrong.items():
        said = report(site, *options)
        assert said.returncode == 2
        assert why in said.stdout
        assert f"{session} of 20" in said.stdout or "leave out" in why
    said = report(site, "--session", session)
    assert said.returncode == 0, said.stdout
    (page,) = site.database.parent.glob("hand-small-*.html")
    assert said.stdout.strip().endswith(str(page))
    assert "by hand on" in page.read_text()
    assert f'<td data-label="{OLD}">' in page.read_text()
    said = report(site, "--session", session, "--format", "md")
    assert f"| Setting | {OLD} | {NEW} |" in said.stdout
