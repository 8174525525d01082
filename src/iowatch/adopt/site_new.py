"""`iowatch site new NAME`: a new site's configuration, from what its login node says."""

from __future__ import annotations

import math
import os
import re
import runpy
import socket
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import jinja2
from rich.console import Console
from rich.filesize import decimal
from rich.prompt import FloatPrompt
from rich.table import Table
from rich.text import Text

from iowatch.adopt import machine
from iowatch.adopt.mounts import Candidate, find_filesystems, read_mounts
from iowatch.adopt.probe import largest
from iowatch.base.files import UserError, as_shared
from iowatch.base.places import (
    BUILT_BENCHIO,
    ROOT,
    activate,
    made,
    reference_folder,
    results,
    site_folder,
)
from iowatch.base.text import runs
from iowatch.cases.case import KIB
from iowatch.cases.filesystem import SUITES
from iowatch.site.published import bounds_of_checks
from iowatch.site.references import GENERAL
from iowatch.site.suites import read_filesystem

LINKS = Path("/sys/class")
#: Edges of the cube of each writer, and those where these would need too much space.
USUAL_SIZES = {
    "nightly": [128], "nightly_ost": [64],
    "shared": [128, 256], "one": [256], "files": [512], "ost": [128],
}  # fmt: skip
SMALLER_EDGES = (16, 32, 64, 128, 256)
#: Edge of a cube of 2 MiB: IO500's ior-easy writes multiples of that.
LEAST_OF_IOR = 64
#: Edge for a profile, `second_opinions` of site/usual_suites.py: in smaller files headers could not
#: be told from data.
LEAST_RANKS = 12
#: Nodes that SlowNode compares, at least and at most.
COMPARED = (4, 16)
#: What programs that learn read and write, and the bytes of a rank in an acceptance test; the usual
#: first, then as on one machine.
LEARNING = (
    (["samples=400", "files=5000"], 768 * 2**20),
    (["samples=100", "files=1000", 'shard="8MiB"'], 96 * 2**20),
)


def new_site(name: str, paths: list[Path], link: float | None, console: Console) -> None:
    """Look at this machine, write the site's files into its own folder, and say how to go on.
    UserError.

    `link`: Gbit/s of a node's links together, if what this machine shows is not to count.
    """
    check_name(name)
    if link is not None and not 0 < link < math.inf:
        raise UserError(f"--link {link:g}: must be above 0, such as 100 for one link of 100 Gbit/s")
    facts = fitting(look(name, paths, link))
    file = made(site_folder() / "site_configs") / f"{name}.py"
    references = write_references(name)
    write(file, render(facts))
    console.print(table(facts))
    no_peak = [] if facts["link_bytes"] else without_peak(facts["filesystems"])
    console.print(next_steps(name, file, references, no_peak), soft_wrap=True, markup=False)


