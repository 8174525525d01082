"""Who confirms and who reads which bytes, on nodes that are made up: no node what it has written.

The arithmetic of it, for up to 100,000 ranks, is in src/benchio/test/test_layout.f90."""

import re
from pathlib import Path

import pytest
from conftest import command, compiled, each, run
from many_runs import Plan, result_of, run_many

#: The node of each of eight ranks.
NODES = {
    "in blocks": "0,0,0,0,1,1,1,1",
    "in turn": "0,1,0,1,0,1,0,1",
    "uneven": "0,0,0,0,0,1,1,2",
    "of one rank": "0,1,2,3,4,5,6,7",
    "apart": "0,1,1,2,2,2,0,2",
}
#: One whose bytes are the file, and one with a header before them.
SOME = ("posix", "hdf5")


#: Starts a rank; one of them where the mount point $1 has nothing mounted on it.
UNMOUNTED = """\
point=$1
shift
[ "$OMPI_COMM_WORLD_RANK" != 1 ] ||
    exec unshare -m bash -c 'mount --make-rprivate / && umount "$0" && exec "$@"' "$point" "$@"
exec "$@"
"""


def test_a_node_where_it_is_not_mounted_is_named(tmpfs, benchio, tmp_path):
    """Also if the run's directory is further down, which is then not there at all."""
    point = tmpfs("size=16m")
    (point / "further/down").mkdir(parents=True)
    for directory in (point, point / "further/down"):
        words = ["bash", "-c", UNMOUNTED, "bash", str(point), benchio]
        done = run(command(Path(words[0]), 2, [*words[1:], "--local-size", 8, "--dir", directory]))
        assert done.code == 3, done.err
        (said,) = done.errors
        assert re.search(
            rf"rank 1 on \S+: mount: .*is on \w+( \S+)? at (?!{point}).* here, from \S+, and on "
            rf"tmpfs at {point} on the node of rank 0$",
            said,
        )
        assert [*directory.iterdir()] in ([], [point / "further"])


@pytest.fixture(scope="module")
def nodes_shim(tmp_path_factory):
    return compiled("library_shim.c", tmp_path_factory.mktemp("shim"))


def on_nodes(nodes, *options, of=None, directory=None):
    words = ["--backend", ",".join(SOME), *options]
    env = {"LIBRARY_FAULT": "nodes", "LIBRARY_NODES": nodes}
    return Plan(len(nodes.split(",")), words, env, of=of, directory=directory)


#: Options, and whether each node may read what others have written: a rank reads one file.
WRITES = [
    ("--local-size 6x5x8", True),
    ("--local-size 8x8x8 --grid 8x1x1", True),
    ("--local-size 8x8x8 --steps 4", True),
    ("--local-size 8x8x8 --files gather", True),
    ("--local-size 8x8x8 --files node", False),
    ("--local-size 8x8x8 --files process", False),
    ("--local-size 8x8x8 --instances 2", False),
]


def test_no_node_confirms_what_it_has_written(read_result, new_directory, nodes_shim):
    plans = [
        on_nodes(nodes, "--warmup", 0, "--repeats", 1, *options.split(), of=(name, options, alone))
        for name, nodes in NODES.items()
        for options, alone in WRITES
    ]

    def check(outcome):
        name, options, is_one_file = outcome.plan.of
        assert outcome.done.code == 0, outcome.done.err
        result = read_result(result_of(outcome.directory))
        listed = outcome.plan.env["LIBRARY_NODES"].split(",")
        assert result["run"]["hosts"] == [f"node{node}" for node in dict.fromkeys(listed)]
        for case in result["cases"]:
            (repetition,) = case["repetitions"]
            witness = repetition["witness"]
            assert witness["bytes"] == result["run"]["bytes"]
            if witness["method"] == "pread" and is_one_file:
                assert witness["other_node_byte_fraction"] == 1, (case["backend"], options, name)
            if name in ("in blocks", "in turn", "of one rank"):
                at_least = 0 if witness["method"] != "pread" else 1
                assert witness["other_node_byte_fraction"] >= at_least, (case["backend"], options)

    each(run_many(plans, new_directory, nodes_shim), check, at_once=1)


def test_a_large_node_reads_as_little_of_its_own_as_can_be(new_directory, nodes_shim):
    """Five of eight ranks have a node: two of them have to read what another of it has written."""
    options = ["--local-size", 8, "--operation", "read", "--repeats", 1]
    plan = on_nodes(NODES["uneven"], *options)
    (outcome,) = run_many([plan], new_directory, nodes_shim)
    assert outcome.done.code == 0, outcome.done.err
    fractions = [case["cache"]["other_node_byte_fraction"] for case in outcome.result["cases"]]
    assert fractions == [0.75] * len(SOME)


KEPT = [
    "--local-size 6",
    "--global-size 9x8x13 --files 2",
    *(f"--local-size 6 --files {files}" for files in ("node", "process", "gather")),
]
#: The node of each rank that reads; 1: no host of theirs has written anything.
READERS = {"0,0,1,1,2,2": None, "2,2,0,0,1,1": None, "7,7,8,8,9,9": 1, "0,1,2": None, "1,1,1": None}


def test_kept_files_are_read_on_other_hosts(read_result, new_directory, nodes_shim):
    """Each rank looks for what its host has not written, unless that host has written all."""
    options = ["--operation", "write-keep", "--warmup", 0, "--repeats", 1]
    writes = [
        on_nodes(nodes, *options, *more.split(), of=more)
        for nodes in ("0,0,1,1,2,2", "0,1,2,0,1,2")
        for more in KEPT
    ]
    reads = []
    for outcome in run_many(writes, new_directory, nodes_shim):
        assert outcome.done.code == 0, outcome.done.err
        for number, (nodes, other) in enumerate(READERS.items()):
            json = outcome.directory.parent / f"{number}.json"
            of = (outcome.plan.of, nodes, other, json)
            words = ["--operation", "read-existing", "--json", json]
            reads.append(on_nodes(nodes, *words, directory=outcome.own, of=of))
    reads = [one for one in reads if "process" not in one.of[0] or one.ranks == 6]

    def check(outcome):
        written, by, other, json = outcome.plan.of
        assert outcome.done.code == 0, (outcome.done.err, written, by)
        result = read_result(json)
        for case in result["cases"]:
            (repetition,) = case["repetitions"]
            assert repetition["witness"]["bytes"] == result["run"]["bytes"]
            if other is not None:
                assert case["cache"]["other_node_byte_fraction"] == other
                assert repetition["witness"]["other_node_byte_fraction"] == other
            elif "gather" in written:  # node 0 has written all
                nodes = by.split(",")
                of_others = 1 - nodes.count("0") / len(nodes)
                assert case["cache"]["other_node_byte_fraction"] == pytest.approx(of_others, 0.01)
            elif len(by) > len("0,0,0"):
                assert case["cache"]["other_node_byte_fraction"] > 0.6, (written, by)
                if "process" not in written:  # of a file that one rank reads, no other can help
                    assert repetition["witness"]["other_node_byte_fraction"] == 1, (written, by)

    each(run_many(reads, new_directory, nodes_shim), check, at_once=1)
