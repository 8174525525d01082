"""Stand-ins for the programs that checks compare benchio with, each in an environment of a site."""

import sys
from pathlib import Path

from conftest import LOST_RANK

FOLDER = Path(__file__).parent
IOR, MDTEST = FOLDER / "stand_in_ior.py", FOLDER / "stand_in_mdtest.py"
GROMACS = FOLDER / "stand_in_gromacs.sh"
KEYS = {"gmx_mpi": "gromacs", "cp2k.psmp": "cp2k"}  # else that of an environment is the command


def program(site, environ, command, script):
    """A program that this environment names."""
    file = site.program(environ, command, script)
    entry = site.environs.setdefault(environ, {})
    entry.setdefault("extras", {})[KEYS.get(command, command)] = str(file)
    return file


def ior(site, environ, how):
    """The stand-in for IOR; in an environment whose name begins with `late`, mpirun fails though
    the program has not."""
    return program(
        site,
        environ,
        "ior",
        '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0\n'
        f'{sys.executable} {IOR} "{how}" "$@" || exit\n'
        f"case {environ} in late*) echo '{LOST_RANK}' >&2; exit 1 ;; esac",
    )


def mdtest(site, environ, fault):
    """The stand-in for mdtest."""
    return program(site, environ, "mdtest", f'exec {sys.executable} {MDTEST} "{fault}" "$@"')


def set_back(site, environ):
    """Have the clock set back by 5 s in jobs of this environment, while a program runs beside
    benchio: from their third look at the time on. A job is a session of processes."""
    back = (
        "looks=$0.$(($(ps -o sid= $$)))\necho >>$looks\n"
        '[ $(wc -l <$looks) -lt 3 ] || set -- -d "5 seconds ago" "$@"'
    )
    date = site.program(environ, "date", f'{back}\nexec /bin/date "$@"')
    entry = site.environs.setdefault(environ, {})
    entry["env_vars"] = [["PATH", f"{date.parent}:$PATH"]]


def gromacs(site, environ, script):
    """A GROMACS that is this script."""
    return program(site, environ, "gmx_mpi", script)
