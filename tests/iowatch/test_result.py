"""benchio's result file, the law that it must satisfy, and what it says of a run besides."""

import contextlib
import gzip
import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from attrs import evolve
from cases import PLACE, case, changed, is_of_ost, metrics_of
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from result_file import (
    asked,
    laid_out,
    lay_out,
    make_result,
    timed,
    turn_into_checkpoint,
    turn_into_learning,
    turn_into_names,
    turn_into_read,
    turn_into_targets,
)

from iowatch.cases.case import Case
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.verdict import OK, TOO_FAST
from iowatch.judge.judge import by_contract
from iowatch.measure.checks import kind_of, physical_rate
from iowatch.measure.job_environment import require_built
from iowatch.measure.kinds.slow_ost import ost_metrics
from iowatch.measure.kinds.versions import known_faults, read_versions
from iowatch.measure.law import notes, require, require_hosts, require_of_job
from iowatch.measure.provenance import provenance
from iowatch.measure.result import InvalidResult, read_result

CASE = case()
MPIIO = changed(CASE, backend="mpiio")
LUSTRE = evolve(
    PLACE, types=("lustre",), osts=(0, 1, 2, 3, 4), pools={"flash": (1, 2), "one": (3,)},
    layouts={"progressive": "-E 64M -c 1 -E -1 -c 4"},
)  # fmt: skip
CEPH = evolve(LUSTRE, types=("ceph", "fuse"))
POOLED = {"stripe_count": 2, "stripe_size": 1, "pool": "flash"}


def set_run(**values):
    return lambda result: result["run"].update(values)


MADE_UP = sorted((ROOT / "src/benchio/test/golden").glob("*.json"))


@pytest.mark.parametrize("path", MADE_UP, ids=lambda path: path.stem)
def test_schema_allows_all_that_benchio_writes(path):
    text = files("iowatch").joinpath("benchio.result-3.schema.json").read_text("utf-8")
    jsonschema.Draft202012Validator(json.loads(text)).validate(json.loads(path.read_text()))


# The law: of lawful results, what can be changed at all


USERS = changed(
    CASE,
    collective=False,
    collective_metadata=False,
    flush=True,
    transfer=65536,
    chunk=(8, 8, 8),
    hints=(("cb_nodes", "4"), ("romio_cb_write", "enable")),
    pattern="random:variables=4",
)


def as_users_write(result):
    """The result of a run that was told all that a suite can vary, and did it."""
    result["run"].update(flush=True, transfer=65536, chunk=[8, 8, 8])
    result["run"]["access"].update(order="random", variables=4)
    for one in result["cases"]:
        one["collective"]["requested"] = one["collective_metadata"]["requested"] = False
        one["hints"]["requested"] = {"romio_cb_write": "enable", "cb_nodes": "4"}
        for rep in one["repetitions"]:
            rep["phases"]["flush"] = deepcopy(rep["phases"]["close"])
            for name in ("total", "stable"):
                rep["phases"][name]["overlap"] += rep["phases"]["flush"]["window"]
    hdf5 = result["cases"][1]
    hdf5["collective"]["observed"] = "independent, independent requested"
    hdf5["collective_metadata"]["echoed"] = "no"
    for rep in hdf5["repetitions"]:
        rep["witness"]["method"] = "through the library"


def read_back(result):
    """Of what is read the layout was asked for by another run."""
    turn_into_read(result, suspect=False)
    result["run"]["operations"] = ["read-existing"]
    lay_out(None, laid_out(1, osts=[0]))(result)


def into_subfiles(result):
    """Of HDF5's file, and not of its control's."""
    result["run"]["access"]["subfiles"] = 4
    observed = {"count": 4, "stripe_size": 2**25, "ranks": 1}
    result["cases"][1]["subfiles"] = {"requested": 4, "observed": observed}


@dataclass(frozen=True)
class Lawful:
    """A case, its filesystem, and how the result of a write becomes a lawful one of it."""

    case: Case
    place: Filesystem = PLACE
    change: Callable[[dict[str, Any]], None] = lambda result: None
    bound: str = r"no place"  # of what is free elsewhere
    fits: str = r".*/collective/observed = (None|'collective')"  # that are lawful as well


