from __future__ import annotations

import pytest

from nnhal_pages.document import Figure
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Footnotes,
    Mark,
    Markup,
    Medium,
    Name,
    Picture,
    ReportTable,
    RowGroup,
    part_html,
    report_page,
)
from nnhal_pages.svg import Drawing
from nnhal_pages.terminal import show_parts
from tests.support.consoles import printed
from tests.support.html import parsed

NASTY = "<b>'x' & \"y\"</b> [red]z[/red]"
COLUMNS: list[Column[tuple[str, int]]] = [
    Column("name", lambda row: Name(row[0])),
    Column("size", lambda row: f"{row[1]:,}", number=True, page_header="Bytes"),
    Column("rank", lambda row: str(row[1] % 10), only=Medium.TERMINAL),
    Column("state", lambda row: Mark("large" if row[1] > 1000 else "", "why", strong=True), only=Medium.PAGE),
]
ROWS = [("weights", 12_345), ("bias", 7), (NASTY, 8)]
TABLE = ReportTable(
    "Values", COLUMNS, ROWS, "values", "What there is.", [RowGroup("constants", 2), RowGroup("the rest", 1)]
)


def test_a_terminal_has_its_columns_and_a_line_after_each_group() -> None:
    lines = printed(lambda console: show_parts(["in [all]", TABLE], console)).splitlines()
    assert lines[:2] == ["in [all]", "Values"]
    rows = [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]
    assert ["name", "size", "rank"] in rows and ["weights", "12,345", "5"] in rows
    assert [line[0] for line in lines[2:]] == ["┏", "┃", "┡", "│", "│", "├", "│", "└"]


def test_footnotes_are_those_of_the_table_before_them() -> None:
    notes = Footnotes()
    table = ReportTable("Why", [Column[str]("why", notes.number)], ["too wide", "too deep", "too wide"])
    text = printed(lambda console: show_parts([table, notes], console))
    assert text.endswith("1: too wide\n2: too deep\n")


def test_a_page_has_its_columns_and_headers_that_begin_with_a_capital() -> None:
    document = parsed(part_html(TABLE))
    heads = [each.text for each in document.all("th") if each.attributes["scope"] == "col"]
    assert heads == ["Name", "Bytes", "State"]
    assert [each.text for each in document.having("group")] == ["constants", "the rest"]
    assert [each.text for each in document.all("strong")] == ["large"]
    assert document.all("caption")[0].text == "What there is."


def test_a_page_has_each_part_and_escapes_all_texts() -> None:
    parts = (
        NASTY,
        FigureCards([Figure(NASTY, "12", NASTY)]),
        Folded(NASTY, (TABLE,)),
        Picture(NASTY, Drawing(10, 10, NASTY, "")),
        Markup("<h3>as it is</h3>"),
    )
    text = report_page(NASTY, [(NASTY, parts)], "")
    document = parsed(text)
    assert "<b>" not in text and document.text.count(NASTY) == 8
    assert [each.text for each in document.all("h2")] == [NASTY]
    assert [each.text for each in document.all("h3")] == ["as it is"]
    (region,) = [each for each in document.elements if each.attributes.get("role") == "region"]
    assert region.attributes["aria-label"] == NASTY and region.attributes["tabindex"] == "0"


def test_a_text_and_a_name_are_two_columns_in_a_terminal() -> None:
    table = ReportTable("Parts", [Column[str]("part", lambda row: ("3", Name(row)))], ["conv"])
    assert "3 <span class='name'" in part_html(table)
    with pytest.raises(TypeError, match="expected a column for each in a terminal"):
        printed(lambda console: show_parts([table], console))


def test_a_cell_leads_to_the_folded_parts_and_the_rows_with_its_address() -> None:
    columns = [Column[str]("layer", lambda row: (Mark(row, address=f"#layer-{row}"), Name("conv")))]
    table = ReportTable("Layers", columns, ["3"], groups=[RowGroup("first", 1, "group-1")])
    folded = Folded(("3:", Name("conv")), (NASTY,), ", equal", "layer-3", "good")
    document = parsed(part_html(table) + part_html(folded))
    assert [each.attributes["href"] for each in document.all("a")] == ["#layer-3"]
    assert [each.attributes["id"] for each in document.all("tbody")] == ["group-1"]
    (place,) = document.having("good")
    assert (place.attributes["id"], place.text) == ("layer-3", NASTY)
    assert [each.text for each in document.all("summary")] == ["3: conv, equal"]


def test_a_cell_of_markup_has_its_text_in_a_terminal() -> None:
    table = ReportTable("Devices", [Column[str]("device", lambda row: Markup(f"<b>{row}</b>", row))], ["cpu", "[red]x"])
    assert "<b>cpu</b>" in part_html(table)
    text = printed(lambda console: show_parts([table], console))
    assert "│ cpu" in text and "[red]x" in text and "<b>" not in text
