"""The evidence of an acceptance test as one file, in which a changed byte is found.

It is a tar archive that anybody can take apart, and check without iowatch:

    tar xf evidence.tar && sha256sum -c seal && sha256sum -c manifest

`manifest` has the SHA-256 of every file of the evidence, and is what is signed. `seal` has that of
the manifest and of each signature. The archive is the one that these files make, byte by byte, so
that there is no room in it for anything else.
"""

from __future__ import annotations

import filecmp
import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from iowatch.files import UserError, no_room, one_line

MANIFEST, SEAL, SIGNATURES = "manifest", "seal", "signatures"
NAMESPACE = "iowatch"  # of ssh-keygen: a signature for something else is none for this
GPG = "gpg:"  # before a key of GnuPG, in front of its name
_SSH_SUFFIX, _GPG_SUFFIX = ".ssh", ".gpg"
#: Of a file of the evidence: nothing that leads out of a folder, or that sha256sum would quote.
_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.:=,+-]*/)*[A-Za-z0-9][A-Za-z0-9_.:=,+-]*", re.ASCII)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of the evidence, by its name there; UserError."""
    found = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_dir() or name in (MANIFEST, SEAL) or name.startswith(f"{SIGNATURES}/"):
            continue
        if not _NAME.fullmatch(name) or file.is_symlink():
            raise UserError(f"{file}: no evidence can have such a name, or be a link: remove it")
        found[name] = _digest(file)
    return found


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
    sealed = [folder / MANIFEST, *sorted((folder / SIGNATURES).glob("*"))]
    names = {file.relative_to(folder).as_posix(): _digest(file) for file in sealed}
    (folder / SEAL).write_text(_lines(names), "utf-8")
    _archive(folder, path)


def _archive(folder: Path, path: Path) -> None:
    """Sorted, and without anything of who made it, where and when."""
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
        source = path.open("rb")
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
        with tempfile.NamedTemporaryFile(dir=folder.parent) as again:
            _archive(folder, Path(again.name))
            is_same = filecmp.cmp(path, again.name, shallow=False)
    except (OSError, tarfile.TarError, ValueError, EOFError, AssertionError) as err:
        if full := no_room(folder):  # nobody has changed anything
            raise UserError(
                f"{path}: cannot be taken apart: {full}: make some, or name another folder as "
                "TMPDIR"
            ) from None
        raise _changed(path, f"it cannot be taken apart: {err}") from None
    _require(path, folder, SEAL, [MANIFEST, *_names(folder, SIGNATURES)])
    _require(path, folder, MANIFEST, list(digests(folder)))
    if not is_same:
        raise _changed(path, "there is something in the archive besides its files")


def _names(folder: Path, inside: str) -> list[str]:
    return sorted(f.relative_to(folder).as_posix() for f in (folder / inside).glob("*"))


def _require(path: Path, folder: Path, listing: str, names: Sequence[str]) -> None:
    """UserError if the files of these names are not all, and as, a listing says."""
    try:
        text = (folder / listing).read_text("utf-8")
    except (OSError, ValueError):
        raise _changed(path, f"it has no {listing} that can be read") from None
    listed = {name: digest for digest, _, name in (s.partition("  ") for s in text.splitlines())}
    found = {name: _digest(folder / name) for name in names if (folder / name).is_file()}
    for name in sorted({*listed, *found}):
        if name not in found:
            raise _changed(path, f"{one_line(name)} is missing, which its {listing} lists")
        if name not in listed:
            raise _changed(path, f"{name} was added, which its {listing} does not list")
        if listed[name] != found[name]:
            raise _changed(path, f"{name} is not what its {listing} says")
    if text != _lines(found):
        raise _changed(path, f"its {listing} is written otherwise than iowatch writes it")


def _changed(path: Path, what: str) -> UserError:
    return UserError(
        f"{path}: was changed since it was made, or damaged: {what}: ask for it again, and judge "
        "nothing by this one"
    )


# Signatures


