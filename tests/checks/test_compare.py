"""Two environments that a real benchio measured in turn, and their evidence taken elsewhere."""

import json

import pytest

from iowatch.acceptance.bundle import pack, unpack, write_manifest
from iowatch.certificate import certify


@pytest.mark.long
def test_environments_in_turn_are_compared_by_what_they_wrote(site):
    site.injected = {"old": "", "new": ""}
    site.write |= {"backend": ["mpiio", "hdf5"]}
    for _ in range(3):
        done = site.reframe("-r", "-n", "SharedFileWrite")
        assert done.returncode == 0, done.stdout
    done = site._run("iowatch", "compare", "old", "new", "--system", "small", "-o", "here")
    assert done.returncode == 4, done.stdout
    assert "new in the place of old: small, new compared with old" in done.stdout
    assert "Cannot tell: 0 of 2 cases have no loss above 5 %" in done.stdout, "three runs in a row"
    assert "3 nights" in done.stdout
    sealed = site.folder / "here/evidence.tar"
    judged, lines, is_same = certify.verify(sealed, None, [])
    assert is_same, lines
    assert {str(case) for verdict in judged.cases for case in verdict.row.cases} == {
        case["case_id"] for case in site.report() if case["environ"] == "old"
    }
    # Somebody makes the new environment faster, and seals what he made.
    folder = site.folder / "forged"
    folder.mkdir()
    unpack(sealed, folder)
    (one, *_) = folder.glob("runs/*/*new*/result.json")
    text = json.loads(one.read_text())
    for of_backend in text["cases"]:
        for repetition in of_backend["repetitions"]:
            repetition["phases"]["stable"]["window"] /= 2
    one.write_text(json.dumps(text))
    write_manifest(folder)
    pack(folder, sealed)
    _, lines, is_same = certify.verify(sealed, None, [])
    assert not is_same
    assert any("does not count" in line for line in lines)
