from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal_pages.charts.heat_map import heat_map
from nnhal_pages.charts.series import TimeWindow
from tests.support.charts import assert_drawn_well, having, texts, titles

END = 1_800_000_000.0
WINDOW = TimeWindow(END)
RANGES = len(DURATION_BOUNDS_NS) + 1


def counts(**ranges: int) -> list[int]:
    found = [0] * RANGES
    for name, count in ranges.items():
        found[int(name.removeprefix("at"))] = count
    return found


def test_more_of_a_duration_is_darker() -> None:
    samples = [(END - 300, counts(at4=1)), (END - 200, counts(at4=30)), (END - 100, counts(at4=1000))]
    picture = assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, WINDOW))
    shades = [name for name in ("heat-1", "heat-2", "heat-3", "heat-4", "heat-5") if having(picture, name)]
    assert {"heat-1", "heat-3", "heat-5"} <= set(shades)
    lefts = {}
    for name in shades:
        for cell in having(picture, name):
            if cell.tag == "path":
                lefts[name] = float(re.match(r"M([\d.]+)", cell.attrib["d"])[1])  # type: ignore[index]
    assert lefts["heat-1"] < lefts["heat-3"] < lefts["heat-5"]


def test_the_key_says_what_shades_mean() -> None:
    samples = [(END - 100, counts(at4=1, at5=100))]
    words = texts(assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, WINDOW)))
    assert {"1-2", "3-6", "7-15", "16-39", "from 40"} <= set(words)


def test_a_column_says_its_numbers() -> None:
    samples = [(END - 100, counts(at4=10, at8=3)), (END - 99, counts(at4=1))]
    (told,) = titles(assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, WINDOW)))
    assert told == "14 in this time: the median 56.2 µs to 100 µs, the slowest 562 µs to 1 ms"


def test_what_took_longer_than_the_last_bound_is_drawn() -> None:
    samples = [(END - 100, counts(**{f"at{RANGES - 1}": 2}))]
    picture = assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, WINDOW))
    assert titles(picture) == ["2 in this time: the median over 10 s, the slowest over 10 s"]
    assert {"10,000", "ms"} <= set(texts(picture))


def test_a_column_keeps_what_it_holds_while_time_goes_on() -> None:
    samples = [(END - 100 + at, counts(at4=1)) for at in range(50)]
    now = titles(heat_picture(samples, WINDOW))
    later = titles(heat_picture(samples, TimeWindow(END + 7)))
    assert now == later


def heat_picture(samples: list[tuple[float, list[int]]], window: TimeWindow) -> Element:
    return assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, window))


def test_nothing_is_said_to_be_nothing() -> None:
    for samples in ([], [(END, [0] * RANGES)], [(END - 5000, counts(at3=4))]):
        picture = assert_drawn_well(heat_map("Requests", samples, DURATION_BOUNDS_NS, WINDOW))
        assert "nothing in this time" in texts(picture)
        assert titles(picture) == []
