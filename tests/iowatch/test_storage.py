"""Types of filesystems, from what real ones have said (tests/data/lustre and cephfs): what a new
site knows of one, and how files get and show their layout."""

import contextlib
import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cases import case as make_case
from cases import changed
from login_node import (
    CEPHFS,
    DATA,
    LUSTRE,
    OSTS_24_OF_49,
    QUOTA,
    STRIPE_OLD,
    answer,
    recorded,
)

from iowatch.cases.storage import CEPH, PLAIN, of_mount
from iowatch.cases.storage import LUSTRE as LUSTRE_TYPE
from iowatch.cases.storage.lustre import parse_layout
from iowatch.cases.storage.plain import parse_quota
from iowatch.cases.storage.striped import Component, Striped
from iowatch.measure.law import Job, require_layouts
from iowatch.measure.result import InvalidResult
from iowatch.site.suites import read_filesystem

MIB = 2**20

#: Default layouts as they were recorded, of which the last three are no plain count.
LAYOUTS = ("all", "c1", "c2", "c4", "def", "off", "pool", "dom", "over", "pfl")


def shown(seen):
    """What was found of a filesystem, and what is said of it."""
    plain = "plain" if seen.is_plain else "not plain"
    facts = [
        f"OSTs {seen.osts}, pools {seen.pools}, MDTs {seen.mdts}",
        f"OSTs can be written to one by one: {seen.has_single_targets}",
        f"default: {seen.description or None} ({plain}) {seen.options}",
    ]
    notes = [f"note: {note}" for note in seen.notes]
    return "\n".join(["", *facts, *notes, *(f"trouble: {why}" for why in seen.troubles)])


def test_every_recorded_default_layout_is_read_whole():
    files = {file.stem for file in (DATA / "lustre").glob("getstripe-dir-*.txt")}
    assert files == {f"getstripe-dir-{name}" for name in LAYOUTS}
    assert parse_layout(recorded("lustre/getstripe-root")[1]) == (Component(count=1, size=4 * MIB),)
    for name in ("getstripe-root-raw", "getstripe-err-nolustre"):
        assert parse_layout(recorded(f"lustre/{name}")[1]) == ()
    assert parse_layout(STRIPE_OLD) == (Component(count=4, size=MIB),)


def test_options_are_given_only_where_they_ask_for_the_same():
    text = recorded("lustre/getstripe-dir-pfl")[1]
    for old, new in (
        ("lcm_mirror_count:  1", "lcm_mirror_count:  2"),
        ("lcme_flags:          0", "lcme_flags:          prefer"),
        ("stripe_offset: -1", "stripe_offset: 3"),
        ("stripe_offset: -1\n\n", "stripe_offset: -1 pool: fast\n\n"),  # the next would inherit it
        ("raid0", "raid0,unheard"),
    ):
        assert old in text
        assert Striped(osts=(0, 1), default=parse_layout(text.replace(old, new, 1))).options == []
    flash = text.replace("stripe_offset: -1", "stripe_offset: -1 pool: fast")
    first, *_ = Striped(osts=(0, 1), default=parse_layout(flash)).options
    assert first == "-E 1M -c 1 -S 1M -p fast"


#: What lfs answers otherwise than usual.
LUSTRES = {
    "four OSTs, two of them in a pool": {},
    "an OST is not active": {"osts": "osts-client-inactive", "df": "df-client-inactive"},
    "an OST is full": {"df": "df-full"},
    "an OST shows no space": {"df": "df-client-inactive"},
    "an OST is not active on the MDT, which a client does not see": {"df": "df-inactive"},
    "half of the OSTs are gone": {"osts": OSTS_24_OF_49},
    "the layout cannot be read": {"getstripe -d": "getstripe-err-nolustre"},
    "the OSTs are those of lfs df": {"osts": "osts-err-nolustre"},
    **{f"layout {name}": {"getstripe -d": f"getstripe-dir-{name}"} for name in LAYOUTS},
}