LAWFUL = {
    "write": Lawful(CASE),
    "as users write": Lawful(
        USERS, change=as_users_write,
        bound=r"cases/1/.*/witness/method",
        fits=r".*/collective(_metadata)?/(observed|echoed) = (None|'independent'|'no')",
    ),
    "read back": Lawful(
        changed(CASE, "ReadBack", stripe_count=1, stripe_size=1),
        evolve(PLACE, osts=(0, 1)),
        read_back,
        fits=r".*/(collective/observed = (None|'collective')|layout/observed/(osts/0|pool) = .*)",
    ),
    "subfiles": Lawful(changed(CASE, pattern="subfiling=4"), change=into_subfiles),
    "striped": Lawful(
        changed(CASE, **POOLED), LUSTRE,
        lay_out(asked(2, 2**20, "flash"), laid_out(2, pool="flash")),
    ),
    "each OST": Lawful(
        changed(MPIIO, "SlowOst", stripe_size=1), evolve(LUSTRE, osts=(1, 4)),
        lambda result: turn_into_targets(result, ["1", "4"]),
        fits=r".*/(collective/observed = (None|'collective')|layout/observed/pool = .*)",
    ),
    "names": Lawful(
        case("Metadata", items=50, files="shared", mdt=1),
        change=lambda result: turn_into_names(result, 50, mdt=1),
        bound=r"run/filesystem/mdt_index|.*/phases/(?!sync)\w+/window",
        fits=r".*(/collective/observed = (None|'collective')|/round = \d)",
    ),
    "start-up": Lawful(
        case("EnvironmentStart", items=1),
        change=lambda result: turn_into_learning(result, "startup", 1, 160, 320),
        fits=r".*(/collective/observed = (None|'collective')|/round = \d)",
    ),
    "checkpoint": Lawful(
        case("Checkpoint", items=1, sample=1200),
        change=lambda result: turn_into_checkpoint(result, 1, 1200),
        fits=r".*(/collective/observed = (None|'collective')|/round = \d)",
    ),
}  # fmt: skip

#: What the law does not compare with the case: what a run says of itself besides, and how its time
#: was divided; and the metrics that follow from it.
FREE = {
    r"started|benchio/.*|libraries/.*|memory/.*|environment.*": (),
    r"run/(id|hosts/0|directory|file_count|global_size|contiguous_bytes|halo|direct)": (),
    r"run/(repeats|warmup|settle|phase_barrier|phase_limit|time_limit|alignment|file_format)": (),
    r"run/(file_size|grid)/\d": (),
    r"run/filesystem/(?!type).*": (),  # the identity is of require_known
    r"cases/\d/(hints/(echoed|observed)|collective/echoed|layout/echoed|cache/.*_fraction)": (),
    r"cases/\d/(layout/observed/(said|components/.*)|subfiles/(requested|observed/[sr].*))": (),
    r"cases/.*/(position|started|parts|instances|file_bytes|clocks_agree|clock_step)": (),
    r"cases/.*/nodes/(?!mib/each)\w+/(?!each/0).*": (),
    r"cases/.*/nodes/(?!mib)\w+/each/0": (),
    r".*/witness/(method|direct|page_cache_fraction|other_node_byte_fraction)": (),
    r".*/phases/\w+/(min|mean|max|slowest_rank|slowest_host)": (),
    r".*/phases/(total|stable|sync|unlink)/file_window": (),
    r".*/phases/(total|stable)/by_rank_0": (),  # of one node
    r".*/phases/(unlink|sync)/window": ("_s",),
    r".*/phases/(?!total)\w+/file_window": ("_s", "overhead_fraction"),
    r"cases/.*/parts/.*": ("_calls",),
    r".*/rates/data": ("data_median",),
}
ALIKE = "(define|write|read|mkdir|stat|rename|rmdir)"
#: What the schema takes in one place or another.
VALUES = (None, 1, "x", "no", "read", "process", "pread", "strided", "collective", "independent")


def places(data, *path):
    """The path of each member, and of its members."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield *path, key
        if isinstance(value, dict | list):
            yield from places(value, *path, key)


def places_that_differ(data):
    """Those places, as paths and as texts, without what a law finds alike in another place: in the
    phases of a control, of a library most of them, and of OSTs all but the last."""
    last = len(data["cases"]) - 1
    alike = r"cases/0/.*/phases/" if last == 1 else rf"cases/(?!{last})\d/"
    for path in list(places(data)):
        if not re.match(rf"{alike}|.*/phases/{ALIKE}/", where := "/".join(map(str, path))):
            yield path, where


def holder(data, path):
    """What has the member at the end of a path."""
    for key in path[:-1]:
        data = data[key]
    return data


def others(value):
    """Other values in the place of this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, *([value - 1] if value else [])]
    if isinstance(value, float):
        return [value * 0.95, value * 1.1]
    return [other for other in VALUES if other != value]


@pytest.fixture
def lawful(tmp_path):
    """lawful(name): a lawful result as data, and what reads such data: its metrics."""

    def make(name):
        of, place = LAWFUL[name].case, LAWFUL[name].place
        backends = ["posix"] if of.items else of.backends
        size = (1, 1, 1) if of.items else (64, 64, 64)
        data = make_result(backends, repeats=1, filesystem=place.types[0], local_size=size)
        for one in data["cases"]:
            del one["repetitions"][0]
        LAWFUL[name].change(data)
        path = tmp_path / "result.json"

        def read(data):
            path.unlink(missing_ok=True)  # what is written over goes to the disk at once
            path.write_text(json.dumps(data))
            result = read_result(path)
            require(result, of, 1, place)
            if of.check.by_target:
                return ost_metrics(result, place.targets)
            return metrics_of(result, of)

        return data, read

    return make


