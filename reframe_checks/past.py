"""What this session knows of earlier nights: read once, when the first case is judged."""

import os
from datetime import date
from functools import cache
from pathlib import Path

import reframe.core.runtime as rt
from reframe.core.exceptions import ExpectedFailureError, SanityError

from iowatch import bless, history, references
from iowatch.files import load_yaml
from iowatch.verdict import BadReference

from .benchio import ROOT


def reference_folder():
    """Where the site's reference values and baselines are."""
    given = rt.runtime().get_option("general/0/reference_prefix")
    return Path(given or ROOT / "reference_values").absolute()


@cache  # not per case: ReFrame reads the file for each of them
def check_references(path):
    """An error if the reference file has a key twice, of which ReFrame would take the last."""
    entries = load_yaml(path.read_text("utf-8"))
    if not isinstance(entries, dict):
        what = "is empty" if entries is None else "has no sections, one for each check"
        raise BadReference(f"it {what}: see reference_values/README.md")


@cache
def blessed():
    """The baseline of each case that has one."""
    return bless.read(rt.runtime().system.name, reference_folder())


@cache
def expected_failures():
    """What may fail for now."""
    return references.read_expected(rt.runtime().system.name, reference_folder())


def fail(place, sentence):
    """Fail a test that has no case, unless that is expected of this place."""
    try:
        excused = references.excuse(expected_failures(), place, date.today())
    except references.ExpectedError as err:
        raise SanityError(str(err)) from None
    if excused:
        raise ExpectedFailureError(f"{place}: {sentence} ({excused})")
    raise SanityError(f"{place}: {sentence}")


@cache
def nights():
    """The runs of each case by night; none before the first session is stored."""
    file = Path(os.path.expandvars(rt.runtime().get_option("storage/0/sqlite_db_file")))
    return history.by_night(history.read([file])) if file.exists() else {}
