"""benchio's result file, the law that it must satisfy, and what it says of a run besides."""

import gzip
import json
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.resources import files

import jsonschema
import pytest
from cases import changed
from refusals import assert_refused
from result_file import CASE, laid_out, make_result, timed, turn_into_read, turn_into_targets

from iowatch.judge import by_contract
from iowatch.metrics import measured, metrics_of, physical_rate
from iowatch.result import (
    InvalidResult,
    conditions,
    known_faults,
    notes,
    read_result,
    read_versions,
    require,
    require_built,
    require_hosts,
    require_of_job,
)
from iowatch.site import Filesystem
from iowatch.verdict import Kind

MPIIO = changed(CASE, backend="mpiio")


def filesystem(*types, **changes):
    usual = Filesystem(
        system="local",
        partition="tmpfs",
        environs=("gnu",),
        name="memory",
        path="/dev/shm/iowatch",
        types=types,
        peak=1e6,
        osts=None,
        cached_reads=False,
        writers_per_node=4,
        keep_days=60,
        sweeps={},
    )
    return replace(usual, **changes)


def set_run(**values):
    return lambda result: result["run"].update(values)


def drop_last_round(result):
    del result["cases"][1]["repetitions"][-1]


def confirm_a_part(result):
    timed(result)[3]["witness"]["bytes"] -= 8


def keep_the_last_files(result):
    del timed(result)[-1]["phases"]["unlink"]


def repeat_a_round(result):
    timed(result)[3]["round"] = timed(result)[4]["round"]


def shift_rounds(result):
    for rep in timed(result):
        rep["round"] += 1


def lose_control(result):
    del result["cases"][0]


def take_no_time(result):
    timed(result)[0]["phases"]["total"]["window"] = 0


def claim(rate, factor):
    def change(result):
        timed(result)[2]["rates"][rate] *= factor

    return change


def close_for_longer_than_all(result):
    timed(result)[2]["phases"]["close"]["file_window"] = 1.1


def transfer_became(observed):
    return lambda result: result["cases"][1]["collective"].update(observed=observed)


def was_told(backend, name, **values):
    return lambda result: result["cases"][backend][name].update(values)


def flush_once(result):
    phases = timed(result)[2]["phases"]
    phases["flush"] = phases["close"]


LAW = [
    (set_run(writers=8), "writers: 8, where 4"),
    (set_run(local_size=[64, 64, 32]), "local size: 64x64x32, where 64x64x64"),
    (set_run(local_size=None), "local size: None, where 64x64x64"),
    (set_run(bytes=8), "bytes: 8, where 8388608"),
    (set_run(operations=["write", "read"]), r"operations: \['write', 'read'\]"),
    (set_run(files="process"), "files: process, where shared"),
    (set_run(instances=2), "instances: 2, where 1"),
    (
        lambda result: result["run"]["filesystem"].update(type="ext4"),
        "filesystem: ext4, where tmpfs or lustre",
    ),
    (lose_control, r"backends: \['hdf5'\]"),
    (drop_last_round, "repetitions of hdf5: 9, where 10"),
    (repeat_a_round, "repetitions of hdf5: 9, where 10"),
    (shift_rounds, "rounds of hdf5"),
    (
        confirm_a_part,
        "there is 1 repetition of hdf5 of which the witness confirmed more or less than all bytes",
    ),
    (
        keep_the_last_files,
        "there is 1 repetition of hdf5 whose files were kept, and there should be none",
    ),
    (take_no_time, "there is 1 repetition of hdf5 with a rate or time that is no number"),
    *(
        (
            claim(*wrong),
            "there is 1 repetition of hdf5 with a rate that is not their bytes over their time",
        )
        for wrong in (("total", 1.01), ("total", 0.99), ("stable", 1.01), ("data", 0.5))
    ),
    (
        close_for_longer_than_all,
        "there is 1 repetition of hdf5 with a phase that is longer than the whole",
    ),
    (transfer_became("independent"), "collective transfer of hdf5: independent, where None or"),
    (transfer_became("independent, datatype conversion"), "collective transfer of hdf5: indep"),
    (transfer_became("mixed"), "collective transfer of hdf5: mixed, where None or collective"),
    (set_run(transfer=65536), "transfer: 64KiB, where 1GiB was asked for"),
    (set_run(flush=True), "flush: yes, where no"),
    (flush_once, "there is 1 repetition of hdf5 with a flush, and there"),
    (set_run(chunk=[64, 64, 8]), "chunk: 64x64x8, where none"),
    (set_run(pattern="strided"), "pattern: strided, where blocks"),
    (was_told(0, "collective", requested=False), "collective of mpiio: no, where yes"),
    (
        was_told(1, "collective_metadata", requested=False),
        "collective_metadata of hdf5: no, where yes",
    ),
    (
        was_told(1, "collective_metadata", echoed="only reads"),
        "collective metadata of hdf5: only reads, where yes",
    ),
    (
        was_told(0, "hints", requested={"cb_nodes": "4", "a": "1"}),
        "hints of mpiio: a=1:cb_nodes=4, where none",
    ),
]


