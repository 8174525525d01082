"""An ordinary user of a login node with modules: the pages' commands as they are typed there, to a
night on Slurm. No root, and the MPI is the centre's."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT
from filesystems import modules
from filesystems.machine import Unavailable
from filesystems.slurm import GROUP, USERS, Slurm
from installed import copy_checkout, everybodys_python

pytestmark = pytest.mark.slow

#: What the walk-through changes, smaller: the nodes share two cores.
CHANGES = {
    r"(?m)^RANKS_PER_NODE = .*": "RANKS_PER_NODE = 2",
    r"(?m)^NIGHTLY = .*": 'NIGHTLY = {"backend": BACKENDS, "local_size": [16], "nodes": [1, 2]}',
    r'"nightly": \{(?:[^{}]|\{[^{}]*\})*\},': '"nightly": {"SharedFileWrite": NIGHTLY},',
}


def typed(page: str, section: str) -> str:
    """The first commands of a section of a page, as they stand there."""
    text = (ROOT / "docs" / page).read_text().partition(f"\n## {section}\n")[2]
    block = re.search(r"\n\n((?:    .*\n)+)", text)
    assert block, f"{page}: {section}"
    return re.sub("(?m)^    ", "", block[1])


def smaller(file: Path) -> str:
    """A draft, with what is to be measured changed."""
    text = file.read_text()
    for pattern, new in CHANGES.items():
        text, count = re.subn(pattern, new, text)
        assert count == 1, pattern
    return text


@dataclass
class Login:
    """A login node, and an installation that alice has made there."""

    slurm: Slurm

    def type(self, user: str, script: str, code: int = 0, **variables: object) -> str:
        done = self.slurm.as_user(user, script, **variables)
        assert done.code == code, done.out + done.err
        return done.out + done.err


@pytest.fixture(scope="module")
def login(slurm: Slurm) -> Iterator[Login]:
    try:
        folder = modules.install(slurm.folder / "opt")
    except Unavailable as err:
        pytest.skip(str(err))
    (slurm.folder / "modulespath").write_text(f"{folder}\n")
    slurm.sh("mount", "--bind", "modulespath", "/etc/lmod/modulespath")
    yield Login(slurm)
    slurm.sh("umount", "/etc/lmod/modulespath")


@pytest.fixture(scope="module")
def installed(login: Login) -> Login:
    """By the page's own commands, with the names of this cluster's modules."""
    home, user = login.slurm.home("alice"), USERS["alice"]
    who = {"user": user, "group": user, "extra_groups": []}
    home.chmod(0o755)
    copy_checkout(home / "clone")
    subprocess.run(["chown", "-R", f"{user}:{user}", home], check=True)
    lines = typed("howto/install.md", "On a login node").splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if "module load" in line)
    online = "".join(lines[:first]).replace("python3", everybodys_python(**who))  # type: ignore[arg-type]
    subprocess.run(  # the login node of the tests has no network
        ["bash", "-lec", online.replace("pip install", "pip install --quiet")],
        cwd=home / "clone", env={**os.environ, "HOME": str(home)}, check=True, **who,
    )  # fmt: skip
    text = "".join(["source ~/iowatch/venv/bin/activate\ncd clone\n", *lines[first:]])
    text = text.replace("hdf5 netcdf ", "hdf5 ")
    # Debian has no NetCDF for this MPI.
    print(login.type("alice", text.replace("-S src", "-DBENCHIO_NETCDF=OFF -S src")))
    return login


READY = "source {venv}/bin/activate\nmodule load mpich hdf5\n"


@pytest.fixture(scope="module")
def described(installed: Login) -> Login:
    """The group's folder, and the site's file there, which alice has made."""
    slurm = installed.slurm
    for place in (slurm.folder / "shared", slurm.folder / "fs2/project"):
        slurm.sh("mkdir", place)
        slurm.sh("chgrp", GROUP, place)
        slurm.sh("chmod", "2770", place)
    return installed


def test_a_night_from_a_login_node_and_one_of_another_member(described: Login) -> None:
    login, slurm = described, described.slurm
    site, scratch = slurm.folder / "shared", slurm.folder / "fs2/project/iowatch"
    ready = READY.format(venv=slurm.home("alice") / "iowatch/venv")
    shared = {"IOWATCH_SITE_DIR": site}
    said = login.type(
        "alice",
        f"{ready}mkdir -m 2770 {scratch}\niowatch site new hydra --path {scratch} --link 100",
        **shared,
    )
    assert re.search(r"modules +lmod, 2 loaded", said), said
    assert re.search(r"benchio +mpiio, hdf5, posix", said), said
    file = site / "site_configs/hydra.py"
    text = smaller(file)
    login.type("bob", f"cat > {file} <<'END'\n{text}END", **shared)  # who may, as a member

    check = f"{ready}iowatch site check --system hydra"
    said = login.type("alice", check, **shared)
    assert "ok  modules    mpich/4.0, hdf5/1.10\n" in said
    assert "ok  launcher   4 ranks on node" in said
    assert "; mpiio MPICH" in said
    assert "all is in order" in said

    wrong = text.replace('"hdf5/1.10"', '"hdf5/1.99"')
    file.write_text(wrong)
    said = login.type("alice", check, 1, **shared)
    (fault,) = re.findall(r"FIX .*", said)
    assert fault.startswith("FIX modules    "), fault
    assert re.search(r"hdf5/1.99.*: mend 'modules' of environment", fault), fault
    assert not re.search(r"[A-Za-z0-9+/=]{44}", fault), fault
    file.write_text(text)

    for user in ("alice", "bob"):
        night = f"{ready}umask 022\niowatch run --system hydra --record --quiet"
        said = login.type(user, night, **shared)
        assert "green: 5 cases measured, 0 with a red verdict, 0 problems" in said
    closed = [path for path in site.rglob("*") if not path.is_symlink() and not _is_open(path)]
    assert closed == []

    database = site / "results/results.db"
    database.chmod(0o644)
    owner = "alice" if database.stat().st_uid == USERS["alice"] else "bob"
    (other,) = USERS.keys() - {owner}
    (line,) = login.type(
        other, f"{ready}iowatch run --system hydra --record --quiet", 2, **shared
    ).splitlines()
    assert re.search(r"results.db: you may not write it, nothing was run: .*chmod g\+w", line)
    database.chmod(0o664)

    # cron gives a job little of the environment.
    line = typed("howto/schedule.md", "With cron").splitlines()[1]
    line = re.sub(r"^(\S+ +){5}| --mail \S+", "", line).replace("archer", "hydra --record")
    words = f"HOME=$HOME USER=$USER SLURM_CONF=$SLURM_CONF IOWATCH_SITE_DIR={site}"
    login.type("alice", f"env -i PATH=/usr/bin:/bin {words} /bin/bash -c {shlex.quote(line)}")


#: The environment of a system with a Cray's modules, at a place of this cluster.
CRAY = """\
from runpy import run_path

