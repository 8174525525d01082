"""benchio's command line: clear errors, and what the informative options print. What is wrong of
each option is in src/benchio/test/test_options.f90 and test_layout.f90."""

import re

import pytest
from conftest import ROOT, command, each, run

# Ranks, options, what the one error line must say: one of each place that refuses.
WRONG = [
    (2, "--local-size 4x4", '"4x4"'),
    (1, "--repeats", "--repeats needs a value"),
    (1, "--backend mpiio,nosuch", '"nosuch"'),
    (1, "--backend netcdf --alignment 4096", "NetCDF"),  # its Fortran interface has none
    (1, "--backend mpiio,hdf5 --nonblocking", "needs a backend that has nonblocking"),
    (1, "--backend mpiio,netcdf --subfiles 2", "needs a backend that makes subfiles"),
    (3, "--files 2", "--files 2"),
    (2, "--files process --grid 2x1x1", "--grid 2x1x1"),
]


def test_wrong_usage(mpirun, new_directory):
    def check(case):
        ranks, options, said = case
        files = new_directory()
        json = files.parent / "result.json"
        json.write_text("yesterday's")
        # the option under test comes last, so that a missing value is really missing
        done = mpirun(ranks, "--dir", files, "--json", json, *options.split())
        assert done.code == 2, done.err
        assert len(done.errors) == 1, done.err
        assert said in done.errors[0]
        assert not json.exists()
        assert list(files.iterdir()) == []

    each(WRONG, check)


def test_an_old_result_does_not_outlive_a_failed_run(mpirun, tmp_path):
    json = tmp_path / "result.json"
    json.write_text('{"status": "ok"}')
    assert mpirun(1, "--json", json, "--dir", tmp_path / "nosuch").code == 3
    assert '"io_error"' in json.read_text()


def test_a_colon_in_the_path_is_refused_where_mpi_io_opens_files(mpirun, tmp_path):
    files = tmp_path / "ufs:data"
    files.mkdir()
    for backend, code in (("posix,hdf5", 3), ("posix", 0)):
        done = mpirun(1, "--local-size", 4, "--repeats", 1, "--backend", backend, "--dir", files)
        assert done.code == code, done.err
        assert len(done.errors) == (code > 0), done.err
        if code:
            assert f'{files}: MPI-IO may take what stands before ":" for ' in done.errors[0]
        assert list(files.iterdir()) == []


def test_odd_names_survive_in_the_result(mpirun, read_result, tmp_path):
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
    assert result["environment"]["variables"]["ROMIO_NOSUCH"] == odd + "\ttab"


@pytest.mark.slow  # it builds all of benchio
def test_a_backend_that_is_not_built_in(tmp_path):
    """Asked for, it is an error, and not a run with nothing to measure."""
    build, json = tmp_path / "build", tmp_path / "result.json"
    libraries = ("hdf5", "netcdf", "pnetcdf", "adios2")
    options = [f"-DBENCHIO_{name.upper()}=OFF" for name in libraries]
    options += ["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Debug"]  # half of Release's time
    for step in (
        ["cmake", "-S", ROOT / "src/benchio", "-B", build, *options],
        ["cmake", "--build", build, "--parallel", "2"],
    ):
        made = run(step, timeout=300)
        assert made.code == 0, made.out + made.err

    def start(*options):
        return run(command(build / "benchio", 2, [*options, "--dir", tmp_path]))

    for backend in libraries:
        json.write_text("yesterday's")
        done = start("--backend", f"mpiio,{backend}", "--json", json)
        assert done.code == 6
        assert len(done.errors) == 1
        assert backend in done.errors[0]
        assert not json.exists()
    assert start("--local-size", 4).code == 0


def test_version_names_the_libraries(mpirun):
    done = mpirun(1, "--version")
    assert done.code == 0
    build = r"(\+[0-9a-f]{10}(\.dirty)?)?"  # tests/iowatch/test_build.py says which
    assert re.match(rf"benchio \d+\.\d+\.\d+{build}\n", done.out)
    assert re.search(r"(?m)^mpiio +Open MPI.* v?\d+\.\d+", done.out)
    for backend in ("hdf5", "netcdf", "pnetcdf"):
        assert re.search(rf"(?m)^{backend} +\d+\.\d+\.\d+$", done.out)
    assert re.search(r"(?m)^posix +Linux \d+\.\d+", done.out)