def test_law_is_enforced(spoil):
    def attempt(change):
        require(spoil(change), CASE, 10, filesystem("tmpfs", "lustre"))

    attempt(lambda result: None)
    assert_refused(InvalidResult, attempt, [(change, f"^{said}") for change, said in LAW])


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
    """The result of a run that was told all that a sweep can vary, and did it."""
    result["run"].update(flush=True, transfer=65536, chunk=[8, 8, 8], pattern="random,variables=4")
    for one in result["cases"]:
        one["collective"]["requested"] = one["collective_metadata"]["requested"] = False
        one["hints"]["requested"] = {"romio_cb_write": "enable", "cb_nodes": "4"}
        for rep in one["repetitions"]:
            rep["phases"]["flush"] = rep["phases"]["close"]
    hdf5 = result["cases"][1]
    hdf5["collective"]["observed"] = "independent, independent requested"
    hdf5["collective_metadata"]["echoed"] = "no"
    for rep in hdf5["repetitions"]:
        rep["witness"]["method"] = "through the library"


def see_one_run(result):
    timed(result)[0]["witness"]["method"] = "pread"


def drop_a_flush(result):
    del timed(result)[0]["phases"]["flush"]


NOT_AS_ASKED = [
    (set_run(transfer=2**30), "transfer: 1GiB, where 64KiB was asked for"),
    (set_run(flush=False), "flush: no, where yes"),
    (drop_a_flush, "repetitions of hdf5 with a flush: 9, where 10"),
    (set_run(chunk=[0, 0, 0]), "chunk: none, where 8x8x8"),
    (set_run(pattern="blocks"), "pattern: blocks, where random:variables=4"),
    (set_run(pattern="variables=4"), "pattern: variables=4, where random:variables=4"),
    (see_one_run, "there is 1 repetition of hdf5 without chunks"),
    (was_told(1, "collective", requested=True), "collective of hdf5: yes, where no"),
    (transfer_became("collective"), "collective transfer of hdf5: collective, where None or indep"),
    (was_told(0, "collective_metadata", requested=True), "collective_metadata of mpiio: yes, wher"),
    (
        was_told(1, "collective_metadata", echoed="yes"),
        "collective metadata of hdf5: yes, where no",
    ),
    (
        was_told(1, "hints", requested={"cb_nodes": "4"}),
        "hints of hdf5: cb_nodes=4, where cb_nodes=4:romio_cb_write=enable was",
    ),
]


def test_what_was_asked_for_is_what_was_done(spoil):
    def attempt(change):
        def both(result):
            as_users_write(result)
            change(result)

        require(spoil(both), USERS, 10, filesystem("tmpfs"))

    attempt(lambda result: None)
    # HDF5 1.8 has no collective metadata, whatever it was told.
    attempt(was_told(1, "collective_metadata", echoed="not supported by HDF5 1.8.16"))
    # What a file repeats of its hints is no evidence, one way or the other.
    attempt(was_told(0, "hints", echoed={"cb_nodes": "1"}))
    assert_refused(InvalidResult, attempt, [(change, f"^{said}") for change, said in NOT_AS_ASKED])


def test_compressed_files_have_no_control_and_are_smaller(spoil):
    """Their rate is that of what was written, and what the filesystem had to stand is less."""
    asked = changed(CASE, pattern="deflate=4")
    assert asked.backends == ["hdf5"]
    assert "stored_fraction" in asked.metrics
    assert not {"ratio", "finish_fraction"} & {*asked.metrics}

    def attempt(stored):
        def compress(result):
            result["run"]["pattern"] = "deflate=4"
            del result["cases"][0]
            for rep in result["cases"][0]["repetitions"]:
                rep["file_bytes"] = int(stored * rep["file_bytes"])

        result = spoil(compress)
        require(result, asked, 10, filesystem("tmpfs"))
        return metrics_of(result, asked)

    found = attempt(0.25)
    assert {*found} == {*asked.metrics}
    assert found["stored_fraction"] == 0.25
    assert physical_rate(found) == found["stable_max"] / 4
    ceiling = found["stable_max"] / 2
    assert by_contract(asked, found, ceiling).kind is Kind.OK
    assert by_contract(asked, found, ceiling / 4).kind is Kind.TOO_FAST
    said = "^there are 10 repetitions of hdf5 whose files are not compressed, and there should be"
    with pytest.raises(InvalidResult, match=said):
        attempt(1)


