"""Tables that fold on phones: each cell stands below the name of its row, with the words of its column before it."""

from __future__ import annotations

import re

from jinja2.ext import Extension

_TABLE = re.compile(r'<table class="[^"]*\bfolding\b.*?</table>', re.DOTALL)
_HEAD = re.compile(r'<th scope="col"([^>]*)>(.*?)</th>')
_SPAN = re.compile(r'colspan="(\d+)"')
_CELL = re.compile(r"<t[dh](?= |>)(?P<attributes>(?:\{\{.*?\}\}|\{%.*?%\}|[^>])*)>")


class FoldingTables(Extension):
    """Writes the words of columns to the cells of a template, once, when it is compiled.

    A heading with an element in it is hidden, or leads somewhere: its cells say by themselves what they are.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Label the cells of all tables that fold, but for those that say it themselves."""
        return _TABLE.sub(lambda found: _labelled(found[0]), source)


def _labelled(table: str) -> str:
    head, end, body = table.partition("</thead>")
    words: list[str] = []
    for attributes, text in _HEAD.findall(head):
        span = _SPAN.search(attributes)
        words += [text] * (int(span[1]) if span else 1)
    first, *rows = body.split("<tr")
    return head + end + first + "".join("<tr" + _row(row, words) for row in rows)


def _row(row: str, words: list[str]) -> str:
    columns = iter(words)

    def cell(found: re.Match[str]) -> str:
        label = next(columns, "")
        is_labelled = found[0].startswith("<th") or "data-label" in found["attributes"]
        return found[0] if is_labelled or not label or "<" in label else f'{found[0][:-1]} data-label="{label}">'

    return _CELL.sub(cell, row)
