from __future__ import annotations

import re

import pytest

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal_pages.charts.heat_map import heat_map
from nnhal_pages.charts.lines import line_chart, sparkline
from nnhal_pages.charts.measures import BYTES, BYTES_PER_SECOND, MILLISECONDS, PER_SECOND
from nnhal_pages.charts.series import ChartSeries, TimeWindow
from tests.support.charts import assert_drawn_well, having, number, texts, titles

END = 1_800_000_000.0
WINDOW = TimeWindow(END)


def series(name: str, *values: float | None) -> ChartSeries:
    return ChartSeries(name, [(END - len(values) + 1 + at, value) for at, value in enumerate(values)])


def test_the_last_value_stands_beside_the_line() -> None:
    picture = assert_drawn_well(line_chart("Requests", [series("all", 3, 5, 1200)], PER_SECOND, WINDOW))
    assert {"Requests", "k/s", "1.2", "0"} <= set(texts(picture))
    assert titles(picture) == ["all 1.2 k/s"]


def test_the_axis_has_times_of_day_at_round_instants_and_says_their_zone() -> None:
    picture = assert_drawn_well(line_chart("Requests", [series("all", 3, 5, 7)], PER_SECOND, WINDOW))
    assert {"07:51", "07:54", "UTC"} <= set(texts(picture))
    at = {each.text: int(each.attrib["data-at"]) for each in picture.iter("text") if "data-at" in each.attrib}
    assert at["07:51"] == END - 540
    later = assert_drawn_well(line_chart("Requests", [series("all", 3)], PER_SECOND, TimeWindow(END + 7)))
    assert "07:51" in texts(later)


@pytest.mark.parametrize("seconds", [60, 300, 900, 3600, 86400])
@pytest.mark.parametrize("width", [420, 560])
def test_an_axis_of_every_length_has_some_times(seconds: int, width: int) -> None:
    for begin in (0, 1, 59, 1799):
        window = TimeWindow(END + begin, seconds)
        points = ChartSeries("all", [(END + begin, 1.0)])
        picture = assert_drawn_well(line_chart("Requests", [points], PER_SECOND, window, width))
        instants = [each for each in picture.iter("text") if "data-at" in each.attrib]
        assert 2 <= len(instants) <= 10


def test_a_chart_keeps_its_unit_while_its_range_changes() -> None:
    low, high = [series("99 %", 800_000.0)], [series("99 %", 12_000_000.0)]
    for shown in (low, high):
        words = texts(assert_drawn_well(line_chart("Latency", shown, MILLISECONDS, WINDOW)))
        assert words.count("ms") == 1
        assert not any("µs" in word or " ms" in word for word in words)
    copied = line_chart("Copied", [series("all", 3000.0)], BYTES_PER_SECOND, WINDOW, reach=5 << 20)
    assert {"MiB/s", "0.00286"} <= set(texts(assert_drawn_well(copied)))


def test_all_charts_of_one_width_have_the_same_edges() -> None:
    few = line_chart("Requests", [series("all", 1.0)], PER_SECOND, WINDOW)
    many = line_chart("Memory", [series(f"a long name {n}", 1e9) for n in range(9)], BYTES, WINDOW)
    durations = heat_map("How long", [(END - 100, [0, 5])], DURATION_BOUNDS_NS, WINDOW)
    edges = set()
    for drawing in (few, many, durations):
        (chart,) = [each for each in assert_drawn_well(drawing).iter("g") if "data-chart" in each.attrib]
        edges.add(tuple(chart.attrib["data-box"].split()[:2]))
    assert len(edges) == 1


def test_what_lies_around_a_mean_is_seen() -> None:
    means = [(END - 10 + at, 1.0) for at in range(10)]
    spread = [(at, 0.0, 50.0 if at == END - 5 else 1.0) for at, _ in means]
    picture = assert_drawn_well(line_chart("Requests", [ChartSeries("all", means, spread)], PER_SECOND, WINDOW))
    (band,) = having(picture, "spread")
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", band.attrib["d"])]
    assert max(heights) - min(heights) > 100
    assert "40" in texts(picture)


