"""What the checks of applications have in common: in each round, one takes turns with MPI-IO.

docs/applications.md says how to add one.
"""

from iowatch import application
from iowatch.ior import layout_commands, listing_command
from iowatch.metrics import Measured

from .rounds import InRounds

# An application works in a folder that is new in each round, and in a shell of its own: the job
# stays in its stage, which is kept. What is judged is one file of JSON; `plain` makes words that
# need no quotes there. A pattern that matches nothing stands for itself, and is missing.
_MEASURE = r"""
plain() {
    tr -s '[:space:]' ' ' | tr -cd '[:alnum:] ._:/,;=+()%-' | sed 's/^ *//; s/ *$//' | cut -c1-300
}
number() { awk 'NR == 1 && $1 + 0 > 0 { printf "%.9g", $1; n = 1 } END { if (!n) print "null" }'; }
measure() (
    mkdir "$RUNDIR/round" && cd "$RUNDIR/round" || exit 1
    out=$HERE/application.$round.out files=() missing= sync_s=null reader=null said= why= list=
    began=$(date +%s%N)
    to_run > "$out" 2>&1
    code=$?
    run_s=$(date +%s%N | awk -v began="$began" '{ printf "%.3f", ($1 - began) / 1e9 }')
    [ -z "$LOG" ] || cat "$LOG" >> "$out"
    for file in $WRITTEN; do
        if [ -s "$file" ]; then files+=("$PWD/$file"); else missing+="$file "; fi
    done
    if [ $code != 0 ]; then
        # What the launcher says of it may come first, and tells nothing.
        for word in 'no space|disk space|quota' 'error[: ]|error$' 'abort'; do
            why=${why:-$(grep -iE -m 1 -A 1 "$word" "$out" | grep '[[:alnum:]]' | plain)}
        done
    elif [ -z "$missing" ]; then
        sync_s=$(launch bash -c "$SYNC" sync "${files[@]}" 2>> "$out" | awk -v tasks="$TASKS" '
            $1 == "synced" { n++; if ($2 > most) most = $2 }
            END { if (n == tasks) printf "%.9g", most / 1e9; else print "null" }')
        while read -r _ digest bytes how name; do
            list+="${list:+, }{\"name\": \"$(plain <<< "$name")\", \"bytes\": $bytes,"
            list+=" \"digest\": \"$digest\", \"how\": \"$how\"}"
        done < <(launch bash -c "$READ" read "${files[@]}" 2>> "$out" | grep '^read ' | sort -u)
        for file in "${files[@]}"; do dd if="$file" iflag=nocache count=0 status=none; done
        said=$(set -o pipefail; to_confirm 2> "$HERE/reader.$round.out" | tail -n 1 | plain)
        reader=$?
        LISTING
    fi
    cat > "$HERE/application.$round.json" << END
{"format": "FORMAT",
 "id": "$ID-$round",
 "version": "$(to_tell_version < "$out" | head -n 1 | plain)",
 "exit_code": $code,
 "why": "$why",
 "run_s": $run_s,
 "output_s": $(to_time < "$out" | number),
 "sync_s": $sync_s,
 "files": [$list],
 "missing": "$(plain <<< "$missing")",
 "written": ${#files[@]},
 "reader": {"exit_code": $reader, "said": "$said"},
 "repeats_itself": $REPEATS_ITSELF}
END
    rm -rf "$RUNDIR/round"
    [ $code = 0 ] && [ -n "$list" ] && [ "$reader" = 0 ]
)"""

# Each task: whichever has written, its node has no page left that is dirty.
_SYNC = 'began=$(date +%s%N); sync "$@" && echo "synced $(($(date +%s%N) - began))"'

# The last task alone, which is on another node than the first if there is one; each of them where
# nobody says which it is.
_READ = r"""
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${PALS_RANKID:-${SLURM_PROCID-}}}}}
[ "${rank:-LAST}" = LAST ] || exit 0
set -o pipefail
for file; do
    how=direct
    sum=$(dd if="$file" bs=4M iflag=direct status=none 2> /dev/null | sha256sum) || {
        how=CACHE
        dd if="$file" iflag=nocache count=0 status=none
        sum=$(dd if="$file" bs=4M status=none | sha256sum) || exit 1
    }
    echo "read ${sum%% *} $(stat -c %s "$file") $how ${file##*/}"
done"""


class Application(InRounds):
    """What an application writes, as fast as it says itself, beside MPI-IO in the same rounds.

    The commands below are bash. In them, `"$PROGRAM"` is the application, `launch` starts a command
    as the job's tasks, and `"$INPUT"` is the folder where `to_prepare` has run. They run in a
    folder of their own on the filesystem that is measured. Where the application is, a leaf has as
    its fixture `found`, of :class:`reframe_checks.programs.Found`.
    """

    outputs = (*InRounds.outputs, "application.*", "reader.*", "prepared")

    #: Makes the input, once in a job.
    to_prepare = ":"

    #: Runs the application, and fails if it does.
    to_run = ""

    #: The files that it then has written, as patterns of the shell.
    written = ""

    #: The file with its times, if that is not what it prints.
    log = ""

    #: Prints the seconds that it has spent on output, of what it has said on standard input.
    to_time = ""

    #: Prints its version, of the same.
    to_tell_version = ""

    #: Reads with the application's own reader what was written. Prints in one line what was found,
    #: and fails if that is not all.
    to_confirm = ""

    #: Does it write the same bytes whenever it runs on as many tasks?
    repeats_itself = False

    env_vars = {**InRounds.env_vars, "OMP_NUM_THREADS": "1"}

    @property
    def benchio_case(self):
        return application.control(self.case)

    def missing(self):
        return self.found.missing_for(self)

    def commands_before(self):
        cache = application.ELSEWHERE if self.nodes > 1 else application.CACHED
        read = _READ.replace("LAST", str(self.num_tasks - 1)).replace("CACHE", cache)
        listing = ":"
        if self.filesystem.osts is not None:
            files = listing_command('"${files[@]}"', self.filesystem)
            listing = f'{files} > "$HERE/application.$round.layout"'
        measure = _MEASURE.replace("LISTING", listing).replace("FORMAT", application.FORMAT)
        return [
            f"INPUT=$RUNDIR/input PROGRAM={self.found.program} TASKS={self.num_tasks}",
            f"ID={self.run_id} LOG={self.log} REPEATS_ITSELF={str(self.repeats_itself).lower()}",
            f"WRITTEN='{self.written}'",
            f"SYNC='{_SYNC}' READ='{read}'",
            *(
                f"{name}() {{\n{getattr(self, name)}\n}}"
                for name in ("to_prepare", "to_run", "to_time", "to_tell_version", "to_confirm")
            ),
            measure,
            *layout_commands(self.case, self.filesystem),
            # Not before `||`, where -e would not hold.
            '(set -e; mkdir "$INPUT"; cd "$INPUT"; to_prepare) > prepared 2>&1',
            "[ $? = 0 ] || {",
            f'echo "the input of {self.case.backend} could not be made: $(tail -n 1 prepared)" >&2',
            "exit 1",
            "}",
        ]

    def commands_of_round(self):
        return ["measure || exit 1"]

    def verified(self):
        results, rounds = application.of_rounds(self.ended_job, self.repeats)
        return Measured(
            application.metrics_of(results, rounds),
            application.conditions_of(self.case, results, rounds),
        )
