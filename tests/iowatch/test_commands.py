"""Programs that iowatch runs: what is an answer, and why there is none."""

import pytest

from iowatch.base.commands import run


def test_an_answer_is_what_a_program_prints_in_english(tmp_path):
    answer = run("sh", "-c", 'cat; echo "$LC_ALL $X" >&2', given=b"a\xffb\n", X="y")
    assert (answer.text, answer.errors, answer.trouble) == ("a\ufffdb\n", "C y\n", "")
    assert answer.why("names no OSTs").endswith(
        "` names no OSTs: it says 'a\ufffdb', as no version that is known here"
    )
    assert run("true").why("names none") == "`true` names none: it says nothing"


@pytest.mark.parametrize(
    ("words", "trouble"),
    [
        (("no-such-program",), "no-such-program is not on PATH"),
        (("/none",), "there is no /none"),
        (("/dev/null", "x"), "/dev/null cannot be run: Permission denied"),
        (("sh", "-c", "echo one; echo two >&2; exit 3"), "failed: two"),
        (("sh", "-c", "echo one; exit 3"), "failed: one"),
        (("sh", "-c", "exit 3"), "`sh -c exit 3` failed: exit code 3"),
        (("sleep", "9"), "`sleep 9` gave no answer within 0.2 s"),
    ],
)
def test_what_did_not_end_well_says_why(words, trouble):
    answer = run(*words, timeout_s=0.2 if words[0] == "sleep" else 30)
    assert answer.trouble.endswith(trouble)
    assert answer.why("names none") == answer.trouble