def check_name(name: str) -> None:
    """Refuse a name that ReFrame would refuse, or that is taken."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name):
        raise UserError(
            f"{name!r} cannot be a system's name: a letter, then letters, digits, '_' and '-', "
            "64 characters at most"
        )
    taken = {"generic": "ReFrame's own"}
    folders = [folder / "site_configs" for folder in (ROOT, site_folder())]
    for file in sorted({file for folder in folders for file in folder.glob("*.py")}):
        taken[file.stem] = str(file)
        if file.stem == "settings":  # has no systems, and makes folders
            continue
        try:
            config = runpy.run_path(str(file))["site_configuration"]
            taken |= {system["name"]: f"in {file}" for system in config["systems"]}
        except Exception as err:
            raise UserError(f"{file} is no site's configuration: {err!r}") from None
    if name in taken:
        raise UserError(f"{name} exists already ({taken[name]}): remove it, or take another name")


def look(name: str, paths: list[Path], link: float | None = None) -> dict[str, Any]:
    """Look around, and return what the template asks for."""
    benchio = machine.find_benchio(BUILT_BENCHIO)
    jobs = machine.find_jobs(benchio.is_open_mpi)
    filesystems, left_out = find_filesystems(
        read_mounts(), paths, users_folder=made(results()), is_local=jobs.scheduler == "local"
    )
    links = {} if link else machine.link_rates(LINKS)
    link = link or sum(links.values())
    if not link and without_peak(filesystems) and sys.stdin.isatty():
        asking = "Gbit/s of a node's links together (0: to be written later)"
        rates = (FloatPrompt.ask(asking) for _ in repeat(None))
        link = next(rate for rate in rates if 0 <= rate < math.inf)
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname().split(".")[0])
    few, many = (
        jobs.nodes.cores * nodes for nodes in (jobs.node_counts[:2][-1], jobs.node_counts[-1])
    )
    tightest = min(filesystems, key=lambda fs: fs.room)
    sizes = {
        name: edges(usual, few if "nightly" in name else many, tightest.room)
        for name, usual in USUAL_SIZES.items()
    }
    shared = [name for name in benchio.backends if name != "posix"]
    has_peers = sizes["nightly"][0] >= LEAST_OF_IOR
    reading = [nodes for nodes in jobs.node_counts if nodes > 1]
    learning = LEARNING[jobs.scheduler == "local" :]
    learns = [words for words, size in learning if 2 * few * size <= tightest.room]
    optional = {"kept": reading, "learning": learns, "second_opinions": has_peers}
    profile = {}
    if jobs.nodes.cores < LEAST_RANKS and jobs.scheduler == "local":
        profile = {"ranks_per_node": [LEAST_RANKS]}
    elif jobs.nodes.cores < LEAST_RANKS:
        profile = {"nodes": [math.ceil(LEAST_RANKS / jobs.nodes.cores)]}
    compared = [nodes for nodes in jobs.node_counts if COMPARED[0] <= nodes <= COMPARED[1]]
    return {
        "name": name,
        "host": host,
        "hostname": re.sub(r"\d+$", r"\\d+", host) if host[-1:].isdigit() else rf"{host}\b",
        "benchio": benchio,
        "reading": reading,
        "backends": ", ".join(map(literal, shared or ["mpiio", "hdf5", "netcdf"])),
        "jobs": jobs,
        "account": "-A NAME" if jobs.scheduler == "pbs" else "--account=NAME",
        "instances": [count for count in (1, 2, 4) if jobs.nodes.cores % count == 0],
        "sizes": sizes,
        "smaller": sizes != USUAL_SIZES,
        "optional": [part for part, is_used in optional.items() if is_used],
        "learning": [*learns[0], f"nodes={(reading or jobs.node_counts)[0]}"] if learns else [],
        "profile": profile,
        "compared": max(compared) if compared and jobs.launcher == "srun" else None,
        "tightest": tightest,
        "largest": decimal(8 * many * max(sizes["files"]) ** 3),
        "filesystems": filesystems,
        "left_out": left_out,
        "links": " and ".join(f"{link} {rate:g} Gbit/s" for link, rate in links.items()),
        "link_bytes": f"{link / 8:g}e9" if link else "",
        "modules_system": machine.modules_system(os.environ),
        "modules": [m for m in os.environ.get("LOADEDMODULES", "").split(":") if m],
        "init_modules": machine.init_modules(os.environ),
    }


def fitting(facts: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a site may do without while a case has more than the room there is."""
    while facts["optional"] and not _fits(facts):
        facts = {**facts, "optional": facts["optional"][:-1], "smaller": True}
    return facts


def _fits(facts: dict[str, Any]) -> bool:
    """Return whether `iowatch site check` would find room for the largest case."""
    written: dict[str, Any] = {}
    exec(render(facts), written)
    (system,) = written["site_configuration"]["systems"]
    rooms = {fs.name: fs.room for fs in facts["filesystems"]}
    for partition in system["partitions"]:
        extras = {**partition["extras"], "peak": 1.0}  # which may have to be asked for
        place = read_filesystem(facts["name"], partition["name"], partition["environs"], extras, ())
        if max(largest(place, suite, "kib") for suite in SUITES) * KIB > rooms[partition["name"]]:
            return False
    return True


