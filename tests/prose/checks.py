"""Problems of a page: its length, its sentences, its phrases, its links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.prose.budgets import BUDGETS, HISTORY, LONGEST_SENTENCE, RIDDLES
from tests.prose.links import broken_links
from tests.prose.sentences import sentences_of

ROOT = Path(__file__).parents[2]
_REFERENCE = "docs/reference/"
_TEST = re.compile(r"\btests/[\w/]+\.(?:py|cpp)")


def pages() -> list[str]:
    """Return the pages for people that are there or have a budget, and those of the reference."""
    found = (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md"))
    return list(dict.fromkeys([*BUDGETS, *sorted(str(path.relative_to(ROOT)) for path in found)]))


def problems(page: str) -> Iterator[str]:
    """Yield the problems of a page, each with its place."""
    path = ROOT / page
    if not path.is_file():
        yield f"{page}: missing"
        return
    text = path.read_text()
    yield from (f"{page}: {problem}" for problem in length_problems(text, BUDGETS.get(page), page))
    yield from (f"{page}:{problem}" for problem in prose_problems(text))
    yield from (f"{page}: link to {link}, which is not there" for link in broken_links(path))


def length_problems(text: str, budget: int | None, page: str = "") -> Iterator[str]:
    """Yield what is wrong with the number of words of a page. Pages made from the code have no budget."""
    words = len(text.split())
    if budget is None:
        if not page.startswith(_REFERENCE):
            yield f"{words} words, and no budget in tests/prose/budgets.py"
    elif words > budget:
        yield f"{words} words, expected at most {budget}"


def prose_problems(text: str) -> Iterator[str]:
    """Yield long sentences, riddles, history and paths of tests, each after the number of its line."""
    for sentence in sentences_of(text):
        begin = f"{sentence.text[:60]}…" if len(sentence.text) > 60 else sentence.text
        if sentence.words > LONGEST_SENTENCE:
            yield f"{sentence.line}: {sentence.words} words in a sentence, expected at most {LONGEST_SENTENCE}: {begin}"
        for kind, phrases in (("riddle", RIDDLES), ("history", HISTORY)):
            for phrase in phrases:
                if found := re.search(rf"\b(?:{phrase})\b", sentence.text, re.IGNORECASE):
                    yield f"{sentence.line}: {kind} {found[0]!r}: {begin}"
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TEST.search(line):
            yield f"{number}: path of a test: {found[0]}"
