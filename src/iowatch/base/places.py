"""The places of things: those that come with iowatch, and those of a site.

In a checkout both are in its top-level folders. An installed package has the first inside itself,
where nobody writes. A site then has a folder with its `site_configs`, `reference_values` and
`results`, which the environment variable IOWATCH_SITE_DIR names.

env.sh runs this module by itself, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iowatch.base.files import UserError, make_folder

_PACKAGE = Path(__file__).resolve().parents[1]

#: The folder that reframe_checks, site_configs and reference_values are in as they come.
ROOT = _PACKAGE if (_PACKAGE / "reframe_checks").is_dir() else _PACKAGE.parents[1]

CHECKS_FOLDER = ROOT / "reframe_checks"
PUBLISHED = ROOT / "reference_values" / "published"

#: The pages that `make docs` builds, and those of which it does.
DOCUMENTATION, PAGES = _PACKAGE / "docs" / "html", ROOT / "docs"

#: The sources of benchio, which only a checkout has, and what is built of them.
BENCHIO_SOURCE = ROOT / "src" / "benchio"
BUILT_BENCHIO = ROOT / "build" / "bin" / "benchio"

#: The site's own folder, with `site_configs`, `reference_values` and `results`. Its systems take
#: the place of all that iowatch ships. By default it is the checkout, or `~/iowatch` where iowatch
#: is installed.
SITE_DIR = "IOWATCH_SITE_DIR"
#: The folder for everything that is written: results, logs, stage directories and the results
#: database. By default it is `results` in the site's own folder.
PREFIX = "RFM_PREFIX"
#: The results database, if it is not `results.db` in the folder for results. Put it where it is
#: backed up.
DATABASE = "RFM_SQLITE_DB_FILE"
#: The folder of baselines, expected failures and the site's own reference values. By default it is
#: `reference_values` in the site's own folder.
REFERENCE_PREFIX = "RFM_REFERENCE_PREFIX"
#: Further files of ReFrame's configuration, separated by colons. Both `source env.sh` and
#: `iowatch env` add those of iowatch and of the site.
CONFIG_FILES = "RFM_CONFIG_FILES"
#: The folder of the checks, for `reframe -c`. Both `source env.sh` and `iowatch env` set it.
CHECKS_PATH = "IOWATCH_CHECKS"
#: The name of the file of what all systems share, beside theirs.
SETTINGS = "settings.py"
#: The name of ReFrame's log in the folder for results. `iowatch run` sets it for a session that
#: runs beside a night: each session begins its log anew.
LOG = "IOWATCH_LOG"


def site_folder() -> Path:
    """The site's own folder: IOWATCH_SITE_DIR, else the checkout, else `iowatch` in the home.

    UserError if IOWATCH_SITE_DIR names none: what is shipped would quietly take its place.
    """
    if given := os.environ.get(SITE_DIR):
        folder = Path(given)
        if not folder.is_absolute():  # ReFrame is somewhere else while it reads a configuration
            raise UserError(f"{SITE_DIR} is {given!r}: it must be an absolute path")
        if not folder.is_dir():
            raise UserError(f"{SITE_DIR}: there is no folder {folder}: make it, or mend the name")
        return folder
    return ROOT if BENCHIO_SOURCE.is_dir() else Path.home() / "iowatch"


def made(folder: Path) -> Path:
    """A folder of the site's own, made if it is missing; UserError."""
    try:
        make_folder(folder)
    except OSError as err:
        raise UserError(
            f"{folder} cannot be made ({err.strerror}): name a folder of your own in {SITE_DIR}"
        ) from None
    return folder


def results() -> Path:
    """The folder of everything that is written: RFM_PREFIX, else `results` of the site's own."""
    given = os.environ.get(PREFIX)
    return Path(given) if given else site_folder() / "results"


def usual_database() -> Path:
    """The results database, unless a site's `storage` section says otherwise."""
    return Path(os.environ.get(DATABASE) or results() / "results.db").expanduser()