config = run_path("{site}/site_configs/hydra.py")["site_configuration"]
(environ,) = run_path("{root}/site_configs/archer2.py")["site_configuration"]["environments"]
(system,) = config["systems"]
(partition,) = system["partitions"]
here = {{**system, "name": "cray", "partitions": [{{**partition, "environs": ["cray"]}}]}}
extras = {{"benchio": "{benchio}"}}
ours = {{**environ, "target_systems": ["cray"], "extras": extras}}
site_configuration = {{"systems": [here], "environments": [ours]}}
"""


def test_compiler_and_modules_of_a_cray(described: Login) -> None:
    """`ftn` knows every library, and the modules are named as on a Cray."""
    login, slurm = described, described.slurm
    home = slurm.home("alice")
    site, scratch = home / "iowatch", slurm.folder / "fs2/project/cray"
    (build,) = re.findall(r"cmake -S.*", typed("howto/install.md", "On a login node"))
    build = build.replace("mpifort", "ftn").replace("build/benchio", "build/cray")
    build = build.replace("$VIRTUAL_ENV/bin", "$HOME/cray").replace("-S", "-DBENCHIO_NETCDF=OFF -S")
    ready = "source ~/iowatch/env.sh\n"
    said = login.type(
        "alice",
        f"{ready}cd ~/clone\nmodule load PrgEnv-cray cray-hdf5-parallel\n{build}\n"
        f"cmake --build build/cray --target benchio\nmkdir {scratch}\n"
        f"iowatch site new hydra --path {scratch} --link 100",
    )
    assert f"Found HDF5: {slurm.folder}/opt/hdf5\n" in said
    assert re.search(r"modules +lmod, 3 loaded", said), said
    (site / "site_configs/hydra.py").write_text(smaller(site / "site_configs/hydra.py"))
    (site / "site_configs/cray.py").write_text(
        CRAY.format(site=site, root=home / "clone", benchio=home / "cray/benchio")
    )
    (site / "reference_values/cray.yaml").write_text("general: {}\n")
    said = login.type("alice", f"{ready}iowatch site check --system cray")
    assert "ok  modules    PrgEnv-cray, cray-hdf5-parallel, cray-netcdf-hdf5parallel\n" in said
    assert "ok  launcher   4 ranks on node" in said
    assert "all is in order" in said


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o020)
