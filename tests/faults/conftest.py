"""Filesystems and libraries with faults, and runs that meet them."""

import pytest
from conftest import compiled, each
from faults.attempts import check_failed
from many_runs import result_of, run_many


@pytest.fixture(scope="session")
def library_shim(tmp_path_factory):
    """The fault injector of library_shim.c."""
    return compiled("library_shim.c", tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def names_shim(tmp_path_factory):
    """What filesystems do to names that they should not, of names_shim.c."""
    return compiled("names_shim.c", tmp_path_factory.mktemp("names"), "gcc")


@pytest.fixture
def attempt(shim, library_shim, new_directory):
    """attempt(attempts): the outcome of each, be it well."""

    def start(attempts):
        return run_many([one.plan for one in attempts], new_directory, shim, library_shim)

    return start


@pytest.fixture
def fail(attempt, read_result):
    """fail(attempts, check): all must fail as a run that meets a fault has to; `check` knows what
    else must be true of each outcome, and of its attempt."""

    def start(attempts, check):
        def check_one(outcome):
            check_failed(outcome)
            if result_of(outcome.directory).exists():
                read_result(result_of(outcome.directory))
            check(outcome, outcome.plan.of)

        each(attempt(attempts), check_one, at_once=1)

    return start
