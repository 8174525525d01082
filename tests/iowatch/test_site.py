"""A partition's filesystem as the site's configuration has it, and its suites."""

import runpy

import pytest
from cases import case
from reframe.core.exceptions import ReframeError
from refusals import refusals

from iowatch.base.files import UserError
from iowatch.base.places import ROOT
from iowatch.base.reframe_inside import require_version
from iowatch.cases.filesystem import SUITES, Setting
from iowatch.cases.run import Promise
from iowatch.measure.checks import CHECKS
from iowatch.site import suites
from iowatch.site.site import bare_configuration, promise
from iowatch.site.suites import read_filesystem, suite_parameters

W = "SharedFileWrite"
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
    "osts": list(range(48)),
    "cached_reads": False,
    "ranks_per_node": 24,
    "keep_days": 60,
    "suites": {"nightly": {"SharedFileWrite": WRITE}, "acceptance": {"SharedFileRead": WRITE}},
    "scheduler": "slurm",  # ReFrame's own
}


def read(**changes):
    extras = {key: value for key, value in {**EXTRAS, **changes}.items() if value != "missing"}
    return read_filesystem("archer", "fs3", ["cray", "gnu"], extras, ["settings.py", "archer.py"])


def test_facts_and_cases_of_a_partition():
    filesystem = read(type=["ext4", "xfs"])
    assert (filesystem.types, read().types) == (("ext4", "xfs"), ("lustre",))
    facts = filesystem.peak, filesystem.osts, filesystem.keep_days, filesystem.cached_reads
    assert facts == (1e5, (*range(48),), 60, False)
    assert (filesystem.name, filesystem.path) == ("fs3", "/fs3/iowatch")
    for key, usual, given in (  # what a site need not have
        ("settle", 0, 30),
        ("keep_corrupt", "", "1GiB"),
        ("amber_nights", 3, 7),
        ("allocation", "", "1-06:00:00"),
        ("archived", None, "2026-10-31"),
    ):
        values = [getattr(one, key) for one in (filesystem, read(**{key: given}))]
        assert [str(value) for value in values] == [str(usual), str(given)], key
    cases = filesystem.cases("nightly")
    written = {one for one in cases if one.check.name == "SharedFileWrite"}
    # Environments, backends, counts, sizes of stripes, local sizes, nodes: the whole product.
    assert len(written) == 2 * 2 * 2 * 1 * 2 * 2
    size = {"local_size": (64, 64, 128), "ranks": 96}
    stripes = {"stripe_count": -1, "stripe_size": 1}
    assert case("SharedFileWrite", "archer:fs3/gnu", **stripes, **size) in written
    # What no suite names runs wherever another check does.
    everywhere = {case("LibraryVersions", f"archer:fs3/{name}") for name in ("cray", "gnu")}
    assert cases == written | everywhere
    assert {one.operation for one in filesystem.cases("acceptance") - everywhere} == {"read"}
    assert filesystem.settings("nightly", CHECKS["SlowOst"]) == ()
    assert read(suites=NOTHING).cases("nightly") == set(), "not even the versions of libraries"


#: Values of another shape than a key has; the shapes themselves are those of test_records.py.
BAD_EXTRAS = {
    "filesystem": [""],
    "path": ["scratch/iowatch", "/fs3/io watch", "/fs3/$USER", "/fs3/io:watch"],
    "type": [[], 5, ["ext4", "ext4"]],
    "peak": [0, True],
    "osts": ["48", [], [0, 0], [-1]],
    "pools": [None, {"flash": [1, 1]}, {"a/b": [1]}, {1: [1]}],
    "layouts": [None, {"default": "-c 1"}, {"x": "c 1"}, {"x": "-c\n1"}, {"4x1": "-c"}],
    "cached_reads": [1],
    "ranks_per_node": [-1],
    "keep_days": ["60"],
    "settle": [0],
    "keep_corrupt": ["10 GB", 10],
    "amber_nights": [0],
    "allocation": ["6h", "6:0:0"],
    "archived": [None, "2026-02-30", "9999-12-31"],
    "suites": [{}, {"nightly": {}}],
}
NOTHING = {"nightly": {}, "acceptance": {}}


