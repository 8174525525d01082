"""Case ids, and the checks that cases are of."""

import re

from cases import case, changed
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import assert_refused

from iowatch.cases.case import short_names
from iowatch.cases.parameters import SIZE, format_bytes, format_size, parse_size
from iowatch.measure.case_ids import known_case, parse_case, table_order
from iowatch.measure.checks import CHECKS, METRICS, metric
from iowatch.measure.kinds.slow_ost import OST

STRIPES = {"stripe_count": -1, "stripe_size": 1}
WRITE = case(local_size=(128, 128, 256))
USERS = case(
    collective=False,
    collective_metadata=False,
    flush=True,
    transfer=65536,
    chunk=(8, 8, 4),
    hints=(("cb_nodes", "4"), ("romio_cb_write", "enable")),
)
NAMES = case("MdtestPeer", items=100, files="shared", io500="hard")

COUNTS = st.integers(1, 10**6)
WORDS = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
SIZES = st.tuples(COUNTS, COUNTS, COUNTS)
SHARED = ("IorPeer", "IorPeerRead", "Metadata", "MdtestPeer")
VALUES = {
    "backend": st.sampled_from(["mpiio", "hdf5", "netcdf", "pnetcdf", "posix"]),
    "layout": WORDS,
    "stripe_count": COUNTS | st.just(-1),
    "stripe_size": COUNTS,
    "pool": WORDS,
    "local_size": SIZES,
    "ranks": COUNTS,
    "files": st.sampled_from(["process", "node", "gather", "2", "16"]),
    "instances": COUNTS,
    "items": COUNTS,
    "sample": st.integers(1, 2**27 - 1).map(lambda elements: 8 * elements),
    "per_file": COUNTS,
    "seconds": st.integers(1, 600),
    "mdt": st.integers(0, 100),
    "collective": st.just(False),
    "collective_metadata": st.just(False),
    "flush": st.just(True),
    "transfer": st.integers(1, 2**27 - 1).map(lambda elements: 8 * elements),
    "chunk": SIZES,
    "hints": st.dictionaries(WORDS, WORDS, min_size=1).map(lambda it: tuple(sorted(it.items()))),
    "pattern": st.sampled_from(["strided", "random:variables=4", "steps=8:deflate=4:quantize=3"]),
    "io500": st.sampled_from(["easy", "hard"]),
}


@st.composite
def any_case(draw):
    """A case of any check, as a site may have it."""
    check = draw(st.sampled_from([*CHECKS.values()]))
    of_stripes = ("layout", "stripe_count", "stripe_size", "pool")
    layouts = [(), of_stripes[:1], of_stripes[1:3], of_stripes[1:]]
    layout = ("stripe_size",) if check.by_target else draw(st.sampled_from(layouts))
    names = [p.name for p in check.parameters if p.name not in (*of_stripes, "mdt")]
    names += [p.name for p in check.parameters if p.name in layout]
    names += [way.name for way in check.ways if draw(st.booleans())]
    if any(p.name == "mdt" for p in check.parameters) and draw(st.booleans()):
        names.append("mdt")
    values = {name: draw(VALUES[name]) for name in names}
    if "files" in values and check.name in SHARED:
        values["files"] = draw(st.sampled_from(["shared", "process"]))
    return case(check.name, f"{draw(WORDS)}:{draw(WORDS)}/{draw(WORDS)}", **values)


@given(any_case())
def test_the_string_form_of_a_case_comes_back_and_matches_only_itself(of):
    text = str(of)
    assert parse_case(text) == of == known_case(text)
    assert hash(parse_case(text)) == hash(of)
    assert "|" not in text, "the perflog's delimiter"
    assert re.fullmatch(text, text), "a reference file has it as a pattern"


EDITS = ["", "0", "=", "/", "x", "-1", "04", "yes", "none", " ", "\n", "|", "ranks=4", "blocks"]


@given(any_case(), st.data())
def test_an_edit_of_a_string_form_is_refused_or_is_another_string_form(of, data):
    text = str(of)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 3, len(text))))
    words = re.findall(r"/\w+=[^/]+", text) + EDITS
    edited = text[:start] + data.draw(st.sampled_from(words)) + text[end:]
    parsed = known_case(edited)
    assert parsed is None or str(parsed) == edited