def sign(folder: Path, key: str) -> None:
    """Add a signature of the manifest, with a key of SSH (its file) or of GnuPG; UserError."""
    signatures = folder / SIGNATURES
    signatures.mkdir(exist_ok=True)
    number = len(list(signatures.iterdir())) + 1
    if key.startswith(GPG):
        name = key.removeprefix(GPG)
        words = ["gpg", "--detach-sign", "--local-user", name, "--output", "-"]
        suffix = _GPG_SUFFIX
    else:
        words, suffix = ["ssh-keygen", "-Y", "sign", "-f", key, "-n", NAMESPACE], _SSH_SUFFIX
    done = _run(words, folder / MANIFEST)
    if done.returncode != 0 or not done.stdout:
        raise UserError(f"--sign {key}: it cannot sign: {_said(done)}")
    (signatures / f"{number}{suffix}").write_bytes(done.stdout)


def signers(path: Path, folder: Path, allowed: Path | None) -> Iterator[str]:
    """A sentence on whoever signed the manifest of an archive; UserError if somebody did not.

    `allowed` lists the keys that are known, as in ssh-keygen's ALLOWED SIGNERS; with it, there must
    be a signature and whoever signed by SSH must be in it. GnuPG has its own keyring.
    """
    files = [folder / name for name in _names(folder, SIGNATURES)]
    if allowed and not any(file.suffix == _SSH_SUFFIX for file in files):
        raise UserError(f"{path}: nobody of --signers {allowed} has signed it")
    for file in files:
        check = {_SSH_SUFFIX: _by_ssh, _GPG_SUFFIX: _by_gpg}.get(file.suffix)
        if check is None:
            raise _changed(path, f"{file.name} is no signature")
        yield check(path, folder / MANIFEST, file, allowed)


def _by_ssh(path: Path, manifest: Path, signature: Path, allowed: Path | None) -> str:
    verify = ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    if allowed:
        if not allowed.is_file():
            raise UserError(f"--signers {allowed}: there is no such file")
        known = ["-f", str(allowed), "-s", str(signature)]
        who = _run(["ssh-keygen", "-Y", "find-principals", *known], manifest)
        names = who.stdout.decode("utf-8", "replace").splitlines()
        if who.returncode != 0 or not names:
            raise UserError(f"{path}: {signature.name} is by nobody whom --signers {allowed} lists")
        verify = ["ssh-keygen", "-Y", "verify", "-I", names[0], "-n", NAMESPACE, *known]
    done = _run(verify, manifest)
    found = re.search(r"^Good .* signature .*?with (\S+ key \S+)", _text(done.stdout))
    if done.returncode != 0 or not found:
        raise _changed(path, f"{signature.name} is no signature of its manifest: {_said(done)}")
    if allowed:
        return f"{names[0]}, with the {found[1]}"
    return f"whoever has the {found[1]}: --signers FILE would say who that is"


def _by_gpg(path: Path, manifest: Path, signature: Path, allowed: Path | None) -> str:
    words = ["gpg", "--status-fd", "1", "--verify", str(signature), "-"]
    done = _run(words, manifest)
    said = _text(done.stdout)
    if missing := re.search(r"^\[GNUPG:\] NO_PUBKEY (\S+)", said, re.MULTILINE):
        raise UserError(
            f"{path}: {signature.name} is by the GPG key {missing[1]}, which is not in the keyring "
            "here: import its public key"
        )
    key = re.search(r"^\[GNUPG:\] VALIDSIG (\S+)", said, re.MULTILINE)
    name = re.search(r"^\[GNUPG:\] GOODSIG \S+ (.+)$", said, re.MULTILINE)
    if done.returncode != 0 or not key or not name:
        raise _changed(path, f"{signature.name} is no signature of its manifest: {_said(done)}")
    return f"{one_line(name[1])}, with the GPG key {key[1]}"


def _run(words: Sequence[str], given: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        with given.open("rb") as source:
            return subprocess.run(words, stdin=source, capture_output=True)
    except FileNotFoundError:
        raise UserError(f"{words[0]} is missing: a signature needs it") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in _text(done.stderr or done.stdout).splitlines() if line.strip()]
    return one_line(lines[-1].strip()) if lines else f"exit code {done.returncode}"


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace")
