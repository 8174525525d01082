"""`make demo`: healthy nights of MPI-IO, HDF5 and NetCDF, then one with the white paper's fault.

Everything is real: benchio, MPI, ReFrame, `iowatch run`, `iowatch bless`, and the page. Only
the fault is made, in the last night, by set_size.c, which nothing else uses. All that is written is
in folders of its own below TMPDIR and /dev/shm, and nothing enters the history of a site.

Exit code: 0 what had to be red was red, and the rest green; 1 it was not; 130 or 143 interrupted.

docs/demo.png is the page of such a night: `.venv/bin/python scripts/demo/picture.py PAGE`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iowatch.base.files import UserError
from iowatch.cases.verdict import Reason
from iowatch.judge.settings import NORMAL
from iowatch.measure.kinds.versions import read_versions
from iowatch.night import nightly
from iowatch.night.case_night import CaseNight
from iowatch.night.night import Night
from iowatch.night.public_status import read_status
from iowatch.night.session import Interrupted, interruptible
from iowatch.night.wanted import Wanted
from iowatch.pages.report import write_page, write_status_page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SYSTEM = "demo"
FAULTY = {"hdf5", "netcdf"}  # whose files are HDF5's
HEALTHY = NORMAL.min_nights
FAULTS = 3  # nights with the fault at most
MORE = 4  # healthy nights, if others at work on this machine were in the way of some


class DemoError(Exception):
    """The demo did not come out as it should."""


INTRODUCTION = f"""\
This takes about two minutes. Small files are written through MPI-IO, HDF5 and NetCDF, verified
and judged: on {HEALTHY} healthy nights, which are then blessed as the baseline, and on one on which
HDF5 sets the size of each file as it closes it, slowly, as HDF5 1.8.16 did on Lustre. HDF5 must
be red then, and NetCDF, whose files are HDF5's; MPI-IO must not.
"""


def main() -> int:
    print(INTRODUCTION, flush=True)
    try:
        with interruptible(), _folder() as folder:
            try:
                night = _nights(folder)
                _require_fault(night)
                status = read_status(SYSTEM, [folder / "results" / "results.db"])
                public = write_status_page(status, folder / "results" / f"status-{SYSTEM}.html")
            except (DemoError, UserError) as err:
                print(f"\ndemo: error: {err}\nWhat was measured is in {folder}", file=sys.stderr)
                return 1
    except Interrupted as err:
        print(f"\ndemo: {err}: nothing is left behind", file=sys.stderr)
        return 128 + err.number
    except OSError as err:
        print(f"\ndemo: error: {err}", file=sys.stderr)
        return 1
    (hdf5,) = (row for row in night.cases if row.case.backend == "hdf5")
    print(f"\n{hdf5.sentence}\n")
    for cost in night.document.worst_costs:
        print(f"Cost to users: {cost.sentence}\n")
    print(f"The page of that night: {night.page}")
    print(f"The page for users: {public}")
    print(f"No site has a record of this; rm -r {folder} removes all of it.")
    return 0


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for all that the demo writes; it goes if the demo is interrupted."""
    folder = Path(tempfile.mkdtemp(prefix="iowatch-demo."))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder)
        raise


def _nights(folder: Path) -> Night:
    """All nights of the demo; the last."""
    references = folder / "reference_values"
    references.mkdir()
    shutil.copy(HERE / f"{SYSTEM}.yaml", references)
    (references / "user_outputs").mkdir()
    shutil.copy(HERE / "user_outputs.yaml", references / "user_outputs" / f"{SYSTEM}.yaml")
    library = _compiled(folder)
    with tempfile.TemporaryDirectory(prefix="iowatch-demo.", dir="/dev/shm") as files:
        _set_environment(folder, files)
        _healthy_nights(references)
        os.environ["DEMO_PRELOAD"] = str(library)
        for _ in range(FAULTS):
            night = _night("with the fault")
            # The next night decides on a case that is only suspect, as when MPI-IO was slow by
            # chance, or waited for processors.
            if not {row.case.backend for row in night.cases if _is_open(row)} & FAULTY:
                break
        return night


def _is_open(row: CaseNight) -> bool:
    return row.outcome.is_suspect or row.outcome.is_amber


