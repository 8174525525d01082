"""What benchio writes, from its documented formula, and readers that share no code with it."""

import threading
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
from numpy.typing import NDArray

M = np.uint64(2**31 - 1)


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    y = ((x ^ (x >> np.uint64(15))) * np.uint64(739982445)) & M
    y = ((y ^ (y >> np.uint64(12))) * np.uint64(695872825)) & M
    return y ^ (y >> np.uint64(15))


def key_of(run_id: str, backend: str, file: int, round_: int) -> np.uint64:
    """The key of a file, which counts from 0, in a round, which counts from 1 and warm-up too."""
    key = np.zeros(1, dtype=np.uint64)
    for character in f"{run_id}/{backend}/{file}/{round_}".encode("ascii"):
        key = mix(((key ^ np.uint64(character)) + np.uint64(1013904223)) & M)
    return np.uint64(key[0])


def values(index: NDArray[np.uint64], key: np.uint64) -> NDArray[np.float64]:
    """The elements of these indices in the array of a file."""
    low, high = index & M, (index >> np.uint64(31)) & M
    a = mix(low ^ key)
    b = mix(a ^ mix(high ^ ((key + np.uint64(1013904223)) & M)))
    return 1.0 + ((b << np.uint64(21)) | (a & np.uint64(2**21 - 1))).astype(np.float64) * 2.0**-52


def array(size: tuple[int, int, int], key: np.uint64) -> NDArray[np.float64]:
    """The whole array as C readers see it: size is (nx, ny, nz), the shape (nz, ny, nx)."""
    index = np.arange(np.prod(size), dtype=np.uint64)
    return values(index, key).reshape(size[::-1])


def read_raw(path: Path, size: tuple[int, int, int]) -> NDArray[np.float64]:
    return np.fromfile(path, dtype=np.float64).reshape(size[::-1])


def read_hdf5(path: Path, size: tuple[int, int, int]) -> NDArray[np.float64]:
    with h5py.File(path) as file:
        return np.asarray(file["data"])


def read_netcdf(path: Path, size: tuple[int, int, int]) -> NDArray[np.float64]:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return np.asarray(file["data"][:])


def read_cdf5(path: Path, size: tuple[int, int, int]) -> NDArray[np.float64]:
    with netCDF4.Dataset(path) as file:
        assert file.data_model == "NETCDF3_64BIT_DATA", file.data_model
        file.set_auto_mask(False)
        return np.asarray(file["data"][:])


READERS: dict[str, Callable[[Path, tuple[int, int, int]], NDArray[np.float64]]] = {
    "mpiio": read_raw,
    "hdf5": read_hdf5,
    "netcdf": read_netcdf,
    "pnetcdf": read_cdf5,
    "posix": read_raw,
}

# The HDF5 and NetCDF below h5py and netCDF4 crash when threads call both.
ONE_READER = threading.Lock()


def check(
    backend: str, path: Path, size: tuple[int, int, int], run_id: str, round_: int, file: int = 0
) -> None:
    """The file must hold the documented array, bit for bit."""
    expected = array(size, key_of(run_id, backend, file, round_))
    with ONE_READER:
        read = READERS[backend](path, size)
    assert (read.dtype, read.shape) == (np.float64, expected.shape), path
    wrong = np.argwhere(read.view(np.uint64) != expected.view(np.uint64))
    assert len(wrong) == 0, f"{path}: {len(wrong)} wrong, the first at {wrong[0]}"
