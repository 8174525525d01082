"""ReFrame settings that all systems share. RFM_PREFIX moves everything that is written."""

import os

try:
    from iowatch.base.files import UserError, umask_in
    from iowatch.base.places import LOG, results, usual_database
    from iowatch.base.reframe_inside import require_version
except ImportError as err:  # ReFrame would only say which file it could not load
    raise SystemExit(f"error: iowatch cannot be imported ({err}): source its env.sh") from None

try:
    require_version()  # another one may not take the systems' configuration
    PREFIX = results()
except UserError as err:
    raise SystemExit(f"error: {err}") from None
if not PREFIX.is_absolute():  # ReFrame is somewhere else while it reads this, and so are jobs
    raise SystemExit(f"error: RFM_PREFIX is {str(PREFIX)!r}: it must be an absolute path")
os.umask(umask_in(PREFIX))  # of all that ReFrame, iowatch and their jobs write
try:
    PREFIX.mkdir(parents=True, exist_ok=True)  # ReFrame does not make the log file's directory
except OSError as err:  # such as of a checkout that is somebody else's
    raise SystemExit(
        f"error: {PREFIX} cannot be made ({err.strerror}): set RFM_PREFIX to a folder of your own"
    ) from None

DATABASE = usual_database()

# By itself ReFrame cancels a job for which Slurm has no nodes now (ReqNodeNotAvail). Here it stays
# in the queue until the night's time limit: they may come back, or be reserved for a short time.
os.environ.setdefault("RFM_SLURM_JOB_CANCEL_REASONS", "[]")

#: The URL to which ReFrame posts each run as soon as it is judged.
COLLECTOR = "RFM_HTTPJSON_URL"
if os.environ.get(COLLECTOR):
    from iowatch.base.reframe_inside import post_in_time
    from iowatch.pages.export import httpjson

    post_in_time(10)  # s

    COLLECTORS = [
        {
            "type": "httpjson",
            "url": os.environ[COLLECTOR],
            "level": "info",
            "json_formatter": httpjson,
            "retry_timeout": 10,  # s; without it, one that is always busy (429) holds the night
        }
    ]
else:
    COLLECTORS = []

site_configuration = {
    "general": [{"report_file": str(PREFIX / "reports" / "run-report-{sessionid}.json")}],
    # Every night ends up here. A site puts it where it is backed up, with RFM_SQLITE_DB_FILE.
    "storage": [
        {
            "enable": True,
            "sqlite_db_file": str(DATABASE),
            "sqlite_db_file_mode": f"{0o666 & ~umask_in(DATABASE.parent):o}",
        }
    ],
    "modes": [
        # A new site's first nights: cases without reference values are not errors.
        {"name": "record", "options": ["-S record=1"]},
        # More values of each parameter: a procurement's, or after maintenance. Each session keeps
        # its results: they are evidence, and several sessions are more.
        {"name": "acceptance", "options": ["--timestamp", "-S suite=acceptance"]},
        # Beside a night, in folders of its own.
        {"name": "hourly", "options": ["--timestamp=hourly", "-S suite=hourly"]},
    ],
    "logging": [
        {
            "handlers": [
                {
                    "type": "file",
                    # Of a session beside a night another one: each begins its log anew.
                    "name": str(PREFIX / os.environ.get(LOG, "reframe.log")),
                    "level": "debug2",
                    "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                }
            ],
            "handlers_perflog": [
                {
                    "type": "filelog",
                    "basedir": str(PREFIX / "perflogs").replace("%", "%%"),
                    "prefix": "%(check_system)s/%(check_partition)s",
                    "level": "info",
                    "format": "%(check_job_completion_time)s|%(check_result)s|%(check_case_id)s|"
                    "%(check_state)s|%(check_reason)s|%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_value)s|%(check_perf_lower_thres)s|"
                    "%(check_perf_upper_thres)s|",
                },
                *COLLECTORS,
            ],
        }
    ],
}
