"""Case ids, and the checks that cases are of."""

import re

from cases import case, changed
from refusals import assert_refused

from iowatch.case import Case, known_case, short_names
from iowatch.checks import CHECKS, METRICS, OST, format_size, is_of_ost, metric, parse_size

STRIPES = {"stripe_count": -1, "stripe_size": 1}
WRITE = case(local_size=(128, 128, 256))
EVERY = {
    "local:tmpfs/gnu/SharedFileWrite/backend=hdf5/local_size=128x128x256/writers=4": WRITE,
    "archer:fs-3/cray/SharedFileRead/backend=mpiio/stripe_count=-1/stripe_size=4"
    "/local_size=8x8x8/writers=3072": case(
        "SharedFileRead",
        "archer:fs-3/cray",
        backend="mpiio",
        stripe_count=-1,
        stripe_size=4,
        local_size=(8, 8, 8),
        writers=3072,
    ),
    "local:tmpfs/gnu/FilePerProcess/backend=posix/local_size=64x64x64/writers=4/files=process": (
        case("FilePerProcess", backend="posix", files="process")
    ),
    "local:tmpfs/gnu/FilePerProcessRead/backend=hdf5/local_size=64x64x64/writers=4/files=2": case(
        "FilePerProcessRead", files="2"
    ),
    "local:tmpfs/gnu/SystemLoad/backend=hdf5/local_size=64x64x64/writers=4/instances=2": case(
        "SystemLoad", instances=2
    ),
    "local:fs3/gnu/SlowOst/stripe_size=1/local_size=64x64x64/writers=4": case(
        "SlowOst", "local:fs3/gnu", stripe_size=1
    ),
    "local:tmpfs/gnu/MdtestPeer/items=100/writers=4/files=shared/io500=hard": case(
        "MdtestPeer", items=100, files="shared", io500="hard"
    ),
    "local:fs3/gnu/IorPeer/backend=hdf5/stripe_count=-1/stripe_size=1/local_size=64x64x64/writers=4"
    "/files=shared": case("IorPeer", "local:fs3/gnu", files="shared", **STRIPES),
    "local:tmpfs/gnu/IorPeerRead/backend=hdf5/local_size=64x64x64/writers=4/files=process": case(
        "IorPeerRead", files="process"
    ),
    "local:fs3/gnu/SharedFileWrite/backend=hdf5/layout=default/local_size=64x64x64/writers=4": case(
        "SharedFileWrite", "local:fs3/gnu", layout="default"
    ),
    "local:fs3/gnu/FilePerProcess/backend=hdf5/stripe_count=-1/stripe_size=1/pool=flash"
    "/local_size=64x64x64/writers=4/files=2": case(
        "FilePerProcess", "local:fs3/gnu", pool="flash", files="2", **STRIPES
    ),
    "local:tmpfs/gnu/ReadBack/backend=hdf5/local_size=64x64x64/writers=4": case("ReadBack"),
    "local:tmpfs/gnu/IoProfile/backend=hdf5/local_size=64x64x64/writers=4": case("IoProfile"),
    "local:tmpfs/gnu/GromacsTrajectory/writers=4": case("GromacsTrajectory"),
    "local:fs3/gnu/Cp2kRestart/stripe_count=-1/stripe_size=1/writers=4": case(
        "Cp2kRestart", "local:fs3/gnu", **STRIPES
    ),
    "local:tmpfs/gnu/MeepState/writers=4": case("MeepState"),
    "local:tmpfs/gnu/LibraryVersions": case("LibraryVersions"),
    "local:tmpfs/gnu/Metadata/items=100/writers=4/files=process": case(
        "Metadata", items=100, files="process"
    ),
    "local:fs3/gnu/Metadata/items=100/writers=4/files=shared/mdt=0": case(
        "Metadata", "local:fs3/gnu", items=100, files="shared", mdt=0
    ),
    "local:tmpfs/gnu/SharedFileWrite/backend=hdf5/local_size=64x64x64/writers=4/collective=no"
    "/collective_metadata=no/flush=yes/transfer=64KiB/chunk=8x8x4"
    "/hints=cb_nodes=4:romio_cb_write=enable": case(
        collective=False,
        collective_metadata=False,
        flush=True,
        transfer=65536,
        chunk=(8, 8, 4),
        hints=(("cb_nodes", "4"), ("romio_cb_write", "enable")),
    ),
    "local:tmpfs/gnu/SharedFileWrite/backend=netcdf/local_size=64x64x64/writers=4"
    "/pattern=steps=8:variables=4:deflate=4:quantize=3": case(
        backend="netcdf", pattern="steps=8:variables=4:deflate=4:quantize=3"
    ),
    "local:tmpfs/gnu/FilePerProcessRead/backend=hdf5/local_size=64x64x64/writers=4/files=2"
    "/transfer=1000": case("FilePerProcessRead", files="2", transfer=1000),
}


