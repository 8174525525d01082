"""What is around a run besides its options: variables, files of settings, and what is loaded."""

import os
from hashlib import sha256

import pytest
from conftest import OMPIO, ROMIO, needs_romio

SECRET = "do not tell"


def digest(text):
    return sha256(text.encode()).hexdigest()[:16]


def test_variables_of_a_job_are_compared_on_all_ranks(mpirun, directory, read_result):
    json_file = directory.parent / "result.json"
    names = ["TOKEN", "ROMIO_HINTS", "LOST", "EMPTY", "NOWHERE", "LONG"]
    options = [
        *("--local-size", "8", "--repeats", "1", "--backend", "posix", "--dir", directory),
        *("--json", json_file, "--environment-of", ",".join(names)),
    ]
    # Not as two programs, of which mpirun of Open MPI 5.0.7 dies.
    other = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || { unset LOST; export ROMIO_HINTS=other; }'
    launcher = ["bash", "-c", f'{other}; exec "$0" "$@"']
    env = {"TOKEN": SECRET, "ROMIO_HINTS": "hints", "LOST": SECRET, "EMPTY": "", "LONG": "x" * 9000}
    done = mpirun(3, *options, env=env, launcher=launcher)
    assert done.code == 0, done.err
    assert SECRET not in json_file.read_text()
    of_job = read_result(json_file)["environment"]["of_job"]
    assert list(of_job) == names
    host = os.uname().nodename
    rest = {"telling": False, "other_rank": None, "other_host": None, "other_value": None}
    differs = {"other_rank": 1, "other_host": host}
    assert of_job == {
        "TOKEN": {**rest, "value": f"sha256:{digest(SECRET)}"},
        "ROMIO_HINTS": {"telling": True, "value": "hints", **differs, "other_value": "other"},
        "LOST": {**rest, "value": f"sha256:{digest(SECRET)}", **differs},
        "EMPTY": {**rest, "value": f"sha256:{digest('')}"},
        "NOWHERE": {**rest, "value": None},
        "LONG": {**rest, "value": f"sha256:{digest('x' * 9000)}"},
    }


@pytest.mark.parametrize(
    ("component", "setting"),
    [
        pytest.param(ROMIO, "io_ompio_priority = 0", marks=needs_romio),
        pytest.param(ROMIO, f"io = {ROMIO}", marks=needs_romio),
        (OMPIO, f"io = {OMPIO}"),
    ],
)
def test_settings_in_files_are_told(mpirun, new_directory, read_result, component, setting):
    """A file chooses MPI-IO, another has hints: no variable says what is in them."""
    directory = new_directory()
    home, plugins = directory.parent, directory.parent / "plugins"
    (home / ".openmpi").mkdir()
    (home / ".openmpi/mca-params.conf").write_text(setting)
    hints, json_file = home / "hints", home / "result.json"
    plugins.mkdir()
    seen = []
    for number in range(2):
        hints.write_text("romio_cb_write disable\n" * number)
        (plugins / "filter.so").write_text(f"{number}")
        options = ("--local-size", 8, "--repeats", 1, "--dir", directory, "--json", json_file)
        env = {"HOME": str(home), "ROMIO_HINTS": str(hints), "HDF5_PLUGIN_PATH": str(plugins)}
        env |= {
            "UCX_TLS": "tcp",
            "I_MPI_HYDRA_UUID": f"{number}",
            "I_MPI_INFO_SERIAL": f"{number}",
            "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": f"n{number}",
            "I_MPI_TMPDIR": f"/scratch/1234{number}.x",
            "DARSHAN_LOGFILE": f"{directory}/x",
        }
        # Of the ranks alone: mpirun would ask a scheduler whose job it sees.
        launcher = ["-x", f"COBALT_JOBID=1234{number}", "env", "-u", "OMPI_MCA_io"]
        done = mpirun(2, *options, env=env, launcher=launcher)
        assert done.code == 0, done.err
        seen.append(read_result(json_file)["environment"])
    first, second = seen
    assert first["mpi_io"] == second["mpi_io"]
    assert first["mpi_io"] in (component, None), "None: a part of libmpi, as in Open MPI 5"
    assert first["variables"] == second["variables"], "those of a launcher differ in every run"
    assert first["variables"]["UCX_TLS"] == "tcp"
    assert first["variables"]["I_MPI_TMPDIR"] == "/scratch/$COBALT_JOBID.x"
    assert first["variables"]["DARSHAN_LOGFILE"] == "--dir/x"
    texts = {"~/.openmpi/mca-params.conf": setting, "ROMIO_HINTS": ""}
    assert {name: first["contents"][name] for name in texts} == {
        name: digest(text) for name, text in texts.items()
    }
    changed = {
        name for name in first["contents"] if first["contents"][name] != second["contents"][name]
    }
    assert changed == {"ROMIO_HINTS", "HDF5_PLUGIN_PATH"}
    assert any(name.startswith("libmpi.so") for name in first["libraries"])
    assert first["other_rank"] is None


def test_an_alignment_that_a_variable_overrides_fails(mpirun, directory):
    options = ("--backend", "pnetcdf", "--local-size", 8, "--repeats", 1, "--dir", directory)
    for hints, code in (("nc_header_align_size=4096;nc_var_align_size=4096", 3), ("", 0)):
        done = mpirun(2, *options, "--alignment", 65536, env={"PNETCDF_HINTS": hints})
        assert done.code == code, done.err
        assert bool(done.errors) == bool(code)
        for error in done.errors:
            assert "the array begins at byte 4096, no multiple of --alignment 65536" in error
            assert "PNETCDF_HINTS" in error