@pytest.mark.parametrize("name", LAWFUL)
def test_a_value_that_changes_is_refused_or_changes_no_rate(lawful, name):
    data, read = lawful(name)
    metrics = read(data)
    assert {one for one in metrics if not is_of_ost(one)} == {*LAWFUL[name].case.metrics}
    wrong = []
    for path, where in places_that_differ(data):
        before = (within := holder(data, path))[path[-1]]
        if before and isinstance(before, dict | list):
            continue
        free = next((of for of in FREE if re.fullmatch(of, where)), None)
        if re.fullmatch(LAWFUL[name].bound, where):
            free = None
        for value in others(before)[: 1 if free else None]:
            within[path[-1]] = value
            said = f"{where} = {value!r}"
            try:
                after = read(data)
            except InvalidResult:
                continue
            differ = {metric for metric in metrics if after.get(metric) != metrics[metric]}
            if any(not metric.endswith(FREE.get(free, ())) for metric in differ):
                wrong.append(f"{said} changes {differ}")
            elif free is None and not re.fullmatch(LAWFUL[name].fits, said):
                wrong.append(f"{said} is lawful")
        within[path[-1]] = before
    assert wrong == []


@pytest.mark.parametrize("name", ["write", "as users write", "each OST", "names"])
def test_nothing_can_be_left_out(lawful, name):
    data, read = lawful(name)
    wrong = []
    for path, where in places_that_differ(data):
        if re.search(r"/(components|osts)/0$", where):
            continue  # not every filesystem names them
        kept = deepcopy(within := holder(data, path))
        del within[path[-1]]
        with contextlib.suppress(InvalidResult):
            read(data)
            wrong.append(where)
        within.clear()
        (within.extend if isinstance(within, list) else within.update)(kept)
    assert wrong == []


def test_a_flush_that_was_asked_for_is_a_phase(lawful):
    data, read = lawful("as users write")
    for phases in (rep["phases"] for one in data["cases"] for rep in one["repetitions"]):
        seconds = phases.pop("flush")["window"]
        for whole in ("total", "stable"):
            phases[whole]["between"] += seconds
    with pytest.raises(InvalidResult, match="1 repetition of mpiio without a flush"):
        read(data)


def one_round(**members):
    """A change of one timed round of HDF5."""
    return lambda result: timed(result)[2].update(
        (key, {**timed(result)[2][key], **value} if isinstance(value, dict) else value)
        for key, value in members.items()
    )


def backend(number, name, **values):
    return lambda result: result["cases"][number][name].update(values)


def drop_rounds(result):
    for one in result["cases"]:
        del one["repetitions"][-1]


def two_nodes(result):
    """A rank has left the barrier late, on another node: the window of its node is too short."""
    result["run"]["hosts"].append("node2")
    timed(result)[2]["phases"]["stable"]["by_rank_0"] *= 1.5


TIME = next(iter(make_result()["cases"][0]["repetitions"][1]["phases"].values()))
BROKEN = [
    (set_run(ranks=8), "ranks: 8, where 4 was asked for"),
    (set_run(local_size=[64, 64, 32]), "local size: 64x64x32, where 64x64x64 was asked for"),
    (lambda result: result["run"]["filesystem"].update(type="ext4"),
     "filesystem: ext4, where tmpfs or lustre was asked for"),
    (lambda result: result["cases"].pop(0),
     "backends: ['hdf5'], where ['mpiio', 'hdf5'] was asked for"),
    (drop_rounds, "repetitions of mpiio: 9, where 10 was asked for"),
    (one_round(phases={"flush": TIME}),
     "there is 1 repetition of hdf5 with a flush, and there should be none"),
    (one_round(phases={"close": {**TIME, "file_window": 1.1}}),
     "there is 1 repetition of hdf5 with a phase that is longer than the whole, and there should "
     "be none"),
    (one_round(rates={"data": 4.0}),
     "there is 1 repetition of hdf5 with a rate that is not their bytes over their time, and there "
     "should be none"),
    (one_round(phases={"write": {**TIME, "window": 0.95, "file_window": 0.95}}),
     "there is 1 repetition of hdf5 with phases that do not add up to the whole, and there should "
     "be none"),
    (two_nodes, "there is 1 repetition of hdf5 timed by the shorter of two clocks, that of rank 0 "
     "and those of the nodes, and there should be none"),
    (backend(0, "hints", requested={"cb_nodes": "4", "a": "1"}),
     "hints of mpiio: a=1:cb_nodes=4, where none was asked for"),
    (backend(1, "collective", observed="mixed, dataset layout"),
     "collective transfer of hdf5: mixed, dataset layout, where None or collective was asked for"),
]  # fmt: skip


def test_a_broken_law_is_one_sentence(spoil):
    def attempt(change):
        require(spoil(change), CASE, 10, evolve(PLACE, types=("tmpfs", "lustre")))

    attempt(lambda result: None)
    wanted = [(change, f"^{re.escape(said)}$") for change, said in BROKEN]
    assert_refused(InvalidResult, attempt, wanted)