def test_subfiles_are_as_many_as_were_asked_for(spoil):
    """Of HDF5's file, and not of its control's."""

    def attempt(of_control, of_hdf5):
        def cut(result):
            result["run"]["pattern"] = "subfiling=4"
            for one, count in zip(result["cases"], (of_control, of_hdf5), strict=True):
                observed = {"count": count, "stripe_size": 2**25, "writers": 1}
                one["subfiles"] = count and {"requested": 4, "observed": observed}

        require(spoil(cut), changed(CASE, pattern="subfiling=4"), 10, filesystem("tmpfs"))

    attempt(None, 4)
    assert_refused(
        InvalidResult,
        attempt,
        [
            ((None, 3), "^subfiles of hdf5: 3, where 4 was asked for"),
            ((None, None), "^subfiles of hdf5: 0, where 4 was asked for"),
            ((4, 4), "^there are 4 subfiles of mpiio, and there should be none$"),
        ],
    )


def test_result_is_that_of_the_job(spoil):
    """By the id that the job gave; the clock of another machine may be a little late."""
    began = datetime.fromisoformat("2026-01-31T01:02:03.004Z")

    def attempt(name, run_id, late_s):
        result = spoil(set_run(id=run_id))
        require_of_job(result, name, "beef", began + timedelta(seconds=late_s))

    for given in (
        ("result.json", "beef", -3600),
        ("result.json", "beef", 299),
        ("result.2.json", "beef-2", 0),
        ("result.2.7.json", "beef-2-7", 0),
    ):
        attempt(*given)
    assert_refused(
        InvalidResult,
        attempt,
        [
            (("result.json", "0123", 0), "^result.json is another job's: its run has the id 0123,"),
            (("result.2.json", "beef", 0), "has the id beef, where this one gave beef-2$"),
            (("result.2.7.json", "beef-7-2", 0), "where this one gave beef-2-7$"),
            (
                ("result.json", "beef", 301),
                "^result.json began at 2026-01-31 01:02:03 UTC, before its job was made at "
                "2026-01-31 01:07:04 UTC: look at the clocks of node1$",
            ),
        ],
    )


def test_a_run_has_a_host_for_each_node_that_it_was_to_have():
    """Else what was packed on one node would be on record as of four, or the other way round."""
    require_hosts(["n1"], 1)
    many = [f"n{number}" for number in range(1, 9)]
    require_hosts(many, 8)
    refused = [
        (
            (many[:1], 4),
            r"^it ran on 1 host \(n1\), where 4 nodes were asked for: look in rfm_job",
        ),
        ((many[:2], 1), r"^it ran on 2 hosts \(n1 n2\), where 1 node was asked for: "),
        ((many, 16), r"^it ran on 8 hosts \(n1 n2 n3 n4 \.\.\.\), where 16 nodes were "),
    ]
    assert_refused(InvalidResult, require_hosts, refused)


BUILT = {
    "mpi": "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
    "hdf5": "1.10.8",
    "netcdf": "4.9.0",
    "pnetcdf": None,
}


def test_what_spack_was_asked_for_is_what_answered():
    def attempt(spec, **versions):
        require_built(BUILT | versions, f"benchio@0.1.0+hdf5 {spec} /abcdefg")

    for spec in (
        "^hdf5@1.10.8 ^netcdf-c@4.9.0 ^netcdf-fortran@4.5.4 ^openmpi@4.1.4",
        "^hdf5@1.10 ^openmpi@4.1.4-2 ^cray-mpich@8.1.23 ^netcdf-c@main",
        "",
    ):
        attempt(spec)
    attempt("^mpich@4.0.2", mpi="MPICH Version:\t4.0.2 MPICH Release date: x MPICH ABI: 14:2:2")
    refused = [
        ("^hdf5@1.14.5", "^hdf5: the library says 1.10.8, where Spack was asked for hdf5@1.14.5: "),
        ("^hdf5@1.10.80", "hdf5@1.10.80"),
        ("^netcdf-c@4.9.2", "^netcdf: the library says 4.9.0"),
        ("^parallel-netcdf@1.12.3", "^pnetcdf: the library says not built in"),
        ("^openmpi@5.0.3", "^mpi: the library says Open MPI v4.1.4"),
        ("^mpich@4.1.4", "^mpi: the library says Open MPI v4.1.4"),
    ]
    assert_refused(InvalidResult, attempt, refused)


