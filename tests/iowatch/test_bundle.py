"""The bundle of an acceptance test: whatever is changed in it is found."""

import io
import shutil
import subprocess
import tarfile
import tempfile

import pytest
from agreed import key_pair, taken_apart
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iowatch.base.files import UserError
from iowatch.evidence.accept import verify
from iowatch.evidence.bundle import SEAL, pack, sign, signers, unpack, work_folder, write_manifest

FILES = {
    "contract.yaml": b"system: archer\n",
    "runs/2026-11-22T010203/archer:fs3,cray,SharedFileWrite,backend=hdf5+2/result.json": b"{}\n",
    "site/1-archer.py": b"site_configuration = {}\n",
    "empty": b"",
}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """The file of an SSH key of the centre, and its line in a list of known keys."""
    return key_pair(tmp_path_factory.mktemp("keys"), "centre")


@pytest.fixture(scope="module")
def signed(tmp_path_factory, key):
    """Evidence in a folder, with a manifest, its signature and its seal; beside it the archive."""
    folder = tmp_path_factory.mktemp("signed") / "evidence"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_manifest(folder)
    sign(folder, str(key[0]))
    pack(folder, folder.with_name("evidence.tar"))
    return folder


@pytest.fixture
def folder(signed, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(signed, tmp_path / "evidence")


@pytest.fixture
def bundle(signed, tmp_path):
    """A copy of that archive."""
    return shutil.copy(signed.with_name("evidence.tar"), tmp_path / "evidence.tar")


def taken(path):
    """What is in it by `unpack`: name -> content."""
    folder = taken_apart(path, path.with_name("taken"))
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def refusal(path):
    """Why it is refused; empty if it is not."""
    try:
        taken(path)
    except UserError as err:
        return str(err)
    return ""


def test_a_bundle_is_the_same_each_time_and_holds_what_was_put_in(bundle, folder, key, tmp_path):
    content = taken(bundle)
    assert {name: content[name] for name in FILES} == FILES
    assert set(content) - set(FILES) == {"manifest", "seal", "signatures/1.ssh"}
    for file in folder.rglob("*"):
        file.touch()
        file.chmod(0o700)
    pack(folder, again := tmp_path / "again.tar")
    assert again.read_bytes() == bundle.read_bytes()
    (tmp_path / "known").write_text(key[1])
    (said,) = signers(bundle, folder, tmp_path / "known")
    assert said.startswith("centre, with the ED25519 key SHA256:")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_is_found_or_changes_nothing(signed, tmp_path, data):
    """Of files, manifest, signature and seal it is found; an archive's padding holds nothing."""
    content = bytearray(signed.with_name("evidence.tar").read_bytes())
    # Three quarters of so small an archive are padding.
    filled = [place for place, byte in enumerate(content) if byte]
    somewhere = st.sampled_from(filled) | st.integers(0, len(content) - 1)
    content[data.draw(somewhere)] ^= 1 << data.draw(st.integers(0, 7))
    (spoiled := tmp_path / "spoiled.tar").unlink(missing_ok=True)  # else it goes to the disk
    spoiled.write_bytes(content)
    whole = taken(shutil.copy(signed.with_name("evidence.tar"), tmp_path / "whole.tar"))
    assert refusal(spoiled) or taken(spoiled) == whole


def test_a_bundle_that_is_cut_off_is_refused(bundle):
    whole = bundle.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:512], b""):
        bundle.write_bytes(content)
        assert "was changed since it was made" in refusal(bundle)


