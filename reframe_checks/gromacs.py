"""GROMACS: the trajectory of a box of water."""

from reframe.core.builtins import fixture

from .applications import Application
from .programs import program_of
from .suite_cases import in_suites


@in_suites
class GromacsTrajectory(Application):
    """Rank 0 gathers the positions and velocities of 21087 atoms, and writes 51 frames of them: 25
    MiB through one process, as many codes do."""

    program = fixture(program_of("gromacs", "gmx_mpi"), scope="environment")

    # GROMACS's own box of water; the topology is what its force fields need to know of it.
    to_prepare = """\
printf '#include "oplsaa.ff/%s.itp"\\n' forcefield spce > water.top
printf '[ system ]\\nwater\\n[ molecules ]\\n' >> water.top
"$PROGRAM" solvate -cs spc216.gro -box 6 6 6 -o water.gro -p water.top
printf '%s\\n' 'integrator = md' 'nsteps = 50' 'nstxout = 1' 'nstvout = 1' 'gen-vel = yes' \\
    'gen-seed = 1' > water.mdp
"$PROGRAM" grompp -f water.mdp -c water.gro -p water.top -o water.tpr"""

    # -reprod: what balances the load by the clock would give other digits each time.
    to_run = 'launch "$PROGRAM" mdrun -s "$INPUT/water.tpr" -deffnm water -ntomp 1 -reprod'
    written = "water.trr"
    repeats_itself = True

    log = "water.log"
    to_time = """awk '$1 == "Write" && $2 == "traj." { print $(NF - 2) }'"""
    to_tell_version = "sed -n 's/^GROMACS version: *//p'"

    # `gmx check` also ends well where a trajectory is cut off between two frames, or within one.
    to_confirm = """\
"$PROGRAM" check -f water.trr >&2 || return
awk '$1 == "Coords" { x = $2 + 0 } $1 == "Velocities" { v = $2 + 0 }
    END { print "gmx check finds " x " frames of positions and " v " of velocities, of 51"
          exit x != 51 || v != 51 }' "$HERE/reader.$round.out\""""