def test_transfer_that_was_not_collective_is_invalid(spoil):
    """Whether the library says why or not."""
    for observed in ("independent", "mixed", "mixed, dataset layout"):

        def fall_back(result, observed=observed):
            result["cases"][1]["collective"]["observed"] = observed

        with pytest.raises(InvalidResult, match=f"^collective transfer of hdf5: {observed}, where"):
            require(spoil(fall_back), CASE, 10, filesystem("tmpfs"))


def test_law_is_that_of_the_check(spoil):
    """What its parameters are not about is what it fixes."""
    for check, values, run in (
        ("FilePerProcess", {"files": "process"}, {"files": "process"}),
        ("SystemLoad", {"instances": 2}, {"instances": 2}),
    ):
        asked = changed(CASE, check, **values)
        require(spoil(set_run(**run)), asked, 10, filesystem("tmpfs"))
        with pytest.raises(InvalidResult, match=f"^{next(iter(run))}: "):
            require(spoil(), asked, 10, filesystem("tmpfs"))


def test_read_that_may_come_from_a_cache_is_invalid(spoil):
    read = changed(CASE, "SharedFileRead")
    require(
        spoil(lambda result: turn_into_read(result, suspect=False)), read, 10, filesystem("tmpfs")
    )
    suspect = spoil(lambda result: turn_into_read(result, suspect=True))
    with pytest.raises(InvalidResult, match="what mpiio and hdf5 read may have come from a cache"):
        require(suspect, read, 10, filesystem("tmpfs"))
    require(suspect, read, 10, filesystem("tmpfs", cached_reads=True))


def test_sync_that_does_not_reach_storage_is_invalid(spoil):
    def left(fraction):
        def change(result):
            timed(result)[-1]["witness"]["unsynced_fraction"] = fraction

        return spoil(change)

    for fraction in (None, 0.0, 0.01):
        require(left(fraction), CASE, 10, filesystem("tmpfs"))
    with pytest.raises(InvalidResult, match=r"^the page cache still held 25% of what was s"):
        require(left(0.25), CASE, 10, filesystem("tmpfs"))


def test_what_one_run_keeps_and_another_reads(spoil):
    """Nothing that was written is removed; of what is read the layout was asked for by another."""
    case = changed(CASE, "ReadBack", stripe_count=1, stripe_size=1)
    place = filesystem("tmpfs", osts=(0, 1))
    observed = laid_out(1, 2**20, None, [0])
    kept = {"operations": ["write-keep"]}

    def written(result):
        result["run"].update(kept)
        lay_out(asked(1, 2**20), observed)(result)
        for one in result["cases"]:
            for rep in one["repetitions"]:
                del rep["phases"]["unlink"]

    def was_read(result):
        turn_into_read(result, suspect=False)
        result["run"]["operations"] = ["read-existing"]
        lay_out(None, observed)(result)

    require(spoil(written), case, 10, place, operations=["write-keep"])
    require(spoil(was_read), case, 10, place)
    with pytest.raises(InvalidResult, match=r"^operations: \['write-keep'\], where"):
        require(spoil(written), case, 10, place)
    kept["operations"] = ["write"]
    with pytest.raises(InvalidResult, match="10 repetitions of mpiio whose files were kept"):
        require(spoil(written), changed(case, "SharedFileWrite"), 10, place)
    observed = laid_out(2, 2**20, None, [0, 1])
    with pytest.raises(InvalidResult, match=r"^stripe count of mpiio: 2, where 1"):
        require(spoil(was_read), case, 10, place)


def lay_out(requested, observed):
    def change(result):
        for one in result["cases"]:
            one["layout"] = {"requested": requested, "echoed": None, "observed": observed}

    return change


def asked(stripe_count=None, stripe_size=None, pool=None, setstripe=None):
    return {
        "stripe_count": stripe_count,
        "stripe_size": stripe_size,
        "pool": pool,
        "setstripe": setstripe,
    }


LUSTRE = {
    "osts": (0, 1, 2, 3, 4), "pools": {"flash": (1, 2), "one": (3,)},
    "layouts": {"progressive": "-E 64M -c 1 -E -1 -c 4"},
}  # fmt: skip
PFL = [
    {**laid_out(1)["components"][0], "end_byte": 2**26},
    {**laid_out(4, 4 * 2**20, "flash")["components"][0], "first_byte": 2**26},
]


