"""Accepting a system: the evidence is gathered, judged and sealed; or, elsewhere, judged again."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

from iowatch import history
from iowatch.acceptance import bundle, dossier
from iowatch.acceptance import plan as planning
from iowatch.acceptance.certify import Judged, certify
from iowatch.acceptance.contract import read, read_exclusions
from iowatch.acceptance.dossier import Seal
from iowatch.acceptance.evidence import CONTRACT, EXCLUSIONS, collect
from iowatch.acceptance.gather import gather
from iowatch.files import UserError, whole
from iowatch.site import read_site

VERDICTS = "verdicts"  # in the evidence: what its maker was told

Say = Callable[[str], None]


def accept(
    contract: Path,
    exclusions: Path | None,
    databases: Sequence[Path],
    keys: Sequence[str],
    sealed: Path,
    outputs: Sequence[Path],
    say: Say,
) -> Judged:
    """Judge a system by what is on record of it here; the bundle is written, signed with each of
    these keys, and the dossier as each suffix says. UserError."""
    agreed = read(contract)
    if exclusions:
        read_exclusions(exclusions, agreed.rules)
    site = read_site(agreed.system)
    with _folder() as folder:
        gather(folder, contract, agreed, exclusions, site, databases or [site.database])
        judged = judge(folder)
        lines = list(dossier.summary(judged))
        (folder / VERDICTS).write_text("".join(f"{line}\n" for line in lines), "utf-8")
        bundle.write_manifest(folder)
        for key in keys:
            bundle.sign(folder, key)
        seal = _seal(folder, list(bundle.signers(sealed, folder, None)))
        with whole(sealed) as temporary:
            bundle.pack(folder, temporary)
            _write(judged, folder, seal, outputs)
    for line in [*lines, *_about(seal)]:
        say(line)
    return judged


def plan(contract: Path, databases: Sequence[Path], say: Say) -> bool:
    """Say what a test will cost and show, by the site's suite and what is on record; can all of it
    be decided? UserError."""
    agreed = read(contract)
    site = read_site(agreed.system)
    files = databases or [file for file in [site.database] if file.is_file()]
    planned = planning.plan(agreed, site, history.read(files))
    for line in planned.lines:
        say(line)
    return planned.is_decidable


def verify(
    sealed: Path,
    contract: Path | None,
    allowed: Path | None,
    outputs: Sequence[Path],
    say: Say,
) -> tuple[Judged, bool]:
    """Judge a bundle by what is in it alone; are the verdicts those that its maker was told?

    `contract` is the copy of whoever judges, which must be the one in the bundle. `allowed` lists
    the keys that are known here. UserError if the bundle was changed since it was made.
    """
    with _folder() as folder:
        bundle.unpack(sealed, folder)
        if contract:
            _require_same(sealed, folder / CONTRACT, contract)
        signers = list(bundle.signers(sealed, folder, allowed))
        judged = judge(folder)
        lines = list(dossier.summary(judged))
        told = (folder / VERDICTS).read_text("utf-8").splitlines()
        seal = _seal(folder, signers)
        _write(judged, folder, seal, outputs)
    for line in [*lines, *_about(seal)]:
        say(line)
    if not contract:
        say("the contract is the bundle's own: --contract FILE would compare it with your copy")
    differs = [line for line in lines if line not in told]
    differs += [line for line in told if line not in lines]
    for line in told if differs else ():
        if line not in lines:
            say(f"differs: its maker was told: {line}")
    return judged, not differs


def sign(sealed: Path, keys: Sequence[str], say: Say) -> None:
    """Sign a bundle once more with each of these keys. UserError if it was changed since it was
    made."""
    with _folder() as folder:
        bundle.unpack(sealed, folder)
        list(bundle.signers(sealed, folder, None))
        for key in keys:
            bundle.sign(folder, key)
        seal = _seal(folder, list(bundle.signers(sealed, folder, None)))
        with whole(sealed) as temporary:
            bundle.pack(folder, temporary)
    for line in _about(seal):
        say(line)


def _require_same(sealed: Path, inside: Path, copy: Path) -> None:
    """UserError unless a bundle's contract is, byte by byte, the one that is known here."""
    try:
        wanted, given = copy.read_bytes(), inside.read_bytes()
    except OSError as err:
        raise UserError(f"{err.filename}: cannot be read: {err.strerror}") from None
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


def judge(folder: Path) -> Judged:
    """The verdicts on the evidence in a folder, by the contract that is in it; UserError."""
    agreed = read(folder / CONTRACT)
    file = folder / EXCLUSIONS
    exclusions = read_exclusions(file, agreed.rules) if file.is_file() else []
    evidence = collect(folder, agreed, exclusions, datetime.now(UTC))
    return Judged(
        contract=agreed,
        exclusions=exclusions,
        evidence=evidence,
        findings=certify(agreed, evidence),
    )


@contextmanager
def _folder() -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="iowatch.accept.") as name:
            folder = Path(name, "evidence")
            folder.mkdir()
            yield folder
    except OSError as err:
        # Of a file that is written, no name is known.
        where = err.filename or tempfile.gettempdir()
        raise UserError(f"{where}: cannot be used: {err.strerror}") from None


def _seal(folder: Path, signers: Sequence[str]) -> Seal:
    manifest = (folder / bundle.MANIFEST).read_bytes()
    return Seal(hashlib.sha256(manifest).hexdigest(), bundle.digests(folder), signers)


def _about(seal: Seal) -> Iterator[str]:
    yield f"the evidence is known by the SHA-256 of its manifest: {seal.manifest}"
    for signer in seal.signers:
        yield f"signed by {signer}"
    if not seal.signers:
        yield "nobody has signed it: whoever changes it can make its manifest anew"


def _write(judged: Judged, folder: Path, seal: Seal, outputs: Sequence[Path]) -> None:
    scripts = {
        name: (folder / name).read_text("utf-8", "replace")
        for name in seal.digests
        if name.endswith(f"/{dossier.SCRIPT}")
    }
    if outputs:
        dossier.write(dossier.render(judged, seal, scripts), outputs)
