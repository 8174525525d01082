"""Meep: the state of a simulation of light, which it goes on from."""

from reframe.core.builtins import fixture

from .applications import Application, input_file
from .programs import program_of
from .suite_cases import in_suites


@in_suites
class MeepState(Application):
    """Meep writes all of its fields three times, by parallel HDF5 and all processes into one file
    of 21 MiB. Meep then goes on from each of them."""

    program = fixture(program_of("meep"), scope="environment")

    to_prepare = input_file("light.ctl")

    # A Meep without MPI would run once in each task, and all of them write the same files.
    to_run = """\
launch "$PROGRAM" --version && launch "$PROGRAM" "$INPUT/light.ctl" || return
grep -q "^Using MPI .* $TASKS processes" "$HERE/application.$round.out" || {
    echo "error: this Meep does not run as $TASKS processes of MPI"
    return 1
}"""
    written = "fields-1.h5 fields-2.h5 fields-3.h5"

    to_time = """awk '/^seconds to save: / { s += $NF } END { print s }'"""
    to_tell_version = "sed -n 's/^Meep \\([0-9][^,]*\\),.*/\\1/p'"

    # The energy is a sum over all values of the fields. The energy has to be right where Meep
    # begins, unlike with another state's file, and where it comes to the time of the next state.
    to_confirm = """\
launch "$PROGRAM" goes-on?=true "$INPUT/light.ctl" >&2 || { echo "Meep cannot go on"; return 1; }
awk '!/^energy at / { next }
    FNR == NR { at[++m] = $3; energy[m] = $4; next }
    { n++; i = int(n / 2) + 1
      if ($3 != at[i] || !($4 > 0) || ($4 / energy[i] - 1) ^ 2 > 1e-18) {
          print "Meep goes on with energy " $4 " at " $3 " where it had " energy[i] " at " at[i]
          exit bad = 1
      } }
    END { if (!bad) print "Meep goes on from " n / 2 " states, of 3, with the energy that there was"
          exit bad || n != 6 }' "$HERE/application.$round.out" "$HERE/reader.$round.out\""""
