"""CP2K: what its restart files and densities of a hydrogen molecule cost."""

from reframe.core.builtins import fixture

from .applications import Application, input_file
from .programs import program_of
from .suite_cases import in_suites


@in_suites
class Cp2kRestart(Application):
    """CP2K writes the density of each step by MPI-IO, all processes into one file of 9 MiB. Rank 0
    writes the restart file and the wave function. CP2K then goes on where these end."""

    program = fixture(program_of("cp2k", "cp2k.psmp"), scope="environment")

    # A second input goes on from where the first ends.
    to_prepare = f"""\
{input_file("h2.inp")}
sed 's/ATOMIC$/RESTART/; s/STEPS 2$/STEPS 1/' h2.inp > more.inp
printf '%s\\n' '&EXT_RESTART' 'RESTART_FILE_NAME h2-1.restart' '&END' >> more.inp"""

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
