from datetime import date
from pathlib import Path

import pytest
import yaml

from iowatch.files import BadYaml, load_yaml

SITES = sorted((Path(__file__).parents[2] / "reference_values").glob("*.yaml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: key 'a' stands in line 1 already: remove one"),
        ("a: 1\n'a': 2", "line 2: key 'a'"),
        ("a:\n- {b: 1, b: 1}", "line 2: key 'b' stands in line 2"),
        ("a: &a {b: 1}\nc: {<<: *a, b: 2, b: 3}", "line 2: key 'b'"),
    ],
)
def test_key_that_stands_twice_is_named_with_both_lines(text, sentence):
    with pytest.raises(BadYaml, match=f"^{sentence}") as raised:
        load_yaml(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["[", "a: 2026-02-30", "\x00", "!!bool x", "? [1]\n: 2", "[" * 9999]
)
def test_text_that_is_no_yaml_is_one_error_in_one_line(text):
    with pytest.raises(BadYaml, match=r"^.+$"):
        load_yaml(text)


def test_what_is_merged_may_be_changed():
    text = "a: &a {x: 1, y: 1}\nb: {b: &b {<<: *a, x: 2}}\nd: {<<: *b, y: 3}\nf: [{x: 1}, {x: 1}]"
    assert load_yaml(text) == yaml.safe_load(text)
    assert load_yaml(text)["d"] == {"x": 2, "y": 3}
    assert load_yaml("1: a\n'1': 2026-01-31") == {1: "a", "1": date(2026, 1, 31)}
    assert load_yaml("") is None


@pytest.mark.parametrize("path", SITES, ids=lambda path: path.stem)
def test_reference_files_have_no_key_twice(path):
    text = path.read_text()
    assert load_yaml(text) == yaml.safe_load(text)