def nightly(checks):
    return {**NOTHING, "nightly": checks}


EACH = nightly({"SlowOst": {"stripe_size": [1], "local_size": [8]}})
PLAIN = {"type": "gpfs", "osts": None}
BAD_TOGETHER = [
    {"pools": {"flash": [1, 48]}},
    {"pools": {"flash": [1]}, "osts": None},
    {"layouts": {"x": "-c 1"}, "type": "ceph"},
    {"suites": EACH, "osts": [7]},
    {"suites": EACH, "type": "ceph"},
    {"suites": EACH, "type": "ceph", "pools": {"a": [1], "b": [0, 1]}},
]


def test_what_is_missing_or_wrong_is_named_with_partition_and_file(golden):
    wrong = [{key: "missing"} for key in EXTRAS if key != "scheduler"]
    wrong += [{key: value} for key, values in BAD_EXTRAS.items() for value in values]
    wrong += [{"ranks_per_node": "missing", "rank_per_node": 5}, *BAD_TOGETHER]
    text = refusals(UserError, lambda changes: read(**changes), wrong)
    golden("site-extras.txt", text)
    assert read(scheduler_queue="standard"), "the centre's own"
    # A site may have one file with a name of its own.
    with pytest.raises(UserError, match=r"^settings.py, site.py, partition archer:fs3"):
        read_filesystem("archer", "fs3", ["gnu"], {}, ["settings.py", "site.py"])
    with pytest.raises(UserError, match="partition archer:fs3: has no environs"):
        read_filesystem("archer", "fs3", [], EXTRAS, ["archer.py"])
    assert not issubclass(UserError, ReframeError), "that one skips a check and exits with 0"


# Layouts

LAYOUTS = {"progressive": "-E 64M -c 1 -E -1 -c 4"}
POOLS = {"flash": [0, 7], "disk": [9, 3, 11], "one": [3], "two": [11]}
STRIPES = {"stripe_count": -1, "stripe_size": 4}


def test_what_benchio_is_told_of_the_layout_of_a_case():
    lustre = read(pools=POOLS, layouts=LAYOUTS)
    ceph = read(type=["ceph", "fuse"], pools=POOLS)
    pool = {"stripe_count": -1, "stripe_size": 4, "pool": "flash"}
    plain = read(osts=None, suites=NOTHING)
    for filesystem, parameters, options in (
        (lustre, STRIPES, "--stripe-count -1 --stripe-size 4194304"),
        (lustre, pool, "--stripe-count -1 --stripe-size 4194304 --pool flash"),
        (lustre, {"layout": "default"}, ""),
        (lustre, {"layout": "progressive"}, "--setstripe '-E 64M -c 1 -E -1 -c 4'"),
        # What all are, CephFS does not know.
        (ceph, STRIPES, "--stripe-count 48 --stripe-size 4194304"),
        (ceph, pool, "--stripe-count 2 --stripe-size 4194304 --pool flash"),
        (ceph, {"stripe_count": 2, "stripe_size": 1}, "--stripe-count 2 --stripe-size 1048576"),
        (ceph, {"layout": "default"}, ""),
        (plain, {}, ""),
    ):
        assert " ".join(filesystem.layout_options(case(**parameters))) == options, parameters
    # Each OST by itself: which, the job says.
    assert lustre.layout_options(case("SlowOst", stripe_size=1)) == ["--stripe-size 1048576"]
    assert read(osts=[0, 5, 6]).targets == {"0": 0, "5": 5, "6": 6}
    assert ceph.targets == {"one": 3, "two": 11}
    said = r"^archer:fs3: 'layouts' .* have no 'x': add it, or ask for default, progressive$"
    with pytest.raises(UserError, match=said):
        lustre.layout_options(case(layout="x"))


# Promises


def partition(name="fs3", **changes):
    """As ReFrame's configuration has it."""
    return {"name": name, "environs": ["cray", "gnu"], "extras": {**EXTRAS, **changes}}