def test_a_script_finds_the_instant_and_the_value_of_a_place() -> None:
    picture = assert_drawn_well(line_chart("Requests", [series("all", 10.0)], PER_SECOND, WINDOW))
    (chart,) = [each for each in picture.iter("g") if "data-chart" in each.attrib]
    left, right, top, bottom = map(float, chart.attrib["data-box"].split())
    assert left < right and top < bottom
    assert chart.attrib["data-time"] == f"{END - 900:.0f} {END:.0f}"
    assert float(chart.attrib["data-high"]) == pytest.approx(10.8)


def test_a_gap_interrupts_the_line() -> None:
    picture = assert_drawn_well(
        line_chart("Requests", [series("all", *[1.0] * 100, *[None] * 100, *[2.0] * 100)], PER_SECOND, WINDOW)
    )
    (path,) = [each for each in having(picture, "series") if each.tag == "path"]
    assert path.attrib["d"].count("M") == 2


def test_a_single_value_is_seen() -> None:
    picture = assert_drawn_well(line_chart("Requests", [series("all", None, 7, None)], PER_SECOND, WINDOW))
    (path,) = [each for each in having(picture, "series") if each.tag == "path"]
    assert re.fullmatch(r"M[\d.]+ [\d.]+h.1", path.attrib["d"])
    assert "unknown" in texts(picture)


def test_several_series_have_names_and_looks_of_their_own() -> None:
    names = ["cpu_ref", "cpu_acc", "gpu_acc", "ethos_u", "ethos_n", "mlip"]
    picture = assert_drawn_well(line_chart("Runs", [series(name, 5, 5) for name in names], PER_SECOND, WINDOW))
    assert {f"{name} 5" for name in names} <= set(texts(picture))
    looks = {each.attrib["class"] for each in having(picture, "series-label")}
    assert len(looks) == len(names)


@pytest.mark.parametrize("count", [1, 12, 40])
@pytest.mark.parametrize(("width", "height"), [(360, 180), (640, 220), (1200, 400)])
def test_names_never_overlap(count: int, width: int, height: int) -> None:
    many = [series(f"a device with a long name {number}", number * 0.01, number * 0.01) for number in range(count)]
    picture = assert_drawn_well(line_chart("Runs", many, PER_SECOND, WINDOW, width, height))
    assert len([each for each in having(picture, "series") if each.tag == "path"]) == count
    assert len(titles(picture)) == count


def test_a_peak_of_one_second_is_drawn() -> None:
    values = [1.0] * 450 + [100.0] + [1.0] * 449
    picture = assert_drawn_well(line_chart("Requests", [series("all", *values)], PER_SECOND, WINDOW, width=300))
    path = next(each for each in having(picture, "series") if each.tag == "path").attrib["d"]
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    assert min(heights) < max(heights) / 2
    assert len(heights) < 450


def test_what_is_older_than_the_window_is_left_out() -> None:
    old = ChartSeries("all", [(END - 2000, 1e6), (END, 1.0)])
    assert texts(line_picture := assert_drawn_well(line_chart("Requests", [old], PER_SECOND, WINDOW)))
    assert not any("M" in text for text in texts(line_picture) if text.endswith("/s"))


def test_bytes_have_binary_units() -> None:
    picture = assert_drawn_well(line_chart("Memory", [series("all", 0, 3 << 20)], BYTES, WINDOW))
    assert {"1", "2", "3", "MiB"} <= set(texts(picture))


@pytest.mark.parametrize("given", [[], [series("all")], [series("all", None, None)]])
def test_without_values_the_picture_says_so(given: list[ChartSeries]) -> None:
    assert "no values in this time" in texts(assert_drawn_well(line_chart("Requests", given, PER_SECOND, WINDOW)))


def test_values_of_zero_lie_on_the_axis() -> None:
    picture = assert_drawn_well(line_chart("Errors", [series("all", 0, 0, 0)], PER_SECOND, WINDOW))
    path = next(each for each in having(picture, "series") if each.tag == "path").attrib["d"]
    (axis,) = [each for each in having(picture, "axis") if each.get("x1") != each.get("x2")]
    assert {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)} == {number(axis, "y1")}


def test_a_sparkline_is_small_and_says_its_values() -> None:
    drawing = sparkline("requests of mlip", series("all", 1, 9, 4), PER_SECOND, WINDOW)
    assert (drawing.width, drawing.height) == (120, 28)
    assert drawing.title == "requests of mlip: 4/s, at most 9/s"
    assert_drawn_well(drawing)
    assert_drawn_well(sparkline("nothing", series("all"), PER_SECOND, WINDOW))