def _healthy_nights(references: Path) -> None:
    """As many as a baseline needs, and some more if they cannot all be blessed."""
    for number in range(1, HEALTHY + MORE + 1):
        night = _night(f"healthy night {number}")
        if night.problems:
            raise DemoError("; ".join(night.problems))
        if number >= HEALTHY and _bless(references, "--dry-run"):
            break
    if not _bless(references):
        print("This machine is too busy for some: without a baseline the fault must show as well.")


def _set_environment(folder: Path, files: str) -> None:
    """ReFrame's, for the demo alone: nothing of what it is told elsewhere."""
    for name in [name for name in os.environ if name.startswith("RFM_")]:
        del os.environ[name]
    results, temporary = folder / "results", folder / "tmp"
    temporary.mkdir()
    os.environ |= {
        "TMPDIR": str(temporary),  # of jobs: mpirun may leave something in it
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DEMO_FILES": files,
        "DEMO_BACKENDS": " ".join(_backends()),
        "RFM_CONFIG_FILES": f"{ROOT}/site_configs/settings.py:{HERE}/{SYSTEM}.py",
        "RFM_PREFIX": str(results),
        "RFM_REFERENCE_PREFIX": str(folder / "reference_values"),
        "RFM_SQLITE_DB_FILE": str(results / "results.db"),
    }


def _backends() -> list[str]:
    """Those that benchio has: another module's MPI may lack NetCDF."""
    command = [str(ROOT / "build/bin/benchio"), "--version"]
    versions = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    has = {name for name, version in read_versions(versions).items() if version != "not built in"}
    if "hdf5" not in has:
        raise DemoError("benchio is built without HDF5, whose fault is shown")
    return sorted(has & {"mpiio", *FAULTY})


def _compiled(folder: Path) -> Path:
    """The library that makes the fault."""
    library = folder / "set_size.so"
    # Without libmpi: it is loaded into the shell of a job, too.
    flags = ["-shared", "-fPIC", "-O1", "-Wl,--as-needed"]
    command = ["mpicc", *flags, "-o", str(library), str(HERE / "set_size.c"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"the fault cannot be compiled: {done.stderr.strip()}")
    return library


def _night(name: str) -> Night:
    """One night, and a line on it."""
    began = time.monotonic()
    with interruptible():  # each anew: a night ignores signals while it ends
        night = nightly.run(Wanted(system=SYSTEM, quiet=True), write_page)
    if night.signal:
        raise Interrupted(night.signal)
    rates = ", ".join(
        f"{row.case.backend} {row.rate:.0f} MiB/s"
        if row.rate and not row.is_amber
        else f"{row.case.backend} {row.outcome}"
        for row in night.cases
        if row.case.backend
    )
    is_busy = any(row.outcome.reason is Reason.NODE_BUSY for row in night.amber)
    busy = "; this machine is too busy to judge all of them" if is_busy else ""
    took = time.monotonic() - began
    print(f"{name + ':':<18} {night.colour:<6} {rates} ({took:.0f} s){busy}", flush=True)
    return night


def _bless(references: Path, *options: str) -> bool:
    """Make the nights so far the baseline; are they fit for it in all cases?"""
    why = "the healthy nights of the demo"
    command = ["iowatch", "bless", "--system", SYSTEM, "--why", why, "--folder", str(references)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise DemoError(done.stderr.strip())
    if not options or done.returncode:
        print(f"{'iowatch bless:':<18} {done.stdout.strip().splitlines()[-1]}", flush=True)
    return done.returncode == 0


def _require_fault(night: Night) -> None:
    """DemoError unless that night is red where it must be, and nowhere else."""
    red = {row.case.backend for row in night.cases if row.is_red}
    faulty = FAULTY & set(_backends())
    if red == faulty and not night.problems:
        return
    came = (f"{row.outcome}: {row.sentence}" for row in night.cases if row.case.backend)
    wanted = " and ".join(sorted(faulty))
    lines = [f"{wanted} had to be red, and nothing else; this came instead:", *came]
    raise DemoError("\n".join([*lines, *night.problems, f"The page of that night: {night.page}"]))


if __name__ == "__main__":
    sys.exit(main())
