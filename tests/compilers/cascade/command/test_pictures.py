"""The pictures of a schedule: what is in them, and where."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

from nnhal_cascade.command.pictures import cascade_drawing, frontier_drawing
from nnhal_pages.svg import Drawing
from tests.support.cascades import story


def parsed(drawing: Drawing) -> Element:
    return fromstring(drawing.embedded())


def having(picture: Element, name: str) -> list[Element]:
    """The elements of a class."""
    return [each for each in picture.iter() if name in each.get("class", "").split()]


def texts(picture: Element) -> list[str]:
    return [each.text or "" for each in picture.iter("text")]


def test_the_frontier_has_a_point_for_each_schedule() -> None:
    picture = parsed(frontier_drawing(story()))
    points = having(picture, "point")
    assert len(points) == 3
    assert [each.get("class") for each in points] == ["point", "point chosen", "point recomputing"]
    assert all(each.get("tabindex") == "0" for each in points)
    assert "2,720 bytes (2.7 KiB)" in points[1].get("aria-label", "")


def test_less_memory_is_to_the_left_and_more_cycles_are_above() -> None:
    marks = having(parsed(frontier_drawing(story())), "mark")
    across, down = [float(each.get("cx", "")) for each in marks], [float(each.get("cy", "")) for each in marks]
    assert across == sorted(across, reverse=True)
    assert down == sorted(down, reverse=True)


def test_the_axes_of_the_frontier_are_labelled() -> None:
    found = texts(parsed(frontier_drawing(story())))
    assert {"sram used", "Cycles on u55-128"} <= set(found)
    assert any(text.endswith(" KiB") for text in found)
    assert "budget 4 KiB" in found


def test_a_frontier_of_one_point_can_be_drawn() -> None:
    told = story()
    assert len(having(parsed(frontier_drawing(replace(told, frontier=told.frontier[1:2]))), "point")) == 1


def test_a_tip_lies_within_the_picture() -> None:
    drawing = frontier_drawing(story())
    for tip in having(parsed(drawing), "tip"):
        (box,) = tip.iter("rect")
        left, top, width, height = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        assert left >= 0 and left + width <= drawing.width
        assert top >= 0 and top + height <= drawing.height


def test_a_cascade_has_a_box_for_each_part_and_bars_for_the_rows_between() -> None:
    told = story()
    picture = parsed(cascade_drawing(told, told.plans[0]))
    assert len(having(picture, "box")) == 3
    assert [text for text in texts(picture) if "bytes" in text and "weights" not in text] == [
        "whole, 256 bytes",
        "3 of 8 rows, 192 bytes",
        "1 of 8 rows, 64 bytes",
        "whole, 512 bytes",
    ]
    assert len(having(picture, "buffer")) == 1 + 3 + 1 + 1


def test_a_tensor_that_is_read_again_is_an_arc() -> None:
    told = story()
    (arc,) = having(parsed(cascade_drawing(told, told.plans[0])), "arc")
    (title,) = arc
    assert title.text == "a is read again"


def test_an_input_of_the_cascade_that_is_read_again_is_an_arc() -> None:
    told = story()
    parts = told.plans[0].parts
    again = replace(told.plans[0], parts=(parts[0], parts[1], replace(parts[2], inputs=("b", "image"))))
    (arc,) = having(parsed(cascade_drawing(told, again)), "arc")
    assert arc[0].text == "image is read again"


def test_what_a_part_reads_from_outside_is_said() -> None:
    told = story()
    parts = told.plans[0].parts
    reading = replace(told.plans[0], parts=(parts[0], parts[1], replace(parts[2], inputs=("b", "other"))))
    found = texts(parsed(cascade_drawing(told, reading)))
    assert "no weights; reads other too" in found