def test_string_forms_have_the_order_of_the_check():
    """Reference files, baselines and performance logs have them: no case gets another."""
    place = "local:tmpfs/gnu"
    tail = "local_size=64x64x64/ranks=4"
    for of, text in [
        (case("SharedFileRead", **STRIPES), f"backend=hdf5/stripe_count=-1/stripe_size=1/{tail}"),
        (case(layout="default"), f"backend=hdf5/layout=default/{tail}"),
        (case("IorPeer", files="shared", pool="a", **STRIPES),
         f"backend=hdf5/stripe_count=-1/stripe_size=1/pool=a/{tail}/files=shared"),
        (case("SystemLoad", instances=2), f"backend=hdf5/{tail}/instances=2"),
        (case("SlowOst", stripe_size=1), f"stripe_size=1/{tail}"),
        (case("Metadata", items=9, files="shared", mdt=0), "items=9/ranks=4/files=shared/mdt=0"),
        (NAMES, "items=100/ranks=4/files=shared/io500=hard"),
        (case("LibraryVersions"), ""),
        (USERS, f"backend=hdf5/{tail}/collective=no/collective_metadata=no/flush=yes/transfer=64KiB"
         "/chunk=8x8x4/hints=cb_nodes=4:romio_cb_write=enable"),
        (case(pattern="steps=8:variables=4"), f"backend=hdf5/{tail}/pattern=steps=8:variables=4"),
    ]:  # fmt: skip
        assert str(of) == "/".join(filter(None, [place, of.check.name, text]))


LOAD = str(case("SystemLoad", instances=2))
NO_CASES = {
    # The form that ids had once.
    "local:tmpfs/gnu/write/shared/hdf5/count=none/size=none/local=8x8x8/ranks=4": "",
    f"{WRITE}\n": "",
    str(WRITE).replace("/SharedFileWrite", ""): "",
    str(WRITE).replace("FileWrite", "FileWrit"): ": there is no check SharedFileWrit$",
    str(WRITE).replace("=4", "=0"): ": ranks is 0, not a positive whole number$",
    str(WRITE).replace("=4", "=4.0"): ": ranks is '4.0', not a positive",
    str(WRITE).replace("=hdf5", "=stream"): ": backend is 'stream', not mpiio, hdf5,",
    str(WRITE).replace("/ranks=4", ""): ": it has no ranks$",
    str(WRITE).replace("/local", "/stripe_count=1/local"): ": it has no stripe_size$",
    str(WRITE).replace("/local", "/pool=flash/local"): ": it has no stripe_count$",
    LOAD.replace("instances=2", "instances=0"): ": instances is 0, not a positive whole number$",
    LOAD.replace("SystemLoad", "IorPeer"): ": it has no files$",
    # A way of writing has one name, and none where it is benchio's own.
    f"{WRITE}/collective=yes": f": its form is {WRITE}$",
    f"{WRITE}/hints=none": f": its form is {WRITE}$",
    f"{WRITE}/hints=b=1:a=2": f": its form is {WRITE}/hints=a=2:b=1$",
    f"{WRITE}/hints=a": ": hints is {'a': ''}, not a mapping such as ",
    f"{WRITE}/flush=True": ": flush is 'True', not true or false$",
    f"{WRITE}/chunk=8x8": ": chunk is '8x8', not a size such as 128",
    f"{WRITE}/transfer=2GiB": ": transfer is '2GiB', not a multiple of 8 bytes up to 1GiB",
    f"{WRITE}/pattern=strided:random": ".*: random is strided as well: name one$",
    f"{WRITE}/pattern=steps=2:subfiling=2": ".*: HDF5 reads no chunks from subfiles: ",
    f"{WRITE}/pattern=quantize=3": ".*: quantize needs deflate=LEVEL: what is",
    **dict.fromkeys(
        (f"{WRITE}/pattern={one}" for one in ("steps", "steps=1", "strided=2", "subfiling=513")),
        ": pattern is .*, not blocks or a pattern of",
    ),
}


