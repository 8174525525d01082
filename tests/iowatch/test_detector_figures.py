"""The published figures of the detector hold: docs/detector.md, within the Monte-Carlo error."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from detector_model import MAIN, PESSIMISTIC
from detector_trials import (
    CASES,
    FAULTS,
    NEVER,
    PLAIN,
    Trial,
    Whole,
    blamed,
    detection,
    detection_of_filesystems,
    false_alarms,
    false_alarms_of_filesystems,
)

from iowatch.detector.common import Common

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/detector.md").read_text("utf-8")
SEED = 20  # not the bench's
MODELS = {"main": MAIN, "pessimistic": PESSIMISTIC}


def rows(heading):
    """The rows of the first table after a heading: {first cell: other cells}."""
    _, _, after = PAGE.partition(heading)
    table = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)[0]
    cells = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table.split("\n")]
    return {first: rest for first, *rest in cells[2:] if rest}


def published_percent(model, fault, column=0):
    """Within 1, 2, 3, 7 and 14 nights."""
    cells = rows(f"within 1 / 2 / 3 / 7 / 14 nights, {model}:")[fault]
    return [float(value) for value in cells[column].split("/")]


@pytest.mark.parametrize("model", MODELS)
def test_false_alarms(model):
    published = rows("False alarms per 1000")[model]
    rate = float(re.match(r"\*\*([\d.]+)\*\*", published[0])[1]) / 1000
    trial = Trial(MODELS[model], series=12, nights=100, seed=SEED)
    counts = [false_alarms(trial, index) for index in range(CASES)]
    nights = sum(count["nights"] for count in counts)
    assert nights == 22 * 12 * 100
    expected = rate * nights
    found = sum(count["all"] for count in counts)
    assert abs(found - expected) <= 4 * math.sqrt(expected) + 1
    for percent, per_thousand in zip(PLAIN, published[-len(PLAIN) :], strict=True):
        low = sum(count[percent] for count in counts) / nights
        assert low == pytest.approx(float(per_thousand) / 1000, rel=0.2), percent


@pytest.mark.parametrize("model", MODELS)
def test_detection(model):
    trial = Trial(MODELS[model], series=10, nights=14, seed=SEED)
    found = [detection(trial, index) for index in range(CASES)]
    for fault in FAULTS:
        nights = np.array([case[fault]["all"] for case in found])
        for within, percent in zip((1, 2, 3, 7, 14), published_percent(model, fault), strict=True):
            part, expected = (nights <= within).mean(), percent / 100
            error = math.sqrt(max(expected * (1 - expected), 0.005) / nights.size)
            assert part == pytest.approx(expected, abs=4 * error), (fault, within)


def of_filesystems(fault, column=0):
    """The filesystem, or the library (1), named within 1, 2, 3, 7 and 14 nights, by model."""
    found = rows("What is named, in % within")
    return {
        name.partition("; ")[2]: [float(value) for value in cells[column].split("/")]
        for name, cells in found.items()
        if name.startswith(f"{fault}; ") and cells[column] != "-"
    }


@pytest.mark.long
def test_filesystems():
    false = rows("Where all is well, alarms in 1000 nights of a filesystem")
    counts = false_alarms_of_filesystems(Whole(PESSIMISTIC, 0.5, series=20, seed=SEED))
    for cell, count in zip(false["pessimistic, 0.5"], counts.values(), strict=False):
        expected = float(cell.split()[0]) / 1000 * count["nights"]
        assert abs(count["all"] - expected) <= 4 * math.sqrt(expected) + 1
    for fault in ("filesystem -30 %", "HDF5 only -50 %"):
        trial = Whole(MAIN, 0.5, series=30, nights=14, seed=SEED)
        found = detection_of_filesystems(trial, FAULTS[fault])
        for column, common in enumerate(Common):
            published = of_filesystems(fault, column)["main, 0.5"]
            for within, percent in zip((1, 2, 3, 7, 14), published, strict=True):
                part, expected = (np.array(found[common]) <= within).mean(), percent / 100
                error = math.sqrt(max(expected * (1 - expected), 0.01) / 30)
                assert part == pytest.approx(expected, abs=4 * error), (fault, common, within)


@pytest.mark.parametrize("finish", [0.1, 0.3])
def test_a_slow_filesystem_is_not_blamed_on_the_library(finish):
    trial = Whole(MAIN, 0.5, series=6, nights=14, seed=SEED, spread=0.3)
    found, count = blamed(trial, 0.5, finish)
    filesystem, _, single = rows("A filesystem of 16 cases that is slow")[f"-50 %; 0.3; +{finish}"]
    assert min(found[Common.LIBRARY]) == NEVER
    expected = float(single) / 1000 * count["nights"]
    assert abs(count["library"] - expected) <= 4 * math.sqrt(expected) + 1
    for within, percent in zip((1, 2, 3, 7, 14), map(float, filesystem.split("/")), strict=True):
        part, expected = (np.array(found[Common.FILESYSTEM]) <= within).mean(), percent / 100
        error = math.sqrt(max(expected * (1 - expected), 0.01) / 6)
        assert part == pytest.approx(expected, abs=4 * error), within


def test_the_targets_are_met_by_the_published_figures():
    false = {
        model: float(re.match(r"\*\*([\d.]+)\*\*", cells[0])[1])
        for model, cells in rows("False alarms per 1000").items()
    }
    assert false["main"] <= 0.3
    assert false["pessimistic"] <= 1
    transient = [
        float(cells[3]) for name, cells in rows("runs. Per 1000").items() if "normal" in name
    ]
    assert len(transient) == 4, "of cases and of filesystems"
    assert max(transient) <= 1
    assert published_percent("main", "H5Fclose, 27 % left")[0] >= 99.5
    assert published_percent("main", "H5Fclose, 27 % left")[1] == 100
    assert published_percent("main", "HDF5 only -50 %")[3] >= 99
    assert published_percent("main", "filesystem -70 %")[2] >= 90
    for name, (_, library, single) in rows("A filesystem of 16 cases that is slow").items():
        assert float(library.split("/")[-1]) == 0, name
        assert float(single) <= (0.5 if name.endswith("+0.1") else 8), name
    for model in ("main, 0.3", "main, 0.5"):
        assert of_filesystems("filesystem -30 %")[model][3] >= 85
        assert of_filesystems("filesystem -50 %")[model][2] >= 90
        well = rows("Where all is well, alarms in 1000 nights of a filesystem")[model]
        assert float(well[0].split()[0]) <= false["main"], "than one of its cases"