def test_promise_counts_what_the_file_asks_for():
    union = [WRITE, {**WRITE, "nodes": [2], "ranks_per_node": [1, 3]}]
    versions = {"nightly": {}, "acceptance": {"SharedFileWrite": union, "SharedFileRead": WRITE}}
    whole = [partition(), partition("fs2", suites=versions)]
    assert promise(whole, "nightly").cases == 2 * (2 * 2 * 2 * 2 + 1)
    for suite in SUITES:
        asked = read().cases(suite), read(suites=versions).cases(suite)
        assert promise(whole, suite).cases == sum(map(len, asked))


def test_promise_does_not_follow_what_makes_the_cases(monkeypatch):
    product = suites._product
    monkeypatch.setattr(suites, "_product", lambda *given: product(*given)[:-1])
    assert promise([partition()], "nightly").cases == len(read().cases("nightly")) + 2


def test_promise_is_another_where_the_file_asks_for_something_else():
    def source(*partitions, suite="nightly"):
        return promise(partitions, suite).source

    usual = source(partition())
    assert usual == source(partition(peak=5.0, keep_days=400)), "no case is another for these"
    suites = {**EXTRAS["suites"], "nightly": {"SharedFileWrite": {**WRITE, "nodes": [1, 2]}}}
    others = [
        source(partition(), suite="acceptance"),
        source(partition(), partition("fs2")),
        source(partition("fs2")),
        source(partition(suites=suites)),
        source(partition(ranks_per_node=4)),
        source({**partition(), "environs": ["cray"]}),
    ]
    assert len({usual, *others}) == 1 + len(others)
    whole = promise([partition()], "nightly")
    assert Promise.parse(str(whole)) == whole
    assert [Promise.parse(text) for text in ("", "5", "-5e", "x-5e", "5-5e\n")] == [None] * 5


# Suites

VALUES = {
    "backend": ["mpiio"],
    "stripe_count": [4, -1],
    "stripe_size": [1],
    "local_size": [128],
    "nodes": [1, 2],
    "files": ["process", 4],
    "instances": [1, 2, 4],
    "items": [100],
    "sample": ["110KiB"],
    "per_file": [64],
    "seconds": [5, 120],
}
SHARED = {name: VALUES[name] for name in WRITE}


def settings(check, is_striped=True, **values):
    needed, _ = suite_parameters(CHECKS[check], is_striped)
    given = {parameter.name: VALUES[parameter.name] for parameter in needed}
    place = read(suites=nightly({check: {**given, **values}}), **({} if is_striped else PLAIN))
    return place.settings("nightly", CHECKS[check])


def test_settings_of_every_check(golden):
    """Each with the values that it needs, on a striped filesystem."""
    lines = []
    for check in CHECKS.values():
        if not check.is_everywhere:
            lines += [check.name]
            both = {"files": ["shared", "process"]} if check.operation == "metadata" else {}
            for one in settings(check.name, **both):
                parameters = " ".join(f"{name}={value}" for name, value in one.parameters)
                lines += [f"    {one.nodes} x {one.ranks_per_node}: {parameters}"]
    golden("site-settings.txt", "\n".join([*lines, ""]))
    # A filesystem without stripes has none.
    (plain,) = settings("SharedFileWrite", is_striped=False, nodes=[1])
    assert plain.parameters == (("backend", "mpiio"), ("local_size", (128,) * 3), ("ranks", 24))