def test_a_hint_that_a_variable_overrides_is_not_as_asked(spoil):
    def override(result):
        as_users_write(result)
        result["environment"]["variables"] = {"PNETCDF_HINTS": "cb_nodes=1", "UCX_TLS": "tcp"}
        backend(0, "hints", echoed={"cb_nodes": "1", "romio_cb_write": "enable"})(result)

    why = r"^hint cb_nodes of \w+, with PNETCDF_HINTS=cb_nodes=1: 1, where 4 was asked for$"
    with pytest.raises(InvalidResult, match=why):
        require(spoil(override), USERS, 10, PLACE)


def test_what_a_library_says_of_its_ways_may_be_less_than_what_was_asked_for(spoil):
    """HDF5 1.8 has no collective metadata, and a file need not repeat its hints."""
    for change in (
        backend(1, "collective_metadata", echoed="not supported by HDF5 1.8.16"),
        backend(0, "hints", echoed={"romio_cb_write": "ENABLE"}),
    ):
        require(spoil(lambda it, and_=change: (as_users_write(it), and_(it))), USERS, 10, PLACE)


def test_compressed_files_have_no_control_and_are_smaller(spoil):
    """Their rate is that of what was written, and what the filesystem had to stand is less."""
    compressed = changed(CASE, pattern="deflate=4")
    assert compressed.backends == ["hdf5"]

    def attempt(stored):
        def compress(result):
            result["run"]["access"]["deflate"] = 4
            for rep in result["cases"][0]["repetitions"]:
                rep["file_bytes"] = int(stored * rep["file_bytes"])

        result = spoil(compress, backends=["hdf5"])
        require(result, compressed, 10, PLACE)
        return metrics_of(result, compressed)

    values = attempt(0.25)
    assert [*values] == compressed.metrics
    assert values["stored_fraction"] == 0.25
    assert physical_rate(values) == values["stable_max"] / 4
    for ceiling, outcome in ((2, OK), (8, TOO_FAST)):
        assert by_contract(values, values["stable_max"] / ceiling).outcome == outcome
    with pytest.raises(InvalidResult, match="there are 10 repetitions of hdf5 whose files are not"):
        attempt(1)


def test_read_that_may_come_from_a_cache_is_refused(spoil):
    read = changed(CASE, "SharedFileRead")
    suspect = spoil(lambda result: turn_into_read(result, suspect=True))
    with pytest.raises(InvalidResult, match="what mpiio and hdf5 read may have come from a cache"):
        require(suspect, read, 10, PLACE)
    require(suspect, read, 10, evolve(PLACE, cached_reads=True))


def test_sync_that_does_not_reach_storage_is_refused(spoil):
    def attempt(fraction):
        require(spoil(one_round(witness={"unsynced_fraction": fraction})), CASE, 10, PLACE)

    for fraction in (None, 0.0, 0.01):
        attempt(fraction)
    with pytest.raises(InvalidResult, match=r"^the page cache still held 25% of what was s"):
        attempt(0.25)
    of_control = spoil(lambda result: timed(result, 0)[0]["witness"].update(unsynced_fraction=0.5))
    with pytest.raises(InvalidResult, match=r"^the page cache still held 50% of what was s"):
        require(of_control, CASE, 10, PLACE)


def test_a_rate_is_of_a_hundred_steps_of_the_clock_or_more(spoil):
    """The shortest span of the write is that of its data, 0.9 s; a call may take ten steps."""
    require(spoil(one_round(clock_step=0.009)), CASE, 10, PLACE)
    with pytest.raises(
        InvalidResult, match=r"^a clock of node1 goes in steps of 0.0091 s, and a r"
    ):
        require(spoil(one_round(clock_step=0.0091)), CASE, 10, PLACE)


def test_what_a_run_keeps_is_not_removed(spoil):
    def written(operation):
        def change(result):
            result["run"]["operations"] = [operation]
            for rep in (rep for one in result["cases"] for rep in one["repetitions"]):
                del rep["phases"]["unlink"]

        return spoil(change)

    of = changed(CASE, "ReadBack")
    require(written("write-keep"), of, 10, PLACE, operations=["write-keep"])
    with pytest.raises(InvalidResult, match=r"^operations: \['write-keep'\], where"):
        require(written("write-keep"), of, 10, PLACE)
    with pytest.raises(InvalidResult, match="10 repetitions of mpiio whose files were kept"):
        require(written("write"), CASE, 10, PLACE)


PFL = [
    {**laid_out(1)["components"][0], "end_byte": 2**26},
    {**laid_out(4, 4 * 2**20, "flash")["components"][0], "first_byte": 2**26},
]
FOUR, EVERY = {"stripe_count": 4, "stripe_size": 1}, {"stripe_count": -1, "stripe_size": 1}


