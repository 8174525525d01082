"""Short names of cases: what all cases of a night share need not be said."""

from __future__ import annotations

from collections.abc import Collection

from iowatch.case import Case, format_size


def short_names(cases: Collection[Case]) -> dict[Case, str]:
    """A name for each of these cases, such as `hdf5 on fs3, stripes -1`; no two are the same."""
    environs, *others = (
        {value(case) for case in cases}
        for value in (lambda c: c.environ, shape, stripes, size, writers)
    )
    names = {}
    for case in cases:
        parts = [f"{case.backend} on {case.partition}"]
        values = shape(case), stripes(case), size(case), writers(case)
        parts += [v for v, all_ in zip(values, others, strict=True) if v and len(all_) > 1]
        names[case] = ", ".join([*parts, case.environ] if len(environs) > 1 else parts)
    return names


def shape(case: Case) -> str:
    """What is written or read: `write shared`, and how many at once."""
    if case.each_ost:
        return "write each OST"
    if case.ior_peer:
        return f"{case.operation} {case.files}, IOR"
    load = "" if case.instances is None else f" x{case.instances}"
    return f"{case.operation} {case.files}{load}"


def stripes(case: Case) -> str:
    """`stripes 4 x 1 MiB`; empty where the filesystem is not striped."""
    if case.stripe_count is None and case.stripe_size is None:
        return ""
    count = "default" if case.stripe_count is None else str(case.stripe_count)
    size_ = "" if case.stripe_size is None else f" x {case.stripe_size} MiB"
    return f"stripes {count}{size_}"


def striping(case: Case) -> str:
    """The same for a column of a table: `all x 1 MiB` is easier to read there than -1."""
    return stripes(case).removeprefix("stripes ").replace("-1", "all") or "-"


def size(case: Case) -> str:
    return f"local {format_size(case.local_size)}"


def writers(case: Case) -> str:
    return f"{case.writers} writer{'' if case.writers == 1 else 's'}"
