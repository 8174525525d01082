"""benchio's command line: clear errors, and what the informative options print."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import BACKENDS, ROOT, Run, command, each, run

# ranks, options, what the one error line must say
WRONG = [
    (1, "--backend mpiio,nosuch", '"nosuch"'),
    (1, "--backend mpiio,", '"mpiio,"'),
    (1, "--backend mpiio,mpiio", '"mpiio"'),
    (1, "--local-size 0", '"0"'),
    (1, "--local-size -4", '"-4"'),
    (1, "--local-size 4x0x4", '"4x0x4"'),
    (1, "--local-size 4x4", '"4x4"'),
    (1, "--local-size 4x4x4x4", '"4x4x4x4"'),
    (1, "--local-size 1e3", '"1e3"'),
    (1, "--local-size 99999999999999999999", '"99999999999999999999"'),
    (1, "--global-size 3000000x3000000x3000000", "3000000x3000000x3000000"),
    (2, "--local-size 1500000000x1500000000x4", "3000000000x1500000000x4"),
    (1, "--local-size 4 --global-size 4", "exclude each other"),
    (3, "--global-size 1x1x2", "1x1x2"),
    (3, "--global-size 2x2x2", "2x2x2"),
    (2, "--global-size 4 --grid 2x2x1", "--grid 2x2x1"),
    (2, "--global-size 4 --grid 2x1", '"2x1"'),
    (2, "--global-size 4 --grid 2x0x1", '"2x0x1"'),
    (2, "--global-size 1x4x4 --grid 2x1x1", "--grid 2x1x1"),
    (1, "--halo -1", '"-1"'),
    (1, "--halo wide", '"wide"'),
    (1, "--halo 4000000000000000000", '"4000000000000000000"'),
    (1, "--repeats 0", '"0"'),
    (1, "--repeats ten", '"ten"'),
    (1, "--warmup -1", '"-1"'),
    (1, "--run-id a/b", '"a/b"'),
    (1, "--run-id ..", '".."'),
    (1, "--run-id=", "--run-id needs a value"),
    (1, f"--run-id {'i' * 65}", "1 to 64"),
    (1, "--transfer 7", '"7"'),
    (1, "--transfer 0KiB", '"0KiB"'),
    (1, "--transfer 4MB", '"4MB"'),
    (1, "--transfer KiB", '"KiB"'),
    (1, "--transfer 1.5MiB", '"1.5MiB"'),
    (1, "--transfer 1025MiB", '"1025MiB"'),
    (1, "--settle -1", '"-1"'),
    (1, "--flush=yes", "--flush takes no value"),
    (1, "--direct yes", '"yes"'),
    (1, "--sync data", '"--sync"'),  # there is no choice any more
    (1, "--verify all", '"--verify"'),
    (1, "--nosuch 1", '"--nosuch"'),
    (1, "--repeats", "--repeats needs a value"),
    (1, "stray", '"stray"'),
    (3, "--files 2", "--files 2"),
    (2, "--files 3", "--files 3"),
    (2, "--files 0", '"0"'),
    (2, "--files -1", '"-1"'),
    (2, "--files some", '"some"'),
    (3, "--instances 2", "--instances 2"),
    (2, "--instances 3", "--instances 3"),
    (2, "--instances 0", '"0"'),
    (4, "--instances 2 --files 4", "--files 4"),
    (2, "--files process --grid 2x1x1", "--grid 2x1x1"),
    (2, "--files process --global-size 4x4x1", "4x4x1"),
    (2, "--files process --halo 0 --local-size 1000000000x1000000000x1", "2^63 - 1"),
    (1, "--operation erase", '"erase"'),
    (1, "--operation write,", '"write,"'),
    (1, "--operation read,read", '"read"'),
    (1, "--collective maybe", '"maybe"'),
    (1, "--collective-metadata maybe", '"maybe"'),
    (1, "--file-format oldest", '"oldest"'),
    (1, "--hint novalue", '"novalue"'),
    (1, "--hint =1", '"=1"'),
    (1, "--chunk 4x4", '"4x4"'),
    (1, "--chunk 0x4x4", '"0x4x4"'),
    (1, "--alignment 0", '"0"'),
    (1, "--pattern stridden", '"stridden"'),
    (2, "--pattern steps=3 --local-size 4x4x4", "4 are no multiple of 3"),
    (1, "--backend pnetcdf --pattern nonblocking --collective no", "collectively"),
    (1, "--backend netcdf --alignment 4096", "NetCDF"),  # its Fortran interface has none
    (1, "--stripe-count 0", '"0"'),
    (1, "--stripe-size -1", '"-1"'),
    (1, "--targets 1 --backend hdf5", "mpiio and posix only"),
    (1, "--time-limit -1", '"-1"'),
    (1, "--time-limit soon", '"soon"'),
]


def test_wrong_usage(mpirun: Callable[..., Run], new_directory: Callable[[], Path]) -> None:
    def check(case: tuple[int, str, str]) -> None:
        ranks, options, said = case
        files = new_directory()
        json = files.parent / "result.json"
        json.write_text("yesterday's")
        # the option under test comes last, so that a missing value is really missing
        done = mpirun(ranks, "--dir", files, "--json", json, *options.split(), timeout=20)
        assert done.code == 2, done.err
        assert len(done.errors) == 1, done.err
        assert said in done.errors[0]
        assert not json.exists()
        assert list(files.iterdir()) == []

    each(WRONG, check)


def test_result_path_that_cannot_be_written(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    """Found before the first write, not after hours of it."""
    json = tmp_path / "nosuch" / "result.json"
    done = mpirun(2, "--local-size", 8, "--dir", tmp_path, "--json", json)
    assert done.code == 3
    assert len(done.errors) == 1
    assert str(json) in done.errors[0]
    assert "round" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_old_result_does_not_outlive_a_failed_run(
    mpirun: Callable[..., Run], tmp_path: Path
) -> None:
    json = tmp_path / "result.json"
    json.write_text('{"status": "ok"}')
    assert mpirun(1, "--json", json, "--dir", tmp_path / "nosuch").code == 3
    assert '"io_error"' in json.read_text()


def test_dry_run_keeps_the_old_result(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    json = tmp_path / "result.json"
    json.write_text("yesterday's")
    for options, code in (("", 0), ("--files 2", 2)):
        done = mpirun(1, "--dry-run", "--json", json, "--dir", tmp_path, *options.split())
        assert done.code == code, done.err
        assert json.read_text() == "yesterday's"


def test_colon_in_the_path_is_refused_where_mpi_io_opens_files(
    mpirun: Callable[..., Run], tmp_path: Path
) -> None:
    files = tmp_path / "ufs:data"
    files.mkdir()
    for backend, code in (("mpiio", 3), ("posix,hdf5", 3), ("posix", 0)):
        done = mpirun(1, "--local-size", 4, "--repeats", 1, "--backend", backend, "--dir", files)
        assert done.code == code, done.err
        assert len(done.errors) == (code > 0), done.err
        if code:
            assert f'{files}: MPI-IO may take what stands before ":" for ' in done.errors[0]
        assert list(files.iterdir()) == []


def test_odd_names_survive_in_the_result(
    mpirun: Callable[..., Run], read_result: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    odd = 'a "quoted" \\ bäckslash'
    files = tmp_path / odd
    files.mkdir()
    done = mpirun(
        1, "--local-size", 4, "--dir", files, "--json", files / "result.json",
        env={"ROMIO_NOSUCH": odd + "\ttab"},
    )  # fmt: skip
    assert done.code == 0, done.err
    result = read_result(files / "result.json")
    assert result["run"]["directory"] == str(files)
    assert result["environment"]["ROMIO_NOSUCH"] == odd + "\ttab"


def test_backend_not_built_in(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    """Asked for, it is an error, and not a run with nothing to measure."""
    build, json = tmp_path / "build", tmp_path / "result.json"
    libraries = ("hdf5", "netcdf", "pnetcdf")
    options = [f"-DBENCHIO_{name.upper()}=OFF" for name in libraries]
    options += ["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Debug"]  # half of Release's time
    for step in (
        ["cmake", "-S", ROOT / "src/benchio", "-B", build, *options],
        ["cmake", "--build", build, "--parallel", "2"],
    ):
        made = run(step)
        assert made.code == 0, made.out + made.err

    def start(*options: object) -> Run:
        return run(command(build / "benchio", 2, [*options, "--dir", tmp_path]))

    for backend in libraries:
        json.write_text("yesterday's")
        done = start("--backend", f"mpiio,{backend}", "--json", json)
        assert done.code == 6
        assert len(done.errors) == 1
        assert backend in done.errors[0]
        assert not json.exists()
    assert start("--local-size", 4).code == 0


def test_help_is_said_once(mpirun: Callable[..., Run]) -> None:
    """Although both ranks were asked."""
    done = mpirun(2, "--help")
    assert done.code == 0
    assert done.out.count("--backend LIST") == 1


def test_version_names_the_libraries(mpirun: Callable[..., Run]) -> None:
    done = mpirun(1, "--version")
    assert done.code == 0
    build = r"(\+[0-9a-f]{10}(\.dirty)?)?"  # tests/iowatch/test_build.py says which
    assert re.match(rf"benchio \d+\.\d+\.\d+{build}\n", done.out)
    assert re.search(r"(?m)^mpiio +Open MPI.* v?\d+\.\d+", done.out)
    for backend in ("hdf5", "netcdf", "pnetcdf"):
        assert re.search(rf"(?m)^{backend} +\d+\.\d+\.\d+$", done.out)
    assert re.search(r"(?m)^posix +Linux \d+\.\d+", done.out)


def test_dry_run_writes_nothing(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    done = mpirun(
        4, "--local-size", "256x128x64", "--halo", 1, "--dry-run", "--dir", tmp_path,
        "--json", tmp_path / "result.json",
    )  # fmt: skip
    assert done.code == 0
    assert str(4 * 256 * 128 * 64 * 8) in done.out  # bytes
    assert f"{258 * 130 * 66 * 8 / 2**20:.1f}" in done.out  # MiB of a rank's array with its halo
    assert list(tmp_path.iterdir()) == []


def test_dry_run_of_more_than_fits(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    """The plan is what one asks for: it is said although no machine has the room; and that is."""
    done = mpirun(2, "--global-size", "1048576x1048576x262144", "--dry-run", "--dir", tmp_path)
    assert str(2**58 * 8) in done.out  # bytes
    assert done.code == 3
    assert len(done.errors) == 1, done.err
    assert re.search(rf"{tmp_path}: \d+ bytes needed, \d+ free", done.errors[0])


def test_files_that_are_kept_need_room_together(mpirun: Callable[..., Run], tmp_path: Path) -> None:
    """Those of one backend are 8e18 bytes: of two, more than an integer holds."""

    def check(backends: str) -> None:
        done = mpirun(
            1, "--backend", backends, "--local-size", "1000000000x1000000000x1", "--halo", 0,
            "--operation", "write-keep", "--repeats", 1, "--dry-run", "--dir", tmp_path,
        )  # fmt: skip
        assert done.code == 3, done.out
        assert len(done.errors) == 1, done.err
        assert "more than 2^63 - 1 bytes needed" in done.errors[0]

    each(["mpiio,posix", ",".join(BACKENDS)], check)