def test_a_layout_is_asked_for_and_observed(spoil):
    progressive = asked(setstripe=LUSTRE.layouts["progressive"])
    # What is asked of benchio, what the file has, on which filesystem; and what the law says.
    for parameters, requested, observed, place, said in [
        (FOUR, asked(4, 2**20), laid_out(4, pool="flash"), LUSTRE, ""),  # the directory's own
        (FOUR, asked(4, 2**20), None, LUSTRE, "observed layout of mpiio: unknown"),
        (FOUR, None, laid_out(4), LUSTRE, r"requested layout .* None, where \{'stripe_count': 4"),
        # All OSTs: of one there are no two.
        (EVERY, asked(-1, 2**20), laid_out(4), LUSTRE, ""),
        (EVERY, asked(-1, 2**20), laid_out(1), LUSTRE, "stripe count of mpiio: 1, where -1"),
        ({**EVERY, "pool": "one"}, asked(-1, 2**20, "one"), laid_out(1, pool="one"), LUSTRE, ""),
        # How many they are, benchio is told on CephFS.
        (EVERY, asked(5, 2**20), laid_out(5, pool="data"), CEPH, ""),
        (EVERY, asked(-1, 2**20), laid_out(5), CEPH, "requested layout .*'stripe_count': 5"),
        ({**EVERY, "pool": "flash"}, asked(2, 2**20, "flash"), laid_out(2, pool="flash"), CEPH, ""),
        # What is not put in numbers is known at least.
        ({"layout": "default"}, None, laid_out(1, components=PFL), LUSTRE, ""),
        ({"layout": "default"}, None, None, LUSTRE, "observed layout of mpiio: unknown"),
        ({"layout": "progressive"}, progressive, laid_out(4), LUSTRE, ""),
        ({"layout": "progressive"}, None, laid_out(4), LUSTRE, "requested layout .*None, where"),
        ({}, asked(4, 2**20), laid_out(4), PLACE, ".*, where None was asked for"),
        ({}, None, laid_out(None, None, said="Chunksize: 512K"), PLACE, ""),
    ]:
        result = spoil(lay_out(requested, observed), filesystem=place.types[0])
        with pytest.raises(InvalidResult, match=said) if said else contextlib.nullcontext():
            require(result, changed(CASE, **parameters), 10, place)


def test_all_osts_that_are_not_all_are_a_note(spoil):
    for parameters, observed, said in [
        (EVERY, laid_out(5, osts=[3, 4, 0, 1, 2]), []),
        (EVERY, laid_out(4, osts=[3, 4, 0, 1]), ["striped over 4 of 5 OSTs: OST 2 is missing"]),
        (EVERY, laid_out(2, osts=[3, 4]),
         ["striped over 2 of 5 OSTs: OSTs 0 to 2 are missing"]),
        (EVERY, laid_out(4), ["striped over 4 of 5 OSTs"]),
        ({**EVERY, "pool": "flash"}, laid_out(2, osts=[2, 1], pool="flash"), []),
        (FOUR, laid_out(4, osts=[0, 1, 2, 3]), []),
        ({"layout": "default"}, laid_out(1, osts=[0]), []),
    ]:  # fmt: skip
        result = spoil(lay_out(asked(), observed))
        assert notes(result, changed(CASE, **parameters), LUSTRE) == said
        assert kind_of(CASE).measured(result, CASE, said).notes == said


def test_hints_that_were_dropped_are_a_note(spoil):
    """Of a backend that repeats no hint nobody can say it."""

    def dropped(*echoes):
        def change(result):
            as_users_write(result)
            for number, echoed in enumerate(echoes):
                backend(number, "hints", echoed=echoed)(result)

        return notes(spoil(change), USERS, PLACE)

    both = {"cb_nodes": "4", "romio_cb_write": "enable", "other": "1"}
    assert dropped(both, None) == []
    (said,) = dropped({"cb_nodes": "4"}, {})
    assert said == "mpiio has dropped what hints asked for: romio_cb_write=enable"
    assert len(dropped({"other": "1"}, {"other": "1"})) == 2


def test_each_ost_is_one_stripe_where_it_was_asked_for(spoil):
    slow = LAWFUL["each OST"].case
    lustre = evolve(LUSTRE, osts=(0, 2, 7))
    ceph = evolve(CEPH, osts=(0, 2, 7), pools={"a": (7,), "b": (0,), "both": (0, 7)})

    def run(names, change=lambda result: None, is_lustre=True):
        def targets(result):
            turn_into_targets(result, names, is_lustre=is_lustre)
            change(result)

        kind = "lustre" if is_lustre else "ceph"
        return spoil(targets, backends=["mpiio"], repeats=3, filesystem=kind)

    def fail(result):  # as benchio has it: in both operations, and no rounds after that
        for one in result["cases"]:
            if one["target"]["name"] == "2":
                error = {"rank": 1, "call": "lgetxattr", "path": "/f", "message": "is on OST 7"}
                one["target"]["error"], one["repetitions"] = error, []
                one["layout"]["observed"]["osts"] = [7]

    require(run("027"), slow, 3, lustre)
    require(run("ab", is_lustre=False), slow, 3, ceph)
    require(run("07"), slow, 3, lustre, hung=["2"])
    failed = run("027", fail)
    require(failed, slow, 3, lustre)
    assert failed.void == {"2": "rank 1: lgetxattr: /f: is on OST 7"}
    assert {one.target for one in failed.sound} == {"0", "7"}

    def mix(result):
        result["cases"][-1]["layout"]["observed"]["pool"] = "both"

    for found, place, said in [
        (run("ab", mix, False), ceph, "pool of mpiio: both, where b was asked for"),
        (run("07"), lustre, r"backends: .*, where|targets: \['0', '7'\], where \['0', '2', '7'\]"),
        (run("022"), lustre, r"targets: \['0', '2', '2'\], where"),
    ]:
        with pytest.raises(InvalidResult, match=said):
            require(found, slow, 3, place)


