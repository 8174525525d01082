"""The environments of ReFrame's configuration that run what Spack has built."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iowatch.base.bounded import decoded, regular_text
from iowatch.base.commands import run
from iowatch.base.files import UserError
from iowatch.site.site import BENCHIO, SPACK

#: Parts that names of environments are made of first, as far as they tell them apart.
FIRST = ("hdf5", "netcdf-c", "parallel-netcdf", "adios2")


@dataclass(frozen=True)
class Built:
    """A benchio of a concrete Spack environment."""

    key: str  # Spack's hash
    version: str
    variants: str  # such as `+hdf5~netcdf`
    linked: Mapping[str, str]  # version of each package, by its name

    def __str__(self) -> str:
        """In one line: version, variants, what it is linked to, hash."""
        linked = (f"^{name}@{version}" for name, version in self.linked.items())
        return " ".join([f"benchio@{self.version}{self.variants}", *linked, f"/{self.key[:7]}"])


def read_lock(text: str) -> list[Built]:
    """Return every benchio that is a root of a spack.lock, in order; ValueError if it is none."""
    built = []
    try:
        lock = decoded(text)
        specs = lock["concrete_specs"]
        for key in dict.fromkeys(root["hash"] for root in lock["roots"]):
            if (spec := specs[key])["name"] != "benchio":
                continue
            needed = [
                specs[dependency["hash"]]
                for dependency in spec.get("dependencies", ())
                if "link" in dependency["parameters"]["deptypes"]
            ]
            switches = spec["parameters"].items()
            variants = (f"{'+' if v else '~'}{name}" for name, v in switches if isinstance(v, bool))
            linked = dict(sorted((other["name"], other["version"]) for other in needed))
            built.append(Built(key, spec["version"], "".join(variants), linked))
        return built
    except (KeyError, TypeError) as err:
        raise ValueError(f"is no spack.lock that is known here: {err!r}") from None


def environs(environment: str, system: str) -> str:
    """Python for a system's ReFrame configuration: an environment for each benchio installed in
    this Spack environment, and a comment on each that is not. UserError."""
    lock = Path(_ask(environment, "location", "--env"), "spack.lock")
    try:
        built = read_lock(regular_text(lock))
    except FileNotFoundError:
        raise UserError(f"{lock} is missing: spack -e {environment} install") from None
    except (OSError, ValueError) as err:
        raise UserError(f"{lock}: {err}") from None
    if not built:
        raise UserError(
            f"{lock}: no benchio is among its specs: add some to spack.yaml, such as "
            "benchio ^hdf5@1.10.11"
        )
    listed = _ask(environment, "find", "--format", "{hash} {prefix}", "benchio").splitlines()
    prefixes = dict(line.split(maxsplit=1) for line in listed)
    installed = [program for program in built if program.key in prefixes]
    if not installed:
        raise UserError(f"{lock}: none of it is installed: spack -e {environment} install")
    chosen = names(installed)
    lines = [
        f'# For "environs" of a partition of {system} that is to compare them: '
        + ", ".join(map(json.dumps, chosen)),
        *(
            f"# not installed, and left out: {program}"
            for program in built
            if program not in installed
        ),
    ]
    for name, program in zip(chosen, installed, strict=True):
        extras = {BENCHIO: f"{prefixes[program.key]}/bin/benchio", SPACK: str(program)}
        entry = {"name": name, "target_systems": [system], "extras": extras}
        lines.append(f"{json.dumps(entry, indent=4)},")
    return "\n".join(lines)


def _ask(environment: str, *words: str) -> str:
    """Return what Spack prints of an environment. UserError, with Spack's own error."""
    spack = shutil.which("spack")
    if spack is None:
        raise UserError("no spack on PATH: source its setup-env.sh")
    answer = run(spack, "-e", environment, *words, timeout_s=None)
    if answer.trouble:
        lines = f"{answer.text}\n{answer.errors}".splitlines()
        why = next((line for line in lines if "Error:" in line), answer.trouble)
        raise UserError(f"--from-spack {environment}: {why.removeprefix('==> ')}")
    return answer.text.strip()


def names(built: Sequence[Built]) -> list[str]:
    """A name for each, of what it is linked to: `hdf5-1-10-0`. ReFrame allows no dot in a name."""
    packages = sorted({name for program in built for name in program.linked})
    told: list[tuple[str, ...]] = [()] * len(built)
    for name in [*FIRST, *(name for name in packages if name not in FIRST)]:
        versions = [program.linked.get(name) for program in built]
        tells = len(set(zip(told, versions, strict=True))) > len(set(told))
        if tells or (name == FIRST[0] and None not in versions):
            told = [
                (*words, f"{name}-{version}" if version else f"no-{name}")
                for words, version in zip(told, versions, strict=True)
            ]
    if len(set(told)) < len(built):  # they differ in something else, such as a variant
        told = [(*words, program.key[:7]) for words, program in zip(told, built, strict=True)]
    return [re.sub("[^A-Za-z0-9]+", "-", "-".join(words)) for words in told]
