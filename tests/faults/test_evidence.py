"""Wrong data are evidence: the file stays, and the result says where it is wrong, who has written
that, and what it is."""

import struct
import sys

import reference_data
from conftest import FILES, RUN_ID
from faults.attempts import VERIFICATION, Attempt, Way

RANKS, ROWS, PLANES = 3, 64, 48
SIZE = (64, ROWS, RANKS * PLANES)  # of the file: a slab of planes each
#: Where the fault is: in the second rank's slab, and on no page's first byte.
AT = 8 * 64 * ROWS * (PLANES + 7) + 8 * 100


def command(bytes_of, folder, name):
    """Puts bytes at this place of the file, and at its data where a header is before them."""
    piece = folder / f"{name}.piece"
    piece.write_bytes(bytes_of)
    program = (
        "import os, sys; path = os.environ['FAULT_PATH']; "
        f"header = os.path.getsize(path) - {8 * 64 * ROWS * RANKS * PLANES}; "
        "file = open(path, 'r+b'); file.seek(header + int(sys.argv[1])); "
        "file.write(open(sys.argv[2], 'rb').read())"
    )
    return f'{sys.executable} -c "{program}" {AT} {piece}'


def values(backend, count, run_id=RUN_ID, round_=1, first=AT // 8):
    """What a run writes into so many elements from there on."""
    whole = reference_data.array(SIZE, reference_data.key_of(run_id, backend, 0, round_))
    return whole.reshape(-1)[first : first + count].tobytes()


def flipped(backend):
    (bits,) = struct.unpack("<Q", values(backend, 1, round_=2))
    return struct.pack("<Q", bits ^ 1 << 40)


#: What is put there, and what the result has to say: elements, kind, shift in bytes, and whose.
FAULTS = {
    "zeros": (lambda backend: bytes(4096), 512, "zeros", None, None),
    "flip": (flipped, 1, "unknown", None, None),
    "shift": (
        lambda backend: values(backend, 200, round_=2, first=AT // 8 + 64),
        200, "shifted", 512, None,
    ),
    "round": (lambda backend: values(backend, 300), 300, "of another", None, "round 1 of {}"),
    "run": (
        lambda backend: values(backend, 300, "last-night", 2),
        300, "of another", None, "another run",
    ),
}  # fmt: skip


def test_wrong_data_stay_and_are_explained(fail, tmp_path):
    """By the witness, or by the read before it."""
    attempts = [
        Attempt(
            Way(backend), f"--grid 1x1x3 --operation {timed}", "command",
            {"COMMAND": command(fault[0](backend), tmp_path, f"{backend}-{name}"), "CALL": 2},
            env={"EXPECTED": name},
        )
        for backend, timed in (("posix", "write"), ("mpiio", "write,read"))
        for name, fault in FAULTS.items()
    ]  # fmt: skip

    def check(outcome, attempt):
        backend, name = attempt.way.backend, attempt.env["EXPECTED"]
        _, elements, kind, shift, whose = FAULTS[name]
        assert outcome.done.code == VERIFICATION
        evidence = outcome.error["evidence"]
        assert (evidence["elements"], evidence["extents"]) == (elements, 1), evidence
        assert evidence["zeros"] == (elements if kind == "zeros" else 0)
        (extent,) = evidence["listed"]
        assert extent["path"] == str(outcome.own / FILES[backend])
        assert (extent["offset"], extent["bytes"]) == (AT, 8 * elements)
        assert extent["first_element"] == AT // 8
        assert extent["pages"] == [AT // 4096, (AT + 8 * elements - 1) // 4096]
        assert (extent["writer"], extent["host"]) == (1, outcome.result["run"]["hosts"][0])
        assert (extent["kind"], extent["shift"]) == (kind, shift)
        assert extent["of"] == (whose and whose.format(backend))
        (expected,) = struct.unpack("<Q", values(backend, 1, round_=2))
        assert int(extent["expected"], 16) == expected
        assert int(extent["read"], 16) != expected
        words = f"{8 * elements} bytes at byte {AT} (page {AT // 4096}), written by rank 1 on "
        assert words in outcome.said
        assert outcome.said.endswith(f"; kept: {outcome.own}")
        kept = (outcome.own / FILES[backend]).read_bytes()
        assert kept[AT : AT + 8] == int(extent["read"], 16).to_bytes(8, "little")

    fail(attempts, check)


def test_more_extents_than_are_listed(fail, tmp_path):
    """All are counted; of the file that is larger than what may be kept nothing stays."""
    every_other = bytearray(values("posix", 100, round_=2))
    for place in range(0, 100, 2):
        every_other[8 * place : 8 * place + 8] = bytes(8)
    put = command(bytes(every_other), tmp_path, "many")
    settings = {"COMMAND": put, "CALL": 2}

    def check(outcome, attempt):
        evidence = outcome.error["evidence"]
        assert (evidence["extents"], evidence["elements"], len(evidence["listed"])) == (50, 50, 16)
        offsets = [extent["offset"] for extent in evidence["listed"]]
        assert offsets == [AT + 16 * number for number in range(16)]

    options = "--grid 1x1x3 --operation write"
    fail([Attempt(Way("posix"), options, "command", settings)], check)


def test_larger_files_do_not_stay(attempt, tmp_path):
    put = command(bytes(8), tmp_path, "zero")
    options = "--grid 1x1x3 --operation write --keep-corrupt 1MiB"
    (outcome,) = attempt([Attempt(Way("posix"), options, "command", {"COMMAND": put, "CALL": 2})])
    assert outcome.done.code == VERIFICATION
    assert list(outcome.directory.iterdir()) == []
    assert not outcome.error["evidence"]["kept"]
    assert "bytes of files are not kept (--keep-corrupt)" in outcome.said
