from __future__ import annotations

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.lanes import lanes_chart
from tests.support.charts import assert_drawn_well, having, number, texts, titles


def work(lane: int, name: str, begin: float, end: float, kind: str) -> admin_pb2.TimeSpan:
    return admin_pb2.TimeSpan(lane=lane, name=name, begin=begin, end=end, kind=kind)


def time(*spans: admin_pb2.TimeSpan, lanes: tuple[str, ...] = ("tile 0", "tile 1", "DMA")) -> admin_pb2.TimeFigure:
    return admin_pb2.TimeFigure(name="Tiles", unit="cycles", spans=spans, lanes=lanes)


def test_each_lane_has_its_row_and_each_kind_its_look() -> None:
    spans = (
        work(0, "conv1", 0, 400, "compute"),
        work(1, "conv1", 100, 400, "wait"),
        work(2, "load", 400, 1000, "copy"),
    )
    picture = assert_drawn_well(lanes_chart(time(*spans), "t"))
    assert {"tile 0", "tile 1", "DMA", "compute", "wait", "copy", "conv1"} <= set(texts(picture))
    bars = having(picture, "span")
    assert len({each.attrib["fill"] for each in bars}) == 3
    tops = [number(each, "y") for each in bars]
    assert tops == sorted(set(tops))
    assert titles(picture)[0] == "conv1 (compute): 0 to 400"


def test_spans_that_could_not_be_told_apart_are_joined() -> None:
    many = [work(0, f"stripe {at}", at, at + 1, "compute") for at in range(20_000)]
    picture = assert_drawn_well(lanes_chart(time(*many), "t"))
    (bar,) = having(picture, "span")
    assert titles(picture) == ["stripe 0 and 19999 more (compute): 0 to 20,000"]
    assert number(bar, "width") > 900


def test_spans_that_can_be_told_apart_are_not_joined() -> None:
    few = [work(0, f"stripe {at}", at, at + 1, "compute") for at in range(100)]
    assert len(having(assert_drawn_well(lanes_chart(time(*few), "t")), "span")) == 100


def test_spans_of_unknown_lanes_are_left_out() -> None:
    picture = assert_drawn_well(lanes_chart(time(work(7, "lost", 0, 5, "compute"), work(0, "kept", 0, 5, "wait")), "t"))
    assert [title.split(" ")[0] for title in titles(picture)] == ["kept"]


def test_long_names_of_lanes_are_shortened_and_in_titles() -> None:
    name = "model/" + "block/" * 20 + "conv"
    picture = assert_drawn_well(lanes_chart(time(work(0, "a", 0, 5, "compute"), lanes=(name,)), "t"))
    assert name in titles(picture)
    assert name not in texts(picture)


def test_a_figure_without_spans_says_so() -> None:
    assert "nothing is done" in texts(assert_drawn_well(lanes_chart(admin_pb2.TimeFigure(), "t")))
