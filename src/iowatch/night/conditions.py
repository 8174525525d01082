"""What a run met with, beside an earlier one: versions, hints, layout, hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_HOSTS_NAMED = 8


@dataclass(frozen=True)
class Change:
    """A condition that is not what it was; empty: was not there."""

    name: str
    before: str
    now: str


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """The conditions that differ; of hosts, those that are others."""
    return [
        _of_hosts(before.get(name, ""), now.get(name, ""))
        if name == "hosts"
        else Change(name, before.get(name, ""), now.get(name, ""))
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]


def _of_hosts(before: str, now: str) -> Change:
    old, new = before.split(), now.split()
    gone = [host for host in old if host not in new]
    come = [host for host in new if host not in old]
    return Change("hosts", _some(gone), _some(come))


def _some(hosts: Sequence[str]) -> str:
    rest = len(hosts) - _HOSTS_NAMED
    return " ".join(hosts[:_HOSTS_NAMED]) + (f" and {rest} more" if rest > 0 else "")