def test_a_layout_is_asked_for_and_observed(spoil):
    lustre, ceph = filesystem("lustre", **LUSTRE), filesystem("ceph", "fuse", **LUSTRE)
    four, every = {"stripe_count": 4, "stripe_size": 1}, {"stripe_count": -1, "stripe_size": 1}
    # What is asked of benchio, what the file has, on which filesystem; and what the law says.
    for parameters, requested, observed, place, said in [
        (four, asked(4, 2**20), laid_out(4), lustre, ""),
        (four, asked(4, 2**20), laid_out(4, pool="flash"), lustre, ""),  # the directory's own
        (four, asked(4, 2**20), laid_out(3), lustre, "stripe count of mpiio: 3, where 4"),
        (four, asked(4, 2**20), laid_out(4, 2**21), lustre, "stripe size of mpiio: 2097152"),
        (four, asked(4, 2**20), None, lustre, "observed layout of mpiio: unknown"),
        (four, asked(2, 2**20), laid_out(4), lustre, r"requested layout .* \{'stripe_count': 2"),
        (four, None, laid_out(4), lustre, r"requested layout .* None, where \{'stripe_count': 4"),
        ({**four, "pool": "flash"}, asked(4, 2**20, "flash"), laid_out(4, pool="x"), lustre,
         "pool of mpiio: x, where flash was asked for"),
        ({**four, "pool": "flash"}, asked(4, 2**20, "flash"), laid_out(4), lustre, "pool of mpiio"),
        # All OSTs: of one there are no two.
        (every, asked(-1, 2**20), laid_out(4), lustre, ""),
        (every, asked(-1, 2**20), laid_out(1), lustre, "stripe count of mpiio: 1, where -1"),
        ({**every, "pool": "one"}, asked(-1, 2**20, "one"), laid_out(1, pool="one"), lustre, ""),
        # How many they are, benchio is told on CephFS.
        (every, asked(5, 2**20), laid_out(5, pool="data"), ceph, ""),
        (every, asked(-1, 2**20), laid_out(5), ceph, "requested layout .*'stripe_count': 5"),
        ({**every, "pool": "flash"}, asked(2, 2**20, "flash"), laid_out(2, pool="flash"), ceph, ""),
        # What is not put in numbers is known at least.
        ({"layout": "default"}, None, laid_out(1, components=PFL), lustre, ""),
        ({"layout": "default"}, None, None, lustre, "observed layout of mpiio: unknown"),
        ({"layout": "default"}, asked(1), laid_out(), lustre, "requested .*, where None was"),
        ({"layout": "progressive"}, asked(setstripe=LUSTRE["layouts"]["progressive"]), laid_out(4),
         lustre, ""),
        ({"layout": "progressive"}, None, laid_out(4), lustre, "requested layout .*None, where"),
        ({}, asked(4, 2**20), laid_out(4), filesystem("tmpfs"), ".*, where None was asked for"),
        ({}, None, laid_out(None, None, said="Chunksize: 512K"), filesystem("tmpfs"), ""),
    ]:  # fmt: skip
        found = spoil(lay_out(requested, observed), filesystem=place.types[0])
        if said:
            with pytest.raises(InvalidResult, match=said):
                require(found, changed(CASE, **parameters), 10, place)
        else:
            require(found, changed(CASE, **parameters), 10, place)


def test_all_osts_that_are_not_all_are_a_note(spoil):
    place, every = filesystem("lustre", **LUSTRE), {"stripe_count": -1, "stripe_size": 1}
    for parameters, observed, said in [
        (every, laid_out(5, osts=[3, 4, 0, 1, 2]), []),
        (every, laid_out(4, osts=[3, 4, 0, 1]), ["striped over 4 of 5 OSTs: OST 2 is missing"]),
        (
            every,
            laid_out(2, osts=[3, 4]),
            ["striped over 2 of 5 OSTs: OSTs 0, 1 and 2 are missing"],
        ),
        (every, laid_out(4), ["striped over 4 of 5 OSTs"]),
        ({**every, "pool": "flash"}, laid_out(2, osts=[2, 1], pool="flash"), []),
        ({**every, "stripe_count": 4}, laid_out(4, osts=[0, 1, 2, 3]), []),
        ({"layout": "default"}, laid_out(1, osts=[0]), []),
    ]:
        result = spoil(lay_out(asked(), observed))
        assert notes(result, changed(CASE, **parameters), place) == said
        assert measured(result, CASE, said).notes == said


SLOW = changed(MPIIO, "SlowOst", stripe_size=1)