# What is a result file at all


def fail(status, **error):
    return lambda result: result.update(status=status, cases=[], error=error)


def end_early(result):
    """A time limit leaves complete rounds, and no figure."""
    result["status"] = "time_limit"
    result["error"] = {"rank": 0, "call": "time limit", "path": "/x", "message": "3 of 11 rounds"}


def write_that_reads(result):
    timed(result)[0]["phases"]["read"] = TIME


def write_from_a_cache(result):
    cache = {"other_node_byte_fraction": 0, "page_cache_fraction": 0, "suspect": False}
    result["cases"][0]["cache"] = cache


NO_RESULT = "result.json is not a benchio.result/3: "
WITHOUT_METRICS = [
    (fail("io_error", rank=2, host="n1", call="MPI_File_open", path="/x/y", message="No file"),
     "benchio: io_error: rank 2 on n1: MPI_File_open: /x/y: No file"),
    (fail("time_limit", rank=0, call="close", path="", message="60 s"),
     "benchio: time_limit: rank 0: close: 60 s"),
    (end_early, "benchio: time_limit: rank 0: time limit: /x: 3 of 11 rounds"),
    (set_run(id="two words"), f"{NO_RESULT}run/id: 'two words' does"),
    (lambda result: timed(result)[0].pop("witness"), f"{NO_RESULT}.*'witness' is a required"),
    (lambda result: result.update(status="io_error"), NO_RESULT),
    (write_that_reads, f"{NO_RESULT}.*phases: False schema"),
    (write_from_a_cache, f"{NO_RESULT}cases/0/cache"),
    (one_round(rates={"total": float("nan")}),
     "result.json is not readable JSON: NaN is not a number"),
]  # fmt: skip


def test_result_without_metrics_says_why(spoil):
    assert_refused(InvalidResult, spoil, [(change, f"^{said}") for change, said in WITHOUT_METRICS])


def test_schema_is_read_by_jsonschema_of_before_4_18_too():
    """Which Spack takes to do without Rust: it looks up a relative $id of a schema as a file."""
    schema = json.loads(files("iowatch").joinpath("benchio.result-3.schema.json").read_text())
    with pytest.warns(DeprecationWarning, match="RefResolver"):
        resolver = jsonschema.RefResolver.from_schema(schema)  # all that there was then
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    validator.validate(make_result(["mpiio", "hdf5"]))


def test_text_that_says_two_things_or_nothing_is_no_result(tmp_path):
    path = tmp_path / "result.json"
    result = make_result(["mpiio", "hdf5"])
    result["cases"][1]["repetitions"][-1]["phases"]["close"]["file_window"] = 0.0625
    text = json.dumps(result)

    def attempt(old, new, count=1):
        assert old in text
        path.write_text(text.replace(old, new, count))
        require(read_result(path), CASE, 10, PLACE)

    attempt("", "")
    wanted = [
        (('"status": "ok"', '"status": "io_error", "status": "ok"'), "it has 'status' twice"),
        (('"total": 8.0', '"total": 1.0, "total": 8.0'), "it has 'total' twice in one place"),
        (("2026-01-31T01:02:03.004Z", "2026-02-31T01:02:03.004Z"), "there is no such time$"),
        (("2026-01-31T01:00:02.500Z", "2026-01-31T25:00:02.500Z"), "there is no such time$"),
        (('"halo": 1', f'"halo": {10**400}'), "^result.json is not readable JSON: 10+... is no"),
        (('"error": null', f'"error": {"[" * 99999}'), "^result.json is not readable JSON: "),
        # What is too large for a double.
        (('"total": 8.0', '"total": 1e999', -1), "rate or time that is no number"),
        (('"file_window": 0.0625', '"file_window": 1e999'), "rate or time that is no number"),
    ]
    assert_refused(InvalidResult, attempt, wanted)


WHOLE = json.dumps(make_result(repeats=1)).encode()


@given(st.integers(0, len(WHOLE) - 1), st.sampled_from([lambda it: it, gzip.compress]))
def test_a_file_that_was_cut_off_is_no_result(tmp_path_factory, end, packed):
    """As those of a month ago are, among the raw results, it may be compressed."""
    suffix = ".json" if packed(b"") == b"" else ".json.gz"
    path = tmp_path_factory.getbasetemp() / f"cut{suffix}"
    whole = packed(WHOLE)
    path.write_bytes(whole)
    assert read_result(path).run["ranks"] == 4
    path.write_bytes(whole[: end % len(whole)])
    with pytest.raises(InvalidResult, match=f"^cut{suffix} is not "):
        read_result(path)