def edges(usual: list[int], ranks: int, room: int) -> list[int]:
    """The usual edges of a cube for each writer with which all take at most half of the room. Else
    the largest that does, or the smallest of all."""
    fitting = [e for e in (*SMALLER_EDGES, *usual) if 8 * ranks * e**3 <= room // 2]
    return [e for e in usual if e in fitting] or [max(fitting, default=min(SMALLER_EDGES))]


def without_peak(filesystems: Iterable[Candidate]) -> list[str]:
    """The filesystems whose peak is not known where the rate of the links is not."""
    return [fs.name for fs in filesystems if fs.bound == "link"]


def render(facts: dict[str, Any]) -> str:
    """The text of the site's file, as ruff formats it."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("iowatch"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = (literal, comment, numbers, mapping)
    env.filters |= {function.__name__: function for function in filters}
    text = env.get_template("site.py.j2").render(facts)
    return "".join(map(wrapped, text.splitlines(keepends=True)))


def literal(value: Any) -> str:
    """Python for a value, strings in double quotes where ruff wants them."""
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')


def numbers(values: Sequence[int]) -> str:
    """Python for a list of numbers: of many, a range for each run of them."""
    if len(values) <= 8:
        return str([*values])
    items: list[str] = []
    for run in runs(values):
        start = f"{run.start}, " if run.start else ""
        items += [f"*range({start}{run.stop})"] if len(run) > 2 else map(str, run)
    return f"[{', '.join(items)}]"


def mapping(values: Mapping[str, list[Any]], base: str = "") -> str:
    """Python for a suite's parameters, which add to those of another mapping, if one is named."""
    items = ([f"**{base}"] if base else []) + ([literal({**values})[1:-1]] if values else [])
    return f"{{{', '.join(items)}}}"


def wrapped(line: str) -> str:
    """A line of Python as ruff formats it: of one that is too long, what its first brackets hold
    has lines of its own."""
    start = re.search(r"[(\[{]", line)
    if len(line) <= 101 or not start or "#" in line:  # with its end
        return line
    margin, items, depth = " " * (len(line) - len(line.lstrip())), [""], 0
    for part in _PARTS.finditer(line, start.end()):
        depth += (part[0] in "([{") - (part[0] in ")]}")
        if depth < 0:
            break
        if part[0] == "," and not depth:
            items.append("")
        else:
            items[-1] += part[0]
    inside = "".join(wrapped(f"{margin}    {item.strip()},\n") for item in items)
    return f"{line[: start.end()]}\n{inside}{margin}{line[part.start() :]}"


#: A string, or any other character.
_PARTS = re.compile(r'"(?:\\.|[^"\\])*"|.')


def comment(text: str, indent: int = 0) -> str:
    """Lines of a comment, whatever is in the text: whoever may mount chooses names."""
    plain = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    margin = " " * indent + "# "
    lines = textwrap.wrap(plain, 100 - len(margin), break_on_hyphens=False)
    return "".join(f"{margin}{line}\n" for line in lines)


def write_references(name: str) -> Path:
    """The file of reference values, without which no check runs; one that there is stays."""
    file = made(reference_folder()) / f"{name}.yaml"
    if not file.exists():
        text = (
            f"# Reference values of system {name}: only general bounds, which make nothing red.\n"
            "# `iowatch docs howto/references` says how to add bounds of the site.\n"
        )
        write(file, f"{text}{GENERAL}:\n{bounds_of_checks(name)}")
    return file


def write(file: Path, text: str) -> None:
    """Write a file, never over another."""
    try:
        with as_shared(file.parent), file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as err:
        raise UserError(f"{file} cannot be written: {err.strerror}") from None


def table(facts: dict[str, Any]) -> Table:
    """Return a table of what was found."""
    jobs, benchio = facts["jobs"], facts["benchio"]
    told = facts["link_bytes"] and f"{facts['link_bytes']} bytes/s, as you said"
    rows = [
        ("jobs", f"{jobs.system}, launched by {jobs.launcher}; {jobs.nodes}"),
        ("benchio", ", ".join(benchio.backends) or "none that runs: `iowatch docs howto/install`"),
        ("modules", f"{facts['modules_system']}, {len(facts['modules'])} loaded"),
        ("link", facts["links"] or told or "no rate found"),
    ]
    for fs in facts["filesystems"]:
        osts = f", {len(fs.striped.osts)} OSTs" if fs.striped and fs.striped.osts else ""
        rows.append((fs.name, f"{fs.path} ({fs.mount.type}{osts}, {fs.room_text})"))
        rows += [("", trouble) for trouble in (fs.striped.troubles if fs.striped else ())]
    rows += [
        ("left out", f"{mount.path} ({mount.type}): {why}") for mount, why in facts["left_out"]
    ]
    facts_table = Table(box=None, show_header=False)
    for row in rows:
        facts_table.add_row(*(Text(cell, overflow="fold") for cell in row))
    return facts_table


def next_steps(name: str, file: Path, references: Path, no_peak: Sequence[str] = ()) -> str:
    """The commands to go on with, as they are to be typed in the present folder, and which
    filesystems first need a peak."""
    missing = ""
    if no_peak:
        missing = (
            f" No rate of a node's link can be read here: write the 'peak' of {', '.join(no_peak)},"
            " without which no job runs, or remove both files and name the rate with --link."
        )
    return (
        f"\nwritten: {file}\n         {references}\n"
        'Read through the first, above all what says "confirm".'
        f"{missing} Then:\n\n"
        f"    {activate()}\n"
        f"    iowatch site check --system {name}\n"
        f"    iowatch run --system {name} --record"
    )
