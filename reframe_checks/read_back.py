"""Reads of what an earlier night has kept: by other processes, mostly on other nodes, and cold."""

from pathlib import Path

import reframe.core.runtime as rt
from reframe.core.builtins import run_before

from iowatch import raw_results
from iowatch.checks import READ_EXISTING, WRITE_KEEP
from iowatch.metrics import measured
from iowatch.raw_results import KEPT_RESULT as KEPT
from iowatch.raw_results import LAST, READ_CODE
from iowatch.result import InvalidResult, id_of_round, notes, others_in_place, read_result

from . import past
from .base import BenchioCheck, options_of_run, phase_limit
from .not_now import LeftOut, NotMeasured
from .parameters import swept

RESULT = "result.json"  # of what was read

# What is kept is this user's own, by case and by night. Files without a record are of a run that
# did not end; those of this very night, of an earlier attempt, would still be in caches.
_FIND = """\
KEEP="$PLACE/kept.$(id -u)"
[ -e "$KEEP" ] || [ -L "$KEEP" ] || mkdir -m 700 "$KEEP"
{{ [ -d "$KEEP" ] && [ ! -L "$KEEP" ] && [ -O "$KEEP" ]; }} ||
    refuse "$KEEP is not a directory of this user" "remove it"
CASE="$KEEP/{case}"
mkdir -p "$CASE" || exit 1
LAST=
for record in "$CASE"/*/benchio.*/kept.nml; do
    night=${{record#"$CASE"/}}
    if [ -e "$record" ] && [[ "${{night%%/*}}" < "{night}" ]]; then LAST=${{record%/*}}; fi
done
echo "$LAST" > {last}
echo 0 > read_code
if [ -n "$LAST" ]; then"""

# What was read stays until the next night has read what is written now. What no case has asked for
# since is removed when its raw results are.
_WRITE = """\
echo $? > read_code
fi
for night in "$CASE"/*; do [ "$night" = "${{LAST%/*}}" ] || rm -rf "$night"; done
mkdir "$CASE/{night}" || exit 1
{command}
echo $? > exit_code
[ "$(cat read_code)" = 0 ] || cp read_code exit_code
find "$KEEP" -mindepth 1 -maxdepth 1 -mtime +{days} -exec rm -rf {{}} +"""


@swept
class ReadBack(BenchioCheck):
    """What the last night has kept is read, and checked, before new files are written in its place.

    A file that has changed, or is gone, is named with the night that it is from. The first night
    has nothing to read: the case is left out.
    """

    descr = "Parallel read of a single shared file that an earlier night has written"

    outputs = (*BenchioCheck.outputs, KEPT, LAST, READ_CODE)

    @run_before("run")
    def set_nights(self):
        self.prerun_cmds.append(_FIND.format(case=_name(self.case), night=past.KEPT_AS, last=LAST))
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        options = [
            *self.case.check.command_line(self.case),
            *self.filesystem.layout_options(self.case),
            *options_of_run(
                self.filesystem, self.repeats, self.run_id, KEPT, f'"$CASE/{past.KEPT_AS}"'
            ),
            *phase_limit(self),
        ]
        command = [self.job.launcher.run_command(self.job), self.benchio.word, *options]
        self.postrun_cmds = [
            _WRITE.format(
                night=past.KEPT_AS, command=" ".join(command), days=self.filesystem.keep_days
            )
        ]

    def benchio_options(self, repeats, result):
        return [
            f"--backend {','.join(self.case.backends)}",
            f"--operation {READ_EXISTING}",
            '--dir "$LAST"',
            f"--fs-type {','.join(self.filesystem.types)}",
            f"--run-id {id_of_round(self.run_id, result)}",
            f"--json {result}",
            *phase_limit(self),
        ]

    def verified(self):
        read = self.kept_file(LAST).read_text().strip() if self.kept_file(LAST).exists() else ""
        if read:
            result = self.verified_result(RESULT, self.repeats)
        self.verified_result(KEPT, self.repeats, operations=[WRITE_KEEP])
        before, kept_by, had_read = _night_before(self.case)
        night = Path(read).parent.name
        if not read or night < before:  # what an older night kept says nothing of what is gone
            self.require_exit_code()
            self.end_without_files(before, had_read)
        if night == before and (other := result.existing) != kept_by:
            raise InvalidResult(others_in_place(before, other))
        return measured(result, self.case, notes(result, self.case, self.filesystem))

    def end_without_files(self, before, had_read):
        """LeftOut on the first night of all, NotMeasured on another one; InvalidResult if it is the
        second in a row."""
        if not before:
            nothing = "nothing was kept before: the next night reads what this one has"
            raise (NotMeasured if past.is_on_record(self.case) else LeftOut)(nothing)
        gone = f"what {before} kept below {self.filesystem.path} is gone"
        if had_read:
            raise NotMeasured(
                f"{gone}: has somebody cleaned the filesystem? The next night reads what this one "
                "has kept"
            )
        raise InvalidResult(
            f"{gone}, and the night before there was nothing either: exempt kept.* there from what "
            "cleans the filesystem, or take ReadBack out of the site's sweeps"
        )


def _name(case):
    """A folder's; ROMIO takes what stands before a colon for the type of a filesystem."""
    return str(case).replace("/", ",").replace(":", "@")


def _night_before(case):
    """The last night before this one in which a case has kept what it wrote, the id of the run that
    did, and whether there was something to read in it; empty and False if there was none."""
    prefix = Path(rt.runtime().prefix)
    nights = sorted((prefix / raw_results.FOLDER).glob("*"), reverse=True)
    for night in nights:
        if night.name >= past.KEPT_AS:
            continue
        for folder in raw_results.folders(prefix, night.name, case):
            kept, last = raw_results.find(folder, KEPT), raw_results.find(folder, LAST)
            if kept and last and (run_id := _id_of(kept)):
                return night.name, run_id, bool(raw_results.read_text(last).strip())
    return "", "", False


def _id_of(kept):
    """Of the run with this result; empty: it did not end well."""
    try:
        return read_result(kept).run["id"]
    except InvalidResult:
        return ""
