"""Links of pages, and the headings that they lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = [
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in re.findall(r"^#+ (.*)$", text, re.M)
    ]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to no file, or to no heading of one."""
    for target, anchor in LINK.findall(CODE.sub("", page.read_text())):
        file = (page.parent / target).resolve() if target else page
        if not file.exists():
            yield target
        elif anchor and anchor not in anchors(file):
            yield f"{target}#{anchor}"
