"""Two environments that a real benchio measured in turn, and their evidence taken elsewhere."""

import pytest

from iowatch.evidence import accept


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
    assert "Cannot tell: no loss above 5 % is certain in 0 of 2 cases" in done.stdout, (
        "three runs in a row"
    )
    assert "3 nights" in done.stdout
    judged, lines, is_same = accept.verify(site.folder / "here/evidence.tar", None, None, [])
    assert is_same, lines
    assert {str(case) for row in judged.cases for case in row.cases} == {
        case["case_id"] for case in site.report() if case["environ"] == "old"
    }