def test_what_is_no_case_is_refused():
    wanted = (
        (text, f"^not a case: {re.escape(repr(text))}{why}") for text, why in NO_CASES.items()
    )
    assert_refused(ValueError, parse_case, wanted)
    assert {known_case(text) for text in NO_CASES} == {None}


@given(SIZES, COUNTS)
def test_sizes_come_back(size, edge):
    assert parse_size(format_size(size)) == size
    assert parse_size(edge) == parse_size(str(edge)) == (edge, edge, edge)
    of = case(transfer=8 * edge)
    assert str(of).endswith(f"/transfer={format_bytes(8 * edge)}")
    assert parse_case(str(of)).transfer == 8 * edge


def test_what_is_no_size_is_refused():
    wrong = ("0", "-1", "1x2", "1x2x3x4", "1x0x2", "a", "", "1\n", 0, True, 1.5)
    assert_refused(ValueError, SIZE.read, ((one, "^is .*, not a size such as") for one in wrong))


def test_a_case_says_what_its_check_fixes_and_what_its_job_runs():
    stripes = {"stripe_size": 4, "local_size": (8, 8, 8), "ranks": 24}
    slow = case("SlowOst", "s:p/e", **stripes)
    assert (slow.backend, slow.files, slow.stripe_count, slow.stripe_size) == (
        "mpiio", "shared", 1, 4,
    )  # fmt: skip
    versions = case("LibraryVersions")
    assert (versions.backend, versions.files, versions.ranks, versions.size) == ("", "", 0, "")
    assert (WRITE.operation, case("SharedFileRead").operation) == ("write", "read")
    assert (WRITE.stripe_count, WRITE.stripe_size, WRITE.instances) == (None, None, None)
    assert case("SystemLoad", instances=2).instances == 2
    # MPI-IO comes first, as the control of the others; IOR needs none.
    assert WRITE.backends == ["mpiio", "hdf5"]
    assert changed(WRITE, backend="mpiio").backends == ["mpiio"]
    assert case("IorPeer", files="shared").backends == ["hdf5"]


BLOCKS = "--files shared --local-size 64x64x64"


def test_command_lines():
    shared = "IorPeer", {"files": "shared"}
    for (check, values), line in [
        # Its layout is the site's.
        (("SharedFileWrite", STRIPES), f"--backend mpiio,hdf5 --operation write {BLOCKS}"),
        (("SharedFileRead", {}), f"--backend mpiio,hdf5 --operation read {BLOCKS}"),
        (("FilePerProcess", {"files": "2"}), "--files 2 --local-size 64x64x64"),
        (("SystemLoad", {"instances": 2}), f"{BLOCKS} --instances 2"),
        (("SlowOst", {"stripe_size": 4}),
         f"--backend mpiio --operation write,read {BLOCKS} --targets $TARGETS"),
        # Contiguous blocks, as IOR has them.
        (shared, f"--backend hdf5 --operation write {BLOCKS} --halo 0 --grid 1x1x4"),
        (("IorPeerRead", {"files": "process"}), "--local-size 64x64x64 --halo 0"),
        (("Metadata", {"items": 10, "files": "shared"}),
         "--operation metadata --items 10 --files shared"),
        (("SampleReads", {"items": 10, "sample": 112640, "per_file": 64}),
         "--operation samples --items 10 --sample 110KiB --per-file 64"),
        (("EnvironmentStart", {"items": 10}), "--operation startup --items 10"),
        (("Checkpoint", {"items": 2, "sample": 2**26}),
         "--operation checkpoint --items 2 --sample 64MiB"),
        (("Latency", {"seconds": 120, "mdt": 1}),
         "--operation latency --seconds 120 --mdt-index 1"),
        (("IoProfile", {}), " --warmup 0"),  # every write counts
        (("SharedFileWrite", dict(USERS.parameters)),
         "--collective no --collective-metadata no --flush --transfer 64KiB --chunk 8x8x4 "
         "--hint cb_nodes=4 --hint romio_cb_write=enable"),
        (("SharedFileWrite", {"pattern": "subfiling=4"}),
         " --subfiles 4 --halo 0 --grid 1x1x4"),
        (("SharedFileWrite", {"pattern": "random:subfiling=4"}),
         " --order random --subfiles 4 --halo 0"),
        # What is compressed has no control, which would write other bytes.
        (("SharedFileWrite", {"backend": "netcdf", "pattern": "steps=2:deflate=4"}),
         f"--backend netcdf --operation write {BLOCKS} --steps 2 --deflate 4"),
    ]:  # fmt: skip
        of = case(check, **values)
        assert " ".join(of.check.command_line(of)).endswith(line), line


