import hashlib

import pytest

from iowatch.acceptance.contract import CriteriaError, Criterion, read

LINE = "  - {name: A1, kind: peak, filesystem: fs3, at_least: 0.5}\n"
CONTRACT = f"""\
system: archer
title: Phase 2 storage
criteria:
{LINE}"""


def test_contract_is_read(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    contract = read(path)
    assert (contract.system, contract.confidence) == ("archer", 0.95)
    assert contract.criteria == [Criterion("A1", "peak", "fs3", at_least=0.5)]
    assert contract.criteria[0].committed == 0.5
    assert contract.checksum == hashlib.sha256(CONTRACT.encode()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("system: archer\n", "", "needs system, title and criteria"),
        ("title:", "titel:", "needs system, title and criteria"),
        (CONTRACT, "[", "cannot be read"),
        (
            "0.5",
            "0.5, at_least: 0.7",
            "contract.yaml: cannot be read: line 4: key 'at_least' stands",
        ),
        ("system: archer", "system: archer\nconfidence: 95", "confidence is 95, not between"),
        (LINE, "  []", "is empty"),
        ("name: A1, ", "", "criterion 1: needs filesystem, kind, name"),
        ("kind: peak", "kind: peek", "kind is 'peek': there are bandwidth, peak"),
        ("kind: peak", "kind: [peak]", r"kind is \['peak'\]: there are"),
        ("name: A1", "name: ", "criterion 1: its name is empty"),
        (LINE, LINE + LINE.replace("0.5", "0.7"), "two criteria are named 'A1'"),
        ("0.5", "9" * 400, "not a positive number"),
        ("0.5", ".nan", "not a positive number"),
        ("at_least", "atleast", "has no key atleast"),
        (", at_least: 0.5", "", "peak needs at_least"),
        ("at_least: 0.5", "at_least: 0.5, at_most: 2", "peak needs at_least, and no other"),
        ("at_least: 0.5", "at_least: -1", "at_least is -1, not a positive number"),
        ("kind: peak", "kind: repeatability", "repeatability needs at_most"),
        ("kind: peak", "kind: scaling", "from_nodes and to_nodes belong to scaling"),
        ("kind: peak", "kind: peak, from_nodes: 1, to_nodes: 2", "belong to scaling"),
        ("kind: peak", "kind: ratio", "ratio needs a backend other than mpiio"),
        ("kind: peak", "kind: peak, nodes: many", "nodes is 'many', not a number of nodes"),
    ],
)
def test_contract_that_says_too_little_is_an_error(tmp_path, old, new, sentence):
    path = tmp_path / "contract.yaml"
    assert old in CONTRACT
    path.write_text(CONTRACT.replace(old, new))
    with pytest.raises(CriteriaError, match=sentence):
        read(path)
