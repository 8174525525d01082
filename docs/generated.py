"""Reference pages that the code writes: the directive `generated` of a page names a function here.

Each function returns Markdown.
"""

from pathlib import Path

import typer
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]


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


def table(*rows):
    """A table of rows of Markdown, the first of which is its heading."""
    head, *body = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in r] for r in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def code(text):
    """A literal word, if there is one."""
    return f"`{text}`" if text else ""


def cli():
    """Every command with its help, arguments, options and defaults."""
    from iowatch.cli import app

    return "\n".join(_commands(typer.main.get_command(app), "iowatch"))


def _commands(command, name):
    """A command, and those in it."""
    inner = getattr(command, "commands", {})
    if not inner or name == "iowatch":
        yield f"## {name}\n\n{command.help}\n"
        if parameters := [p for p in command.params if p.name != "help"]:
            yield table(("", "", "default"), *map(_parameter, parameters))
    for key, one in inner.items():
        if one.hidden:  # another name of a command
            continue
        yield from _commands(one, f"{name} {key}")


def _parameter(parameter):
    """A row of the table of a command's options."""
    is_argument = parameter.param_type_name == "argument"
    name = "" if is_argument else ", ".join(parameter.opts)
    if is_argument or not parameter.is_flag:
        name += f" {parameter.metavar or parameter.name.upper()}"
    default = getattr(parameter, "show_default", True)
    if not isinstance(default, str):
        default = "" if parameter.default in (None, False, "") else parameter.default
    return code(name.strip()), parameter.help, "required" if parameter.required else default


def benchio():
    """benchio's own help, which its README has word by word."""
    from iowatch.commands import run
    from iowatch.places import BUILT_BENCHIO

    return f"```text\n{run(BUILT_BENCHIO, '--help').text}\n```\n"
