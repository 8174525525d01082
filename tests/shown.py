"""Nights as texts and pages, made of their documents."""

from iowatch.pages import export, report, tables

html, markdown, junit = (report.FORMATS[form] for form in ("html", "md", "junit"))


def as_text(night):
    return tables.as_text(night.document)


def as_message(night):
    return tables.as_message(night.document)


def show_night(night, console):
    tables.show_night(night.document, console)


def prometheus(nights):
    return export.prometheus([night.document for night in nights])
