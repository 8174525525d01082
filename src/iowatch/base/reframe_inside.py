"""Parts of ReFrame's insides that iowatch needs outside of the checks, and why.

The imports stand in the functions: most commands need not wait for ReFrame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from iowatch.base.files import UserError

VERSION = "4.10"


def require_version() -> None:
    """UserError if this ReFrame is another than those whose insides are known."""
    from reframe import VERSION as installed  # type: ignore[import-untyped]

    if installed.split(".")[:2] != VERSION.split("."):
        raise UserError(
            f"iowatch works with ReFrame {VERSION}, and this is {installed}: install it with "
            f"`pip install 'reframe-hpc>={VERSION},<4.11'`"
        )


def configuration_files(folders: Sequence[str], files: Sequence[str]) -> list[str]:
    """Find the files of a configuration as ReFrame does: only so they are read in process."""
    from reframe.core import config  # type: ignore[import-untyped]

    return list(config.find_config_files(folders, files))


def load_configuration(files: Iterable[str]) -> Any:
    """Load these files of a configuration; whatever is wrong in one is raised."""
    from reframe.core import config

    return config.load_config(*files)


def sections_of(file: Path) -> dict[str, Any]:
    """Read the sections of one file of a configuration, in any form that ReFrame takes. Python is
    executed once, also where ReFrame reads the file, too: it may register launchers. UserError."""
    from reframe.core import config

    site = config._SiteConfig()
    forms = {
        ".py": site.load_config_python,
        ".yaml": site.load_config_yaml,
        ".yml": site.load_config_yaml,
        ".json": site.load_config_json,
    }
    if file.suffix not in forms:
        raise UserError(f"{file}: no configuration of ReFrame: its name ends in {', '.join(forms)}")
    try:
        forms[file.suffix](str(file.absolute()))
    except Exception as err:  # Python may raise anything
        cause = err.__cause__ or err
        why = " ".join(f"{type(cause).__name__}: {cause}".split())
        raise UserError(f"{file}: no configuration of ReFrame: {why}") from None
    return {name: site[name] for name in site}


def post_in_time(seconds: float) -> None:
    """Let ReFrame wait so long for a collector of logs. By itself ReFrame, and the night, waits
    without end for one that does not answer."""
    from reframe.core import logging

    logging.requests.post = partial(logging.requests.post, timeout=seconds)
