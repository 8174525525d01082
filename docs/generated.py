"""Reference pages that the code writes: the directive `generated` of a page names a function here.

Each function returns Markdown. A name that is declared has its meaning in the comment `#:` at it.
"""

import ast
import inspect
import json
import re
import tomllib
from importlib import import_module

import attrs
import typer
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from iowatch.adopt.mounts import STATFS
from iowatch.base import records
from iowatch.base.commands import run
from iowatch.base.places import BUILT_BENCHIO, CHECKS_FOLDER, ROOT
from iowatch.cases import verdict
from iowatch.cases.filesystem import Filesystem
from iowatch.cases.storage import of_types
from iowatch.cli import app as command_line
from iowatch.evidence import contract, terms
from iowatch.evidence.criteria.criterion import KINDS, Criterion
from iowatch.measure import context
from iowatch.measure.checks import CHECKS, METRICS
from iowatch.pages import export
from iowatch.site import suites
from iowatch.site.declared import Event, ExpectedFailure, Maintenance, UserOutput
from iowatch.site.references import ReferenceEntry

SOURCES = ROOT / "src/iowatch"
RUNBOOK = "../howto/runbook.md"


class Generated(SphinxDirective):
    """The Markdown that a function of this module returns, with its headings."""

    required_arguments = 1

    def run(self):
        self.env.note_reread()  # the code may have changed
        text = globals()[self.arguments[0]]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app):
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True}


# Markdown


def table(heads, rows):
    """Make a table of cells of Markdown under these heads."""
    heads = [head[:1].upper() + head[1:] for head in heads]
    lines = [heads, ["---"] * len(heads), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


def code(*words):
    """List literal words."""
    return ", ".join(f"`{word}`" for word in words)


def meanings(module, kind=""):
    """Read the comments `#:` of the names of a module, or of a class in it."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {name: " ".join(lines).strip() for (of, name), lines in found.items() if of == kind}


# The house


def packages():
    """List the packages by their floors, the lowest first, as the contract of imports has them."""
    house = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = reversed(house["contracts"][0]["layers"])
    return table(
        ("floor", "package", "responsible for", "face, and what it may not know"),
        (
            (floor, code(f"{name}/"), first, " ".join(rest.split()))
            for floor, names in enumerate(floors, start=1)
            for name in sorted(names.split(" | "))
            for first, _, rest in [import_module(f"iowatch.{name}").__doc__.partition("\n\n")]
        ),
    )


# Commands


def cli():
    """List every command with its help, arguments, options and defaults."""
    return "".join(
        f"## {name}\n\n{command.help}\n\n{_parameters(command)}\n\n"
        for name, command in _commands()
    )


def exit_codes():
    """List what each command says of its exit code."""
    said = [
        (code(name), words.partition("exit code ")[2])
        for name, command in _commands()
        for words in (command.help or "").split("\n\n")
        if words.startswith("The exit code ")
    ]
    return table(("command", "exit code"), said)


def _commands(command=None, name="iowatch"):
    """Yield the name and the object of iowatch, and of each of its commands."""
    command = command or typer.main.get_command(command_line)
    inner = getattr(command, "commands", {})
    if not inner or name == "iowatch":
        yield name, command
    for key, one in inner.items():
        if one.hidden:  # another name of a command
            continue
        yield from _commands(one, f"{name} {key}")


def _parameters(command):
    """Define the arguments and options of a command."""
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    return "\n\n".join(map(_parameter, shown))


def _parameter(parameter):
    is_argument = parameter.param_type_name == "argument"
    name = "" if is_argument else ", ".join(parameter.opts)
    if is_argument or not parameter.is_flag:
        name += f" {parameter.metavar or parameter.name.upper()}"
    default = getattr(parameter, "show_default", True)
    if not isinstance(default, str):
        default = "" if parameter.default in (None, False, "") else code(parameter.default)
    words = "Required." if parameter.required else f"By default: {default}." if default else ""
    return f"{code(name.strip())}\n: {parameter.help} {words}".rstrip()


def benchio():
    """Print benchio's own help."""
    return f"```text\n{run(str(BUILT_BENCHIO), '--help').text}\n```\n"


def environment():
    """List the environment variables, each a constant with its meaning above it."""
    declared = re.compile(r'((?:^#: .*\n)+)\w+ = "([A-Z_]+)"$', re.MULTILINE)
    files = [*SOURCES.rglob("*.py"), *CHECKS_FOLDER.glob("*.py"), ROOT / "site_configs/settings.py"]
    found = {
        name: re.sub(r"\s*#: ", " ", words).strip()
        for file in files
        for words, name in declared.findall(file.read_text())
        if "_" in name
    }
    return table(("variable", "meaning"), ((code(name), found[name]) for name in sorted(found)))


# Verdicts


def states():
    """List the states with the colour that each gives its night."""
    words = meanings("iowatch.cases.verdict", "State")
    return table(
        ("state", "meaning", "colour of the night"),
        ((code(state), words[state.name], _colour(state)) for state in verdict.State),
    )


def _colour(state):
    outcome = verdict.Outcome(state)
    if outcome.is_amber:
        return "amber; red after `amber_nights` nights in a row"
    return "red" if outcome.is_red else "none" if outcome.is_skipped else "green"


def reasons():
    """List the reasons, worst first, with how the runbook begins on each."""
    text = (ROOT / "docs" / RUNBOOK.removeprefix("../")).read_text()
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)  # of links, which are the runbook's
    begins = dict(re.findall(r"^#+ `(\w+)`\n+((?s:.+?\.))(?=\s)", plain, re.MULTILINE))
    return table(
        ("reason", "meaning"),
        (
            (f"[`{reason}`]({RUNBOOK}#{reason})", begins.get(reason, ""))
            for reason in verdict.Reason
        ),
    )


