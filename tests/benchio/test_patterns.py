"""Files that are not one array in large pieces, read by independent readers."""

from typing import NamedTuple

import h5py
import netCDF4
import numpy as np
import pytest
import reference_data
from conftest import BACKENDS, FILES, ONE_MPI_IO, RUN_ID, each
from many_runs import Plan, result_of, run_many

from iowatch.cases.parameters import PATTERN, format_size, pattern_of


class Pattern(NamedTuple):
    """A pattern as a case has it, its array, and what writes it."""

    words: str
    ranks: int
    size: tuple[int, int, int]
    options: str = ""
    backends: tuple[str, ...] = BACKENDS

    @property
    def given(self):
        """The numbers in it."""
        pairs = (word.partition("=") for word in self.words.split(":"))
        return {word: int(number or 1) for word, _, number in pairs}

    def of(self, word, usual):
        return self.given.get(word, usual)


BOTH = ("hdf5", "netcdf")
PATTERNS = [
    Pattern("strided", 3, (16, 5, 4)),
    Pattern("strided", 2, (15, 3, 4), "--transfer 24 --halo 2 --collective no"),
    Pattern("random", 3, (17, 9, 4)),
    Pattern("random", 4, (64, 31, 3), "--collective no --halo 0", ("mpiio", "hdf5", "posix")),
    Pattern("variables=3", 2, (7, 5, 9)),
    Pattern("variables=3", 2, (7, 5, 9), "--collective no --chunk 4x4x2"),
    Pattern("steps=4", 3, (13, 11, 20), "--transfer 1000"),
    Pattern("steps=2", 2, (13, 11, 20), "--collective no", ("mpiio", "hdf5", "posix")),
    # Three ranks along z, of which one has more planes of each variable than the others.
    Pattern("steps=2:variables=3", 3, (4, 2, 24), "--grid 1x1x3 --transfer 64 --flush"),
    Pattern("steps=2:variables=3", 4, (40, 30, 48), "--files 2 --halo 3"),
    Pattern("strided:steps=3:variables=2", 2, (9, 4, 12)),
    Pattern("random:steps=2:nonblocking", 3, (18, 7, 10), "", ("pnetcdf", "mpiio")),
    Pattern("steps=3:variables=2:nonblocking", 2, (9, 4, 12), "--grid 2x1x1", ("pnetcdf",)),
    Pattern("deflate=1", 3, (32, 31, 30), "", BOTH),
    Pattern("steps=3:variables=2:deflate=9", 2, (64, 31, 30), "--chunk 16x31x3", BOTH),
    Pattern("deflate=4:quantize=3", 2, (32, 31, 30), "", ("netcdf",)),
    Pattern("steps=2:variables=2:deflate=1:quantize=7", 3, (32, 31, 32), "", ("netcdf",)),
]


def layers(values, pattern):
    """A whole array as (step, variable, z, y, x)."""
    steps, variables = pattern.of("steps", 1), pattern.of("variables", 1)
    _, ny, nx = values.shape
    return values.reshape(steps, variables, -1, ny, nx)


def names(pattern):
    variables = pattern.of("variables", 1)
    return [f"data{number + 1}" for number in range(variables)] if variables > 1 else ["data"]


def read_hdf5(path, pattern):
    with h5py.File(path) as file:
        datasets = [file[name] for name in names(pattern)]
        grows = pattern.of("steps", 1) > 1
        for one in datasets:
            assert (one.maxshape[0] is None) == grows
            is_deflated = (one.compression, one.compression_opts, one.shuffle)
            level = pattern.of("deflate", 0)
            assert is_deflated == (("gzip", level, True) if level else (None, None, False))
            assert (one.chunks is not None) == (grows or level > 0 or "--chunk" in pattern.options)
        found = np.stack([np.asarray(one) for one in datasets])
    return found.swapaxes(0, 1) if grows else found[np.newaxis]


def read_netcdf(path, pattern):
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        variables = [file[name] for name in names(pattern)]
        grows = pattern.of("steps", 1) > 1
        unlimited = {name for name, one in file.dimensions.items() if one.isunlimited()}
        assert unlimited == ({"time"} if grows else set())
        for one in variables:
            assert one.dimensions == (("time", "z", "y", "x") if grows else ("z", "y", "x"))
            if file.data_model == "NETCDF4":
                filters = one.filters()
                assert filters["complevel"] == pattern.of("deflate", 0)
                assert filters["shuffle"] == ("deflate" in pattern.given)
                digits = pattern.of("quantize", 0)
                attribute = "_QuantizeGranularBitRoundNumberOfSignificantDigits"
                assert (one.getncattr(attribute) if digits else 0) == digits
                assert (attribute in one.ncattrs()) == bool(digits)
        found = np.stack([np.asarray(one[:]) for one in variables])
    return found.swapaxes(0, 1) if grows else found[np.newaxis]


def read(backend, path, pattern, size):
    with reference_data.ONE_READER:
        if backend == "hdf5":
            return read_hdf5(path, pattern)
        if backend in ("netcdf", "pnetcdf"):
            return read_netcdf(path, pattern)
        return layers(reference_data.read_raw(path, size), pattern)


def check_file(backend, path, pattern, size, file):
    """The documented values, or what the documentation says of those to be compressed."""
    key = reference_data.key_of(RUN_ID, backend, file, 2)
    expected = layers(reference_data.array(size, key), pattern)
    found = read(backend, path, pattern, size)
    assert found.shape == expected.shape
    if digits := pattern.of("quantize", 0):
        assert np.abs(found - expected).max() <= 0.5 * 10.0 ** (1 - digits)
        assert np.any(found != expected), "nothing was rounded"
        return
    bits = expected.view(np.uint64)
    if "deflate" in pattern.given:
        bits = bits >> np.uint64(32) << np.uint64(32)
    wrong = np.argwhere(found.view(np.uint64) != bits)
    assert len(wrong) == 0, f"{path}: {len(wrong)} wrong, the first at {wrong[0]}"


@pytest.mark.parametrize("component", ONE_MPI_IO)
def test_files_are_as_their_pattern_is(read_result, new_directory, component):
    def check(outcome):
        pattern = outcome.plan.of
        assert (outcome.done.code, outcome.done.errors) == (0, []), outcome.done.err
        result = read_result(result_of(outcome.directory))
        run = result["run"]
        assert pattern_of(run["access"]) == pattern.words
        for backend in pattern.backends:
            files = sorted(outcome.own.glob(FILES[backend].replace(".", "*.")))
            assert len(files) == run["file_count"]
            for number, file in enumerate(files):
                check_file(backend, file, pattern, run["file_size"], number)
        for case in result["cases"]:
            (_, rep) = case["repetitions"]
            assert rep["witness"]["bytes"] == run["bytes"]
            is_chunked = {"steps", "deflate"} & {*pattern.given} or "--chunk" in pattern.options
            is_raw = case["backend"] not in BOTH or not is_chunked
            assert (rep["witness"]["method"] == "pread") == is_raw, case["backend"]
            stored = rep["file_bytes"] / run["bytes"]
            assert stored < 0.6 if "deflate" in pattern.given else stored >= 1, stored

    plans = [
        Plan(
            pattern.ranks,
            [
                "--backend", ",".join(pattern.backends), *PATTERN.option(pattern.words).split(),
                "--operation", "write-keep,read", "--global-size", format_size(pattern.size),
                "--warmup", 1, "--repeats", 1, *pattern.options.split(),
            ],
            component=component,
            of=pattern,
        )
        for pattern in PATTERNS
    ]  # fmt: skip
    each(run_many(plans, new_directory), check, at_once=1)
