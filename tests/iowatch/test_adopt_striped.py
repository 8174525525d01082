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

# Of each recorded default layout, what is said of it, and the options that ask for the same.
LAYOUTS = {
    "def": ("1 OST in stripes of 4 MiB", []),
    "c1": ("1 OST in stripes of 1 MiB", []),
    "c2": ("2 OSTs in stripes of 1 MiB", []),
    "c4": ("4 OSTs in stripes of 1 MiB", []),
    "all": ("all OSTs in stripes of 4 MiB", []),
    "pool": ("2 OSTs of pool fast in stripes of 2 MiB", []),
    "off": ("1 OST in stripes of 4 MiB (`lfs getstripe -d` shows more)", []),
    "over": ("8 stripes of 1 MiB, several on one OST", ["-C 8 -S 1M"]),
    "pfl": (
        "up to 1 MiB 1 OST in stripes of 1 MiB; up to 16 MiB 2 OSTs in stripes of 2 MiB; then all "
        "OSTs in stripes of 4 MiB",
        ["-E 1M -c 1 -S 1M", "-E 16M -c 2 -S 2M", "-E -1 -c -1 -S 4M"],
    ),
    "dom": (
        "up to 64 KiB the MDT; then 2 OSTs in stripes of 1 MiB",
        ["-E 64K -L mdt", "-E -1 -c 2 -S 1M"],
    ),
}


def test_every_recorded_default_layout_is_read_whole():
    files = {file.stem for file in (DATA / "lustre").glob("getstripe-dir-*.txt")}
    assert files == {f"getstripe-dir-{name}" for name in LAYOUTS}
    for name, expected in LAYOUTS.items():
        default = striped.parse_layout(recorded(f"lustre/getstripe-dir-{name}")[1])
        seen = Striped((0, 1, 2, 3), default=default)
        assert (seen.description, seen.options) == expected, name
        assert seen.is_plain == (name not in ("over", "pfl", "dom")), name
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


@pytest.fixture
def look(commands, tmp_path):
    """look(osts="osts-client-inactive"): what is found where lfs gives the recorded answers."""

    def see(**answers):
        answer(tmp_path, "lfs", {**LUSTRE, **answers})
        return striped.look_at_lustre("/lus/z01")

    commands()
    return see


def test_osts_are_those_in_use_and_the_others_are_named(look):
    seen = look()
    assert (seen.osts, seen.pools, seen.troubles) == ((0, 1, 2, 3), {"fast": (1, 2)}, ())
    assert seen.has_single_targets
    assert "The names of the files are on MDT 0." in seen.notes
    assert "In no pool: OSTs 0, 3." in seen.notes
    (hidden,) = [note for note in seen.notes if "MDTs make no new files" in note]
    assert hidden.startswith("Confirm: ")
    # With that at 0, `active` stays 1.
    assert "osp.*.max_create_count" in hidden

    seen = look(osts="osts-client-inactive", df="df-client-inactive")
    assert (seen.osts, seen.pools) == ((0, 2, 3), {"fast": (2,)})
    assert seen.notes[0] == "Left out, because not active on this client: OST 1."

    seen = look(df="df-full")
    assert seen.osts == (0, 1, 2, 3)
    assert "Full, but in the list, so that each night says so: OST 3." in seen.notes
    seen = look(df="df-client-inactive")
    assert "Active, but `lfs df` shows no space: OST 1; confirm." in seen.notes
    assert look(df="df-inactive") == look()  # by the MDT: a client does not see it

    seen = look(osts=OSTS_24_OF_49)
    assert seen.osts == tuple(range(24, 49)), "their numbers, and not how many there are"
    assert seen.notes[0] == "Left out, because not active on this client: OSTs 0 to 23."


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


def test_lfs_that_is_missing_forbidden_or_of_another_version(look, tmp_path, commands):
    """One sentence each, and what else there is counts."""
    seen = striped.look_at_lustre("/lus/z01")
    assert seen == Striped(troubles=("lfs is not on PATH",))
    seen = look(**{"getstripe -d": "getstripe-err-nolustre"})
    assert seen.osts == (0, 1, 2, 3)
    assert seen.troubles == (
        "`lfs getstripe -d /lus/z01` failed: lfs: getstripe for '/tmp' failed: Inappropriate ioctl "
        "for device",
    )
    seen = look(osts="osts-err-nolustre")
    assert seen.osts == (0, 1, 2, 3), "of lfs df"
    assert seen.troubles == ("`lfs osts /lus/z01` names no OSTs: it says nothing",)
    commands(lfs="lfs 3.0: see the new manual")
    seen = striped.look_at_lustre("/lus/z01")
    assert (seen.osts, seen.default) == ((), ())
    said = "it says 'lfs 3.0: see the new manual', as no version that is known here"
    assert seen.troubles == (
        f"`lfs osts /lus/z01` names no OSTs: {said}",
        f"`lfs getstripe -d /lus/z01` gives no default layout: {said}",
    )
    (tmp_path / "lfs").chmod(0)
    seen = striped.look_at_lustre("/lus/z01")
    assert seen.troubles == ("lfs cannot be run: Permission denied",)


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


def test_cephfs_that_can_be_asked(ceph, tmp_path):
    seen = ceph(CEPHFS)
    one = {f"ost{number}": (number,) for number in range(4)}
    assert seen.pools == {"data": (0, 1, 2, 3), "flash": (0, 1), "disk": (2, 3), **one}
    rights = "Confirm: to set layouts, a client needs the capability `allow rwp`."
    assert (seen.osts, seen.troubles, seen.notes) == ((0, 1, 2, 3), (), (rights,))
    assert seen.description == "1 OST of pool data in stripes of 4 MiB"
    assert seen.has_single_targets
    stripes = {"stripe_count": [1, -1], "stripe_size": [4]}
    assert seen.settings([1, -1]) == [DEFAULT, {"pool": ["data", "flash", "disk"], **stripes}]

    seen = ceph({**CEPHFS, "osd tree": "osd-tree-down", "pg dump pgs_brief": "pgs-brief-down"})
    assert (seen.osts, seen.pools["disk"], "ost3" in seen.pools) == ((0, 1, 2), (2,), False)
    assert seen.notes == (
        "Left out, because not active (down or out): OST 3.",
        rights,
        "Left out: pool ost3, of which no OST is in use.",
    )
    seen = ceph({"osd tree": "osd-tree"})  # and nothing else: its pools are the manager's to know
    assert (seen.osts, seen.pools, seen.has_single_targets) == ((0, 1, 2, 3), {}, False)
    assert "Confirm: these are all OSDs of the cluster, whosoever they are." in seen.notes
    assert seen.troubles[0].startswith("the pools are not known: `ceph")
    assert list(tmp_path.glob(".iowatch*")) == []


def test_cephfs_that_cannot_be_asked(ceph):
    more = "; no stripe counts are measured without them"
    assert ceph().troubles == (f"ceph is not on PATH{more}",)
    for name, why in (
        ("err-timed-out", "timed out"),
        ("err-no-conf", "Error initializing cluster client: ObjectNotFound('RADOS object not found "
         "(error calling conf_read_file)')"),
    ):  # fmt: skip
        seen = ceph({"osd tree": name})
        assert (seen.osts, seen.default) == ((), (Component(1, 4 * MIB, pool="data"),))
        assert seen.troubles == (
            f"`ceph --connect-timeout 10 osd tree --format json` failed: {why}{more}",
        )
    seen = ceph(CEPHFS, {})
    assert seen.default == ()
    assert seen.troubles[0].endswith("cannot be read: No data available")


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