def test_a_dry_run_writes_nothing(mpirun, tmp_path):
    """A dry run does not remove yesterday's result, either."""
    json = tmp_path / "result.json"
    json.write_text("yesterday's")
    done = mpirun(
        4, "--local-size", "256x128x64", "--halo", 1, "--dry-run", "--dir", tmp_path, "--json", json
    )
    assert done.code == 0
    assert str(4 * 256 * 128 * 64 * 8) in done.out  # bytes
    assert f"{258 * 130 * 66 * 8 / 2**20:.1f}" in done.out  # MiB of a rank's array with its halo
    assert mpirun(1, "--dry-run", "--json", json, "--files", 2).code == 2
    assert [file.read_text() for file in tmp_path.iterdir()] == ["yesterday's"]


def test_a_dry_run_of_more_than_fits(mpirun, tmp_path):
    """The plan is what one asks for: it is said although no machine has the room; and that is."""
    done = mpirun(2, "--global-size", "1048576x1048576x262144", "--dry-run", "--dir", tmp_path)
    assert str(2**58 * 8) in done.out  # bytes
    assert done.code == 3
    assert len(done.errors) == 1, done.err
    assert re.search(rf"{tmp_path}: \d+ bytes needed, \d+ free", done.errors[0])


def test_files_that_are_kept_need_room_together(mpirun, tmp_path):
    """The files of two backends, of 8e18 bytes each, are more than an integer holds."""
    done = mpirun(
        1, "--backend", "mpiio,posix", "--local-size", "1000000000x1000000000x1", "--halo", 0,
        "--operation", "write-keep", "--repeats", 1, "--dry-run", "--dir", tmp_path,
    )  # fmt: skip
    assert done.code == 3, done.out
    assert len(done.errors) == 1, done.err
    assert "more than 2^63 - 1 bytes needed" in done.errors[0]


def test_help_is_printed_once_although_every_rank_is_asked(mpirun):
    assert mpirun(2, "--help").out.count("Usage: ") == 1


def explained(text):
    """Every option that is explained, with its default: ("--halo", "1")."""
    options = re.findall(r"^ +(--[a-z-]+)([^\n]*(?:\n {20,}[^\n]*)*)", text, re.MULTILINE)
    return {name: "".join(re.findall(r"\(([^()]*)\)$", rest.strip())) for name, rest in options}


def test_defaults_are_as_explained(mpirun, read_result, tmp_path):
    """Given explicitly, they change nothing of what would be written, and nothing of how it is."""
    defaults = explained(mpirun(1, "--help").out)
    assert defaults.items() >= {"--halo": "1", "--transfer": "1GiB", "--dir": "."}.items()
    words = {"automatic", "none", "contiguous"}  # of which is no option's value
    given = [
        word
        for name, default in defaults.items()
        if re.fullmatch(r"[\w.]+", default) and default not in words
        if name not in ("--items", "--sample", "--per-file", "--seconds")  # of what is no array
        for word in (name, default)
    ]
    bare, explicit = mpirun(2, "--dry-run"), mpirun(2, "--dry-run", *given)
    assert (bare.code, explicit.code) == (0, 0), bare.err + explicit.err
    free = r"[\d.]+ MiB in"  # changes while others write
    assert re.sub(free, "", bare.out) == re.sub(free, "", explicit.out)

    json = tmp_path / "result.json"
    small = ["--local-size", 8, "--dir", tmp_path, "--json", json]

    def asked(*given):
        done = mpirun(2, *given, *small)
        assert done.code == 0, done.err
        result = read_result(json)
        del result["run"]["filesystem"]["free_bytes"], result["run"]["id"]
        del result["run"]["nodes"]  # what else they do
        settings = ("hints", "collective", "collective_metadata", "layout")
        return result["run"], [[case[name] for name in settings] for case in result["cases"]]

    assert asked(*given) == asked()
