"""Suites: the cases that a site measures, and checks of other programs for most sites."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from iowatch.base.files import UserError
from iowatch.base.records import KeyRow, list_of, require_known
from iowatch.cases.case import Case, Check
from iowatch.cases.filesystem import ALL_SUITES, HOURLY, SUITES, Filesystem, Setting, Suite, file_of
from iowatch.cases.parameters import (
    BACKEND,
    DEFAULT,
    LAYOUT,
    MDT,
    NODES,
    POOL,
    RANKS,
    RANKS_PER_NODE,
    STRIPE_COUNT,
    STRIPING,
    Parameter,
)
from iowatch.measure.checks import CHECKS

#: Characters of a case id: it names a folder, with a number after it, and 255 is the most there.
LONGEST_CASE = 240


def read_suites(where: str, place: Filesystem) -> dict[str, Suite]:
    """Read the suites of a filesystem: suite -> check -> parameter -> list of values.

    In place of one mapping of parameters a check may have a list of them, whose cases are measured
    one and all. UserError says what is wrong, and where.
    """
    named = {check.name: check for check in CHECKS.values() if not check.is_everywhere}
    everywhere = {
        name: (Setting.make(check, {}),) for name, check in CHECKS.items() if name not in named
    }
    suites: dict[str, Suite] = {}
    for name, asked in place.suites.items():
        at = f"{where}: suites, {name}"
        known = {check: named[check] for check in named if named[check].by_hour or name != HOURLY}
        require_known(at, asked, known)
        suite = {
            check: _settings(f"{at}, {check}", named[check], given, place)
            for check, given in asked.items()
        }
        suites[name] = suite | (everywhere if suite and name != HOURLY else {})
    return suites


def _settings(at: str, check: Check, given: Any, place: Filesystem) -> tuple[Setting, ...]:
    """Read all settings of one check."""
    if check.by_target and place.osts is None:
        raise UserError(f"{at}: the filesystem is not striped ('osts' is None)")
    products = given if isinstance(given, list) and given else [given]
    settings = [setting for product in products for setting in _product(at, check, product, place)]
    same = [setting.parameters for setting in settings]
    if twice := [parameters for parameters in same if same.count(parameters) > 1]:
        raise UserError(f"{at}: measures the same twice: {check.text_of(twice[0])}")
    return tuple(settings)


def cases(places: Iterable[Filesystem], suite: str) -> set[Case]:
    """Yield every case that a suite asks for on these filesystems."""
    return {case for place in places for case in place.cases(suite)}


def read_filesystem(
    system: str,
    partition: str,
    environs: Iterable[str],
    extras: Mapping[str, Any],
    sources: Iterable[str],
) -> Filesystem:
    """The filesystem of one partition; UserError, naming the file among `sources` to mend."""
    names, file = tuple(environs), file_of(system, sources)
    where = f"{file}, partition {system}:{partition}"
    if not names:
        raise UserError(f"{where}: has no environs")
    where += ", extras"
    place = Filesystem.read(where, extras, system=system, partition=partition, environs=names)
    place = attrs.evolve(place, suites=read_suites(where, place))
    by_target = [s for s in SUITES for name in place.suites[s] if CHECKS[name].by_target]
    if by_target and len(place.targets) < 2:
        kind = place.storage.single_targets
        raise UserError(
            f"{where}: suites compare each OST with the others, and there are no two {kind}: add "
            "them, or take the check out"
        )
    longest = max(
        (str(case) for suite in ALL_SUITES for case in place.cases(suite)), key=len, default=""
    )
    if len(longest) > LONGEST_CASE:
        raise UserError(
            f"{where}: suites has a case whose name is longer than {LONGEST_CASE} characters, "
            f"{longest}: ask for fewer hints"
        )
    return place


def suite_parameters(
    check: Check, is_striped: bool, given: Collection[str] = ()
) -> tuple[list[Parameter], list[Parameter]]:
    """Return the parameters to which a suite that has `given` must give values, and those to which
    it may.

    On a filesystem that is striped it gives stripes, unless it names a layout.
    """
    stripes = {*STRIPING} & {*given} or {STRIPE_COUNT.name}
    layout = stripes if is_striped else set()
    parameters = [
        p for p in check.parameters_with(layout | {MDT.name} & {*given}) if p is not RANKS
    ]
    if RANKS in check.parameters and NODES.name not in check.fixed:
        parameters.append(NODES)
    needed = [p for p in parameters if p.name not in check.defaults]
    optional = [p for p in parameters if p.name in check.defaults]
    optional += [RANKS_PER_NODE] if RANKS in check.parameters else []
    return needed, [*optional, *check.ways]


def table(check: Check) -> list[KeyRow]:
    """List the parameters that a suite may give a check; a layout is for striped filesystems."""
    needed, optional = suite_parameters(check, check.by_target)
    others = [p for p in check.parameters if p.name in (*STRIPING, MDT.name)]
    return [
        KeyRow(
            key=p.name,
            values=p.shape.phrase,
            is_required=p in needed,
            default=""
            if usual is None
            else f"{usual}"
            if usual in (True, False)
            else p.format(usual),
            unit=p.unit,
            about=p.about,
        )
        for p in dict.fromkeys((*needed, *others, *optional))
        for usual in (_usual(check).get(p.name),)
    ]


def _usual(check: Check) -> dict[str, Any]:
    """Return the values of parameters that a suite may leave out."""
    return {**check.defaults, **{way.name: way.default for way in check.ways}}


def _product(at: str, check: Check, given: Any, place: Filesystem) -> list[Setting]:
    """Read all combinations of the values given."""
    if not isinstance(given, Mapping):
        raise UserError(f"{at}: is {given!r}, not a mapping of parameters to lists of values")
    needed, optional = suite_parameters(check, place.osts is not None, given)
    known = {parameter.name: parameter for parameter in (*needed, *optional)}
    if unfit := [name for name in STRIPING if name in given and name not in known]:
        if place.osts is None:
            raise UserError(f"{at}: has {unfit[0]}, and the filesystem is not striped")
        if LAYOUT.name in given:
            raise UserError(f"{at}: has {unfit[0]} beside a layout")
    require_known(at, given, known)
    if missing := [parameter.name for parameter in needed if parameter.name not in given]:
        raise UserError(f"{at}: has no {missing[0]}")
    values: dict[str, tuple[Any, ...]] = {name: (v,) for name, v in _usual(check).items()}
    per_node = check.fixed.get(RANKS_PER_NODE.name, place.ranks_per_node)
    values[RANKS_PER_NODE.name] = (per_node,)
    for name, listed in given.items():
        shape = known[name].shape
        try:
            values[name] = list_of(
                shape, f"a list of values, none twice, each {shape.phrase}"
            ).read(listed)
        except ValueError as err:
            raise UserError(f"{at}: {name} {err}") from None
    for name, names in (
        (BACKEND.name, check.backends),
        (LAYOUT.name, [DEFAULT, *place.layouts]),
        (POOL.name, place.pools),
        (MDT.name, place.mdts),
    ):
        if other := set(values.get(name, ())) - set(names):
            there = ", ".join(map(str, names)) or "none"
            mend = "" if name == BACKEND.name else f": add it to '{name}s'"
            raise UserError(f"{at}: {name} has {min(other)!r}, and there are {there}{mend}")
    combinations = [
        dict(zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    ]
    if why := next(filter(None, map(check.objection, combinations)), ""):
        raise UserError(f"{at}: {why}")
    return [Setting.make(check, combination) for combination in combinations]


# Checks of other programs


# Programs that learn