def flags():
    """List the flags."""
    words = meanings("iowatch.cases.verdict", "Flag")
    return table(("flag", "meaning"), ((code(flag), words[flag.name]) for flag in verdict.Flag))


# What is measured


def checks():
    """List the checks with what a suite gives each."""
    about = {
        node.name: (ast.get_docstring(node) or "").partition("\n\n")[0]
        for file in CHECKS_FOLDER.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in CHECKS
    }
    rows = []
    for name, check in CHECKS.items():
        needed, optional = suites.suite_parameters(check, is_striped=True)
        names = ([p.name for p in parameters] for parameters in (needed, optional))
        rows.append((code(name), about[name], *(code(*listed) for listed in names)))
    return table(("check", "measures", "parameters", "optional parameters"), rows)


def system_context():
    """List the quantities of the system context."""
    sources = {name: one.words for one in context.SOURCES for name in one.quantities}
    return table(
        ("name", "meaning", "unit", "least rise", "source"),
        (
            (
                code(name),
                one.words,
                one.unit,
                one.trifle * (100 if one.unit == "%" else 1),
                sources.get(name, "`/proc` of the nodes"),
            )
            for name, one in context.QUANTITIES.items()
        ),
    )


def prometheus():
    """List the metrics of the export."""
    return table(("metric", "meaning"), ((code(n), text) for n, text in export.FAMILIES.items()))


def document():
    """List the fields of an exported run."""
    return table(("field", "meaning"), ((code(n), text) for n, text in export.FIELDS.items()))


def metrics():
    """List the metrics that reference values may bound, those of the same checks together."""
    of_checks = {}
    for name, metric in METRICS.items():
        if checks := tuple(one.name for one in CHECKS.values() if name in one.metrics):
            of_checks.setdefault(checks, []).append(
                (
                    code(name),
                    metric.unit,
                    "lower" if metric.lower_is_better else "higher",
                    metric.about,
                )
            )
    return "\n".join(
        f"{code(*checks)}:\n\n{table(('metric', 'unit', 'better', 'meaning'), rows)}"
        for checks, rows in of_checks.items()
    )


def parameters():
    """List the parameters that a suite may give, each once, with the checks where two differ."""
    checks_with = {}
    for check in CHECKS.values():
        for row in () if check.is_everywhere else suites.table(check):
            checks_with.setdefault((row.key, row.values), (row, []))[1].append(check.name)
    names = [name for name, _ in checks_with]
    return _keys(
        attrs.evolve(row, about=f"{row.about} {code(*given) if names.count(row.key) > 1 else ''}")
        for row, given in checks_with.values()
    )


# What people write


