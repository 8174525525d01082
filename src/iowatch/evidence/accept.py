"""Evidence that is gathered, judged and sealed here; or, elsewhere, judged again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

from iowatch.base.bounded import reason_of, regular_bytes
from iowatch.base.files import UserError
from iowatch.evidence import bundle
from iowatch.evidence.certify import answered, gather_runs
from iowatch.evidence.contract import read, read_exclusions
from iowatch.evidence.dossier import Judged
from iowatch.evidence.evidence import CONTRACT, EXCLUSIONS, collect
from iowatch.evidence.gather import gather
from iowatch.evidence.judgement import Judgement, write
from iowatch.evidence.question import QUESTION, Question
from iowatch.evidence.sheet import ChangeJudged
from iowatch.site.site import read_site


def judge(folder: Path) -> Judged:
    """Judge the evidence in a folder, by the contract that is in it; UserError."""
    agreed = read(folder / CONTRACT)
    file = folder / EXCLUSIONS
    exclusions = read_exclusions(file, agreed.rules) if file.is_file() else []
    evidence = collect(folder, agreed, exclusions, datetime.now(UTC))
    return Judged(
        contract=agreed,
        exclusions=exclusions,
        evidence=evidence,
        findings={criterion: criterion.certify(agreed, evidence) for criterion in agreed.criteria},
    )


def accept(
    contract: Path,
    exclusions: Path | None,
    databases: Sequence[Path],
    keys: Sequence[str],
    archive: Path,
    outputs: Sequence[Path],
) -> tuple[Judged, list[str]]:
    """Judge a system by what is on record of it here, and say so in lines. The bundle is written,
    signed with each of these keys, and the dossier as each suffix says. UserError."""
    agreed = read(contract)
    if exclusions:
        read_exclusions(exclusions, agreed.rules)
    site = read_site(agreed.system)
    with bundle.work_folder() as folder:
        gather(folder, contract, agreed, exclusions, site, databases or [site.database])
        judged = judge(folder)
        return judged, judged.sealed(folder, keys, archive, outputs)


def certify(
    question: Question, databases: Sequence[Path], keys: Sequence[str], output: Path | None
) -> tuple[ChangeJudged, list[str]]:
    """Judge a change by what is on record of it here, and say so in lines. With an output, that
    folder gets the page and the evidence, signed with each of these keys. UserError."""
    site = read_site(question.system)
    with bundle.work_folder() as folder:
        gather_runs(folder, question, site, databases or [site.database])
        judged = answered(folder)
        if not output:
            return judged, judged.lines
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise UserError(f"{output}: cannot be made: {err.strerror}") from None
        pages = [output / "certificate.html"]
        return judged, judged.sealed(folder, keys, output / "evidence.tar", pages)


def verify(
    archive: Path, contract: Path | None, allowed: Path | None, outputs: Sequence[Path]
) -> tuple[Judgement, list[str], bool]:
    """Judge an archive by what is in it alone, and say so in lines; are the verdicts those that its
    maker was told?

    `contract` is the copy of whoever judges, which must be the one in the bundle. `allowed` lists
    the keys that are known here. UserError if the bundle was changed since it was made.
    """
    with bundle.opened(archive, allowed) as (folder, seal):
        is_of_change = (folder / QUESTION).is_file()
        if contract and is_of_change:
            raise UserError(
                f"--contract {contract}: {archive} is evidence of a change, without one"
            )
        if contract:
            _require_same(archive, folder / CONTRACT, contract)
        judged = answered(folder) if is_of_change else judge(folder)
        write(judged.page(seal, folder), outputs)
        told = (folder / bundle.VERDICTS).read_text("utf-8", "replace").splitlines()
        lines = [*judged.lines, *seal.lines]
        lines += [f"differs: its maker was told: {line}" for line in told if line not in lines]
        is_same = {*judged.lines} == {*told}
    if not contract and not is_of_change:
        lines.append(
            "the contract is the bundle's own: --contract FILE would compare it with your copy"
        )
    return judged, [*lines, *(f"written: {path}" for path in outputs)], is_same


def _require_same(sealed: Path, inside: Path, copy: Path) -> None:
    """UserError unless a bundle's contract is, byte by byte, the one that is known here."""
    try:
        wanted, given = regular_bytes(copy), regular_bytes(inside)
    except (OSError, ValueError) as err:
        raise UserError(f"{copy}: cannot be compared: {reason_of(err)}") from None
    if wanted == given:
        return
    lines = zip_longest(wanted.splitlines(True), given.splitlines(True), fillvalue=b"")
    number, (agreed, other) = next(
        (number, pair) for number, pair in enumerate(lines, start=1) if pair[0] != pair[1]
    )
    texts = (line.decode("utf-8", "replace").strip() for line in (other, agreed))
    raise UserError(
        f"{sealed}: its contract is not that of --contract {copy}: line {number} is "
        f"{' and not '.join(map(repr, texts))}"
    )