def test_every_check_has_a_string_form_that_comes_back_and_matches_only_itself():
    assert {one.check for one in EVERY.values()} == set(CHECKS.values())
    for text, one in EVERY.items():
        assert str(one) == text
        assert Case.parse(text) == one == known_case(text)
        assert hash(Case.parse(text)) == hash(one)
        assert "|" not in text, "the perflog's delimiter"
        assert [other for other in EVERY if re.fullmatch(text, other)] == [text]
    assert len(set(EVERY.values())) == len(EVERY)


LOAD = "local:tmpfs/gnu/SystemLoad/backend=hdf5/local_size=64x64x64/writers=4/instances=2"


NO_CASES = {
    "": "",
    "local:tmpfs/gnu": "",
    # The form that ids had once.
    "local:tmpfs/gnu/write/shared/hdf5/count=none/size=none/local=8x8x8/writers=4": "",
    f"{WRITE}\n": "",
    f"x {WRITE}": "",
    str(WRITE).replace("local:tmpfs", "local|tmpfs"): "",
    str(WRITE).replace("/SharedFileWrite", ""): "",
    str(WRITE).replace("FileWrite", "FileWrit"): ": there is no check SharedFileWrit$",
    str(WRITE).replace("=4", "=0"): ": a value of it is not a positive integer: 0",
    str(WRITE).replace("=4", "=4.0"): ": a value of it invalid literal",
    str(WRITE).replace("=4", "=04"): f": its form is {WRITE}$",
    str(WRITE).replace("=hdf5", "=stream"): ": a value of it is not mpiio, hdf5,",
    str(WRITE).replace("128x128x256", "128"): ": its form is local:tmpfs/gnu/.*=128x128x128",
    str(WRITE).replace("/writers=4", ""): ": it has no writers$",
    f"{WRITE}/writers=4": f": its form is {WRITE}$",
    f"{WRITE}/instances=1": f": its form is {WRITE}$",
    str(WRITE).replace("/local", "/stripe_count=1/local"): ": it has no stripe_size$",
    str(WRITE).replace("/local", "/stripe_count=0/stripe_size=1/local"): ": a value of it is not",
    str(WRITE).replace("/local", "/pool=flash/local"): ": it has no stripe_count$",
    str(WRITE).replace("/local", "/layout=a+b/local"): "$",
    str(WRITE).replace("/local", "/layout=default/stripe_count=1/stripe_size=1/local"): (
        ": its form is .*/layout=default/local"
    ),
    LOAD.replace("backend=hdf5/local_size=64x64x64", "local_size=64x64x64/backend=hdf5"): "",
    LOAD.replace("instances=2", "instances=0"): ": a value of it is not a positive integer: 0",
    LOAD.replace("/instances=2", ""): ": it has no instances$",
    LOAD.replace("SystemLoad", "IorPeer"): ": it has no files$",
    # A way of writing has one name, and none where it is benchio's own.
    f"{WRITE}/collective=yes": f": its form is {WRITE}$",
    f"{WRITE}/chunk=none": f": its form is {WRITE}$",
    f"{WRITE}/hints=none": f": its form is {WRITE}$",
    f"{WRITE}/transfer=1024KiB": f": its form is {WRITE}/transfer=1MiB$",
    f"{WRITE}/transfer=1GiB": f": its form is {WRITE}$",
    f"{WRITE}/hints=b=1:a=2": f": its form is {WRITE}/hints=a=2:b=1$",
    f"{WRITE}/hints=a=2:a=2": f": its form is {WRITE}/hints=a=2$",
    f"{WRITE}/hints=a": ": a value of it has a hint that is no text of letters, digits,",
    f"{WRITE}/hints=a=1=2": ": a value of it has a hint that is no text of letters, digits,",
    f"{WRITE}/flush=True": ": a value of it is neither yes nor no: 'True'$",
    f"{WRITE}/chunk=8x8": ": a value of it is not a size such as 128",
    f"{WRITE}/transfer=2GiB": ": a value of it is not a multiple of 8 bytes up to 1GiB",
    f"{WRITE}/pattern=blocks": f": its form is {WRITE}$",
    f"{WRITE}/pattern=variables=2:steps=4": f": its form is {WRITE}/pattern=steps=4:variables=2$",
    f"{WRITE}/pattern=steps": ": a value of it is neither blocks nor a pattern of strided or rand",
    f"{WRITE}/pattern=steps=1": ": a value of it is neither blocks nor a pattern of",
    f"{WRITE}/pattern=steps=2:steps=4": ": a value of it is neither blocks nor a pattern of",
    f"{WRITE}/pattern=strided=2": ": a value of it is neither blocks nor a pattern of",
    f"{WRITE}/pattern=strided:random": ": a value of it is strided and random, and random is",
    f"{WRITE}/pattern=subfiling=513": ": a value of it is neither blocks nor a pattern of",
    f"{WRITE}/pattern=steps=2:subfiling=2": ": a value of it has subfiling with steps or deflate: ",
    f"{WRITE}/pattern=quantize=3": ": a value of it quantizes without deflate=LEVEL: what is",
    f"{WRITE}/flush=yes/collective=no": f": its form is {WRITE}/collective=no/flush=yes$",
    f"{LOAD.replace('SystemLoad', 'SharedFileRead').replace('/instances=2', '')}/flush=yes": (
        ": its form is .*/writers=4$"
    ),
}


