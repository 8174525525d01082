"""The pages are plain English: short sentences, in the words of the glossary."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 25  # words of a sentence
#: Not from git: the copies in which mutants are tried have none.
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("[!.]*/**/*.md")])
    if page.name != "CHANGELOG.md"  # a record
    and not {"build", "golden"} & {*page.relative_to(ROOT).parts}
]
#: Sentences that begin so have no subject: "Of these, ...", "What was measured is ...".
HEADLESS = re.compile(r"(?:Of|That|What|Those)\b(?!.*\?$)")
#: The glossary has a word for each of these.
BANNED = re.compile(
    r"\b(?:whatever|second opinion|conditions|writers|sweep|circumstances)\b", re.IGNORECASE
)


def sentences(text):
    """Yield the sentences of Markdown, in paragraphs, items and cells of tables."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```$", "", text)
    text = re.sub(r"(?m)^(?: {4}.*|#.*|[|\s:-]+)$", "", text)  # code, headings, rules of tables
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    text = re.sub(r"(?m)^ *(?:[-*]|\d+\.) ", "\n", text)
    text = re.sub(r"(?m)^\|.*\|$", lambda row: row[0].replace("|", "\n\n"), text)
    for block in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.?!:])(?<!a\.m\.)\**\s|\s·\s", " ".join(block.split()))


def faults(text):
    """Yield each sentence that is too long, and each wrong word, with its sentence."""
    for sentence in sentences(text):
        count = len(re.findall(r"\w\S*", sentence))
        wrong = HEADLESS.match(sentence) or BANNED.search(sentence)
        if count > LONGEST or wrong:
            yield f"{wrong[0] if wrong else f'{count} words'}: {sentence}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_is_plain_english(page):
    assert [*faults(page.read_text())] == []


def test_faults_are_told():
    long = "This sentence has one word more than the rule allows" + " and" * 16
    text = f"Of this there is none. A sweep\nruns. {long}.\n\n| {long[:-4]} | `a sweep` |\n"
    told = [fault.partition(":")[0] for fault in faults(text)]
    assert told == ["Of", "sweep", "26 words"]