def test_what_is_no_result_file_is_refused(tmp_path):
    path = tmp_path / "result.json.gz"
    packed = gzip.compress(WHOLE)
    for content in (b"[]", WHOLE, packed[:100] + bytes(100) + packed[200:]):
        path.write_bytes(content)
        with pytest.raises(InvalidResult, match=r"^result\.json\.gz is not readable JSON: "):
            read_result(path)
    with pytest.raises(InvalidResult, match="No such file"):
        read_result(tmp_path / "missing.json")


# Whose it is, and what it was built of


def test_result_is_that_of_the_job(spoil):
    """By the id that the job gave; the clock of another machine may be a little late."""
    began = datetime.fromisoformat("2026-01-31T01:02:03.004Z")

    def attempt(name, run_id, late_s=0):
        made = began + timedelta(seconds=late_s)
        require_of_job(spoil(run_id=run_id), name, "beef", made)

    attempt("result.json", "beef", -3600)
    attempt("result.json", "beef", 299)
    attempt("result.2.7.json", "beef-2-7")
    wanted = [
        (("result.json", "0123"), "^result.json is another job's: its run has the id 0123, where"),
        (("result.2.json", "beef"), "has the id beef, where this one gave beef-2$"),
        (("result.2.7.json", "beef-7-2"), "where this one gave beef-2-7$"),
        (
            ("result.json", "beef", 301),
            "^result.json began at 2026-01-31 01:02:03 UTC, before its job was made at "
            "2026-01-31 01:07:04 UTC: look at the clocks of node1$",
        ),
    ]
    assert_refused(InvalidResult, attempt, wanted)


def test_a_run_has_a_host_for_each_node_that_it_was_to_have():
    """Else what was packed on one node would be on record as of four, or the other way round."""
    many = [f"n{number}" for number in range(1, 9)]
    require_hosts(many, 8)
    wanted = [
        ((many[:1], 4), r"^it ran on 1 host \(n1\), where 4 nodes were asked for: look in rfm_job"),
        ((many[:2], 1), r"^it ran on 2 hosts \(n1 n2\), where 1 node was asked for: "),
        ((many, 16), r"^it ran on 8 hosts \(n1 n2 n3 n4 \.\.\.\), where 16 nodes were "),
    ]
    assert_refused(InvalidResult, require_hosts, wanted)


BUILT = {"mpi": "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4"}
BUILT |= {"hdf5": "1.10.8", "netcdf": "4.9.0", "pnetcdf": None}
MPICH = {"mpi": "MPICH Version:\t4.0.2 MPICH Release date: x MPICH ABI: 14:2:2"}


def test_what_spack_was_asked_for_is_what_answered():
    def attempt(spec, built=BUILT):
        require_built(built, f"benchio@0.1.0+hdf5 {spec} /abcdefg")

    attempt("^hdf5@1.10.8 ^netcdf-c@4.9.0 ^netcdf-fortran@4.5.4 ^openmpi@4.1.4")
    attempt("^hdf5@1.10 ^openmpi@4.1.4-2 ^cray-mpich@8.1.23 ^netcdf-c@main")
    attempt("^mpich@4.0.2", BUILT | MPICH)
    wanted = [
        ("^hdf5@1.14.5", "^hdf5: the library says 1.10.8, where Spack was asked for hdf5@1.14.5: "),
        ("^hdf5@1.10.80", "hdf5@1.10.80"),
        ("^netcdf-c@4.9.2", "^netcdf: the library says 4.9.0"),
        ("^parallel-netcdf@1.12.3", "^pnetcdf: the library says not built in"),
        ("^mpich@4.1.4", "^mpi: the library says Open MPI v4.1.4"),
    ]
    assert_refused(InvalidResult, attempt, wanted)


# What it says besides


def test_provenance_is_what_a_reader_compares_between_nights(spoil):
    def change(result):
        result["libraries"].update(mpi="Open MPI v4.1.4", hdf5="1.10.8")
        result["environment"].update(
            variables={"OMPI_MCA_io": "romio321"}, contents={"ROMIO_HINTS": "0123456789abcdef"},
            mpi_io="romio321", other_rank=4, libraries={
                "libmpi.so.2": "/usr/lib/libmpi.so.2", "libnetcdf.so.3": "/usr/lib/libnetcdf.so.3",
                "libhdf5.so.1": "/opt/hdf5/libhdf5.so.1", "mca_io_ompio.so": "/mca_io_ompio.so",
            },
        )  # fmt: skip
        result["run"]["hosts"] = ["node1", "node2"]
        result["run"]["filesystem"]["free_bytes"] = 3 * 2**40
        measured = result["cases"][1]
        measured["hints"]["echoed"] = {"cb_nodes": "4"}
        measured["collective"]["observed"] = "collective"
        measured["layout"]["observed"] = laid_out(1, components=PFL)
        result["run"]["filesystem"].update(
            mdt_index=3, mount_type="lustre", identity="lustre scratch at /lustre", bytes=2**41,
            source="10.0.0.1@tcp:10.0.0.2@tcp:/scratch", options="rw,flock,addr=10.0.0.9,rw",
        )  # fmt: skip
        for rep, part in zip(timed(result), (0.0, 0.5, 0.75), strict=False):
            rep["witness"].update(direct=False, page_cache_fraction=part)

    assert provenance(spoil(change)) == {
        "contents of ROMIO_HINTS": "0123456789abcdef",
        "MPI-IO": "romio321",
        "libraries of /opt/hdf5/": "libhdf5.so.1",
        "libraries of /usr/lib/": "libmpi.so.2 libnetcdf.so.3",
        "nodes": "rank 4 has other variables, files or libraries than rank 0",
        "benchio": "stand-in",
        "compiler": "none",
        "mpi": "Open MPI v4.1.4",
        "hdf5": "1.10.8",
        "variable OMPI_MCA_io": "romio321",
        "hint cb_nodes": "4",
        "layout": "up to 64 MiB 1 OST in stripes of 1 MiB; "
        "then 4 OSTs of pool flash in stripes of 4 MiB",
        "MDT": "3",
        "filesystem": "lustre scratch at /lustre",
        "mount source": "10.0.0.1@tcp:10.0.0.2@tcp:/scratch",
        "mount type": "lustre",
        "mount options": "flock,rw",
        "size": "2048 GiB",
        "transfer": "collective",
        "witness": "through a page cache",
        "options": "transfer 1073741824, flush False, direct False, warmup 1, settle 0, "
        "phase_barrier False, halo 1, alignment 1, chunk [0, 0, 0], file_format earliest, pattern "
        "blocks",
        "hosts": "node1 node2",
        "free space": "3072 GiB",
    }


