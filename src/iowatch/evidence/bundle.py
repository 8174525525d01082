"""Evidence as one file, in which a changed byte is found: of an acceptance test, or of a change.

It is a tar archive that anybody can take apart, and check without iowatch:

    tar xf evidence.tar && sha256sum -c seal && sha256sum -c manifest

`manifest` has the SHA-256 of every file of the evidence, and is signed. `seal` has that of the
manifest and of each signature.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iowatch.base.bounded import opened_regular
from iowatch.base.commands import Answer, run
from iowatch.base.files import UserError, no_room, whole
from iowatch.base.text import one_line

MANIFEST, SEAL, SIGNATURES = "manifest", "seal", "signatures"
VERDICTS = "verdicts"  # in the evidence: what its maker was told
NAMESPACE = "iowatch"  # of ssh-keygen: a signature for something else is none for this
_SUFFIX = ".ssh"
#: No name of a file of the evidence leads out of a folder, or would be quoted by sha256sum.
_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.:=,+-]*/)*[A-Za-z0-9][A-Za-z0-9_.:=,+-]*", re.ASCII)


@dataclass(frozen=True)
class Seal:
    """The digest by which the evidence is known again."""

    manifest: str  # SHA-256 of the list of its files
    digests: Mapping[str, str]  # file -> SHA-256
    signers: Sequence[str] = ()  # a sentence on each

    @property
    def lines(self) -> Iterator[str]:
        yield f"the evidence is known by the SHA-256 of its manifest: {self.manifest}"
        for signer in self.signers:
            yield f"signed by {signer}"
        if not self.signers:
            yield "nobody has signed it: whoever changes it can make its manifest anew"


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of the evidence, by its name there; UserError."""
    by_name = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_dir() or name in (MANIFEST, SEAL) or name.startswith(f"{SIGNATURES}/"):
            continue
        if not _NAME.fullmatch(name) or file.is_symlink():
            raise UserError(f"{file}: no evidence can have such a name, or be a link: remove it")
        by_name[name] = _digest(file)
    return by_name


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _lines(digests: dict[str, str]) -> str:
    """As sha256sum reads them."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def write_manifest(folder: Path) -> None:
    """List the files of the evidence in this folder."""
    (folder / MANIFEST).write_text(_lines(digests(folder)), "utf-8")


def pack(folder: Path, path: Path) -> None:
    """Make the archive of a folder that has a manifest."""
    (folder / SEAL).write_text(_lines({n: _digest(folder / n) for n in _sealed(folder)}), "utf-8")
    # Sorted, and without anything of who made it, where and when.
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for file in sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix()):
            if file.is_file():
                entry = tarfile.TarInfo(file.relative_to(folder).as_posix())
                entry.size, entry.mode = file.stat().st_size, 0o644
                with file.open("rb") as source:
                    archive.addfile(entry, source)


def unpack(path: Path, folder: Path) -> None:
    """Take an archive apart into an empty folder; UserError if it is not as `pack` made it."""
    try:
        source = opened_regular(path)
    except OSError as err:
        raise UserError(f"{path}: cannot be read: {err.strerror}") from None
    try:
        with source, tarfile.open(fileobj=source, mode="r:") as archive:
            for member in archive:
                # Nothing of an archive decides where a file goes, or what it is, but its name.
                is_file = member.type == tarfile.REGTYPE and not member.pax_headers
                if not _NAME.fullmatch(member.name) or not is_file:
                    raise _changed(path, f"{one_line(member.name)!r} is no file of evidence")
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                assert content is not None
                with target.open("xb") as sink:
                    shutil.copyfileobj(content, sink)
    except (OSError, tarfile.TarError, ValueError, EOFError, AssertionError) as err:
        if full := no_room(folder):  # nobody has changed anything
            raise UserError(
                f"{path}: cannot be taken apart: {full}: make some, or name another folder as "
                "TMPDIR"
            ) from None
        raise _changed(path, f"it cannot be taken apart: {err}") from None
    _require(path, folder, SEAL, _sealed(folder))
    _require(path, folder, MANIFEST, list(digests(folder)))


def _sealed(folder: Path) -> list[str]:
    """Name the manifest and its signatures."""
    return [MANIFEST, *sorted(f"{SIGNATURES}/{f.name}" for f in (folder / SIGNATURES).glob("*"))]


def _require(path: Path, folder: Path, listing: str, names: Sequence[str]) -> None:
    """UserError if the files of these names are not all, and as, a listing says."""
    try:
        text = (folder / listing).read_text("utf-8")
    except (OSError, ValueError):
        raise _changed(path, f"it has no {listing} that can be read") from None
    listed = {name: digest for digest, _, name in (s.partition("  ") for s in text.splitlines())}
    present = {name: _digest(folder / name) for name in names if (folder / name).is_file()}
    for name in sorted({*listed, *present}):
        if name not in present:
            raise _changed(path, f"{one_line(name)} is missing, which its {listing} lists")
        if name not in listed:
            raise _changed(path, f"{name} was added, which its {listing} does not list")
        if listed[name] != present[name]:
            raise _changed(path, f"{name} is not what its {listing} says")
    if text != _lines(present):
        raise _changed(path, f"its {listing} is written otherwise than iowatch writes it")


def _changed(path: Path, damage: str) -> UserError:
    return UserError(
        f"{path}: was changed since it was made, or damaged: {damage}: ask for it again, and judge "
        "nothing by this one"
    )


# From the folder of the evidence to its file, and back


@contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder for the evidence, which is gone afterwards; UserError."""
    try:
        with tempfile.TemporaryDirectory(prefix="iowatch.evidence.") as name:
            folder = Path(name, "evidence")
            folder.mkdir()
            yield folder
    except OSError as err:
        # An error of writing names no file.
        where = err.filename or tempfile.gettempdir()
        raise UserError(f"{where}: cannot be used: {err.strerror}") from None


