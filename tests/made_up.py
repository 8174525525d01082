"""A site whose sessions, and raw results that satisfy the law, are made up."""

import json

from cases import PLACE, metrics_of
from reported import reported, store
from reported import session as reported_session
from result_file import make_result

from iowatch.cases.run import night_id
from iowatch.measure.result import read_result
from iowatch.past.raw_results import new_folder
from iowatch.site.site import Site


class MadeUp:
    """What a site has on record, in a folder."""

    def __init__(self, folder, place):
        self.folder = folder
        self.site = Site(
            system="local", filesystems=(place,), is_whole=True, prefix=folder, stage=folder,
            database=folder / "results.db", promises={},
        )  # fmt: skip

    def begin(self, began, of, **job):
        """The folder of a run that began then; what its job was given."""
        kept = new_folder(self.folder, night_id(began), of)
        (kept / "job.json").write_text(json.dumps({"made": began.isoformat(), **job}))
        return kept

    def end(self, kept, of, began, repeats=10, speed=1.0, **changes):
        """The test of a run that has ended, as its session has it on record."""
        started = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        backends = dict.fromkeys(["mpiio", of.backend], 1 / speed)
        directory = f"{PLACE.path}/iowatch.1"
        result = make_result(
            [*backends], repeats=repeats, directory=directory, started=started, slowdown=backends
        )
        (kept / "result.json").write_text(json.dumps(result))
        (kept / "exit_code").write_text("0\n")
        values = metrics_of(read_result(kept / "result.json"), of)
        given = {"provenance": {}, "system": "local", "nodes": 1, **changes}
        return reported(
            of, kept=str(kept), hashcode=str(of), run_id=result["run"]["id"], repeats=repeats,
            perfvalues={f"local:tmpfs:{name}": [value] for name, value in values.items()}, **given,
        )  # fmt: skip

    def store(self, *tests, **info):
        """Put a session on record."""
        one = reported_session(
            *tests, **{k: info.pop(k) for k in ("uuid", "began", "night") if k in info}
        )
        one["session_info"] |= {"time_elapsed": 600.0, **info}
        store(self.site.database, one)
