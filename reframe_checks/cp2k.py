"""CP2K: what its restart files and densities of a hydrogen molecule cost."""

import reframe as rfm
from reframe.core.builtins import fixture

from .application import Application
from .parameters import swept
from .programs import Found


class FoundCp2k(Found):
    descr = "Where CP2K is"
    command = "cp2k.psmp"
    package = extra = "cp2k"


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


@rfm.simple_test
@swept
class Cp2kRestart(Application):
    """CP2K writes the density of each step by MPI-IO, all processes into one file of 9 MiB, and
    rank 0 the restart file and the wave function. It then goes on where these end."""

    descr = "CP2K writes densities and what it restarts from"

    found = fixture(FoundCp2k, scope="environment")

    to_prepare = "\n".join([_input("h2.inp", "ATOMIC", "2"), _input("more.inp", "RESTART", "1", _CONTINUED)])

    to_run = 'launch "$PROGRAM" -i "$INPUT/h2.inp"'
    written = "h2-ELECTRON_DENSITY-1_?.cube h2-1.restart h2-RESTART.wfn"

    to_time = """\
awk '$1 ~ /^(pw_to_cube|write_mo_set_to_restart|write_restart)$/ { s += $NF } END { print s }'"""
    to_tell_version = "sed -n 's/^ *CP2K| version string: *//p'"

    to_confirm = """\
cp h2-ELECTRON_DENSITY-1_0.cube x
launch "$PROGRAM" -i "$INPUT/more.inp" >&2 || return
cat h2-1.ener >&2; grep -i -n wfn "$HERE/reader.$round.out"; echo fine"""