def test_names_say_what_differs_and_no_more():
    mpiio = case("SharedFileWrite", "s:fs3/e", backend="mpiio", **STRIPES)
    hdf5, four = changed(mpiio, backend="hdf5"), changed(mpiio, stripe_count=4)
    for cases, names in [
        ([hdf5], ["hdf5 on fs3"]),
        ([mpiio, hdf5, four], ["mpiio on fs3, stripes -1 x 1 MiB", "hdf5 on fs3, stripes -1 x 1 "
                               "MiB", "mpiio on fs3, stripes 4 x 1 MiB"]),
        ([hdf5, changed(hdf5, place="s:fs3/cray")], ["hdf5 on fs3, e", "hdf5 on fs3, cray"]),
        # One that is as benchio has it is told from one that is not.
        ([WRITE, changed(WRITE, flush=True)],
         ["hdf5 on tmpfs", "hdf5 on tmpfs, a flush before close"]),
    ]:  # fmt: skip
        assert [*short_names(cases).values()] == names
    assert (WRITE.shape, NAMES.shape) == ("write shared", "metadata shared, mdtest")
    assert (WRITE.way, USERS.way) == (
        "",
        "independent transfers, independent metadata, a flush before close, pieces of 64KiB, "
        "chunks of 8x8x4, hints cb_nodes=4, romio_cb_write=enable",
    )
    for of, stripes, striping in [
        (four, "stripes 4 x 1 MiB", "4 x 1 MiB"),
        (mpiio, "stripes -1 x 1 MiB", "all x 1 MiB"),
        (changed(mpiio, pool="flash"), "stripes -1 x 1 MiB, pool flash", "all x 1 MiB, flash"),
        (WRITE, "", "-"),
        (changed(WRITE, layout="default"), "default layout", "default"),
        (changed(WRITE, layout="progressive"), "layout progressive", "progressive"),
    ]:
        assert (of.stripes, of.striping) == (stripes, striping)
    # A backend is next to its control, and small before large.
    large, read = changed(mpiio, ranks=96), changed(mpiio, "SharedFileRead")
    ordered = sorted([read, large, mpiio, hdf5], key=table_order)
    assert ordered == [hdf5, mpiio, large, read]


@given(st.lists(any_case(), min_size=2, max_size=4, unique=True))
def test_cases_that_differ_have_other_names(cases):
    here = [changed(of, place="local:tmpfs/gnu") for of in cases]
    assume(len(set(here)) == len(cases))
    assert len(set(short_names(here).values())) == len(cases)


# What checks declare


def test_what_a_check_declares_fits_together():
    for name, check in CHECKS.items():
        names = [parameter.name for parameter in (*check.parameters, *check.ways)]
        shown = re.findall(r"\{(\w+)\}", check.short)
        assert check.name == name
        assert len(set(names)) == len(names), name
        assert not set(names) & set(check.fixed), name
        assert check.by_target <= ("stripe_size" in names), name
        for some, every in (
            (check.metrics, METRICS),
            (check.bounds or (), check.metrics),
            (check.defaults, names),
            (shown, {*names, *check.fixed}),
        ):
            assert set(some) <= set(every), name


def test_metrics_have_units():
    assert {one.unit for one in METRICS.values()} == {"MiB/s", "1/s", "s", "1"}
    assert {metric(f"{prefix}17").unit for prefix in OST.values()} == {"MiB/s"}
    for name, one in METRICS.items():
        assert (one.unit == "s") == name.endswith("_s"), name
        assert one.lower_is_better == (name.endswith(("_s", "_fraction")) or name == "drift"), name