def test_what_is_no_case_is_refused():
    wanted = (
        (text, f"^not a case: {re.escape(repr(text))}{why}") for text, why in NO_CASES.items()
    )
    assert_refused(ValueError, Case.parse, wanted)
    assert {known_case(text) for text in NO_CASES} == {None}


def test_sizes():
    assert format_size(parse_size(64)) == format_size(parse_size("64")) == "64x64x64"
    assert parse_size("1x2x3") == (1, 2, 3)
    wrong = ("0", "-1", "1x2", "1x2x3x4", "1x0x2", "a", "", "1\n", 0, True, 1.5)
    assert_refused(ValueError, parse_size, ((size, "^is not a size such as") for size in wrong))


def test_a_case_says_what_its_check_fixes_and_what_its_job_runs():
    stripes = {"stripe_size": 4, "local_size": (8, 8, 8), "writers": 24}
    slow = case("SlowOst", "s:p/e", **stripes)
    assert (slow.backend, slow.files, slow.stripe_count, slow.stripe_size) == (
        "mpiio", "shared", 1, 4,
    )  # fmt: skip
    versions = case("LibraryVersions")
    assert (versions.backend, versions.files, versions.writers, versions.size) == ("", "", 0, "")
    assert (WRITE.operation, case("SharedFileRead").operation) == ("write", "read")
    assert (WRITE.stripe_count, WRITE.stripe_size, WRITE.instances) == (None, None, None)
    assert case("SystemLoad", instances=2).instances == 2
    # MPI-IO comes first, as the control of the others; IOR needs none.
    assert WRITE.backends == ["mpiio", "hdf5"]
    assert changed(WRITE, backend="mpiio").backends == ["mpiio"]
    assert case("IorPeer", files="shared").backends == ["hdf5"]


def test_command_lines():
    def options(check, **values):
        one = case(check, **values)
        return " ".join(one.check.command_line(one))

    stripes = {"stripe_count": -1, "stripe_size": 4}
    assert options("SharedFileWrite", **stripes) == (
        "--backend mpiio,hdf5 --operation write --files shared --local-size 64x64x64"
    ), "its layout is the site's"
    assert options("SharedFileRead") == (
        "--backend mpiio,hdf5 --operation read --files shared --local-size 64x64x64"
    )
    assert " --files 2 " in options("FilePerProcess", files="2")
    assert options("SystemLoad", instances=2).endswith(" --instances 2")
    assert options("SlowOst", stripe_size=4) == (
        "--backend mpiio --operation write,read --files shared --local-size 64x64x64 "
        "--targets $TARGETS"
    )
    # Contiguous blocks, as IOR has them.
    assert options("IorPeer", files="shared").startswith("--backend hdf5 --operation write ")
    assert options("IorPeer", files="shared").endswith(" --halo 0 --grid 1x1x4")
    assert "--grid" not in options("IorPeerRead", files="process")
    names = options("MdtestPeer", items=10, files="shared", io500="hard")
    assert names == "--operation metadata --files shared --items 10"
    assert options("IoProfile").endswith(" --warmup 0"), "every write counts"
    (users,) = (one for text, one in EVERY.items() if "/hints=" in text)
    assert " ".join(users.check.command_line(users)) == (
        "--backend mpiio,hdf5 --operation write --files shared --local-size 64x64x64 "
        "--collective no --collective-metadata no --flush --transfer 64KiB --chunk 8x8x4 "
        "--hint cb_nodes=4 --hint romio_cb_write=enable"
    )
    # What is compressed has no control, which would write other bytes.
    assert options("SharedFileWrite", backend="hdf5", pattern="subfiling=4").endswith(
        " --pattern subfiling=4 --halo 0 --grid 1x1x4"
    )
    assert options("SharedFileWrite", backend="hdf5", pattern="random:subfiling=4").endswith(
        " --pattern random,subfiling=4 --halo 0"
    )
    assert options("SharedFileWrite", backend="netcdf", pattern="steps=2:deflate=4") == (
        "--backend netcdf --operation write --files shared --local-size 64x64x64 "
        "--pattern steps=2,deflate=4"
    )


