"""Meep: the state of a simulation of light, which it goes on from."""

from reframe.core.builtins import fixture

from .applications import Application
from .programs import program_of
from .suite_cases import in_suites

# The sources fill the cell and change along it, so that every component of the fields is soon
# nonzero everywhere. Meep has no timer for its states, but a clock.
_INPUT = """\
(define-param goes-on? false)
(define states 3)
(define pi (* 4 (atan 1)))

(set! geometry-lattice (make lattice (size 6 6 6)))
(set! resolution 10)
(set! k-point (vector3 0 0 0))
(define (source-of field x y)
  (make source (src (make continuous-src (frequency 0.3))) (component field)
    (center 0 0 0) (size 6 6 6)
    (amp-func (lambda (p) (sin (+ 0.1 (* pi 1/3 (+ (x p) (* 2 (y p))))))))))
(set! sources (list (source-of Ex vector3-y vector3-z)
                    (source-of Ey vector3-z vector3-x)
                    (source-of Ez vector3-x vector3-y)))

(define (file n) (string-append "fields-" (number->string n) ".h5"))
(define (tell)
  (let ((energy (meep-fields-field-energy fields)))
    (print "energy at " (meep-fields-time fields) ": " energy "\\n")))
(define (save n)
  (meep-all-wait)
  (let ((began (meep-wall-time)))
    (meep-fields-dump fields (file n) true)
    (meep-all-wait)
    (print "seconds to save: " (- (meep-wall-time) began) "\\n")))

(init-fields)
(if (not goes-on?) (run-until 1))
(do ((n 1 (1+ n))) ((> n states))
  (if goes-on? (meep-fields-load fields (file n) true))
  (tell)
  (if (not goes-on?) (save n))
  (run-until 0.25)
  (if (or goes-on? (= n states)) (tell)))"""


@in_suites
class MeepState(Application):
    """Meep writes all of its fields three times, by parallel HDF5 and all processes into one file
    of 21 MiB. Meep then goes on from each of them."""

    program = fixture(program_of("meep"), scope="environment")

    to_prepare = f"cat > light.ctl << 'END OF INPUT'\n{_INPUT}\nEND OF INPUT"

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
