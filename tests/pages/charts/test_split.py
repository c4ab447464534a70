from __future__ import annotations

from nnhal_pages.charts.split import split_chart
from tests.support.charts import assert_drawn_well, having, number, texts, titles


def test_parts_follow_one_another_in_proportion() -> None:
    drawing = split_chart("Latency", {"queue": 100e3, "run": 300e3, "output": 0.0}, "s")
    picture = assert_drawn_well(drawing)
    queue, run = having(picture, "span")
    assert number(run, "width") / number(queue, "width") > 2.9
    assert abs(number(queue, "x") + number(queue, "width") - number(run, "x")) < 0.2
    assert titles(picture) == ["queue 100 µs, 25%", "run 300 µs, 75%"]
    assert {"queue 100 µs", "run 300 µs", "output 0 ns"} <= set(texts(picture))
    assert drawing.title == "Latency: 400 µs, of which queue 100 µs, run 300 µs, output 0 ns"


def test_the_words_go_on_in_another_line_if_the_picture_is_narrow() -> None:
    parts = dict.fromkeys(("queue", "input", "run", "output", "network", "rendering"), 1000000.0)
    assert split_chart("Latency", parts, "s", width=300).height > split_chart("Latency", parts, "s", width=900).height
    assert_drawn_well(split_chart("Latency", parts, "s", width=300))


def test_an_unknown_duration_has_no_bar() -> None:
    assert having(assert_drawn_well(split_chart("Latency", {}, "s")), "span") == []
