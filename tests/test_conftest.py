"""What all tests are made with."""

import itertools
from pathlib import Path

import pytest
from conftest import covering

pytest_plugins = ["pytester"]


def test_covering_has_every_pair_of_values_in_few_cases(monkeypatch):
    monkeypatch.delenv("IOWATCH_TEST_PRODUCT", raising=False)
    axes = ["abcd", [1, 2, 3], [True, False], [{}, {"one": 1}, {"two": 2}]]
    cases = covering(*axes)
    for first, second in itertools.combinations(range(len(axes)), 2):
        for values in itertools.product(axes[first], axes[second]):
            assert any((case[first], case[second]) == values for case in cases), values
    assert len(cases) <= 16, "the two longest axes have 12 pairs, the product 72 cases"
    assert covering("ab") == [("a",), ("b",)]


def test_covering_is_the_product_where_all_is_asked_for(pytester):
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(
        """
        from conftest import covering

        def test_it():
            assert len(covering("abc", "abc", "abc")) == 27
        """
    )
    pytester.syspathinsert()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("IOWATCH_TEST_PRODUCT", raising=False)
        pytester.runpytest().assert_outcomes(failed=1)
        patch.setenv("IOWATCH_TEST_PRODUCT", "")  # which the option sets, and the context removes
        pytester.runpytest("--product").assert_outcomes(passed=1)


def test_golden_file_is_written_only_on_demand(pytester):
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    test = pytester.makepyfile('def test_it(golden): golden("it.txt", "one\\ntwo\\n")')
    golden = pytester.path / "golden/it.txt"
    command = f"*pytest --update-golden {test.name}::test_it"
    pytester.runpytest().stdout.fnmatch_lines(["+one", command])
    assert not golden.exists()
    pytester.runpytest("--update-golden").assert_outcomes(passed=1)
    assert golden.read_text() == "one\ntwo\n"
    pytester.runpytest().assert_outcomes(passed=1)
    golden.write_text("one\n2\n")
    pytester.runpytest().stdout.fnmatch_lines(["-2", "+two", command])
    assert golden.read_text() == "one\n2\n"
