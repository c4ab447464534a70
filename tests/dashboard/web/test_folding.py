"""Cells of tables that fold say which column they are of."""

from __future__ import annotations

import re

from jinja2 import Environment

from nnhal_dashboard.web.folding import FoldingTables

HEAD = (
    '<thead><tr><th scope="col">Name</th>{% if busy %}<th scope="col">Busy</th>{% endif %}'
    '<th scope="col" class="number" colspan="2">Rate</th><th scope="col">{{ word }}</th></tr></thead>'
)
ROW = (
    '<tr><th scope="row">a</th>{% if busy %}<td title="{{ 2 > 1 }}">1</td>{% endif %}<td class="spark"></td><td>2</td>'
    '<td class="x">{{ "<td>" }}</td></tr>'
)


def shown(table: str, **values: object) -> list[tuple[str, str]]:
    page = Environment(autoescape=True, extensions=[FoldingTables]).from_string(table).render(values)
    return re.findall('<td[^>]*?(?: data-label="([^"]*)")?>([^<]*)', page)


def test_each_cell_has_the_words_of_its_column() -> None:
    table = f'<table class="grid-of-rows folding">{HEAD}<tbody>{ROW}{{% if more %}}{ROW}{{% endif %}}</tbody></table>'
    row = [("Busy", "1"), ("Rate", ""), ("Rate", "2"), ("Last", "&lt;td&gt;")]
    assert shown(table, busy=True, more=True, word="Last") == row + row
    assert shown(table, busy=False, more=False, word="Last") == row[1:]


def test_cells_that_say_it_themselves_and_other_tables_are_left_alone() -> None:
    cells = '<tr><td data-label="own">1</td><td>2</td></tr>'
    head = '<thead><tr><th scope="col">One</th><th scope="col">Two</th></tr></thead>'
    assert shown(f'<table class="grid-of-rows folding">{head}{cells}</table>') == [("own", "1"), ("Two", "2")]
    assert shown(f'<table class="grid-of-rows">{head}<tr><td>1</td></tr></table>') == [("", "1")]