HINTS = {"romio_cb_write": "enable", "cb_nodes": 4}
STRIPED = {"stripe_count": [4, -1], "stripe_size": [1]}
USUAL_WAYS = {
    "collective": [True],
    "collective_metadata": [True],
    "flush": [False],
    "transfer": ["1024MiB"],
    "chunk": [None],
    "hints": [None],
    "pattern": ["blocks"],
}
#: A check, and what a suite names of it.
NAMED = {
    "nothing else": (W, {}),
    "the usual ways": (W, USUAL_WAYS),
    "ranks per node": (W, {"ranks_per_node": [1, 2, 40]}),
    "two products": (W, {}, {"nodes": [2, 512]}),
    "pools": (W, STRIPED, {**STRIPED, "pool": ["flash", "disk"]}),
    "layouts": (W, {"layout": ["default", "progressive"]}, STRIPED),
    "ways": (
        W,
        {"collective": [True, False], "flush": [False, True]},
        {"backend": ["hdf5", "netcdf"], "chunk": ["64x64x32", 64]},
        {"transfer": ["4MiB", 1024], "hints": [HINTS]},
        {"pattern": ["strided", "variables=4:steps=2"]},
        {"backend": ["mpiio"], "hints": [None, dict(reversed(HINTS.items()))]},
    ),
    "a way of reading": ("SharedFileRead", {"collective": [False]}),
}
MISNAMED = [
    (W, {"layout": ["progresive"]}),
    (W, {**STRIPED, "pool": ["flahs"]}),
    (W, {**STRIPED, "layout": ["default"]}),
    (W, {"layout": ["default"], "pool": ["flash"]}),
    (W, {"pool": ["flash"], "stripe_count": None}),
    (W, {"stripe_count": None}),
    (W, {"layout": [None]}),
    (W, {"hints": [{"some_hint": "x" * 200}]}),
]


def names(check, *values):
    """The cases of a night that asks for these on a filesystem with pools and layouts; the gate
    counts as many by itself."""
    plain = {"backend": ["hdf5"], "local_size": [128], "nodes": [1]}
    products = []
    for one in values:
        stripes = {} if "layout" in one else {"stripe_count": [4], "stripe_size": [1]}
        product = {**plain, **stripes, **one}
        products.append({name: value for name, value in product.items() if value is not None})
    changes = {"suites": nightly({check: products}), "pools": POOLS, "layouts": LAYOUTS}
    cases = read(**changes).cases("nightly")
    assert promise([partition(**changes)], "nightly").cases == len(cases)
    return sorted(str(one) for one in cases if (one.check.name, one.environ) == (check, "gnu"))


def test_cases_that_a_suite_names(golden):
    assert names(*NAMED["nothing else"]) == names(*NAMED["the usual ways"]), "no second name"
    lines = []
    for name, given in NAMED.items():
        lines += [name, *(f"    {one.removeprefix('archer:fs3/gnu/')}" for one in names(*given))]
    text = "\n".join([*lines, "", refusals(UserError, names, MISNAMED)])
    golden("site-names.txt", text)
    without = f"nightly, {W}: pool has 'flash', and there are none: add it to 'pools'"
    with pytest.raises(UserError, match=without):
        read(suites=nightly({W: {**SHARED, "pool": ["flash"]}}))


def test_setting_of_a_case_and_back():
    values = {"backend": "hdf5", "local_size": (8, 8, 8), "nodes": 2, "ranks_per_node": 3}
    setting = Setting.make(CHECKS[W], {**values, "stripe_count": None})
    expected = case(W, "archer:fs3/gnu", local_size=(8, 8, 8), ranks=6)
    assert read().case("gnu", setting) == expected


