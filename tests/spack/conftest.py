from pathlib import Path

import pytest
from spack.instance import Spack, find_spack, link_environments, make_clone


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone") / "iowatch"
    make_clone(folder)
    return folder


@pytest.fixture(scope="session")
def spack(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Spack:
    program = find_spack()
    if program is None:
        pytest.skip("there is no Spack: set SPACK_ROOT, or put spack on PATH")
    spack = Spack(program, tmp_path_factory.mktemp("spack"))
    spack.set_up(clone)
    return spack


@pytest.fixture(scope="session")
def environments(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spack-repo")
    link_environments(clone, folder)
    return folder / "environments"
