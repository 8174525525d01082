"""The line of a job's output that tells why the job failed, whoever printed it."""

from pathlib import Path

import pytest

from iowatch.cases.verdict import Reason
from iowatch.measure import causes
from iowatch.measure.causes import MOST, Cause, cause_of, known_cause

TEXTS = Path(__file__).with_name("causes.txt").read_text().split("\n\n= ")[1:]


def recorded():
    """The cause that a recorded text is to tell, and what the job printed to its two files."""
    for text in TEXTS:
        told, _, printed = text.partition("\n")
        sentence, _, reason = told.partition(" | ")
        errors, _, output = f"\n{printed}".partition("\n+")
        yield Cause(" ".join(sentence.split()), Reason(reason) if reason else None), errors, output


@pytest.mark.parametrize(
    ("cause", "errors", "output"),
    [
        pytest.param(*one, id=f"{number} {one[0].sentence[:40]}")
        for number, one in enumerate(recorded())
    ],
)
def test_recorded_text_tells_its_cause(cause, errors, output):
    assert known_cause(errors, output) == cause
    many = f"{'-' * 74}\nbenchio: round 1/4 write mpiio\n{errors}\n{'-' * 74}\n"
    assert cause_of(many, output) == cause


def test_every_entry_of_the_list_has_a_recorded_text():
    every = "\n\n".join(f"{errors}\n{output}" for _, errors, output in recorded())
    untold = [text for (text, _), found in causes.PATTERNS.items() if not found.search(every)]
    assert untold == []


#: What no program of the list prints, after noise and before it.
NOISE = """\
--------------------------------------------------------------------------
[vm:04013] [[25427,0],0] ORTE_ERROR_LOG: Not found in file ess_hnp_module.c at line 320
benchio: round 1/4
os.environ["_ModuleTable001_"] = "X01vZHVsZVRhYmxlXyA9IHsKTVR2ZXJzaW9uID0gMywKY19yZWJ1aWxkVGltZSA9"
{}
#0  0x7f49176218c2 in ???
Backtrace for this error:
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[35463,1],0]
  Exit code:    127
launch.
"""


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        ("frobnicate: the frob is away", "frobnicate: the frob is away"),
        ("begins\nlicence server: cannot be reached\nends", "licence server: cannot be reached"),
        ("begins\nends", "ends"),
        ("", ""),
        ("a\x1b[31m\x07bad \x00 word", "a?[31m?bad ? word"),
    ],
)
def test_of_unknown_words_the_first_that_look_like_an_error_tell_the_cause(printed, sentence):
    """Else the last, and noise never."""
    assert cause_of(NOISE.format(printed)) == Cause(sentence)
    assert known_cause(NOISE.format(printed)) is None


def test_long_output_costs_no_time_and_its_sentence_is_short():
    """Nothing in the list looks through a text again for each of its lines."""
    hostile = [
        "x" * 2**20,
        "HDF5-DIAG: Error\n  a\n" * 2**15,
        "Traceback (most recent call last):\n  a\n" * 2**14,
        "HDF5 library version mismatched\n***HDF5 library version mismatched error\n" * 2**13,
        "[vm:1] *** An error occurred in MPI_Bcast\n" * 2**14,
        "Fatal error in MPI_Init: x, error stack:\nA(1): \n" * 2**14,
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n" * 2**14,
        "It looks like " * 2**16,
        "There are not enough slots available in the system to " * 2**14,
        "  #0" * 2**18,
        "KiB will be written, but only " * 2**15,
        "HDF5-DIAG: x\n" + "          a\n" * 2**14,
        "Fatal error in A: x, error stack:\n" + "A(1): (2): (3): \n" * 2**12,
        "A" * 43 + "\n" * 2**20,
    ]
    for text in hostile:  # in seconds; else in no time at all
        assert len(cause_of(text).sentence) <= MOST
