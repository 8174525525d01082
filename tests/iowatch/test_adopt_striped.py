"""What a new site knows of a striped filesystem, from what real ones have said: tests/data/lustre
and tests/data/cephfs."""

import errno
import os
from pathlib import Path

import pytest
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

from iowatch.adopt import mounts, striped
from iowatch.adopt.mounts import Mount
from iowatch.adopt.striped import Component, Striped

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
    assert striped.parse_layout(recorded("lustre/getstripe-root")[1]) == (Component(1, 4 * MIB),)
    for name in ("getstripe-root-raw", "getstripe-err-nolustre"):
        assert striped.parse_layout(recorded(f"lustre/{name}")[1]) == ()
    assert striped.parse_layout(STRIPE_OLD) == (Component(4, MIB),)


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
        assert (
            Striped((0, 1), default=striped.parse_layout(text.replace(old, new, 1))).options == []
        )
    flash = text.replace("stripe_offset: -1", "stripe_offset: -1 pool: fast")
    first, *_ = Striped((0, 1), default=striped.parse_layout(flash)).options
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
    seen = {"no lfs": striped.look_at_lustre("/lus/z01")}
    for name, answers in LUSTRES.items():
        answer(tmp_path, "lfs", {**LUSTRE, **answers})
        seen[name] = striped.look_at_lustre("/lus/z01")
    commands(lfs="lfs 3.0: see the new manual")
    seen["another lfs"] = striped.look_at_lustre("/lus/z01")
    (tmp_path / "lfs").chmod(0)
    seen["lfs is forbidden"] = striped.look_at_lustre("/lus/z01")
    golden("lustre.txt", "\n\n".join(f"{name}{shown(one)}" for name, one in seen.items()) + "\n")
    assert seen["half of the OSTs are gone"].osts == tuple(range(24, 49)), "their numbers"
    assert seen["an OST is not active"].osts == (0, 2, 3)


def test_mdts_are_named_where_a_user_may_choose_one(commands, tmp_path):
    """Of several Lustre chooses one for each run, and names on different ones are no one case."""
    commands()
    refused = "lfs mkdir: dirstripe error on X stripe 1: Operation not permitted"
    for number, words, mdts in ((1, "", ()), (3, "", (0, 1, 2)), (2, refused, ())):
        answer(tmp_path, "lfs", LUSTRE, number, words)
        seen = striped.look_at_lustre(str(tmp_path))
        assert seen.mdts == mdts
        assert list(tmp_path.glob(".iowatch*")) == []
        said = [note for note in seen.notes if "Lustre chooses one" in note]
        assert len(said) == bool(words)
        assert not said or said[0].partition(refused)[2] == (
            ". Lustre chooses one for each run, and it is on record."
        )
    assert "The names of the files are on MDTs 0, 1." in seen.notes


DEFAULT, ONE = {"layout": ["default"]}, (Component(1, 4 * MIB),)


@pytest.mark.parametrize(
    ("osts", "pools", "default", "expected"),
    [
        # What users get is never measured twice.
        (4, {}, ONE, [{"stripe_count": [-1], "stripe_size": [4]}]),
        (4, {}, (Component(-1, MIB),), [{"stripe_count": [1], "stripe_size": [1]}]),
        (4, {}, (Component(8, MIB),), [{"stripe_count": [1], "stripe_size": [1]}]),
        (4, {}, (Component(2, MIB),), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (1, {}, ONE, []),
        # What is no plain count is made none.
        (4, {}, (), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(1, MIB, end=MIB), Component(-1, 4 * MIB)),
         [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(1, 65536),), [{"stripe_count": [1, -1], "stripe_size": [1]}]),
        (4, {}, (Component(1, MIB, is_whole=False),),
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
    seen = Striped(tuple(range(osts)), pools, default)
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
        return striped.look_at_ceph(str(tmp_path))

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
    lustre = Mount("/lus", "lustre", "1@tcp:/lus")
    assert mounts.quota_left(Path("/lus/z01"), lustre) is None
    answer(tmp_path, "lfs", LUSTRE)
    assert mounts.quota_left(Path("/lus/z01"), lustre) is None, "it has no limit"
    answer(tmp_path, "lfs", {**LUSTRE, "quota": "quota-after1"})
    assert mounts.quota_left(Path("/lus/z01"), lustre) == (6144 - 3076) * 1024
    commands(quota=QUOTA)
    assert mounts.quota_left(Path("/export"), Mount("/export", "nfs", "server:/export")) == 0
    assert mounts.parse_quota(QUOTA.replace("80000*", "60000")) == 10_000 * 1024

    own = {
        (str(tmp_path), "ceph.quota.max_bytes"): b"10000000000",
        (str(tmp_path), "ceph.dir.rbytes"): b"4000000000",
    }
    ceph(attributes=own)
    below = tmp_path / "a/b"
    for kind in ("ceph", "fuse.ceph-fuse"):
        assert mounts.quota_left(below, Mount(str(tmp_path), kind, "")) == 6_000_000_000
