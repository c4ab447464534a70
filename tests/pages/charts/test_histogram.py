from __future__ import annotations

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal_pages.charts.histogram import histogram
from tests.support.charts import assert_drawn_well, having, number, texts, titles

RANGES = len(DURATION_BOUNDS_NS) + 1


def test_each_range_that_holds_something_has_a_bar() -> None:
    counts = [0] * RANGES
    counts[4], counts[6] = 10, 20
    picture = assert_drawn_well(histogram("Requests", counts, DURATION_BOUNDS_NS))
    assert titles(picture) == ["56.2 µs to 100 µs: 10", "178 µs to 316 µs: 20"]
    low, high = having(picture, "bar")
    assert abs(number(high, "height") - 2 * number(low, "height")) < 0.2
    assert "100 µs" in texts(picture)


def test_the_first_and_the_last_range_are_open() -> None:
    counts = [3, *[0] * (RANGES - 2), 4]
    picture = assert_drawn_well(histogram("Requests", counts, DURATION_BOUNDS_NS))
    assert titles(picture) == ["up to 10 µs: 3", "over 10 s: 4"]


def test_nothing_has_no_bars() -> None:
    drawing = histogram("Requests", [0] * RANGES, DURATION_BOUNDS_NS)
    assert drawing.title == "Requests: how long 0 took"
    assert having(assert_drawn_well(drawing), "bar") == []
