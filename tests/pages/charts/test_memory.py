from __future__ import annotations

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.memory import memory_chart
from tests.support.charts import assert_drawn_well, having, number, texts, titles

NASTY = "<script>alert('1')</script> & \"x\""


def span(name: str, address: int, size: int, begin: float, end: float, kind: str) -> admin_pb2.MemorySpan:
    return admin_pb2.MemorySpan(name=name, address=address, bytes=size, begin=begin, end=end, kind=kind)


def memory(*spans: admin_pb2.MemorySpan, limit: int = 65536) -> admin_pb2.MemoryFigure:
    return admin_pb2.MemoryFigure(name="SRAM", limit_bytes=limit, unit="cycles", spans=spans)


ROLLING = [
    span("conv1", 256 * (number % 4), 256, 100 * number, 100 * number + 300, "rolling buffer") for number in range(8)
]
SPANS = (
    span("image", 1024, 30000, 0, 500, "feature map"),
    span("conv1", 0, 1024, 0, 1000, "reserved"),
    *ROLLING,
    span("weights of conv1", 40000, 8000, 0, 1000, "weights"),
)


def test_kinds_have_patterns_and_what_is_reserved_an_outline() -> None:
    picture = assert_drawn_well(memory_chart(memory(*SPANS), "m"))
    assert {"feature map", "rolling buffer", "weights", "cycles", "image"} <= set(texts(picture))
    fills = {each.attrib["fill"] for each in having(picture, "held")}
    assert len(fills) == 3
    (reserved,) = having(picture, "reserved")
    assert "fill" not in reserved.attrib


def test_pieces_of_one_thing_are_one_shape_with_its_sum() -> None:
    picture = assert_drawn_well(memory_chart(memory(*SPANS), "m"))
    assert "conv1 (rolling buffer): 2 KiB in 8 pieces, 0 to 1,000" in titles(picture)
    assert "image (feature map): 29.3 KiB at 0x400, 0 to 500" in titles(picture)
    assert len(having(picture, "held")) == 3


def test_the_limit_is_drawn_if_it_is_near() -> None:
    assert "limit 64 KiB" in texts(assert_drawn_well(memory_chart(memory(*SPANS), "m")))
    far = assert_drawn_well(memory_chart(memory(*SPANS, limit=1 << 30), "m"))
    assert not having(far, "limit")
    assert not having(assert_drawn_well(memory_chart(memory(*SPANS, limit=0), "m")), "limit")


def test_addresses_begin_where_something_lies_if_that_is_high_up() -> None:
    high = span("value", 1_000_000, 40_000, 0, 10, "feature map")
    picture = assert_drawn_well(memory_chart(memory(high, limit=1 << 20), "m"))
    assert "value" in texts(picture)
    assert "0" not in [each.text for each in picture.iter("text") if "end" in each.get("class", "").split()]


def test_the_summary_says_how_much_is_used() -> None:
    drawing = memory_chart(memory(*SPANS), "m")
    assert drawing.title == "SRAM over the time of a run: 46.9 KiB used of 64 KiB"


def test_names_are_text() -> None:
    picture = assert_drawn_well(memory_chart(memory(span(NASTY, 0, 1000, 0, 1, NASTY)), "m"))
    assert titles(picture)[0].startswith(NASTY)


def test_an_empty_memory_says_so() -> None:
    picture = assert_drawn_well(memory_chart(admin_pb2.MemoryFigure(name="SRAM"), "m"))
    assert "nothing lies in it" in texts(picture)


def test_wide_and_narrow_drawings_have_their_width() -> None:
    for width in (360, 1440):
        drawing = memory_chart(memory(*SPANS), "m", width)
        picture = assert_drawn_well(drawing)
        assert number(picture, "width") == width
