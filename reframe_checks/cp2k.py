"""CP2K: what its restart files and densities of a hydrogen molecule cost."""

from reframe.core.builtins import fixture

from .applications import Application
from .programs import program_of
from .suite_cases import in_suites

# Data of CP2K's own library. A step of molecular dynamics ends with a restart file, the wave
# function, and the electron density on 100 x 100 x 100 points.
_INPUT = """\
&GLOBAL
  PROJECT h2
  RUN_TYPE MD
  PRINT_LEVEL LOW
  &TIMINGS
    THRESHOLD 0
  &END
&END
&FORCE_EVAL
  METHOD QUICKSTEP
  &DFT
    BASIS_SET_FILE_NAME BASIS_MOLOPT
    POTENTIAL_FILE_NAME GTH_POTENTIALS
    &MGRID
      CUTOFF 200
    &END
    &SCF
      SCF_GUESS @GUESS@
      EPS_SCF 1.0E-3
      &OT
      &END
      &PRINT
        &RESTART
          BACKUP_COPIES 0
        &END
      &END
    &END
    &XC
      &XC_FUNCTIONAL PADE
      &END
    &END
    &PRINT
      &E_DENSITY_CUBE
        STRIDE 1
      &END
    &END
  &END
  &SUBSYS
    &CELL
      ABC 10 10 10
    &END
    &COORD
      H 0 0 0.37
      H 0 0 -0.37
    &END
    &KIND H
      BASIS_SET DZVP-MOLOPT-SR-GTH
      POTENTIAL GTH-PADE-q1
    &END
  &END
&END
&MOTION
  &MD
    ENSEMBLE NVE
    STEPS @STEPS@
    TIMESTEP 0.5
  &END
  &PRINT
    &RESTART
      BACKUP_COPIES 0
      &EACH
        MD 1
      &END
    &END
    &RESTART_HISTORY OFF
    &END
  &END
&END
@MORE@"""
_CONTINUED = """\
&EXT_RESTART
  RESTART_FILE_NAME h2-1.restart
&END"""


def _input(file, guess, steps, more=""):
    text = _INPUT.replace("@GUESS@", guess).replace("@STEPS@", steps).replace("@MORE@", more)
    return f"cat > {file} << 'END OF INPUT'\n{text}\nEND OF INPUT"


@in_suites
class Cp2kRestart(Application):
    """CP2K writes the density of each step by MPI-IO, all processes into one file of 9 MiB. Rank 0
    writes the restart file and the wave function. CP2K then goes on where these end."""

    program = fixture(program_of("cp2k", "cp2k.psmp"), scope="environment")

    to_prepare = "\n".join(
        [_input("h2.inp", "ATOMIC", "2"), _input("more.inp", "RESTART", "1", _CONTINUED)]
    )

    to_run = 'launch "$PROGRAM" -i "$INPUT/h2.inp"'
    written = "h2-ELECTRON_DENSITY-1_?.cube h2-1.restart h2-RESTART.wfn"

    to_time = """\
awk '$1 ~ /^(pw_to_cube|write_mo_set_to_restart|write_restart)$/ { s += $NF } END { print s }'"""
    to_tell_version = "sed -n 's/^ *CP2K| version string: *//p'"

    # A density on all of its points adds up to the two electrons. A run that goes on has read both
    # files, and its energy is the one that there was.
    to_confirm = r"""
set -- *.cube
[ $# = 3 ] || { echo "there are $# densities, of 3"; return 1; }
for file; do
    awk -v file="$file" 'NR == 3 { atoms = $1 }
        NR > 3 && NR < 7 { points = (NR == 4 ? 1 : points) * $1
                           volume = (NR == 4 ? 1 : volume) * $(NR - 2) }
        NR > 6 + atoms { for (i = 1; i <= NF; i++) { n++; sum += $i } }
        END { sum *= volume
              bad = n != points || (sum - 2) ^ 2 > 1e-4
              if (bad) print file " has " n + 0 " of " points " values, and " sum " electrons"
              exit bad }' "$file" || return
done
launch "$PROGRAM" -i "$INPUT/more.inp" >&2 || { echo "CP2K cannot go on from it"; return 1; }
awk '$1 == "read_mo_set_from_restart" { wfn = $2 }
    FILENAME ~ /ener$/ && $1 == 2 { before = $6 }
    FILENAME ~ /ener$/ && $1 == 3 { after = $6; steps++ }
    END { good = wfn > 0 && steps == 1 && (after - before) ^ 2 < 1e-6
          if (good) print "3 densities of 2 electrons each, and CP2K goes on from step 2"
          else print "CP2K goes on with energy " after ", where it had " before
          exit !good }' "$HERE/reader.$round.out" h2-1.ener"""