def test_what_is_found_of_a_lustre(commands, tmp_path, golden):
    commands()
    seen = {"no lfs": LUSTRE_TYPE.look("/lus/z01")}
    for name, answers in LUSTRES.items():
        answer(tmp_path, "lfs", {**LUSTRE, **answers})
        seen[name] = LUSTRE_TYPE.look("/lus/z01")
    commands(lfs="lfs 3.0: see the new manual")
    seen["another lfs"] = LUSTRE_TYPE.look("/lus/z01")
    (tmp_path / "lfs").chmod(0)
    seen["lfs is forbidden"] = LUSTRE_TYPE.look("/lus/z01")
    golden("lustre.txt", "\n\n".join(f"{name}{shown(one)}" for name, one in seen.items()) + "\n")
    assert seen["half of the OSTs are gone"].osts == tuple(range(24, 49)), "their numbers"
    assert seen["an OST is not active"].osts == (0, 2, 3)


def test_mdts_are_named_where_a_user_may_choose_one(commands, tmp_path):
    """Of several Lustre chooses one for each run, and names on different ones are no one case."""
    commands()
    refused = "lfs mkdir: dirstripe error on X stripe 1: Operation not permitted"
    for number, words, mdts in ((1, "", ()), (3, "", (0, 1, 2)), (2, refused, ())):
        answer(tmp_path, "lfs", LUSTRE, number, words)
        seen = LUSTRE_TYPE.look(str(tmp_path))
        assert seen.mdts == mdts
        assert list(tmp_path.glob(".iowatch*")) == []
        said = [note for note in seen.notes if "Lustre chooses one" in note]
        assert len(said) == bool(words)
        assert not said or said[0].partition(refused)[2] == (
            ". Lustre chooses one for each run, and it is on record."
        )
    assert "The names of the files are on MDTs 0, 1." in seen.notes


DEFAULT, ONE = {"layout": ["default"]}, (Component(count=1, size=4 * MIB),)


