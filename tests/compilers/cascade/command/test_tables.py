"""A story in a terminal."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from nnhal_cascade.command.story import CascadeStory
from nnhal_cascade.command.tables import show
from tests.support.cascades import story


def shown(told: CascadeStory) -> str:
    """What is printed."""
    file = StringIO()
    show(told, Console(file=file, width=400))
    return file.getvalue()


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
