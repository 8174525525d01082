import pytest
from reframe.core.exceptions import ReframeError

from iowatch.case import Case
from iowatch.site import SiteConfigError, read_filesystem

WRITE = {
    "backend": ["mpiio", "hdf5"],
    "stripe_count": [1, -1],
    "stripe_size": [1],
    "local_size": [128, "64x64x128"],
    "nodes": [1, 4],
}
EXTRAS = {
    "filesystem": "fs3",
    "path": "/fs3/iowatch",
    "type": "lustre",
    "peak": 1e5,
    "osts": 48,
    "cached_reads": False,
    "writers_per_node": 24,
    "sweeps": {"nightly": {"SharedFileWrite": WRITE}, "acceptance": {"SharedFileRead": WRITE}},
    "scheduler": "slurm",  # ReFrame's own
}


def read(**changes):
    extras = {key: value for key, value in {**EXTRAS, **changes}.items() if value != "missing"}
    return read_filesystem("archer", "fs3", ["cray", "gnu"], extras, ["settings.py", "archer.py"])


def test_facts_are_read():
    filesystem = read(type=["ext4", "xfs"])
    assert filesystem.types == ("ext4", "xfs")
    assert filesystem.peak == 1e5
    assert filesystem.osts == 48
    assert filesystem.cached_reads is False


def test_cases_are_the_whole_product():
    cases = read().cases("nightly")
    assert len(cases) == 2 * 2 * 2 * 1 * 2 * 2  # environs, backends, counts, sizes, sizes, nodes
    assert (
        Case("archer", "fs3", "gnu", "write", "shared", "hdf5", -1, 1, (64, 64, 128), 96) in cases
    )
    assert {case.operation for case in read().cases("acceptance")} == {"read"}


def test_access_patterns_are_no_cases():
    filesystem = read(sweeps={"nightly": {"IoProfile": WRITE}, "acceptance": {}})
    assert filesystem.cases("nightly") == set()
    patterns = filesystem.profiles("nightly")
    assert len(patterns) == 2 * 2 * 2 * 1 * 2 * 2
    assert {pattern.operation for pattern in patterns} == {"profile"}
    assert read().profiles("nightly") == set()


def test_check_that_no_sweep_names_has_no_settings():
    assert read().settings("nightly", "SlowOst") == ()


@pytest.mark.parametrize("key", set(EXTRAS) - {"scheduler"})
def test_missing_key_is_named_with_partition_and_file(key):
    with pytest.raises(SiteConfigError) as error:
        read(**{key: "missing"})
    said = str(error.value)
    assert f"archer:fs3: the partition's extras have no '{key}': add it in archer.py" in said
    assert "settings.py" not in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filesystem", ""),
        ("path", "scratch/iowatch"),
        ("type", []),
        ("type", 5),
        ("peak", 0),
        ("peak", "1 GB/s"),
        ("peak", True),
        ("peak", float("nan")),
        ("osts", 0),
        ("osts", "48"),
        ("cached_reads", "no"),
        ("cached_reads", 1),
        ("writers_per_node", -1),
        ("sweeps", {}),
        ("sweeps", {"nightly": {}}),
    ],
)
def test_wrong_value_is_named_with_partition_and_file(key, value):
    with pytest.raises(SiteConfigError, match=rf"^archer:fs3: '{key}' .* mend it in archer.py$"):
        read(**{key: value})


def test_partition_without_environment_has_no_case_and_is_refused():
    with pytest.raises(SiteConfigError, match="archer:fs3: the partition has no environs"):
        read_filesystem("archer", "fs3", [], EXTRAS, ["archer.py"])


def test_error_is_not_one_that_reframe_skips():
    assert not issubclass(SiteConfigError, ReframeError)