#: What a suite may not ask for: values of one parameter of SharedFileWrite, and others, by check.
BAD_VALUES = {
    "stripe_count": [[0]],
    "stripe_size": [["1M"]],
    "backend": ["mpiio", [], ["mpiio", "mpiio"], ["stream"], ["posix"]],
    "local_size": [[0]],
    "nodes": [[True]],
    "node": [[1]],
    "ranks": [[1]],
    "instances": [[1]],
    "ranks_per_node": [[0]],
    "collective": [["no"]],
    "flush": [[1]],
    "transfer": [["2GiB"], ["4 MiB"], [1001]],
    "chunk": [["64x64"], [64]],
    "hints": [{"cb_nodes": 4}, [{}], ["cb_nodes=4"], [{"cb_config_list": "*:4"}],
              [{"romio_no_indep_rw": True}], [{"a": 1}, {"a": "1"}]],
    "pattern": [["stridden"], ["deflate=4"], ["steps=3:variables=5"]],
}  # fmt: skip
BAD_SETTINGS = [
    (W, {"nodes": [2, 1], "ranks_per_node": [12, 24]}),
    (W, {"backend": ["netcdf"], "collective_metadata": [False]}),
    (W, {"backend": ["hdf5"], "pattern": ["quantize=3:deflate=4"]}),
    (W, {"backend": ["netcdf"], "pattern": ["subfiling=2"]}),
    (W, {"backend": ["hdf5"], "pattern": ["subfiling=2"], "chunk": [8]}),
    (W, {"backend": ["hdf5"], "pattern": ["nonblocking"]}),
    (W, {"backend": ["netcdf"], "pattern": ["steps=2"], "collective": [False]}),
    (W, {"stripe_size": [1]}, False),
    (W, {"layout": ["default"]}, False),
    ("FilePerProcess", {"files": ["shared"]}),
    ("FilePerProcess", {"files": [1]}),
    ("FilePerProcess", {"backend": ["hdf5"], "files": ["2"], "pattern": ["subfiling=2"]}),
    ("FilePerProcess", {"files": ["gather"], "pattern": ["strided"]}),
    ("FilePerProcess", {"backend": ["posix"], "hints": [{"a": 1}]}),
    ("FilePerProcess", {"backend": ["posix"], "collective": [False]}),
    ("SystemLoad", {"instances": [0]}),
    ("SharedFileRead", {"flush": [True]}),
    ("SlowOst", {"nodes": [2]}),
    ("SlowOst", {"hints": [{"a": 1}]}),
    ("SlowOst", {"stripe_count": [1]}),
    ("SlowOst", {}, False),
    ("IorPeer", {"files": ["process", "node"]}),
    ("IorPeer", {"backend": ["mpiio", "netcdf"]}),
    ("IorPeer", {"backend": ["mpiio", "pnetcdf"], "files": ["process"]}),
    ("IorPeer", {"io500": ["score"]}),
    ("IorPeer", {"io500": ["easy"]}),
    ("IorPeer", {"io500": ["easy"], "backend": ["posix"]}),
    ("IorPeer", {"io500": ["hard"], "backend": ["posix"]}),
    ("MdtestPeer", {"files": ["shared"], "io500": ["easy"]}),
]
BAD_NIGHTS = [
    [],
    {"SharedFileWrit": {}},
    {"LibraryVersions": {}},
    {"SlowOst": []},
    {"SlowOst": {"local_size": [8]}},
    {W: [SHARED, SHARED]},
]


def test_what_is_wrong_in_a_suite_is_named_with_its_place(golden):
    def attempt(check, values, is_striped=True):
        settings(check, is_striped, **values)

    wrong = [(W, {name: value}) for name, values in BAD_VALUES.items() for value in values]
    text = refusals(UserError, attempt, wrong + BAD_SETTINGS)
    bad = [[], {"nightly": {}}, {**NOTHING, "weekly": {}}, *map(nightly, BAD_NIGHTS)]
    text += refusals(UserError, lambda given: read(suites=given), bad)
    golden("site-suites.txt", text)


def test_jobs_of_a_bare_configuration_get_no_environment(monkeypatch):
    """What is not said in it would be the site's own, of every night."""
    files = (ROOT / "site_configs" / name for name in ("settings.py", "local.py"))
    monkeypatch.setenv("RFM_CONFIG_FILES", ":".join(map(str, files)))
    bare = bare_configuration("local", "disk", "gnu")
    ((partition,),) = (system["partitions"] for system in bare["systems"])
    assert partition["extras"]["filesystem"] == "disk"
    assert (partition["launcher"], partition["time_limit"]) == ("mpirun", "5m")
    assert not {"prepare_cmds", "modules", "env_vars"} & set(partition)
    assert bare["environments"] == [{"name": "gnu", "target_systems": ["local:disk"]}]


@pytest.mark.parametrize(
    ("found", "is_known"),
    [("4.10.0", True), ("4.11.0", False), ("5.10", False), ("4.9.3", False), ("4.8.4", False)],
)
def test_another_reframe_is_refused_in_one_line(found, is_known, monkeypatch):
    monkeypatch.setattr("reframe.VERSION", found)
    if is_known:
        require_version()
        return
    line = rf"works with ReFrame 4\.10, and this is {found}: install"
    with pytest.raises(UserError, match=line):
        require_version()
    # Before ReFrame has looked at any system: 4.9 and 4.8 do not know "envmod".
    with pytest.raises(SystemExit, match=line):
        runpy.run_path(str(ROOT / "site_configs/settings.py"))
