"""`iowatch site environs`: what Spack has built, as environments of ReFrame. Of Spack there is a
stand-in, which knows one environment; test_spack.py has a real one."""

import ast
import json

import pytest
from spack.locks import lock
from typer.testing import CliRunner

from iowatch.adopt.spack import Built, names, read_lock
from iowatch.cli import app

SPACK = """\
#!/bin/sh
case "$*" in
"-e versions location --env") echo {folder} ;;
"-e versions find --format {{hash}} {{prefix}} benchio") cat {folder}/installed ;;
*) echo "==> Error: no such environment '$2'" >&2; exit 1 ;;
esac
"""


ROOTS = [("newnewnew", "1.14.5"), ("oldoldold", "1.10.0-patch1")]


@pytest.fixture
def environs(tmp_path, monkeypatch):
    """environs(ENV): the command, with a Spack that has installed these roots in `versions`."""
    spack = tmp_path / "bin/spack"
    spack.parent.mkdir()
    spack.write_text(SPACK.format(folder=tmp_path))
    spack.chmod(0o755)
    (tmp_path / "spack.lock").write_text(json.dumps(lock(*ROOTS)))
    (tmp_path / "installed").write_text("".join(f"{key} /opt/{key}\n" for key, _ in ROOTS[::-1]))

    def run(environment="versions", path=spack.parent):
        monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
        words = ["site", "environs", "--system", "archer", "--from-spack", environment]
        return CliRunner().invoke(app, words)

    return run


def test_each_benchio_that_spack_has_installed_is_an_environment(environs, tmp_path):
    done = environs()
    assert (done.exit_code, done.stderr) == (0, "")
    assert ast.literal_eval(f"[{done.stdout}]") == [
        {
            "name": f"hdf5-{version.replace('.', '-')}",
            "target_systems": ["archer"],
            "extras": {
                "benchio": f"/opt/{key}/bin/benchio",
                "spack": f"benchio@git.0123=main+hdf5~netcdf ^hdf5@{version} ^openmpi@4.1.4 "
                f"/{key[:7]}",
            },
        }
        for key, version in ROOTS
    ]
    assert done.stdout.startswith('# For "environs" of a partition of archer ')
    assert ': "hdf5-1-14-5", "hdf5-1-10-0-patch1"\n' in done.stdout
    (tmp_path / "installed").write_text("newnewnew /opt/newnewnew\n")
    said = environs().stdout
    (one,) = ast.literal_eval(f"[{said}]")
    assert one["name"] == "hdf5-1-14-5"
    assert (
        "\n# not installed, and left out: benchio@git.0123=main+hdf5~netcdf ^hdf5@1.10.0-" in said
    )


def test_what_is_missing_is_named_with_what_to_do(environs, tmp_path):
    def says(words, **given):
        done = environs(**given)
        assert done.exit_code == 2
        assert words in done.stderr
        assert done.stderr.count("\n") == 1

    says("no spack on PATH: source its setup-env.sh", path=tmp_path)
    says("--from-spack other: Error: no such environment 'other'", environment="other")
    file = tmp_path / "spack.lock"
    (tmp_path / "installed").write_text("")
    says(f"{file}: none of it is installed: spack -e versions install")
    file.write_text(json.dumps(lock()))
    says(f"{file}: no benchio is among its specs: add some to spack.yaml")
    file.write_text("{}")
    says(f"{file}: is no spack.lock that is known here")
    file.unlink()
    says(f"{file} is missing: spack -e versions install")


def built(key="abcdefghij", **linked):
    return Built(key, "0.1.0", "+hdf5", {n.replace("_", "-"): v for n, v in linked.items()})


@pytest.mark.parametrize(
    ("linked", "expected"),
    [
        ([{"hdf5": "1.10.0", "openmpi": "4.1.4"}], ["1-10-0"]),
        (
            [{"hdf5": "1.14.5", "openmpi": "4.1.4"}, {"hdf5": "1.14.5", "openmpi": "5.0.3"}],
            ["1-14-5-openmpi-4-1-4", "1-14-5-openmpi-5-0-3"],
        ),
        (
            [{"hdf5": "1.14.5", "netcdf_c": "4.9.2"}, {"hdf5": "1.12.3", "netcdf_c": "4.7.4"}],
            ["1-14-5", "1-12-3"],
        ),
        # Linked to the same: Spack's hash.
        ([{"hdf5": "1.12.3"}, {"hdf5": "1.12.3"}], ["1-12-3-abcdefg", "1-12-3-klmnopq"]),
    ],
)
def test_a_name_is_what_tells_an_environment_from_others(linked, expected):
    keys = ("abcdefghij", "klmnopqrst")
    every = [built(key, **one) for key, one in zip(keys, linked, strict=False)]
    assert names(every) == [f"hdf5-{name}" for name in expected]


def test_an_environment_without_hdf5_says_so():
    assert names([built(mpich="4.2.0"), built(hdf5="1.12.3", mpich="4.2.0")]) == [
        "no-hdf5",
        "hdf5-1-12-3",
    ]


def test_a_lock_file_in_one_line():
    (one,) = read_lock(json.dumps(lock(("abcdefghij", "1.10.8"))))
    assert str(one) == "benchio@git.0123=main+hdf5~netcdf ^hdf5@1.10.8 ^openmpi@4.1.4 /abcdefg"