def site():
    """List the keys of a partition's extras."""
    return _keys(records.table(Filesystem))


def references():
    """List the keys of the files of reference values."""
    return _records(
        {
            "A bound": ReferenceEntry,
            "expected_failures/SYSTEM.yaml": ExpectedFailure,
            "maintenance/SYSTEM.yaml": Maintenance,
            "events/SYSTEM.yaml": Event,
            "user_outputs/SYSTEM.yaml": UserOutput,
        }
    )


def contract_keys():
    """List the keys of a contract, of its criteria by their kinds, and of exclusions."""
    parts = {
        "The contract": contract.Contract,
        "Rules": terms.Rules,
        "A filesystem": terms.Storage,
        "A criterion": Criterion,
    }
    common = {row.key for row in records.table(Criterion)}
    return (
        _records(parts)
        + "".join(
            f"\n### {kind}\n\n{inspect.getdoc(record)} The unit is {record.unit}.\n\n"
            + _keys(row for row in records.table(record) if row.key not in common)
            for kind, record in KINDS.items()
        )
        + _records({"An exclusion": terms.Exclusion})
    )


def _records(by_heading):
    return "".join(
        f"\n## {heading}\n\n{inspect.getdoc(record)}\n\n{_keys(records.table(record))}"
        for heading, record in by_heading.items()
    )


def _keys(rows):
    """Define the keys of a record."""
    return "\n".join(map(_key, rows))


def _key(row):
    remarks = [row.unit, "required" if row.is_required else "", f"by default {row.default}"]
    remarks = ", ".join(filter(None, remarks if row.default else remarks[:2]))
    values = "" if row.values == records.TEXT.phrase else f" The value is {row.values}."
    return f"{code(row.key)}{f' ({remarks})' if remarks else ''}\n: {row.about.strip()}{values}\n"


def filesystems():
    """List the types of filesystems that a site's file may name."""
    rows = []
    for name in dict.fromkeys(STATFS.values()):
        mounts = [mount for mount, statfs in STATFS.items() if statfs == name]
        rows.append((code(name), code(*mounts), of_types([name], False).single_targets or ""))
    return table(("`type`", "mounted as", "`SlowOst` measures one by one"), rows)


# JSON


def result():
    """List the fields of benchio's result."""
    return _schema("benchio.result-3")


def output():
    """List the fields of what iowatch prints with --json."""
    return _schema("iowatch.output-1")


def _schema(name):
    """List the fields of a document as its schema describes them, and of the objects in it."""
    schema = json.loads((SOURCES / f"{name}.schema.json").read_text())
    objects = {"The document": schema}
    objects |= {name: one for name, one in schema["$defs"].items() if "properties" in one}
    return "\n".join(
        f"## {name}\n\n{one.get('description', '')}\n\n"
        + table(("field", "meaning"), _fields(schema["$defs"], one))
        for name, one in objects.items()
    )


def _fields(defs, node, path=""):
    """Yield a row for each field of an object, and for those of the objects in it."""
    for name, value in node.get("properties", {}).items():
        words, kinds, rows = value.get("description", ""), [], []
        for choice in _choices(defs, value):
            words = words or choice.get("description", "")
            for one in _choices(defs, choice.get("items", choice)):
                kinds.append(("list of " if "items" in choice else "") + _type(one))
                rows += _fields(defs, one, f"{path}{name}.")
        yield f"{code(path + name)}: {' or '.join(dict.fromkeys(kinds))}", words
        yield from rows


def _choices(defs, node):
    """Return what a value may be; an object that has a section stays a reference to it."""
    target = defs.get(node.get("$ref", "").removeprefix("#/$defs/"), {"properties": {}})
    node = node if "properties" in target else target
    return (
        [inner for one in node["oneOf"] for inner in _choices(defs, one)]
        if "oneOf" in node
        else [node]
    )


def _type(node):
    """Say the type of a value, or which values there are."""
    if name := node.get("$ref", "").removeprefix("#/$defs/"):
        return f"[{name}](#{name.lower()})"
    if "enum" in node or "const" in node:
        return code(*(node.get("enum") or [node["const"]]))
    if isinstance(values := node.get("additionalProperties"), dict):
        return f"object of {_type(values)}"
    kinds = node.get("type", "object")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