def test_each_ost_is_one_stripe_where_it_was_asked_for(spoil):
    lustre = filesystem("lustre", osts=(0, 2, 7))
    ceph = filesystem("ceph", osts=(0, 2, 7), pools={"a": (7,), "b": (0,), "both": (0, 7)})

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

    require(run("027"), SLOW, 3, lustre)
    require(run("ab", is_lustre=False), SLOW, 3, ceph)
    require(run("07"), SLOW, 3, lustre, hung=["2"])
    failed = run("027", fail)
    require(failed, SLOW, 3, lustre)
    assert failed.void == {"2": "rank 1: lgetxattr: /f: is on OST 7"}
    assert {one.target for one in failed.sound} == {"0", "7"}

    def exchange(result):
        result["cases"][1]["layout"]["observed"]["osts"] = [0]

    def mix(result):
        result["cases"][-1]["layout"]["observed"]["pool"] = "both"

    def lose(result):
        del result["cases"][-1]

    def stop(result):
        del result["cases"][2]["repetitions"][-1]

    for found, place, said in [
        (run("027", exchange), lustre, r"OSTs of mpiio: \[0\], where \[2\] was asked for"),
        (run("ab", mix, False), ceph, "pool of mpiio: both, where b was asked for"),
        (run("07"), lustre, r"backends: .*, where|targets: \['0', '7'\], where \['0', '2', '7'\]"),
        (run("022"), lustre, r"targets: \['0', '2', '2'\], where"),
        (run("027", lose), lustre, "^backends: .*, where"),
        (run("027", stop), lustre, "repetitions of mpiio: 2, where 3 was asked for"),
        (run("027", set_run(operations=["write"])), lustre, "operations: "),
    ]:
        with pytest.raises(InvalidResult, match=said):
            require(found, SLOW, 3, place)


def fail(status, **error):
    def change(result):
        result.update(status=status, cases=[], error=error)

    return change


def lose_rate(result):
    del timed(result)[0]["rates"]["total"]


def end_early(result):
    """A time limit leaves complete rounds, and no figure."""
    result["status"] = "time_limit"
    result["error"] = {"rank": 0, "call": "time limit", "path": "/x", "message": "3 of 11 rounds"}


def without_witness(result):
    del timed(result)[0]["witness"]


def without_run_id(result):
    del result["run"]["id"]


def write_without_sync(result):
    del timed(result)[0]["phases"]["sync"]


def write_that_reads(result):
    phases = timed(result)[0]["phases"]
    phases["read"] = phases["write"]


def write_from_a_cache(result):
    result["cases"][0]["cache"] = {
        "other_node_fraction": 0, "page_cache_fraction": 0, "suspect": False,
    }  # fmt: skip


def read_without_cache(result):
    turn_into_read(result, suspect=False)
    result["cases"][0]["cache"] = None


WITHOUT_METRICS = [
    (
        fail("io_error", rank=2, host="n1", call="MPI_File_open", path="/x/y", message="No file"),
        "benchio: io_error: rank 2 on n1: MPI_File_open: /x/y: No file",
    ),
    (
        fail("time_limit", rank=0, call="close", path="", message="60 s"),
        "benchio: time_limit: rank 0: close: 60 s",
    ),
    (end_early, "benchio: time_limit: rank 0: time limit: /x: 3 of 11 rounds"),
    (without_witness, "result.json is not a benchio.result/3: .*'witness' is a required"),
    (without_run_id, "result.json is not a benchio.result/3: run: 'id' is a required"),
    (set_run(id="two words"), "result.json is not a benchio.result/3: run/id: 'two words' does"),
    (lambda r: r.update(status="io_error"), "result.json is not a benchio.result/3"),
    (write_without_sync, "result.json is not a benchio.result/3: .*'sync' is a required"),
    (write_that_reads, "result.json is not a benchio.result/3: .*phases: False schema"),
    (write_from_a_cache, "result.json is not a benchio.result/3: cases/0/cache"),
    (read_without_cache, "result.json is not a benchio.result/3: cases/0/cache"),
    (lose_rate, "result.json is not a benchio.result/3: .*'total' is a required property"),
    (lambda r: timed(r)[0]["rates"].update(total=0), "result.json is not a benchio.result/3"),
    (lambda r: timed(r)[0]["rates"].update(total=None), "result.json is not a benchio"),
    (lambda r: timed(r)[0].update(rates=None), "result.json is not a benchio.result/3"),
    (lambda r: r.update(cases=[]), "result.json is not a benchio.result/3"),
    (lambda r: r.update(schema="benchio.result/1"), "result.json is not a benchio.result/3"),
    (
        lambda r: timed(r)[0]["rates"].update(total=float("nan")),
        "result.json is not readable JSON: NaN is not a number",
    ),
]


