"""The commands that adopt a site: site new, site check, site environs, suite and env."""

from __future__ import annotations

from pathlib import Path

import typer

from iowatch.cli.command import (
    Address,
    AsJson,
    System,
    Webhook,
    app,
    argument,
    commands,
    interruptible,
    option,
    output,
    screen,
    the_system,
)

site_app = commands(help="Adopt a site: make a configuration for it.")


@site_app.command("new")
def site_new_command(
    name: str = argument("Name of the new system, such as archer.", metavar="NAME"),
    path: list[Path] | None = option(
        "Directory to measure in. May be repeated.", show_default="what is found"
    ),
    link: float | None = option(
        "What the links of a compute node carry together, in Gbit/s. A result above it "
        "came from a cache.",
        metavar="GBIT/S",
        show_default="what this machine's carry",
    ),
) -> None:
    """Look around on this machine, a centre's login node, and write a configuration for the site.

    It is site_configs/NAME.py in the site's own folder, which IOWATCH_SITE_DIR names: a draft that
    says, for each partition and filesystem that was found, what is to be measured. Read it through
    before the first night.
    """
    from iowatch.adopt import site_new

    site_new.new_site(name, path or [], link, screen(width=100))


@site_app.command("check")
def site_check_command(
    system: System = "",
    address: Address = None,
    webhook: Webhook = None,
    as_json: AsJson = False,
) -> None:
    """Try a site before its first night, and say what to mend.

    In each partition and environment a job of two minutes at most tries the launcher, modules, the
    program, the directory on every node, room, quota and a short write. No history is touched.

    The exit code is 0 if all is in order, 1 if something is to be mended, 2 if nothing could be
    tried, and 130 or 143 if it was interrupted.
    """
    from iowatch.adopt import site_check
    from iowatch.base.documents import document
    from iowatch.night import notices

    with interruptible():
        channels = notices.channels(address, webhook)
        tried = site_check.check_site(the_system(system), channels, screen(as_json))
    if as_json:
        print(document(site_check=tried))
    raise typer.Exit(0 if all(line.ok for line in tried) else 1)


@site_app.command("environs")
def site_environs_command(
    environment: str = option(
        "Name or folder of the Spack environment.", "--from-spack", default=..., metavar="ENV"
    ),
    system: System = "",
) -> None:
    """Print an environment for ReFrame for each benchio that Spack has installed in ENV.

    Paste what is printed into `environments` of site_configs/SYSTEM.py, and the names into
    `environs` of each partition that is to compare them. Running them needs no Spack.
    """
    from iowatch.adopt import spack

    print(spack.environs(environment, the_system(system)))


app.add_typer(site_app, name="site")

suite_app = commands(help="Propose the cases that a site measures.")


@suite_app.command("from-darshan")
def suite_from_darshan_command(
    logs: list[Path] = argument("Folder of Darshan logs, or a log.", metavar="LOGS"),
    cover: str = option(
        "The part of the bytes, and of the metadata operations, that the cases are to stand for. "
        "The rest is of rarer kinds.",
        default="90%",
        metavar="PERCENT",
    ),
    system: System = "",
    file: Path | None = output("File to write the suite to.", show_default="printed"),
    as_json: AsJson = False,
) -> None:
    """Propose the fewest cases that stand for what your users write and read.

    The command reads an archive of Darshan logs, and keeps no name, path, program or user. Of a log
    that cannot be read it prints the path. It prints each case with the part of all bytes that the
    case stands for, and what no case stands for. The cost of the suite follows, and the suite as
    Python for the site's file. Nothing is run.

    With --system SYSTEM:PARTITION the cases are for that partition, and else for the first one.

    The exit code is 0 if a suite was proposed, and 2 if no log can be read or none has any I/O. It
    is 130 or 143 if the command was interrupted.
    """
    from iowatch.adopt.users_io.proposal_text import SuiteProposal, proposed, table_lines
    from iowatch.pages import listings

    with interruptible():
        proposal, parts, suite = proposed(logs, cover, the_system(system), file)
    if as_json:
        print(SuiteProposal.document(proposal, parts))
        return
    out = screen(as_json)
    for line in table_lines(proposal):
        out.print(line, soft_wrap=True, markup=False)
    out.print()
    listings.show_costs(parts, "", out)
    print(f"\nwritten: {file}" if file else f"\n{suite}", end="\n" if file else "")


app.add_typer(suite_app, name="suite")


@app.command("env")
def env_command() -> None:
    """Print what a shell needs to use ReFrame itself: eval "$(iowatch env)".

    Then reframe -c "$IOWATCH_CHECKS" -l --system local lists the checks of a system. In a checkout,
    source env.sh does the same.
    """
    from iowatch.base.places import shell_lines

    print(shell_lines())
