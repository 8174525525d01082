"""`iowatch site new NAME`: a new site's configuration, from what its login node says."""

from __future__ import annotations

import os
import re
import runpy
import socket
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from iowatch.adopt import machine
from iowatch.adopt.mounts import find_filesystems, read_mounts
from iowatch.files import UserError
from iowatch.places import (
    BUILT_BENCHIO,
    CHECKS_FOLDER,
    ROOT,
    activate,
    made,
    reference_folder,
    results,
    site_folder,
    typed,
)
from iowatch.references import GENERAL

LINKS = Path("/sys/class")
FASTEST_LINK = 800.0  # Gbit/s, XDR InfiniBand: where no rate can be read
ACCOUNT = {"pbs": "-A NAME", "torque": "-A NAME", "lsf": "-P NAME"}  # else Slurm's --account


@dataclass(frozen=True)
class NewSite:
    """A site that has been adopted."""

    name: str
    facts: dict[str, Any]  # what the template was given
    file: Path
    references: Path


def new_site(name: str, paths: list[Path]) -> NewSite:
    """Look at this machine, and write the site's files into its own folder. UserError."""
    check_name(name)
    facts = look(name, paths)
    file = made(own_sites()) / f"{name}.py"
    references = write_references(name)
    write(file, render(facts))
    return NewSite(name, facts, file, references)


def own_sites() -> Path:
    """Where a site's own configurations are found by themselves."""
    return site_folder() / "site_configs"


def show(site: NewSite, console: Console) -> None:
    """What was found and written, and how to go on."""
    console.print(table(site.facts))
    steps = next_steps(site.name, site.file, site.references)
    console.print(steps, soft_wrap=True, markup=False)


def check_name(name: str) -> None:
    """Refuse a name that ReFrame would refuse, or that is taken."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name):
        raise UserError(
            f"{name!r} cannot be a system's name: a letter, then letters, digits, '_' and '-', "
            "64 characters at most"
        )
    taken = {"generic": "ReFrame's own"}
    folders = (ROOT / "site_configs", own_sites())
    for file in sorted({file for one in folders for file in one.glob("*.py")}):
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


def look(name: str, paths: list[Path]) -> dict[str, Any]:
    """What the template asks for."""
    benchio = machine.find_benchio(BUILT_BENCHIO)
    jobs = machine.find_jobs(benchio.is_open_mpi_4)
    filesystems, left_out = find_filesystems(
        read_mounts(),
        paths,
        own=made(results()),
        is_local=jobs.scheduler == "local",
    )
    links = machine.link_rates(LINKS)
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname().split(".")[0])
    largest = jobs.nodes.cores * jobs.node_counts[-1] * 2**30  # FilePerProcess: 1 GiB a writer
    shared = [name for name in benchio.backends if name != "posix"]
    return {
        "name": name,
        "host": host,
        "hostname": re.sub(r"\d+$", r"\\d+", host) if host[-1:].isdigit() else rf"{host}\b",
        "benchio": benchio,
        "reading": [nodes for nodes in jobs.node_counts if nodes > 1],
        "backends": ", ".join(map(literal, shared or ["mpiio", "hdf5", "netcdf"])),
        "jobs": jobs,
        "account": ACCOUNT.get(jobs.scheduler, "--account=NAME"),
        "instances": [count for count in (1, 2, 4) if jobs.nodes.cores % count == 0],
        "largest": decimal(largest),
        "filesystems": filesystems,
        "left_out": left_out,
        "links": " and ".join(f"{link} {rate:g} Gbit/s" for link, rate in links.items()),
        "link_bytes": f"{(sum(links.values()) or FASTEST_LINK) / 8:g}e9",
        "fastest_link": f"{FASTEST_LINK:g}",
        "modules_system": machine.modules_system(os.environ),
        "modules": [m for m in os.environ.get("LOADEDMODULES", "").split(":") if m],
        "init_modules": machine.init_modules(os.environ),
        "is_root": os.geteuid() == 0,
    }


def render(facts: dict[str, Any]) -> str:
    """The text of the site's file, as ruff formats it."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("iowatch"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {"literal": literal, "comment": comment}
    return env.get_template("site.py.j2").render(facts)


def literal(value: str) -> str:
    """A Python string, in double quotes where ruff wants them."""
    text = repr(str(value))
    return text if '"' in text else text.replace("'", '"')


def comment(text: str, indent: int = 0) -> str:
    """Lines of a comment, whatever is in the text: whoever may mount chooses names."""
    plain = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    margin = " " * indent + "# "
    lines = textwrap.wrap(plain, 100 - len(margin), break_on_hyphens=False)
    return "".join(f"{margin}{line}\n" for line in lines)


def write_references(name: str) -> Path:
    """The file of reference values, without which no check runs: an empty one if there is none."""
    file = made(reference_folder()) / f"{name}.yaml"
    if not file.exists():
        text = f"# Reference values of system {name}: none yet; see README.md for their form.\n"
        write(file, f"{text}{GENERAL}: {{}}\n")
    return file


def write(file: Path, text: str) -> None:
    """Write a file, never over another."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as err:
        raise UserError(f"{file} cannot be written: {err.strerror}") from None


def table(facts: dict[str, Any]) -> Table:
    """What was found."""
    jobs, benchio = facts["jobs"], facts["benchio"]
    rows = [
        ("jobs", f"{jobs.system}, launched by {jobs.launcher}; {jobs.nodes}"),
        ("benchio", ", ".join(benchio.backends) or "none that runs here: see `make setup`"),
        ("modules", f"{facts['modules_system']}, {len(facts['modules'])} loaded"),
        ("link", facts["links"] or "no rate found"),
    ]
    for fs in facts["filesystems"]:
        osts = f", {fs.osts} OSTs" if fs.osts else ""
        rows.append((fs.name, f"{fs.path} ({fs.type}{osts}, {fs.free} free)"))
    rows += [
        ("left out", f"{mount.path} ({mount.type}): {why}") for mount, why in facts["left_out"]
    ]
    found = Table(box=None, show_header=False)
    for row in rows:
        found.add_row(*(Text(cell, overflow="fold") for cell in row))
    return found


def next_steps(name: str, file: Path, references: Path) -> str:
    """The commands to go on with, as they are to be typed in the present folder."""
    checks = f"reframe -c {typed(CHECKS_FOLDER)} --system {name}"
    return (
        f"\nwritten: {file}\n         {references}\n"
        'Read through the first, above all what says "confirm". Then:\n\n'
        f"    {activate()}\n"
        f"    {checks} -l\n"
        f"    {checks} --dry-run\n"
        f"    iowatch nightly --system {name} --record"
    )