def config_files() -> str:
    """RFM_CONFIG_FILES with iowatch's settings and the site's systems, each once; the shipped
    systems where the site has no file of one.

    A centre's own files stay, before these. ReFrame believes the last file on a system that two
    define, and only the site's says what iowatch has to know. UserError.
    """
    of_site = site_folder() / "site_configs" / SETTINGS
    settings = of_site if of_site.exists() else ROOT / "site_configs" / SETTINGS
    given = os.environ.get(CONFIG_FILES, "")
    # To ReFrame an empty name says to forget the files before it: it stays at the beginning only.
    none = [""] if given.startswith(":") else []
    ours = [settings, *_system_files()]
    return ":".join([*none, *_of_centre(given), *map(str, ours)])


def _of_centre(given: str) -> list[str]:
    """Those of these files that neither iowatch nor the site has."""
    folders = [folder / "site_configs" for folder in (ROOT, site_folder())]
    return [file for file in given.split(":") if file and Path(file).parent not in folders]


def _system_files() -> list[Path]:
    """The files of the site's systems, named like them; of a site without any, the shipped ones."""
    for folder in (site_folder(), ROOT):
        files = {*(folder / "site_configs").glob("*.py")} - {folder / "site_configs" / SETTINGS}
        if files:
            return sorted(files)
    return []


