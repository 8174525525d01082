"""A suite from users' I/O: logs whose truth is known, the fewest cases, and an archive's faults."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from reads_darshan import cffi_backend
from typer.testing import CliRunner

from iowatch.adopt.users_io import log_archive
from iowatch.adopt.users_io.file_classes import OPERATIONS, AccessClass, Amount, Usage
from iowatch.adopt.users_io.log_reader import read_log
from iowatch.adopt.users_io.proposal_text import suite_text, table_lines
from iowatch.adopt.users_io.stand_in import propose
from iowatch.cases.filesystem import ACCEPTANCE, NIGHTLY
from iowatch.cli import app
from iowatch.site.suites import read_filesystem, read_suites

LOGS = Path(__file__).parents[1] / "data/darshan"
KIB, MIB = 2**10, 2**20


def place(osts=None, nodes=4, ranks_per_node=24, cached_reads=False):
    """A partition of a site that measures on so many nodes at most."""
    layout = {} if osts is None else {"layout": ["default"]}
    measured = {"SharedFileWrite": {"backend": ["mpiio"], "local_size": [64], "nodes": [nodes]}}
    measured["SharedFileWrite"] |= layout
    extras = {
        "filesystem": "fs3", "path": "/fs3/iowatch", "type": "ext4" if osts is None else "lustre",
        "peak": 1e5, "osts": osts, "cached_reads": cached_reads, "keep_days": 60,
        "ranks_per_node": ranks_per_node, "suites": {NIGHTLY: measured, ACCEPTANCE: {}},
    }  # fmt: skip
    return read_filesystem("archer", "fs3", ["gnu"], extras, ["archer.py"])


def usage_of(*pairs):
    usage = Usage()
    usage.add(pairs)
    return usage


def kind(operation="write", library="hdf5", files="shared", ranks=6, size=20, **more):
    return AccessClass(
        operation=operation, library=library, files=files, ranks=ranks, size=size, **more
    )


def used(name):
    """The usage of one log of tests/data/darshan."""
    usage = Usage()
    usage.add(*read_log(str(LOGS / f"{name}.darshan")))
    return usage


# Logs of IOR, h5bench and benchio, as tests/data/darshan/README.md says they were run

ONE = "SharedFile{}/backend={}/local_size={}/ranks={}{}"
MANY = "FilePerProcess{}/backend={}/local_size={}/ranks={}/files={}"
ALONE = "/collective=no"
#: The case that stands for most of what each log has written, and if `2` for what it has read.
TRUTH = {
    name: [text.format(word, *values) for word in ("Write" * (text is ONE), "Read")][:operations]
    for name, operations, text, *values in (
        ("ior-posix-shared", 2, ONE, "mpiio", "524288x1x1", 4, ALONE + "/transfer=1MiB"),
        ("ior-posix-hard", 2, ONE, "mpiio", "8193x4x4", 4, ALONE + "/pattern=strided"),
        ("ior-posix-random", 2, ONE, "mpiio", "8192x8x8", 4, ALONE + "/pattern=random"),
        ("ior-posix-process", 2, MANY, "posix", "524288x1x1", 4, "process/transfer=1MiB"),
        ("ior-mpiio-collective", 2, ONE, "mpiio", "524288x1x1", 4, "/transfer=1MiB"),
        ("ior-mpiio-independent", 2, ONE, "mpiio", "524288x1x1", 4, ALONE + "/transfer=1MiB"),
        ("ior-mpiio-unaligned", 2, ONE, "mpiio", "131080x1x1", 4, ALONE + "/transfer=131080"),
        ("ior-hdf5-collective", 2, ONE, "hdf5", "128x64x64", 4, "/transfer=1MiB"),
        ("ior-hdf5-independent", 2, ONE, "hdf5", "524288x1x1", 4, ALONE + "/transfer=1MiB"),
        ("ior-pnetcdf-collective", 2, ONE, "pnetcdf", "128x64x64", 4, "/transfer=1MiB"),
        ("h5bench-write", 1, ONE, "hdf5", "128x64x64", 4, "/transfer=256KiB"),
        ("h5bench-no-module", 1, ONE, "hdf5", "128x64x64", 4, "/transfer=256KiB"),
        ("h5bench-independent", 1, ONE, "hdf5", "32768x4x4", 4, ALONE + "/pattern=strided"),
        ("benchio-hdf5-independent", 1, ONE, "hdf5", "32x32x32", 4, ALONE),
        ("benchio-pnetcdf-shared", 1, ONE, "pnetcdf", "32x32x32", 4, ""),
        ("benchio-netcdf-process", 1, MANY, "netcdf", "32768x1x1", 4, "process"),
        ("benchio-netcdf-gather", 1, MANY, "netcdf", "32x32x32", 4, "gather"),
        ("benchio-mpiio-groups", 1, MANY, "mpiio", "32x32x32", 4, "2"),
        ("one-writes", 1, MANY, "posix", "128x64x64", 4, "gather/transfer=1MiB"),
        ("collective-netcdf", 1, ONE, "netcdf", "8x8x8", 24, ""),
        ("independent-hdf5", 1, ONE, "hdf5", "8x8x8", 24, ALONE),
    )
}


def first_case(proposal, operation):
    return proposal.operations[operation].cases[0].case


def cases_of(proposal):
    return [case for entry in proposal.operations.values() for case in entry.cases]


@pytest.mark.long
def test_the_case_of_a_log_is_what_its_program_was_told_to_do():
    proposals = {name: propose(used(name), place(), 1) for name in TRUTH}
    proposed = {
        name: [first_case(proposals[name], operation) for operation in OPERATIONS[: len(cases)]]
        for name, cases in TRUTH.items()
    }
    assert proposed == TRUTH
    (note,) = (line for line in table_lines(proposals["h5bench-no-module"]) if "note:" in line)
    assert note.startswith("note: logs without counts of HDF5, NetCDF and PnetCDF: 1 of 1; the")
    names = propose(used("benchio-names"), place(), 1)
    assert first_case(names, "metadata") == "Metadata/items=64/ranks=4/files=process"
    (read,) = (c.case for c in cases_of(propose(used("h5bench-read"), place(), 0.9)))
    assert read.startswith("SharedFileRead/backend=hdf5/local_size=128x64x64/ranks=4/transfer=256K")


def test_what_a_case_differs_in_is_told():
    usage = usage_of(
        (kind(library="posix", size=28, ranks=12, aligned=True), Amount(2**40, 2**12, 1)),
        (kind(library="posix", size=27, ranks=11, aligned=True), Amount(2**30, 2**11, 1)),
    )
    (case,) = cases_of(propose(usage, place(), 1))
    assert case.case.startswith("SharedFileWrite/backend=mpiio/local_size=4194304x1x1/ranks=96/")
    assert case.differences == [
        "calls of 128 MiB to 256 MiB",
        "2048 to 4096 ranks",
        "POSIX calls, where the case has MPI-IO's independent ones",
    ]


def test_case_has_the_stripes_of_most_bytes(monkeypatch):
    """The records of Lustre are made up: the logs are of other filesystems."""
    name = "ior-posix-shared"
    ids = cffi_backend.log_get_name_records(cffi_backend.log_open(str(LOGS / f"{name}.darshan")))
    stripes = {"LUSTRE_COMP_STRIPE_COUNT": 48, "LUSTRE_COMP_STRIPE_SIZE": 4 * MIB}
    records = [{"id": key, "components": [{"counters": stripes}]} for key in ids]
    monkeypatch.setattr(
        cffi_backend, "log_get_record", lambda *_, **__: records.pop() if records else None
    )
    usage = used(name)
    usage.add((c._replace(stripes="1x1"), Amount(MIB, 1, 1)) for c in [*usage.classes] if c.stripes)
    case, *_ = cases_of(propose(usage, place(osts=[0, 1, 2]), 1))
    assert "/stripe_count=3/stripe_size=4/" in case.case, "no more than there are"
    assert {"1 stripes of 1 MiB", "48 stripes of 4 MiB"} <= {*case.differences}
    assert "/layout=default/" in first_case(propose(used(name), place(osts=[0]), 1), "write")


def test_what_no_case_stands_for_has_a_reason():
    usage = usage_of(
        (kind(library="stdio", files="process"), Amount(300, 1, 1)),
        (kind(library="daos"), Amount(100, 1, 1)),
        (kind(library="hdf5", collective=True, order="blocks"), Amount(600, 1, 1)),
        (kind("metadata", "posix", ranks=9, size=0, order="one name"), Amount(512, 512)),
    )
    proposal = propose(usage, place(), 0.9)
    lines = "\n".join(table_lines(proposal))
    assert [case.part for case in cases_of(proposal)] == [0.6]
    assert "  30.0%          no case: STDIO, whose small calls the C library collects" in lines
    assert "  10.0%          no case: DAOS's own interface" in lines
    assert "100.0%          no case: ranks open one file together, as in the phase `open`" in lines
    assert "--cover" not in lines, "all that a case can stand for"


# The fewest cases


def test_a_case_stands_for_classes_within_a_factor_of_two():
    """The middle of three sizes, which no class before it would choose, and one number of ranks."""
    sizes = ((18, 50), (19, 10), (20, 30), (21, 9), (26, 1))
    usage = usage_of(
        *((kind(size=size, ranks=ranks), Amount(share * MIB, 4, 1))
          for size, share in sizes for ranks in (3, 4, 6))
    )  # fmt: skip
    cases = cases_of(propose(usage, place(), 0.9))
    assert [(round(3 * case.part, 2), case.values["transfer"]) for case in cases] == [
        (1.8, ["512KiB"]),
        (0.9, ["512KiB"]),
    ]
    assert len(cases_of(propose(usage, place(), 0.59))) == 1


EXPONENTS, SIZES = st.integers(0, 17), st.integers(0, 32)
ARRAYS = st.builds(
    kind,
    operation=st.sampled_from(["write", "read"]),
    library=st.sampled_from(["posix", "mpiio", "hdf5", "netcdf", "pnetcdf", "stdio", "daos"]),
    files=st.sampled_from(["shared", "process", "gather"]),
    ranks=EXPONENTS,
    size=SIZES,
    collective=st.booleans(),
    order=st.sampled_from(["contiguous", "strided", "random", "blocks"]),
    aligned=st.sampled_from([None, True, False]),
    stripes=st.sampled_from(["", "1x1", "160x16"]),
)
GROUPS = st.builds(kind, files=st.just("groups"), ranks=EXPONENTS, per_file=EXPONENTS)
OF_NAMES = st.builds(
    kind,
    operation=st.just("metadata"),
    library=st.just("posix"),
    files=st.sampled_from(["shared", "process"]),
    ranks=EXPONENTS,
    size=SIZES,
    order=st.sampled_from(["contiguous", "one name"]),
)
AMOUNTS = st.builds(Amount, st.integers(1, 2**50), st.integers(0, 2**20), st.just(1))


@given(
    st.dictionaries(ARRAYS | GROUPS | OF_NAMES, AMOUNTS, max_size=12),
    st.sampled_from([None, [0, 1, 2, 3]]),
    st.sampled_from([0.3, 0.9, 1]),
)
def test_parts_add_up_and_any_proposal_is_a_suite_of_a_sites_file(classes, osts, cover):
    where = place(osts, ranks_per_node=128)
    proposal = propose(usage_of(*classes.items()), where, cover)
    for operation in OPERATIONS:
        entry = proposal.operations[operation]
        parts, aside = [case.part for case in entry.cases], sum(entry.without_case.values())
        assert sum(parts) == pytest.approx(entry.stood_for)
        assert sum(parts) + aside <= 1 + 1e-9
        assert parts == sorted(parts, reverse=True), "the most first"
        if entry.total:
            assert sum(parts) >= cover * (1 - aside) - 1e-9
            assert sum(parts[:-1]) < cover * (1 - aside) + 1e-9 or not parts, "none too many"
    pasted = {}
    exec(suite_text(proposal), pasted)
    suites = {NIGHTLY: pasted["FROM_DARSHAN"], ACCEPTANCE: {}}
    read = read_suites("archer.py", evolve(where, suites=suites))[NIGHTLY]
    texts = {f"{name}/{setting.text}" for name in suites[NIGHTLY] for setting in read[name]}
    assert texts == {case.case for case in cases_of(proposal)}
    assert all(case.values["nodes"] <= [4] for case in cases_of(proposal)), "the site's largest"


# An archive


@pytest.fixture
def archive(tmp_path):
    """A folder of users' logs, some of which nobody can read."""
    users = tmp_path / "logs/2026/11"
    users.mkdir(parents=True)
    whole = (LOGS / "collective-hdf5.darshan").read_bytes()
    for name in ("ior-posix-process", "ior-hdf5-independent", "h5bench-no-module"):
        shutil.copy(LOGS / f"{name}.darshan", users / f"alice_{name}.darshan")
    for name, log in {
        "cut": whole[: len(whole) * 8 // 10],
        "garbage": b"garbage",
        "newer": whole.replace(b"3.41", b"3.91", 1),
        "names": whole[:344] + bytes([whole[344] ^ 1]) + whole[345:],  # not at their place
    }.items():
        (users / f"alice_{name}.darshan").write_bytes(log)
    (users / "alice_packed.darshan.gz").touch()
    (users / "alice_gone.darshan").symlink_to("nowhere")
    (users / "notes.txt").write_text("no log")
    return tmp_path / "logs"


def from_darshan(*words):
    return CliRunner().invoke(app, ["suite", "from-darshan", *map(str, words)])


NO_LOG = "it is no log, cut off, or of another version of Darshan"
#: What the program of collective-hdf5 and others have in their logs: see README.md there.
USERS = "alice|scratch|iowatch.record|benchio|ior -a|h5b_"


@pytest.mark.long
def test_archive_is_read_but_for_what_is_named_and_counted(archive, tmp_path, documented):
    file, where = tmp_path / "suite.py", ("--system", "archer2:work1")
    done = from_darshan(archive, *where, "--output", file, "--json")
    assert done.exit_code == 0, done.output
    errors, refused = re.subn(r"not read: \S+/alice_(\w+)\.darshan(\.gz)?", r"\1", done.stderr)
    assert sorted(errors.splitlines()) == [
        "cut: a module of it is cut off, or of a newer Darshan: failed to read module "
        "H5F data from darshan log file",
        f"garbage: {NO_LOG}: invalid log file (failed to read version)",
        "gone: No such file or directory",
        "names: it is damaged (RuntimeError)",
        f"newer: {NO_LOG}: expected version 3.41, but got 3.91",
        "packed: it is compressed: decompress it first",
    ]
    printed = documented(done.stdout)["suite_proposal"]
    assert (printed["partition"], printed["logs"], printed["cost"]["jobs"]) == ("work1", 3, 6)
    assert sum(printed["not_read"].values()) == refused
    pasted = {}
    exec(file.read_text(), pasted)
    assert printed["suite"] == pasted["FROM_DARSHAN"]
    table = from_darshan(archive, *where).stdout
    assert not re.search(USERS, done.stdout + file.read_text() + errors + table)


def test_mistakes_are_one_line(archive, tmp_path):
    (tmp_path / "empty").mkdir()
    for words, why in (
        ((tmp_path / "nowhere",), "nowhere: there is no such file or folder"),
        ((tmp_path / "empty",), "no file here ends in .darshan: name a folder of Darshan logs"),
        ((archive, "--cover", "0"), "--cover 0: give a percentage above 0 and up to 100, such as"),
        ((archive, "--cover", "most"), "--cover most: give a percentage"),
        ((archive, "--output", tmp_path), "cannot be written: it is no regular file"),
    ):
        done = from_darshan(*words, "--system", "local")
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert why in done.output


def test_folder_that_cannot_be_listed_is_named(archive, monkeypatch):
    """Root may list any folder: the refusal is made up."""
    real = os.scandir

    def refuse(folder):
        if str(folder).endswith("11"):
            raise PermissionError(13, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    refused = []
    assert [*log_archive.find_logs([archive], lambda *words: refused.append(words))] == []
    assert refused == [(str(archive / "2026/11"), "Permission denied")]
    with pytest.raises(log_archive.UserError, match=r"11: Permission denied$"):
        log_archive.require_logs([archive])


READER = """
import json, os, sys
for line in sys.stdin:
    name = json.loads(line).rpartition("/")[2]
    if "crash" in name:
        os.abort()
    if "slow" in name:
        input()
    if "bug" in name:
        raise ValueError
    print("[[], []]", flush=True)
"""


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """reader(NAME, ...): what becomes of logs of these names with a reader that obeys them."""
    (tmp_path / "obedient_reader.py").write_text(READER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(log_archive, "_READER", "obedient_reader")
    monkeypatch.setattr(log_archive, "_LONGEST_S", 1.0)

    def read(*names):
        for name in names:
            (tmp_path / f"{name}.darshan").touch()
        refused = []
        usage = log_archive.read_archive(
            [tmp_path], lambda: None, lambda path, why: refused.append(Path(path).stem)
        )
        return usage.logs, sorted(refused), sorted(usage.unread)

    return read


def test_log_that_crashes_or_hangs_its_reader_is_not_the_last(reader):
    logs, refused, reasons = reader(*"abcdefgh", "crash1", "crash2", "slow")
    assert (logs, refused) == (8, ["crash1", "crash2", "slow"])
    assert reasons == [
        "Darshan's library crashes on it (SIGABRT)",
        "it takes more than 0 minutes, or too much memory",
    ]
    with pytest.raises(log_archive.UserError, match="PyDarshan does not load"):
        reader("bug")


@pytest.mark.long
def test_interrupt_leaves_nothing(tmp_path):
    """A pipe in place of a log keeps a reader waiting, and tells when the reader has gone."""
    os.mkfifo(pipe := tmp_path / "a.darshan")
    file = tmp_path / "suite.py"
    words = ["suite", "from-darshan", tmp_path, "--system", "local", "--output", file]
    with (
        subprocess.Popen(
            [sys.executable, "-m", "iowatch", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as command,
        pipe.open("wb", buffering=0) as end,  # once the reader opens it
    ):
        command.send_signal(signal.SIGINT)
        output = command.communicate()[0].decode()
        assert (command.returncode, output.count("\n")) == (130, 1), output
        with pytest.raises(BrokenPipeError):
            end.write(b"x")
    assert sorted(tmp_path.iterdir()) == [pipe]