def test_result_without_metrics_says_why(spoil):
    assert_refused(InvalidResult, spoil, [(change, f"^{said}") for change, said in WITHOUT_METRICS])


def test_schema_is_read_by_jsonschema_of_before_4_18_too():
    """Which Spack takes to do without Rust: it looks up a relative $id of a schema as a file."""
    schema = json.loads(files("iowatch").joinpath("benchio.result-3.schema.json").read_text())
    with pytest.warns(DeprecationWarning, match="RefResolver"):
        resolver = jsonschema.RefResolver.from_schema(schema)  # all that there was then
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    validator.validate(make_result(["mpiio", "hdf5"]))


def test_number_too_large_for_a_double_is_no_rate_and_no_time(tmp_path):
    result = make_result(["mpiio", "hdf5"])
    path = tmp_path / "result.json"
    close = result["cases"][1]["repetitions"][-1]["phases"]["close"]
    close["file_window"] = "a time"
    text = json.dumps(result).replace('"a time"', "0.25")
    for old, new in (
        ('"total": 8.0', '"total": 1e999'),
        ('"file_window": 0.25', '"file_window": 1e999'),
    ):
        assert old in text, old
        path.write_text(text.replace(old, new))
        with pytest.raises(InvalidResult, match="rate or time that is no number"):
            require(read_result(path), CASE, 10, filesystem("tmpfs"))


def test_text_that_says_two_things_or_nothing_is_no_result(tmp_path):
    text = json.dumps(make_result(["mpiio", "hdf5"]))
    path = tmp_path / "result.json"

    def attempt(old, new):
        path.write_text(text.replace(old, new, 1))
        read_result(path)

    attempt("", "")
    assert_refused(
        InvalidResult,
        attempt,
        [
            (('"status": "ok"', '"status": "io_error", "status": "ok"'), "it has 'status' twice"),
            (('"total": 8.0', '"total": 1.0, "total": 8.0'), "it has 'total' twice in one place"),
            (("2026-01-31T01:02:03.004Z", "2026-02-31T01:02:03.004Z"), "there is no such time$"),
            (("2026-01-31T01:00:02.500Z", "2026-01-31T25:00:02.500Z"), "there is no such time$"),
            (
                ('"halo": 1', f'"halo": {10**400}'),
                "^result.json is not readable JSON: 10+... is no",
            ),
            (('"error": null', f'"error": {"[" * 99999}'), "^result.json is not readable JSON: "),
        ],
    )


def test_what_is_no_result_file_is_refused(tmp_path):
    def attempt(text):
        path = tmp_path / "result.json"
        path.write_bytes(text.encode(errors="surrogateescape"))
        read_result(path)

    wanted = [(text, "^result.json is not") for text in ("", "{", "[]", '"ok"', "\udcff")]
    assert_refused(InvalidResult, attempt, wanted)
    with pytest.raises(InvalidResult, match="No such file"):
        read_result(tmp_path / "missing.json")