def shipped(file: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """For a configuration file of a system that comes with iowatch: nothing, if a centre's own file
    has that system, and beside a centre's files no host name, so that it hides none of theirs.

    A site's copy of the file, in another folder, is the site's. SystemExit with one line if a
    centre's file cannot be read.
    """
    from iowatch.base.reframe_inside import configuration_files, sections_of

    if Path(file).parent != ROOT / "site_configs":
        return configuration
    folders = os.environ.get("RFM_CONFIG_PATH", "").split(":")
    files = configuration_files([*filter(None, folders)], [])
    files += _of_centre(os.environ.get(CONFIG_FILES, ""))
    try:
        theirs = {
            entry["name"] for name in files for entry in sections_of(Path(name)).get("systems", ())
        }
    except UserError as err:
        raise SystemExit(f"error: {err}") from None
    (system,) = configuration["systems"]
    if system["name"] in theirs:
        return {}
    return {**configuration, "systems": [{**system, "hostnames": []}]} if files else configuration


def configured_systems() -> list[str]:
    """The systems that the site has a file of; of a site without any, the shipped ones.
    UserError."""
    return [file.stem for file in _system_files()]


def extended(
    file: str | Path,
    system: str,
    partitions: Mapping[str, Mapping[str, Any]],
    environs: Mapping[str, Mapping[str, Any]] | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """For a configuration file of a site: a system of another file of ReFrame, with what iowatch
    has to know as extras of these partitions and environments.

    `changes` has other keys of partitions, such as `access`, `max_jobs`, `time_limit` and
    `resources`, which take the place of those in the file. All else that the file has, but other
    systems and the storage, stays in force. ReFrame takes the whole of a system from the file that
    is read last. Output goes where the site has its results, whatever `prefix` that file has: raw
    results belong with the database.
    SystemExit with one line if the other file cannot be read or lacks one of these names, or if
    there is no folder for results.
    """
    from iowatch.base.reframe_inside import sections_of

    try:
        config = sections_of(Path(file))
        (ours,) = sections_of(ROOT / "site_configs" / SETTINGS)["logging"]
        prefix = str(results())
    except UserError as err:
        raise SystemExit(f"error: {err}") from None
    of_system = [entry for entry in config.get("systems", ()) if entry["name"] == system][:1]
    if not of_system:
        raise SystemExit(f"error: {file}: has no system {system!r}: mend the name")
    (entry,) = of_system
    environs, every = environs or {}, entry["partitions"]
    places = {system, *(f"{system}:{partition['name']}" for partition in every)}
    named = {name for partition in every for name in partition.get("environs", ())}
    # Those of all systems come first: ReFrame takes the last of one name and scope.
    defined = [
        {**environ, "target_systems": sorted(places.intersection(targets)) or [system]}
        for is_scoped in (False, True)
        for environ in config.get("environments", [])
        if (targets := environ.get("target_systems", ["*"]))
        and environ["name"] in named | environs.keys()
        and bool(places.intersection(targets)) == is_scoped
        and (is_scoped or "*" in targets)
    ]
    changed = _with(every, changes or {}, file)
    whole = {"prefix": prefix, "partitions": _with(changed, partitions, file, "extras")}
    return {
        **{name: config[name] for name in ("modes", "autodetect_methods") if name in config},
        "general": [_without(entry, "report_file") for entry in config.get("general", ())],
        "logging": [_beside_ours(entry, ours) for entry in config.get("logging", ())],
        "systems": [{**entry, **whole}],
        "environments": _with(defined, environs, file, "extras"),
    }


def _without(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


def _beside_ours(entry: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """A centre's section of logging, which would take the place of the handlers of ours."""
    return {
        name: [*ours.get(name, ()), *value] if name.startswith("handlers") else value
        for name, value in entry.items()
    }


def _with(
    entries: Sequence[Mapping[str, Any]],
    more: Mapping[str, Mapping[str, Any]],
    file: str | Path,
    inside: str = "",
) -> list[dict[str, Any]]:
    """The entries, each with more besides, or with more in this mapping that it has."""
    if unknown := sorted(more.keys() - {entry["name"] for entry in entries}):
        raise SystemExit(f"error: {file}: has no {unknown[0]!r} to add to: mend the name")
    added = [(entry, more.get(entry["name"], {})) for entry in entries]
    if not inside:
        return [{**entry, **keys} for entry, keys in added]
    return [{**entry, inside: {**entry.get(inside, {}), **keys}} for entry, keys in added]


@contextmanager
def prepared() -> Iterator[None]:
    """Let ReFrame's configuration be found without env.sh, by jobs too; UserError."""
    given = os.environ.get(CONFIG_FILES)
    if str(ROOT / "site_configs" / SETTINGS) not in (given or "").split(":"):
        os.environ[CONFIG_FILES] = config_files()
    try:
        yield
    finally:
        os.environ.pop(CONFIG_FILES)
        if given is not None:
            os.environ[CONFIG_FILES] = given


def shell_lines() -> str:
    """Lines for a shell, so that plain ReFrame finds the same: `iowatch env`, and env.sh.

    UserError.
    """
    variables = {CONFIG_FILES: config_files(), CHECKS_PATH: str(CHECKS_FOLDER)}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    beside = Path(sys.executable).parent
    programs = [BUILT_BENCHIO.parent] if BENCHIO_SOURCE.is_dir() else []
    programs += [beside] if (beside / "reframe").exists() else []
    on_path = os.environ.get("PATH", "").split(":")
    lines += [
        f"export PATH={shlex.quote(str(folder))}:$PATH"
        for folder in programs
        if str(folder) not in on_path
    ]
    return "\n".join(lines)


def reframe_program() -> str:
    """ReFrame: the one on PATH, else that of this Python's environment. UserError."""
    beside = Path(sys.executable).with_name("reframe")
    program = shutil.which("reframe") or shutil.which(str(beside))
    if not program:
        raise UserError(f"there is no reframe on PATH or at {beside}: {activate()}")
    return program


def activate() -> str:
    """The command that lets a shell find iowatch's ReFrame and configuration."""
    script = ROOT / "env.sh"
    return f"source {typed(script)}" if script.exists() else 'eval "$(iowatch env)"'


def typed(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def reference_folder() -> Path:
    """Return the folder of the site's baselines, expected failures and own reference values."""
    given = os.environ.get(REFERENCE_PREFIX)
    return Path(given).absolute() if given else site_folder() / "reference_values"


def reference_values(system: str) -> Path:
    """The file of a system's reference values: the site's own, else the one that is shipped."""
    of_site = reference_folder() / f"{system}.yaml"
    shipped = ROOT / "reference_values" / of_site.name
    is_shipped = shipped.exists() and not of_site.exists() and REFERENCE_PREFIX not in os.environ
    return shipped if is_shipped else of_site


if __name__ == "__main__":  # for env.sh: under a Python that may have no other package
    try:
        print(shell_lines())
    except UserError as err:
        sys.exit(f"iowatch: error: {err}")
