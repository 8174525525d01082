"""The pages are plain English: short sentences, in the words of the glossary."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 25  # words of a sentence
GLOSSARY = ROOT / "docs/reference/glossary.md"
#: Not from git: the copies in which mutants are tried have none.
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("[!.]*/**/*.md")])
    if page.name != "CHANGELOG.md"  # a record
    and not {"build", "golden"} & {*page.relative_to(ROOT).parts}
]
#: Sentences that begin so have no subject: "Of these, ...", "What was measured is ...".
HEADLESS = re.compile(r"(?:Of|That|What|Those)\b(?!.*\?$)")


def banned_words():
    """Match `whatever`, and the words in the last column of the glossary."""
    rows = re.findall(r"^\|.*\| ([^|-]+) \|$", GLOSSARY.read_text(), re.MULTILINE)[1:]
    return re.compile(rf"\b(?:whatever|{'|'.join(rows).replace(', ', '|')})\b", re.IGNORECASE)


def sentences(text):
    """Yield the sentences of Markdown, in paragraphs, items and cells of tables."""
    generated = r"<!-- ([\w ]+) -->.*?<!-- end of \2 -->"
    text = re.sub(rf"(?ms)^( *)```.*?^\1```$|{generated}", "", text)
    text = re.sub(r"(?m)^(?: {4}.*|#.*|[|\s:-]+)$", "", text)  # code, headings, rules of tables
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    text = re.sub(r"(?m)^ *(?:[-*]|\d+\.) ", "\n", text)
    text = re.sub(r"(?m)^\|.*\|$", lambda row: row[0].replace("|", "\n\n"), text)
    for block in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.?!:])(?<!a\.m\.)\**\s|\s·\s", " ".join(block.split()))


def faults(text, banned):
    """Yield each sentence that is too long, and each wrong word, with its sentence."""
    for sentence in sentences(text):
        count = len(re.findall(r"\w\S*", sentence))
        wrong = HEADLESS.match(sentence) or banned.search(sentence)
        if count > LONGEST or wrong:
            yield f"{wrong[0] if wrong else f'{count} words'}: {sentence}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_is_plain_english(page):
    text = page.read_text() if page != GLOSSARY else re.sub(r"(?m)[^|]*\|$", "", page.read_text())
    assert [*faults(text, banned_words())] == []


def test_faults_are_told():
    long = "This sentence has one word more than the rule allows" + " and" * 16
    text = f"Of this there is none. A sweep\nruns. {long}.\n\n| {long[:-4]} | `a sweep` |\n"
    told = [fault.partition(":")[0] for fault in faults(text, banned_words())]
    assert told == ["Of", "sweep", "26 words"]