@pytest.mark.parametrize(
    ("osts", "pools", "default", "expected"),
    [
        # What users get is never measured twice.
        (4, {}, ONE, [{"stripe_count": [-1], "stripe_size": [4]}]),
        (4, {}, (Component(count=-1, size=MIB),), [{"stripe_count": [1], "stripe_size": [1]}]),
        (4, {}, (Component(count=8, size=MIB),), [{"stripe_count": [1], "stripe_size": [1]}]),
        (4, {}, (Component(count=2, size=MIB),), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (1, {}, ONE, []),
        # What is no plain count is made none.
        (4, {}, (), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(count=1, size=MIB, end=MIB), Component(count=-1, size=4 * MIB)),
         [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(count=1, size=65536),), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(count=1, size=MIB, is_whole=False),),
         [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        # All OSTs are those of a pool, where there are several kinds.
        (4, {"flash": (0, 1), "disk": (2, 3)}, ONE,
         [{"pool": ["flash", "disk"], "stripe_count": [1, -1], "stripe_size": [4]}]),
        (4, {"flash": (0,), "disk": (1, 2, 3)}, ONE,
         [{"pool": ["disk"], "stripe_count": [1, -1], "stripe_size": [4]},
          {"pool": ["flash"], "stripe_count": [1], "stripe_size": [4]}]),
        (4, {"all": (0, 1, 2, 3)}, ONE, [{"stripe_count": [-1], "stripe_size": [4]}]),
    ],
)  # fmt: skip
def test_what_is_measured(osts, pools, default, expected):
    seen = Striped(osts=tuple(range(osts)), pools=pools, default=default)
    assert seen.settings([1, -1]) == [DEFAULT, *expected]


# CephFS: ceph is a stand-in that answers from recordings, and so are the attributes.

XATTR = b"stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data"


@pytest.fixture
def ceph(commands, tmp_path, monkeypatch):
    """ceph(answers, attributes): what is found there; by default nobody may ask ceph."""

    def see(answers=None, attributes=None):
        def getxattr(path, name):
            # Of a new file wherever it is; what a directory has is its own alone.
            where = name if name == "ceph.file.layout" else (str(path), name)
            if where not in values:
                raise OSError(errno.ENODATA, "No data available")
            return values[where]

        values = {"ceph.file.layout": XATTR} if attributes is None else attributes
        monkeypatch.setattr(os, "getxattr", getxattr)
        if answers:
            answer(tmp_path, "ceph", {f"--connect-timeout 10 {k}": v for k, v in answers.items()})
        return CEPH.look(str(tmp_path))

    commands()
    return see


#: What ceph answers.
CEPHS = {
    "it may not be asked": None,
    "four OSDs": CEPHFS,
    "an OSD is down": {
        **CEPHFS,
        "osd tree": "osd-tree-down",
        "pg dump pgs_brief": "pgs-brief-down",
    },
    "only the manager knows the pools": {"osd tree": "osd-tree"},
    "it does not answer": {"osd tree": "err-timed-out"},
    "it has no configuration": {"osd tree": "err-no-conf"},
}


def test_what_is_found_of_a_cephfs(ceph, tmp_path, golden):
    seen = {name: ceph(answers) for name, answers in CEPHS.items()}
    assert list(tmp_path.glob(".iowatch*")) == []
    whole = seen["four OSDs"]
    stripes = {"stripe_count": [1, -1], "stripe_size": [4]}
    assert whole.settings([1, -1]) == [DEFAULT, {"pool": ["data", "flash", "disk"], **stripes}]
    seen["no layout"] = ceph(CEPHFS, {})
    text = "\n\n".join(f"{name}{shown(one)}" for name, one in seen.items()) + "\n"
    golden("cephfs.txt", text.replace(str(tmp_path), ""))


# Space


def test_quotas_are_looked_at_beside_the_space(commands, tmp_path, ceph):
    home = Path("/lus/z01")
    assert LUSTRE_TYPE.quota_left(home, "/lus") is None
    answer(tmp_path, "lfs", LUSTRE)
    assert LUSTRE_TYPE.quota_left(home, "/lus") is None, "it has no limit"
    answer(tmp_path, "lfs", {**LUSTRE, "quota": "quota-after1"})
    assert LUSTRE_TYPE.quota_left(home, "/lus") == (6144 - 3076) * 1024
    commands(quota=QUOTA)
    assert of_mount("nfs") is PLAIN
    assert PLAIN.quota_left(Path("/export"), "/export") == 0
    assert parse_quota(QUOTA.replace("80000*", "60000")) == 10_000 * 1024

    limits = {
        (str(tmp_path), "ceph.quota.max_bytes"): b"10000000000",
        (str(tmp_path), "ceph.dir.rbytes"): b"4000000000",
    }
    ceph(attributes=limits)
    for kind in ("ceph", "fuse.ceph-fuse"):
        assert of_mount(kind).quota_left(tmp_path / "a/b", str(tmp_path)) == 6_000_000_000


# The layout of files

IOR = make_case("IorPeer", "s:p/e", backend="mpiio", files="shared", ranks=2)
EXTRAS = {
    "filesystem": "fs", "path": "/fs/x", "peak": 1e5, "cached_reads": False, "keep_days": 60,
    "ranks_per_node": 4, "suites": {"nightly": {}, "acceptance": {}},
}  # fmt: skip


STRIPED = {"osts": [0, 1, 2, 3], "pools": {"fast": [1, 2]}}


def filesystem(kind, **extras):
    return read_filesystem("s", "p", ["e"], {**EXTRAS, "type": kind, **extras}, ["s.py"])


ON_LUSTRE = filesystem("lustre", **STRIPED, layouts={"progressive": "-E 64M -c 1 -E -1 -c 4"})
ON_CEPH = filesystem(["ceph", "fuse"], **STRIPED)


def listed(*names):
    """What `lfs getstripe` says of several files, as it was recorded on a real Lustre."""
    return "".join(recorded(f"lustre/getstripe-file-{name}")[1] for name in names)


def test_layouts_as_a_real_lustre_lists_them():
    kib, mib = 2**10, 2**20
    for name, size, expected in [
        ("c1", mib, (1, mib, "")),
        ("c4", mib, (4, mib, "")),
        ("all", mib, (4, 4 * mib, "")),
        ("pool", mib, (2, 2 * mib, "fast")),
        ("over", mib, (8, mib, "")),
        # Of several components, the one that has most of the file.
        ("pfl", 64 * kib, (1, mib, "")),
        ("pfl", 4 * mib, (2, 2 * mib, "")),
        ("pfl", 64 * mib, (-1, 4 * mib, "")),
        ("dom", 64 * kib, (0, 64 * kib, "")),
        ("dom", mib, (2, mib, "")),
    ]:
        (components,) = LUSTRE_TYPE.layouts(listed(name))
        most = max(components, key=lambda part: part.bytes_of(size))
        assert (most.count, most.size, most.pool) == expected, (name, size)
    assert [*map(len, LUSTRE_TYPE.layouts(listed("c1", "pfl", "pool", "c2")))] == [1, 3, 1, 1]
    assert LUSTRE_TYPE.layouts("") == []


OF_CEPH = """\
# file: /ceph/iowatch.x/ior.0000000{}
ceph.file.layout="stripe_unit=4194304 stripe_count={} object_size=4194304 pool=fast"

"""


def test_the_law_of_the_layout_of_files(tmp_path):
    size = {"local_size": (128, 128, 64), "ranks": 2}  # 16 MiB
    striped = changed(IOR, **size, stripe_count=-1, stripe_size=4)
    pool = {"stripe_count": 2, "stripe_size": 2, "pool": "fast"}
    each = {"files": "process"}
    ceph = {**pool, "stripe_size": 4}
    for case, text, place, said in [
        (striped, listed("all"), ON_LUSTRE, ""),
        (striped, listed("c1"), ON_LUSTRE, "stripe count of IOR's files: 1, where -1"),
        (changed(IOR, **size, **pool), listed("c2"), ON_LUSTRE, "stripe size of IOR's files: "),
        (changed(IOR, **size, **pool, **each), listed("pool", "pool"), ON_LUSTRE, ""),
        (changed(IOR, **size, **pool, **each), listed("pool"), ON_LUSTRE,
         r"the layouts of 1 file are listed, and IOR has written 2: see listing$"),
        (changed(IOR, **size, layout="default"), listed("pfl"), ON_LUSTRE, ""),
        (changed(IOR, **size, **ceph), OF_CEPH.format(0, 2), ON_CEPH, ""),
        (changed(IOR, **size, **ceph, **each), OF_CEPH.format(0, 2) + OF_CEPH.format(1, 4), ON_CEPH,
         "stripe count of IOR's files: 4, where 2 was asked for"),
    ]:  # fmt: skip
        (tmp_path / "listing").write_text(text)
        job = Job(
            folder=tmp_path,
            case=case,
            filesystem=place,
            run_id="id",
            made=datetime.now(UTC),
            nodes=1,
        )
        files, mib = (2, 8) if case.files == "process" else (1, 16)
        refused = pytest.raises(InvalidResult, match=f"^{said}")
        with refused if said else contextlib.nullcontext():
            require_layouts("IOR", job, "listing", files, mib * MIB)


def test_files_of_other_programs_get_the_layout_that_benchios_have():
    stripes = {"stripe_count": -1, "stripe_size": 8}
    for parameters, place, command in [
        (stripes, ON_LUSTRE, "lfs setstripe -c -1 -S 8388608"),
        ({**stripes, "pool": "fast"}, ON_LUSTRE, "lfs setstripe -c -1 -S 8388608 -p fast"),
        ({"layout": "progressive"}, ON_LUSTRE, "lfs setstripe -E 64M -c 1 -E -1 -c 4"),
        ({"layout": "default"}, ON_LUSTRE, None),
        ({"layout": "default"}, ON_CEPH, None),
        ({}, filesystem("gpfs", osts=None), None),
        # An object has a whole number of stripes.
        (stripes, ON_CEPH, 'setfattr -n ceph.dir.layout -v "stripe_unit=8388608 stripe_count=4 '
         'object_size=8388608"'),
        ({**stripes, "stripe_size": 3, "pool": "fast"}, ON_CEPH, "setfattr -n ceph.dir.layout "
         '-v "stripe_unit=3145728 stripe_count=2 object_size=3145728 pool=fast"'),
    ]:  # fmt: skip
        told = [f'{command} "$RUNDIR" || exit 1'] if command else []
        assert place.layout_commands(changed(IOR, **parameters)) == told
    assert ON_LUSTRE.storage.listing("F*") == "lfs getstripe F*"
    assert "-n ceph.file.layout F*" in ON_CEPH.storage.listing("F*")
