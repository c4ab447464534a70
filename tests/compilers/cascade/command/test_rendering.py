"""The page of a schedule."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal_cascade.command.rendering import page, page_style, report_parts
from nnhal_cascade.command.report import CascadeReport
from nnhal_cascade.schedule.lives import memory_uses
from nnhal_pages.svg import drawing_style
from tests.support.cascades import replays, schedule, story
from tests.support.consoles import printed_parts
from tests.support.html import Page, parsed

NASTY = "<script>alert('1')</script> & \"quoted\".tflite"


def written(told: CascadeReport) -> str:
    return page(told, memory_uses(schedule(), replays()))


@pytest.fixture(scope="module")
def document() -> Page:
    return parsed(written(story()))


def test_sections_have_headings(document: Page) -> None:
    assert [element.text for element in document.all("h2")] == [
        "Summary",
        "Frontier",
        "Memory over time",
        "Cascades",
        "Parts",
        "Buffers",
        "Memories",
    ]
    assert document.all("h1")[0].text == "network.tflite on u55-128"


def test_without_a_frontier_its_section_is_left_out() -> None:
    assert "Frontier" not in parsed(written(story(with_frontier=False))).text


def test_without_cascades_the_page_says_so() -> None:
    told = story()
    alone = replace(told, plans=tuple(replace(plan, parts=plan.parts[:1]) for plan in told.plans))
    assert "None: each part runs to its end" in parsed(written(alone)).text


def test_the_summary_has_peak_time_and_measurement() -> None:
    told = story()
    text = parsed(written(replace(told, measured=told.planned))).text
    assert "2.7 KiB" in text
    assert f"{told.planned.cycles:,} cycles at 500 MHz" in text
    assert "as planned" in text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    text = written(story())
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|https?://", text)


def test_texts_are_escaped() -> None:
    told = story(NASTY)
    buffers = tuple(replace(each, name=NASTY) if each.name == "c" else each for each in told.buffers)
    text = written(replace(told, buffers=buffers))
    assert "<script" not in text
    assert parsed(text).text.count(NASTY) >= 2


def test_every_rule_is_for_this_page_alone() -> None:
    sheet = re.sub(r"/\*.*?\*/", "", page_style() + drawing_style(), flags=re.DOTALL)
    selectors = [part.strip() for chunk in re.findall(r"([^{}]+)\{", sheet) for part in chunk.split(",")]
    assert [each for each in selectors if not each.startswith((".nnhal-plan", ".drawing", "@media"))] == []


def test_every_class_of_a_picture_has_a_rule(document: Page) -> None:
    inside = [each for each in document.elements if each.tag in ("path", "rect", "circle", "line", "text", "g")]
    names = {name for each in inside for name in each.attributes.get("class", "").split()}
    known = set(re.findall(r"\.([a-z][\w-]*)", drawing_style()))
    assert names - known == set()


def test_parts_are_grouped_by_cascade(document: Page) -> None:
    cascade, alone = [group.text for group in document.having("group")]
    assert cascade.startswith("cascade of 0-2: 2,416 bytes (2.4 KiB), ")
    assert cascade.endswith(" of them waiting for copies")
    assert alone == "part by part"


def shown(told: CascadeReport) -> str:
    """Return what is printed."""
    return printed_parts(report_parts(told))


def row(text: str, *cells: str) -> list[str]:
    """The cells of the only row that has some cells."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    (found,) = [each for each in rows if set(cells) <= set(each)]
    return found


def test_the_peak_and_the_cycles_come_first() -> None:
    first, second, third, fourth, *_ = shown(story()).splitlines()
    assert first == "network.tflite on u55-128 at 500 MHz (u55-128)"
    assert second == "peak    2,720 bytes (2.7 KiB) of sram: fits 4,096 bytes (4 KiB), 1,376 to spare"
    assert third.startswith("        in part 3 (CONV_2D d): d 1,024")
    assert fourth.startswith("cycles  ") and "multiply-adds" in fourth


def test_each_part_has_a_row_with_its_stripes_and_weights() -> None:
    text = shown(story())
    assert row(text, "resident")[:6] == ["0", "0", "CONV_2D", "8 of 1 row", "resident", "368"]
    assert row(text, "double buffered")[:6] == ["1", "3", "CONV_2D", "2 of 8 channels", "double buffered", "288"]


def test_each_buffer_has_a_row_with_its_rows_and_its_address() -> None:
    text = shown(story())
    assert row(text, "3 of 8 rows") == ["a", "3 of 8 rows", "sram", "192", "0x100", "0"]
    assert row(text, "c", "whole") == ["c", "whole", "sram", "512", "0x200", "0-1"]


def test_each_cascade_is_told_with_what_it_takes() -> None:
    text = shown(story())
    assert "cascade of 0-2: 2,416 bytes (2.4 KiB), " in text
    back = replace(story(), plans=tuple(replace(plan, reversed=True, waiting=0) for plan in story().plans))
    assert " cycles, from the last stripe to the first\n" in shown(back)


def test_the_chosen_point_of_the_frontier_is_marked() -> None:
    assert row(shown(story()), "chosen")[1] == "2,720"
    assert "Frontier" not in shown(story(with_frontier=False))


@pytest.mark.parametrize("cycles", [0, 1])
def test_what_the_device_measured_is_compared(cycles: int) -> None:
    told = story()
    measured = replace(told.planned, cycles=told.planned.cycles + cycles)
    assert ("as planned" in shown(replace(told, measured=measured))) == (cycles == 0)


def test_spilled_tensors_are_told() -> None:
    assert "spilled dram 512 bytes" in shown(replace(story(), spilled={"dram": 512}))