def archive(path, *members):
    """An archive of these (name, content, changes of its header)."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as made:
        for name, content, changes in members:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            for key, value in changes.items():
                setattr(entry, key, value)
            made.addfile(entry, io.BytesIO(content))


def test_a_file_that_was_added_removed_or_renamed_is_named(bundle):
    members = sorted((name, content, {}) for name, content in taken(bundle).items())
    by_name = {name: (name, content, changes) for name, content, changes in members}
    archive(bundle, *members)
    assert refusal(bundle) == "", "so an archive is made by hand"

    def changed(*replaced, without=""):
        given = {**by_name, **{one[0]: one for one in replaced}}
        archive(bundle, *sorted(one for name, one in given.items() if name != without))
        return refusal(bundle)

    result = next(name for name in FILES if name.startswith("runs"))
    renamed = (result[:-1], b"{}\n", {})
    # A name that leads elsewhere, and what is no file.
    names = ("../out", "/tmp/out", "a/../../out", "a//b", ".hidden", "a\\b", "a b", "a\nb")
    no_files = [(name, b"1", {}) for name in names]
    link = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
    for changes in (link, {**link, "type": tarfile.LNKTYPE}, {"type": tarfile.DIRTYPE}):
        no_files.append(("extra", b"", changes))
    for said, why in [
        (changed(("extra", b"1", {})), "extra was added, which its manifest does not list"),
        (changed(without=result), f"{result} is missing, which its manifest lists"),
        (changed((result, b"{} \n", {})), f"{result} is not what its manifest says"),
        (changed(renamed, without=result), f"{result[:-1]} was added, which its manifest does not"),
        (changed(without="signatures/1.ssh"), "signatures/1.ssh is missing, which its seal lists"),
        (changed(without=SEAL), "it has no seal that can be read"),
        (changed(without="manifest"), "manifest is missing"),
        *((changed(one), "is no file of evidence") for one in no_files),
    ]:
        assert why in said
    archive(bundle, *members, members[0])
    assert "it cannot be taken apart" in refusal(bundle), "a file that is there twice"
    bundle.unlink()
    assert refusal(bundle) == f"{bundle}: cannot be read: No such file or directory"


def test_a_full_disk_accuses_nobody(bundle, tmpfs, monkeypatch):
    full = tmpfs("size=4k")
    (full / "file").write_bytes(b"1")
    (full / "evidence").mkdir()
    with pytest.raises(UserError) as caught:
        unpack(bundle, full / "evidence")
    assert str(caught.value) == (
        f"{bundle}: cannot be taken apart: no room is left on the disk of {full}/evidence: make "
        "some, or name another folder as TMPDIR"
    )
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    with pytest.raises(UserError, match="cannot be taken apart: no room is left on the disk of"):
        verify(bundle, None, None, [])
    with (
        pytest.raises(UserError, match=f"^{full}: cannot be used: No space left on device$"),
        work_folder() as folder,
    ):
        (folder / "a").write_text("1\n" * 5000)


def test_only_a_signature_of_this_manifest_by_a_known_key_is_one(bundle, folder, key, tmp_path):
    """Whoever changes a file can make manifest and seal anew, but no signature."""
    known = tmp_path / "known"
    known.write_text(key[1])
    (folder / "contract.yaml").write_bytes(b"system: cirrus\n")
    write_manifest(folder)
    pack(folder, bundle)
    taken(bundle)  # its seals fit
    for allowed in (known, None):
        with pytest.raises(UserError, match=r"1.ssh is no signature of its manifest"):
            list(signers(bundle, bundle.with_name("taken"), allowed))
    shutil.rmtree(folder / "signatures")
    pack(folder, bundle)
    taken(bundle)
    with pytest.raises(UserError, match=f"nobody of --signers {known} has signed it"):
        list(signers(bundle, bundle.with_name("taken"), known))
    # One of another key, for another purpose, or by a key that is not there.
    known.write_text(key[1].replace("centre", "supplier").replace("AAAA", "AAAB"))
    sign(folder, str(key[0]))
    with pytest.raises(UserError, match="is by nobody whom --signers"):
        list(signers(bundle, folder, known))
    said = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(key[0]), "-n", "file"],
        input=(folder / "manifest").read_bytes(), capture_output=True, check=True,
    ).stdout  # fmt: skip
    (folder / "signatures" / "1.ssh").write_bytes(said)
    with pytest.raises(UserError, match="no signature of its manifest"):
        list(signers(bundle, folder, None))
    with pytest.raises(UserError, match=r"no.key: no key that can sign: "):
        sign(folder, "no.key")
