from __future__ import annotations

import pytest

from nnhal_pages.charts.lines import line_chart
from nnhal_pages.charts.marks import SIGNS, ChartMark
from nnhal_pages.charts.measures import PER_SECOND
from nnhal_pages.charts.series import ChartSeries, TimeWindow
from nnhal_pages.svg import Drawing
from tests.support.charts import assert_drawn_well, having, number, parsed, texts

END = 1_800_000_000.0
WINDOW = TimeWindow(END)


def chart(*marks: ChartMark) -> Drawing:
    series = [ChartSeries("all", [(END - 900, 1.0), (END, 1.0)])]
    return line_chart("Requests", series, PER_SECOND, WINDOW, marks=marks)


def mark(before: float, kind: str = "death") -> ChartMark:
    return ChartMark(END - before, kind, f"{kind} of npu {before:.0f} s before", f"/runs?before={before:.0f}")


@pytest.mark.parametrize("kind", SIGNS)
def test_a_mark_is_a_link_that_says_what_happened(kind: str) -> None:
    picture = assert_drawn_well(chart(mark(300, kind)))
    (found,) = having(picture, "event-mark")
    assert found.tag == "a"
    assert found.attrib["href"] == "/runs?before=300"
    assert found.attrib["aria-label"] == f"{kind} of npu 300 s before"
    assert SIGNS[kind] in texts(picture)
    assert parsed(chart(mark(300, kind))).attrib["role"] == "group"


def test_a_mark_stands_at_its_instant() -> None:
    picture = assert_drawn_well(chart(mark(450)))
    (plot,) = [each for each in picture.iter("g") if "data-chart" in each.attrib]
    left, right, *_ = map(float, plot.attrib["data-box"].split())
    (line,) = having(picture, "mark-line")
    assert number(line, "x1") == pytest.approx((left + right) / 2, abs=0.2)


def test_marks_that_are_close_to_each_other_are_one_with_the_gravest_sign() -> None:
    picture = assert_drawn_well(chart(mark(300, "start"), mark(302, "death"), mark(299, "plan"), mark(100, "load")))
    first, second = having(picture, "event-mark")
    assert first.attrib["aria-label"].startswith("3 events: death of npu 302 s before; start")
    assert second.attrib["aria-label"] == "load of npu 100 s before"
    assert [text for text in texts(picture) if text in SIGNS.values()] == [SIGNS["death"], SIGNS["load"]]


def test_marks_outside_of_the_window_are_left_out() -> None:
    assert not having(assert_drawn_well(chart(mark(901), mark(-1))), "event-mark")


def test_a_sign_tells_of_the_gravest_of_many_events() -> None:
    many = [mark(300 + number / 100, "load") for number in range(300)]
    picture = assert_drawn_well(chart(*many, mark(301.5, "death")))
    (found,) = having(picture, "event-mark")
    assert found.attrib["aria-label"].startswith("301 events: ")
    assert "death of npu" in found.attrib["aria-label"]
    assert found.attrib["aria-label"].endswith("; and 289 more")
    assert len(found.attrib["data-at"].split()) == 12