def test_result_that_was_compressed_is_read(tmp_path):
    """As those of a month ago are, among the raw results."""
    text = json.dumps(make_result(["mpiio", "hdf5"]))
    (tmp_path / "result.json").write_text(text)
    (tmp_path / "result.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(text.encode())[:-20])
    (tmp_path / "plain.json.gz").write_text(text)
    packed = read_result(tmp_path / "result.json.gz")
    assert packed == read_result(tmp_path / "result.json")
    garbled = bytearray((tmp_path / "result.json.gz").read_bytes())
    garbled[100:200] = bytes(100)
    (tmp_path / "garbled.json.gz").write_bytes(garbled)
    for name in ("cut", "plain", "garbled"):
        with pytest.raises(InvalidResult, match=f"^{name}.json.gz is not readable JSON: "):
            read_result(tmp_path / f"{name}.json.gz")


def test_conditions_are_what_a_reader_compares_between_nights(spoil):
    def change(result):
        result["libraries"].update(mpi="Open MPI v4.1.4", hdf5="1.10.8")
        result["environment"]["OMPI_MCA_io"] = "romio321"
        result["run"]["hosts"] = ["node1", "node2"]
        result["run"]["filesystem"]["free_bytes"] = 3 * 2**40
        measured = result["cases"][1]
        measured["hints"]["echoed"] = {"cb_nodes": "4"}
        measured["collective"]["observed"] = "collective"
        measured["layout"]["observed"] = laid_out(1, components=PFL)
        result["run"]["filesystem"].update(mdt_index=3, mount_type="lustre")
        for rep, part in zip(timed(result), (0.0, 0.5, 0.75), strict=False):
            rep["witness"].update(direct=False, page_cache_fraction=part)

    assert conditions(spoil(change)) == {
        "benchio": "stand-in",
        "compiler": "none",
        "mpi": "Open MPI v4.1.4",
        "hdf5": "1.10.8",
        "variable OMPI_MCA_io": "romio321",
        "hint cb_nodes": "4",
        "layout": "stripes 1 x 1MiB to 64MiB; stripes 4 x 4MiB, pool flash to the end",
        "MDT": "3",
        "mount": "lustre",
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
    beegfs = """\
EntryID: 3-5E2F-1
Metadata node: meta01 [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4; actual: 4
  + 1 @ storage01
"""
    gpfs = "file name: /gpfs/f\nstorage pool name:    x\ncreation time: Sun Nov 22 2026\n"
    for observed, said in [
        (None, None),
        (laid_out(4, osts=[3, 1, 0, 2]), "stripes 4 x 1MiB"),
        (laid_out(2, 3 * 2**16, "flash"), "stripes 2 x 192KiB, pool flash"),
        (laid_out(0, 65536, components=[on_mdt, rest]),
         "on the MDT to 64KiB; stripes all x 1MiB to the end"),
        (laid_out(8, components=[twice]), "stripes 8 x 1MiB overstriped"),
        (laid_out(None, None, components=[], said=beegfs),
         "+ Type: RAID0; + Chunksize: 512K; + Number of storage targets: desired: 4; actual: 4"),
        (laid_out(None, 2**22, components=[], said=gpfs), "blocks of 4MiB; storage pool name: x"),
        (laid_out(None, 2**22, components=[]), "blocks of 4MiB"),
        (laid_out(None, None, components=[]), None),
    ]:  # fmt: skip
        assert conditions(spoil(lay_out(None, observed))).get("layout") == said


def test_what_stood_between_the_witness_and_the_disk_is_said(spoil):
    def said(**witness):
        def change(result):
            for rep in timed(result):
                rep["witness"].update(witness)

        return conditions(spoil(change)).get("witness")

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


def test_every_repetition_has_its_time_of_the_day(spoil):
    (measured,) = spoil(backends=["mpiio"], repeats=2).measurements
    assert [rep.started.isoformat(timespec="milliseconds") for rep in measured.repetitions] == [
        "2026-01-31T01:00:02.500+00:00",
        "2026-01-31T01:00:03.500+00:00",
    ]


# Versions


PRINTED = """\
benchio 0.1.0
mpiio   Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4
hdf5    1.10.8
netcdf  not built in: CMake found no NetCDF-Fortran
pnetcdf  1.12.3
posix   GCC version 12.2.0
"""


def test_versions_are_read_from_what_benchio_prints():
    versions = read_versions(PRINTED)
    assert versions["mpiio"].startswith("Open MPI v4.1.4")
    assert versions["hdf5"] == "1.10.8"
    assert versions["netcdf"].startswith("not built in")
    assert versions["pnetcdf"] == "1.12.3"
    assert set(versions) == {"mpiio", "hdf5", "netcdf", "pnetcdf"}


def test_versions_that_the_paper_found_slow_are_named_on_lustre_only():
    for versions, slow in (
        ({"hdf5": "1.8.13"}, []),
        ({"hdf5": "1.8.14"}, ["hdf5"]),
        ({"hdf5": "1.8.16"}, ["hdf5"]),
        ({"hdf5": "1.10.0"}, ["hdf5"]),
        ({"hdf5": "1.10.0-patch1"}, ["hdf5"]),
        ({"hdf5": "1.10.1"}, []),
        ({"netcdf": "4.3.3.1"}, ["netcdf"]),
        ({"netcdf": "4.4.0"}, []),
        ({"netcdf": "4.4.0", "hdf5": "1.8.16"}, ["hdf5"]),
        ({"netcdf": "4.1.3", "hdf5": "1.8.16"}, ["hdf5", "netcdf"]),
        ({"netcdf": "not built in: CMake found no NetCDF-Fortran"}, []),
        ({}, []),
    ):
        found = known_faults(versions, ["lustre"])
        assert [sentence.split()[0] for sentence in found] == slow, versions
        assert all(versions[sentence.split()[0]] in sentence for sentence in found), versions
        assert known_faults(versions, ["gpfs", "nfs"]) == [], versions
