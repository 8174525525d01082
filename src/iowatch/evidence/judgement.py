"""The verdicts on evidence, for whoever reads them: in lines, on a page to sign, and as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import jinja2

from iowatch.base.files import UserError, whole
from iowatch.base.text import brief, one_line
from iowatch.evidence import bundle

FORMATS = (".html", ".pdf")


class Judgement(ABC):
    """The verdicts on an acceptance test, or on a change."""

    template: ClassVar[str]  # of the page

    @property
    @abstractmethod
    def passes(self) -> bool:
        """Do all criteria pass, or has the change cost no case more than the limit?"""

    @abstractmethod
    def sentences(self) -> Iterator[str]:
        """Say all of it, a sentence for each verdict."""

    @abstractmethod
    def document(self, lines: Sequence[str], is_same: bool = True) -> str:
        """Write the verdicts as JSON; `is_same`: the maker of the evidence was told these."""

    def page(self, seal: bundle.Seal, folder: Path) -> str:
        """Make one self-contained HTML page; the evidence is in this folder."""
        environment = jinja2.Environment(loader=jinja2.PackageLoader("iowatch"), autoescape=True)
        environment.filters |= {"brief": brief, "percent": percent}
        template = environment.get_template(self.template)
        return template.render(judged=self, seal=seal, folder=folder)

    @property
    def lines(self) -> list[str]:
        """The sentences. Text from the evidence makes no line of its own."""
        return [*map(one_line, self.sentences())]

    def sealed(
        self, folder: Path, keys: Sequence[str], archive: Path, outputs: Sequence[Path]
    ) -> list[str]:
        """Write the evidence, signed with each of these keys, and the pages, and say so in lines;
        UserError."""
        told = "".join(f"{line}\n" for line in self.lines)
        (folder / bundle.VERDICTS).write_text(told, "utf-8")
        bundle.write_manifest(folder)
        with bundle.packed(archive, folder, keys) as seal:
            write(self.page(seal, folder), outputs)
        return [*self.lines, *seal.lines, *(f"written: {path}" for path in (*outputs, archive))]


def percent(part: float) -> str:
    """Write a part as people do."""
    return f"{100 * part:.3g} %"


def write(page: str, paths: Sequence[Path]) -> None:
    """Write the page as each suffix says: all of these files whole, or none; UserError."""
    with ExitStack() as files:
        for path in paths:
            temporary = files.enter_context(whole(path))
            if path.suffix == ".html":
                temporary.write_text(page, "utf-8")
                continue
            try:
                import weasyprint  # half a second that HTML does not need
            except ModuleNotFoundError as err:
                raise UserError(
                    f"{path}: {err.name} is missing: pip install {err.name}, or iowatch with its "
                    "extra 'report'; the same dossier as .html needs neither"
                ) from None
            except OSError as err:  # a package of the system
                raise UserError(f"{path}: no PDF without the library Pango: {err}") from None
            weasyprint.HTML(string=page).write_pdf(temporary)
