"""Lustre, which is asked through `lfs`.

Functions of the text alone read the output of `lfs`, so that output of other machines can test
them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from iowatch.base.commands import run
from iowatch.base.text import numbers_in_words
from iowatch.cases.storage.plain import Plain, parse_quota
from iowatch.cases.storage.striped import ON_MDT, RAID0, Component, Striped, inactive, pools_in_use


class Lustre(Plain):
    """Lustre: an OST is addressed by its number, and a layout may have a name in a site's file."""

    name = "lustre"
    mounts = ("lustre",)
    keys = ("layouts", "mdts")
    single_targets = "OSTs in osts"
    is_numbered = True
    ask_quotas = """\
    local project
    project=$(timeout 60 lfs project -d "$1" | awk '{print $1; exit}')
    for who in "user $(id -u)" "group $(stat -c %g "$1")" "project ${project:-0}"; do
        [ "$who" = "project 0" ] ||
            timeout 60 lfs quota -q "-${who:0:1}" "${who#* }" "$1" | left "$who"
    done"""

    def targets(self, osts: Sequence[int], pools: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the OSTs by their numbers."""
        return {str(ost): ost for ost in osts}

    def set_layout(self, named: str, count: int | None, size: int, pool: str) -> str:
        """Return a command of `lfs setstripe`."""
        return f"lfs setstripe {named or f'-c {count} -S {size}' + (f' -p {pool}' if pool else '')}"

    def listing(self, files: str) -> str:
        """Return a command of `lfs getstripe`."""
        return f"lfs getstripe {files}"

    def layouts(self, listing: str) -> list[tuple[Component, ...]]:
        """Read what `lfs getstripe` lists of files: the path of each begins a line."""
        files = re.split(r"^(?=\S)(?!lmm_|lcme?_)", listing, flags=re.MULTILINE)
        return [parse_layout(text) for text in files if text.strip()]

    def quota_left(self, directory: Path, mount: str) -> int | None:
        """Return what the quotas of user, group and project leave."""
        texts = [run("lfs", "quota", str(directory))]  # the user's and the group's
        project = re.match(r"\s*([1-9]\d*) ", run("lfs", "project", "-d", str(directory)).text)
        if project:
            texts.append(run("lfs", "quota", "-p", project[1], str(directory)))
        left = [parse_quota(answer.text) for answer in texts if not answer.trouble]
        return min((number for number in left if number is not None), default=None)

    def look(self, directory: str) -> Striped:
        """Ask `lfs` for the OSTs, pools and MDTs, and for the layout that users get."""
        listed, df = run("lfs", "osts", directory), run("lfs", "df", directory)
        states, space = parse_targets(listed.text), parse_df(df.text)
        troubles = []
        if not states:
            troubles.append(listed.why("names no OSTs"))
        active = tuple(sorted(n for n, (_, is_up) in states.items() if is_up) or sorted(space))
        names = {name: number for number, (name, _) in states.items()}
        notes = inactive(states, "on this client") + _full(active, space)
        if active:
            notes.append(
                "Confirm: an OST on which the MDTs make no new files is still in the list, for "
                "that shows to nobody but root, and there: 0 of lctl get_param "
                "osp.*.max_create_count osp.*.active."
            )
        pools = {}
        if fsname := next((name.rpartition("-OST")[0] for name in names if "-OST" in name), ""):
            of_all = run("lfs", "pool_list", fsname)
            if of_all.trouble:
                troubles.append(of_all.why("names no pools"))
            for pool in parse_pools(of_all.text, fsname):
                within = run("lfs", "pool_list", f"{fsname}.{pool}").text
                pools[pool] = tuple(sorted(names[ost] for ost in within.split() if ost in names))
        layout = run("lfs", "getstripe", "-d", directory)
        if not (default := parse_layout(layout.text)):
            troubles.append(layout.why("gives no default layout"))
        seen = parse_targets(run("lfs", "mdts", directory).text)
        mdts = tuple(n for n, (name, is_active) in seen.items() if is_active and "-MDT" in name)
        if mdts:
            notes.append(f"The names of the files are on {numbers_in_words('MDT', mdts)}.")
        if len(mdts) > 1 and (why := _why_no_mdt(directory, mdts)):
            notes.append(
                "Confirm: Metadata measures MDTs one by one only where users may choose one, and "
                f"here {why}. Lustre chooses one for each run, and it is on record."
            )
            mdts = ()
        in_use, more = pools_in_use(pools, active)
        return Striped(
            osts=active,
            pools=in_use,
            default=default,
            mdts=mdts if len(mdts) > 1 else (),
            notes=(*notes, *more),
            troubles=tuple(dict.fromkeys(troubles)),
        )


def _why_no_mdt(directory: str, mdts: Iterable[int]) -> str:
    """Say why this user cannot make a directory on each of these MDTs; empty: they can."""
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".iowatch-") as folder:
            tried = [run("lfs", "mkdir", "-i", f"{n}", f"{folder}/{n}") for n in mdts]
    except OSError as err:
        return f"no directory can be made in {directory}: {err.strerror}"
    return next((made.trouble for made in tried if made.trouble), "")


def parse_targets(text: str) -> dict[int, tuple[str, bool]]:
    """Read the name of each target in what `lfs osts PATH` says, or `lfs mdts PATH`, and whether it
    is active on this client."""
    rows = re.findall(r"^\s*(\d+): (\S+) ([A-Z]+)\b", text, re.M)
    return {int(number): (name, state == "ACTIVE") for number, name, state in rows}


def parse_df(text: str) -> dict[int, tuple[int, bool]]:
    """Read the KiB free on each OST that `lfs df PATH` lists, and whether it is full."""
    rows = re.findall(r"\s(\d+)\s+(\d+)%\s+\S.*\[OST:(\d+)\]", text)
    return {int(number): (int(free), used == "100") for free, used, number in rows}


def parse_pools(text: str, fsname: str) -> list[str]:
    """Read the pools that `lfs pool_list FSNAME` lists."""
    return re.findall(rf"^{re.escape(fsname)}\.([\w-]+)\s*$", text, re.M)


#: A field of a layout without what some forms put before its name, and its value, if it has one.
_FIELD = re.compile(r"(?:lmm_|lcme_)?(?:extent\.e_)?(\w+):[^\S\n]*((?!\w+:)\S*)")


def parse_layout(text: str) -> tuple[Component, ...]:
    """Read what `lfs getstripe` says of one file, or with -d of a directory; empty: no layout."""
    head, *composite = text.split("lcme_id:")
    mirrors = re.search(r"lcm_mirror_count:\s*(\d+)", head)
    is_mirrored = mirrors is not None and int(mirrors[1]) > 1
    components = []
    for part in composite or [head]:
        fields = dict(_FIELD.findall(part))
        if "stripe_count" not in fields or fields.get("stripe_size", "0") == "0":
            continue
        count, pattern = int(fields["stripe_count"]), fields.get("pattern", "")
        pattern = RAID0 if pattern in ("", "0", "1") else pattern  # as it was before Lustre 2.10
        end = fields.get("end", "EOF")
        components.append(
            Component(
                count=count if count < 0xFFFF else -1,
                size=int(fields["stripe_size"]),
                pattern=pattern,
                pool=fields.get("pool", ""),
                start=int(fields.get("start", "0")),
                end=None if end == "EOF" else int(end),
                is_whole=not is_mirrored
                and (pattern == ON_MDT or fields.get("stripe_offset", "-1") == "-1")
                and fields.get("flags", "0") in ("0", "init"),
            )
        )
    return tuple(components)


def _full(active: Collection[int], space: Mapping[int, tuple[int, bool]]) -> list[str]:
    notes = []
    if full := [n for n in active if n in space and space[n][1]]:
        of_full = numbers_in_words("OST", full)
        notes.append(f"Full, but in the list, so that each night says so: {of_full}.")
    if silent := [n for n in active if space and n not in space]:
        of_silent = numbers_in_words("OST", silent)
        notes.append(f"Active, but `lfs df` shows no space: {of_silent}; confirm.")
    return notes
