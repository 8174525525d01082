"""The commands of acceptance tests: accept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iowatch.base.files import UserError
from iowatch.cli.command import AsJson, Databases, Keys, app, argument, commands, option

accept_app = commands(
    help="Plan an acceptance test, judge it by its contract, and judge its evidence elsewhere."
)
app.add_typer(accept_app, name="accept")

Contract = Annotated[
    Path,
    typer.Argument(
        metavar="CONTRACT",
        help="YAML file of what was agreed; `iowatch docs howto/acceptance` has its form.",
    ),
]
Bundle = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE", help="The evidence that `accept judge` or `compare` has written."
    ),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", help="File to write the dossier to, .html or .pdf. May be repeated."
    ),
]


@accept_app.command("plan")
def plan_command(contract: Contract, db: Databases = None, as_json: AsJson = False) -> None:
    """Say what a test will cost, and what it will be able to show. Nothing is run.

    The exit code is 0 if the test can decide every criterion, and else 1.
    """
    from iowatch.base.documents import document
    from iowatch.evidence.contract import read
    from iowatch.evidence.plan import plan
    from iowatch.past import history
    from iowatch.site.site import read_site

    agreed = read(contract)
    site = read_site(agreed.system)
    files = db or [file for file in [site.database] if file.is_file()]
    planned = plan(agreed, site, history.read(files))
    print(document(acceptance_plan=planned) if as_json else "\n".join(planned.lines))
    raise typer.Exit(0 if planned.decidable else 1)


@accept_app.command("judge")
def judge_command(
    contract: Contract,
    exclusions: Path | None = option(
        "YAML file of sessions that both sides exclude.", show_default="none"
    ),
    key: Keys = None,
    bundle: Path = option(
        "File to write the evidence to, one archive.", default=Path("evidence.tar")
    ),
    output: Outputs = None,
    db: Databases = None,
    as_json: AsJson = False,
) -> None:
    """Judge an acceptance test by its contract: write the evidence and the dossier.

    Which sessions count is a matter of the contract's rules. The evidence is one archive with
    everything that the verdicts rest on. Whoever has it and iowatch comes to the same verdicts with
    `accept verify`, and sees whether a byte of it was changed. The dossier is dossier.html and
    dossier.pdf where --output names no other file.

    The exit code is 0 if all criteria pass, 1 if not all of them do, and 2 if nothing was judged.
    """
    from iowatch.evidence import accept

    outputs = _outputs(output or [Path("dossier.html"), Path("dossier.pdf")])
    judged, lines = accept.accept(contract, exclusions, db or [], key or [], bundle, outputs)
    print(judged.document(lines) if as_json else "\n".join(lines))
    raise typer.Exit(0 if judged.passes else 1)


@accept_app.command("sign")
def sign_command(
    bundle: Bundle,
    key: list[str] = argument("File of an SSH key.", metavar="KEY"),
) -> None:
    """Add a signature to the evidence, unless it was changed since it was made."""
    from iowatch.evidence.bundle import sign_again

    lines = sign_again(bundle, key)
    print(*lines, f"written: {bundle}", sep="\n")


@accept_app.command("verify")
def verify_command(
    bundle: Bundle,
    contract: Path | None = option(
        "Your own copy of the contract. The bundle's must be the same.",
        show_default="the bundle's own, whatever it says",
    ),
    signers: Path | None = option(
        "File of the keys that are known, as in ssh-keygen's ALLOWED SIGNERS. Whoever has "
        "signed must be in it.",
        show_default="any key may sign",
    ),
    output: Outputs = None,
    as_json: AsJson = False,
) -> None:
    """Judge the evidence again, by what is in it alone: no site, database or network.

    The exit code is 0 if all criteria pass, or if the change has cost no case more than the limit.
    It is 1 if that is not so, or if the verdicts are not those that the maker of the evidence was
    told, and 2 if nothing was judged, such as evidence that was changed.
    """
    from iowatch.evidence import accept

    judged, lines, is_same = accept.verify(bundle, contract, signers, _outputs(output or []))
    print(judged.document(lines, is_same) if as_json else "\n".join(lines))
    raise typer.Exit(0 if is_same and judged.passes else 1)


def _outputs(paths: list[Path]) -> list[Path]:
    """Return these files, if a dossier can be written to each. UserError."""
    from iowatch.evidence.judgement import FORMATS

    if wrong := [path for path in paths if path.suffix not in FORMATS]:
        raise UserError(f"--output {wrong[0]}: is neither .html nor .pdf")
    return paths
