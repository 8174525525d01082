import pytest

from iowatch.checks import CHECKS, Setting, read_sweeps

VALUES = {
    "backend": ["mpiio"],
    "stripe_count": [4, -1],
    "stripe_size": [1],
    "local_size": [128],
    "nodes": [1, 2],
    "files": ["process", 4],
    "instances": [1, 2, 4],
}
CUBE = (128, 128, 128)


def settings(check, striped=True, **values):
    given = {p: VALUES[p] for p in CHECKS[check].parameters if striped or "stripe" not in p}
    sweeps = {"nightly": {check: {**given, **values}}, "acceptance": {}}
    return read_sweeps(sweeps, striped, 24)["nightly"][check]


def test_every_check_of_reframe_checks_has_its_settings():
    counts = {check: len(settings(check)) for check in CHECKS}
    assert counts == {
        "SharedFileWrite": 4,
        "SharedFileRead": 4,
        "FilePerProcess": 8,
        "SystemLoad": 12,
        "SlowOst": 1,
        "IorPeer": 4,
        "IorPeerRead": 4,
    }


def test_settings_say_what_a_check_fixes():
    assert settings("SlowOst") == (Setting("mpiio", 1, 1, CUBE, 1, 24),)
    files = {setting.files for setting in settings("FilePerProcess")}
    assert files == {"process", "4"}
    assert {setting.instances for setting in settings("SystemLoad")} == {1, 2, 4}
    assert {setting.instances for setting in settings("SharedFileWrite")} == {None}


def test_sweep_may_say_how_many_writers_a_node_has():
    found = settings("SharedFileWrite", nodes=[1], stripe_count=[1], writers_per_node=[1, 2, 40])
    assert [setting.writers_per_node for setting in found] == [1, 2, 40]


def test_check_may_have_several_products():
    one = {p: VALUES[p] for p in CHECKS["SharedFileWrite"].parameters}
    other = {**one, "stripe_count": [-1], "nodes": [512]}
    sweeps = {"nightly": {"SharedFileWrite": [one, other]}, "acceptance": {}}
    found = read_sweeps(sweeps, True, 24)["nightly"]["SharedFileWrite"]
    assert {(s.stripe_count, s.nodes) for s in found} == {
        (4, 1), (4, 2), (-1, 1), (-1, 2), (-1, 512),
    }  # fmt: skip
    sweeps["nightly"]["SharedFileWrite"] = [one, one]
    with pytest.raises(ValueError, match="measures the same at nightly/SharedFileWrite twice"):
        read_sweeps(sweeps, True, 24)


def test_ior_has_a_file_for_all_or_for_each_process():
    assert {setting.files for setting in settings("IorPeer")} == {"shared"}
    assert {setting.files for setting in settings("IorPeerRead", files=["process"])} == {"process"}
    with pytest.raises(ValueError, match="at nightly/IorPeer/files has more than process"):
        settings("IorPeer", files=["process", "node"])
    with pytest.raises(ValueError, match="nightly/IorPeer for pnetcdf with a file of each process"):
        settings("IorPeer", backend=["mpiio", "pnetcdf"], files=["process"])
    with pytest.raises(ValueError, match="nightly/IorPeer/backend for netcdf: there are mpiio"):
        settings("IorPeer", backend=["netcdf"])


def test_filesystem_that_is_not_striped_has_no_stripes():
    (setting,) = settings("SharedFileWrite", striped=False, nodes=[1])
    assert setting == Setting("mpiio", None, None, CUBE, 1, 24)


@pytest.mark.parametrize(
    ("check", "values", "sentence"),
    [
        (
            "SharedFileWrite",
            {"stripe_count": [0]},
            "nightly/SharedFileWrite/stripe_count is not",
        ),
        ("SharedFileWrite", {"stripe_count": [None]}, "stripe_count is not a positive integer"),
        ("SharedFileWrite", {"stripe_size": [-1]}, "stripe_size is not a positive integer"),
        ("SharedFileWrite", {"stripe_size": ["1M"]}, "stripe_size is not a positive integer"),
        ("SharedFileWrite", {"backend": "mpiio"}, "is not a list with at least one entry"),
        ("SharedFileWrite", {"backend": []}, "is not a list with at least one entry"),
        ("SharedFileWrite", {"backend": ["mpiio", "mpiio"]}, "has an entry twice"),
        (
            "SharedFileWrite",
            {"backend": ["posix"]},
            "is not mpiio, hdf5, netcdf, pnetcdf or stream",
        ),
        ("SharedFileWrite", {"local_size": [0]}, "is not a size"),
        ("SharedFileWrite", {"nodes": [1.5]}, "is not a positive integer: 1.5"),
        ("SharedFileWrite", {"nodes": [True]}, "is not a positive integer: True"),
        ("SharedFileWrite", {"node": [1]}, "has no place for nightly/SharedFileWrite/node"),
        ("SharedFileWrite", {"instances": [1]}, "has no place for nightly/SharedFileWrite/instan"),
        ("SharedFileWrite", {"writers_per_node": [0]}, "writers_per_node is not a positive"),
        (
            "SharedFileWrite",
            {"writers_per_node": [12, 24]},
            "the same at nightly/SharedFileWrite tw",
        ),
        ("FilePerProcess", {"files": ["shared"]}, "is not process, node, gather or a number"),
        ("FilePerProcess", {"files": [1]}, "is not process, node, gather or a number"),
        ("SystemLoad", {"instances": [0]}, "instances is not a positive integer"),
        ("SlowOst", {"nodes": [2]}, "has no place for nightly/SlowOst/nodes"),
    ],
)
def test_wrong_value_is_named_with_its_place(check, values, sentence):
    with pytest.raises(ValueError, match=sentence):
        settings(check, **values)


@pytest.mark.parametrize(
    ("check", "values", "sentence"),
    [
        ("SharedFileWrite", {"stripe_size": [1]}, "stripe_size, for it is not striped"),
        ("SlowOst", {}, "on a filesystem that is not striped"),
    ],
)
def test_stripes_are_refused_where_there_are_none(check, values, sentence):
    with pytest.raises(ValueError, match=sentence):
        settings(check, striped=False, **values)


@pytest.mark.parametrize(
    ("sweeps", "sentence"),
    [
        ([], "is not a mapping"),
        ({"nightly": {}}, "has not exactly the sweeps nightly and acceptance"),
        ({"nightly": {}, "acceptance": {}, "weekly": {}}, "has not exactly the sweeps"),
        ({"nightly": [], "acceptance": {}}, "is not a mapping"),
        ({"nightly": {"SharedFileWrit": {}}, "acceptance": {}}, "an unknown check, nightly/Shar"),
        ({"nightly": {"SlowOst": []}, "acceptance": {}}, "is not a mapping"),
        ({"nightly": {"SlowOst": {"local_size": [8]}}, "acceptance": {}}, "has no nightly/SlowOst"),
    ],
)
def test_what_is_no_sweep_is_refused(sweeps, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_sweeps(sweeps, True, 24)