@contextmanager
def packed(sealed: Path, folder: Path, keys: Sequence[str]) -> Iterator[Seal]:
    """Sign the evidence in a folder, and pack it: its file is there once the block has ended."""
    for key in keys:
        sign(folder, key)
    with whole(sealed) as temporary:
        pack(folder, temporary)
        yield _seal(sealed, folder, None)


def _seal(sealed: Path, folder: Path, allowed: Path | None) -> Seal:
    signed_by = list(signers(sealed, folder, allowed))
    return Seal(_digest(folder / MANIFEST), digests(folder), signed_by)


@contextmanager
def opened(sealed: Path, allowed: Path | None = None) -> Iterator[tuple[Path, Seal]]:
    """Take evidence apart into a folder. UserError if it was changed since it was made, or if
    somebody has signed whom the file `allowed` does not list."""
    with work_folder() as folder:
        unpack(sealed, folder)
        yield folder, _seal(sealed, folder, allowed)


def sign_again(sealed: Path, keys: Sequence[str]) -> list[str]:
    """Sign evidence once more with each of these keys. UserError if it was changed since it was
    made."""
    with opened(sealed) as (folder, _), packed(sealed, folder, keys) as seal:
        return list(seal.lines)


# Signatures


def sign(folder: Path, key: str) -> None:
    """Add a signature of the manifest, with the file of an SSH key; UserError."""
    signatures = folder / SIGNATURES
    signatures.mkdir(exist_ok=True)
    number = len(list(signatures.iterdir())) + 1
    if Path(key).exists() and not Path(key).is_file():  # ssh-keygen would read on for ever
        raise UserError(f"{key}: no key that can sign: it is no regular file")
    answer = _ask("sign", folder / MANIFEST, "-f", key)
    if answer.trouble or not answer.text:
        raise UserError(f"{key}: no key that can sign: {answer.trouble}")
    (signatures / f"{number}{_SUFFIX}").write_text(answer.text, "utf-8")


def signers(path: Path, folder: Path, allowed: Path | None) -> Iterator[str]:
    """A sentence on whoever signed the manifest of an archive; UserError if somebody did not.

    `allowed` lists known keys, as in ssh-keygen's ALLOWED SIGNERS. With it there must be a
    signature, and each by such a key.
    """
    files = [folder / name for name in _sealed(folder)[1:]]
    if allowed and not files:
        raise UserError(f"{path}: nobody of --signers {allowed} has signed it")
    if allowed and not allowed.is_file():
        raise UserError(f"--signers {allowed}: there is no such file")
    manifest = folder / MANIFEST
    for file in files:
        action, words, name = "check-novalidate", ["-s", str(file)], ""
        if allowed:
            words += ["-f", str(allowed)]
            who = run("ssh-keygen", "-Y", "find-principals", *words, given=manifest.read_bytes())
            name = next(iter(who.text.splitlines()), "")
            if who.trouble or not name:
                raise UserError(f"{path}: {file.name} is by nobody whom --signers {allowed} lists")
            action, words = "verify", [*words, "-I", name]
        answer = _ask(action, manifest, *words)
        key = re.search(r"^Good .* signature .*?with (\S+ key \S+)", answer.text)
        if answer.trouble or not key:
            why = answer.trouble or answer.text
            raise _changed(path, f"{file.name} is no signature of its manifest: {why}")
        whoever = f"whoever has the {key[1]}: --signers FILE would say who that is"
        yield f"{name}, with the {key[1]}" if allowed else whoever


def _ask(action: str, manifest: Path, *words: str) -> Answer:
    """Ask ssh-keygen, which may wait for a passphrase."""
    command = ("ssh-keygen", "-Y", action, "-n", NAMESPACE, *words)
    return run(*command, given=manifest.read_bytes(), timeout_s=None)