def test_names_and_their_order():
    cases = [
        case("SharedFileWrite", "s:fs3/e", backend=backend, stripe_count=count, stripe_size=1)
        for backend in ("mpiio", "hdf5")
        for count in (4, -1)
    ]
    assert list(short_names(cases).values()) == [
        "mpiio on fs3, stripes 4 x 1 MiB", "mpiio on fs3, stripes -1 x 1 MiB",
        "hdf5 on fs3, stripes 4 x 1 MiB", "hdf5 on fs3, stripes -1 x 1 MiB",
    ]  # fmt: skip
    # All of them in one: names are still told apart.
    assert len(set(short_names(EVERY.values()).values())) == len(EVERY)
    assert [one.shape for one in EVERY.values()] == [
        "write shared", "read shared", "write process", "read 2", "write shared x2",
        "each OST", "names shared, mdtest", "write shared, IOR", "read process, IOR",
            "write shared", "write 2",
        "read back", "profile shared", "trajectory", "restart and density", "state of fields",
        "versions", "names process", "names shared", "write shared", "write shared", "read 2",
    ]  # fmt: skip
    assert [one.way for one in EVERY.values()][-4:] == [
        "",
        "independent transfers, independent metadata, a flush before close, pieces of 64KiB, "
        "chunks of 8x8x4, hints cb_nodes=4, romio_cb_write=enable",
        "pattern steps=8, variables=4, deflate=4, quantize=3",
        "pieces of 1000",
    ]
    # One that is as benchio has it is told from one that is not.
    assert [*short_names([WRITE, changed(WRITE, flush=True)]).values()] == [
        "hdf5 on tmpfs", "hdf5 on tmpfs, a flush before close",
    ]  # fmt: skip
    laid = [changed(WRITE, layout="default"), changed(WRITE, layout="progressive")]
    laid += [changed(cases[1], pool="flash")]
    assert [(one.stripes, one.striping) for one in (cases[0], cases[1], WRITE, *laid)] == [
        ("stripes 4 x 1 MiB", "4 x 1 MiB"),
        ("stripes -1 x 1 MiB", "all x 1 MiB"),
        ("", "-"),
        ("default layout", "default"),
        ("layout progressive", "progressive"),
        ("stripes -1 x 1 MiB, pool flash", "all x 1 MiB, flash"),
    ]
    # A backend is next to its control, and small before large.
    large = changed(cases[0], writers=96)
    read = changed(cases[0], "SharedFileRead")
    assert sorted([read, large, *cases[::2]], key=lambda one: one.order) == [
        cases[2], cases[0], large, read,
    ]  # fmt: skip


# What checks declare


def test_what_a_check_declares_fits_together():
    for name, check in CHECKS.items():
        assert check.name == name
        assert set(check.metrics) <= set(METRICS), name
        assert set(check.bounds or ()) <= set(check.metrics), name
        names = [parameter.name for parameter in (*check.parameters, *check.ways)]
        assert len(set(names)) == len(names), name
        assert not set(names) & set(check.fixed), name
        assert set(check.defaults) <= set(names), name
        assert check.needs_stripes <= ("stripe_size" in names), name
        shown = re.findall(r"\{(\w+)\}", check.short)
        assert set(shown) <= {*names, *check.fixed}, name


def test_metrics_have_units():
    assert {one.unit for one in METRICS.values()} == {"MiB/s", "1/s", "s", "1"}
    assert {metric(f"{prefix}17").unit for prefix in OST.values()} == {"MiB/s"}
    names = ["ost_0", "ost_17", "ost_read_3", "ost_ratio", "ost_read_ratio", "ost_", "ost_1x"]
    assert [is_of_ost(name) for name in names] == [True] * 3 + [False] * 4
    for name, one in METRICS.items():
        assert (one.unit == "s") == name.endswith("_s"), name
        assert one.lower_is_better == (name.endswith(("_s", "_fraction")) or name == "drift"), name