def test_a_layout_in_words_is_the_same_for_all_files_that_have_it(spoil):
    on_mdt = {**laid_out(0, 65536)["components"][0], "pattern": "mdt", "end_byte": 65536}
    rest = {**laid_out(-1)["components"][0], "first_byte": 65536}
    twice = {**laid_out(8)["components"][0], "pattern": "overstriped"}
    beegfs = "EntryID: 3-5E2F-1\n+ Type: RAID0\n+ Chunksize: 512K\n  + 1 @ storage01\n"
    gpfs = "file name: /gpfs/f\nstorage pool name:    x\ncreation time: Sun Nov 22 2026\n"
    for observed, words in [
        (None, None),
        (laid_out(4, osts=[3, 1, 0, 2]), "4 OSTs in stripes of 1 MiB"),
        (laid_out(2, 3 * 2**16, "flash"), "2 OSTs of pool flash in stripes of 192 KiB"),
        (
            laid_out(components=[on_mdt, rest]),
            "up to 64 KiB the MDT; then all OSTs in stripes of 1 MiB",
        ),
        (laid_out(8, components=[twice]), "8 stripes of 1 MiB (overstriped)"),
        (laid_out(None, None, components=[], said=beegfs), "+ Type: RAID0; + Chunksize: 512K"),
        (laid_out(None, 2**22, components=[], said=gpfs), "blocks of 4MiB; storage pool name: x"),
        (laid_out(None, None, components=[]), None),
    ]:
        assert provenance(spoil(lay_out(None, observed))).get("layout") == words


def test_what_stood_between_the_witness_and_the_disk_is_said(spoil):
    def said(**witness):
        def change(result):
            for rep in timed(result):
                rep["witness"].update(witness)

        return provenance(spoil(change)).get("witness")

    library = {"method": "through the library", "direct": False}
    for witness, words in (
        ({}, None),
        ({"page_cache_fraction": None}, None),  # O_DIRECT has passed any
        ({"direct": False}, None),  # its pages had been dropped
        ({"direct": False, "page_cache_fraction": 1.0}, "through a page cache"),
        ({"direct": False, "page_cache_fraction": None}, "perhaps through a page cache"),
        (library, "through the library"),
        (library | {"page_cache_fraction": 0.1}, "through the library, through a page cache"),
    ):
        assert said(**witness) == words, witness


def test_versions_are_read_from_what_benchio_prints():
    versions = {"mpiio": "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "hdf5": "1.10.8"}
    versions |= {"netcdf": "not built in: CMake found no NetCDF-Fortran", "pnetcdf": "1.12.3"}
    lines = [f"{name}  {version}" for name, version in versions.items()]
    assert read_versions("\n".join(["benchio 0.1.0", *lines, "posix GCC 12", ""])) == versions


def test_versions_that_the_paper_found_slow_are_named_on_lustre_only():
    for hdf5, netcdf, slow in (
        ("1.8.13", "4.4.0", []),
        ("1.8.14", "4.3.3.1", ["hdf5", "netcdf"]),
        ("1.8.16", "4.1.3", ["hdf5", "netcdf"]),
        ("1.10.0-patch1", "4.4.0", ["hdf5"]),
        ("1.10.1", "not built in: CMake found no NetCDF-Fortran", []),
    ):
        versions = {"hdf5": hdf5, "netcdf": netcdf}
        sentences = known_faults(versions, ["lustre"])
        assert [sentence.split()[0] for sentence in sentences] == slow, versions
        assert all(versions[sentence.split()[0]] in sentence for sentence in sentences), versions
        assert known_faults(versions, ["gpfs", "nfs"]) == [], versions
    assert known_faults({}, ["lustre"]) == []
