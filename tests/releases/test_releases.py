"""The README's commands on bare releases of Debian, of this tree's last commit."""

import os
import re

import pytest
from releases.release import Release

#: Who types, on which; `make weekly` names testing.
USERS = {"bookworm": "somebody", "trixie": "root", "testing": "somebody"}
RELEASES = os.environ.get("TEST_RELEASES", "bookworm trixie").split()
#: Every backend, in memory and on a disk.
NIGHT = "iowatch run --system local --name 'SharedFileWrite.*local_size=64x|ProcessRead.*posix'"


def set_up(suite: str) -> Release:
    """A release where `make setup` has said what it needs, and has had it."""
    release = Release(suite, USERS[suite])
    done = release.type("make setup")
    if done.code != 0 and release.user != "root":
        named = re.search(r"no root or sudo to install them:\nset-up: (.+)", done.err)
        assert named, done.err
        release.need(
            release.as_root(
                "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes "
                f"--no-install-recommends {named[1]}"
            )
        )
        done = release.type("make setup")
    release.need(done)
    return release


@pytest.mark.long
@pytest.mark.parametrize("suite", RELEASES)
def test_two_nights_on_a_bare_release(suite: str) -> None:
    release = set_up(suite)
    for _ in range(2):
        night = release.type(f"make setup && source env.sh && {NIGHT}")
        # Other tests' work beside it may leave cases unjudged.
        assert night.code in (0, 4), night
        assert (
            len(re.findall(r"^(?:write|read) .+(?: ok| unjudged \(node_busy\))$", night.out, re.M))
            == 12
        )
        assert ", 0 with a red verdict, 0 problems with the night" in night.out, night
    # The first links anew what was touched.
    built = release.need(release.type("for n in 1 2; do cmake --build build/benchio; done"))
    assert built.splitlines()[-1] == "ninja: no work to do.", built


@pytest.mark.slow
@pytest.mark.parametrize("suite", RELEASES)
def test_whole_suite_on_a_bare_release(suite: str) -> None:
    """But this folder: no release is made in a release."""
    release = set_up(suite)
    release.need(release.as_root(f"{release.home}/iowatch/tests/filesystems/packages.sh", 1800))
    done = release.type("PYTEST_ADDOPTS=--ignore=tests/releases make test", timeout=5400)
    assert done.code == 0, done.out[-6000:]
