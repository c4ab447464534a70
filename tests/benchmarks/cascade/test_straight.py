"""Lines through points, and their pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.cascade.straight import fitted, plot


def test_points_of_a_line_are_fitted_exactly() -> None:
    line = fitted([(1, 5.0), (2, 7.0), (5, 13.0)])
    assert (line.slope, line.intercept, line.r_squared) == pytest.approx((2, 3, 1))


def test_a_parabola_is_no_straight_line() -> None:
    assert fitted([(x, x * x) for x in range(11)]).r_squared < 0.95


def test_one_place_has_no_line() -> None:
    with pytest.raises(ValueError, match="no line through 2 points of one x"):
        fitted([(1, 2.0), (1, 3.0)])


@pytest.mark.parametrize("height", [0.004, 0.35, 1.0, 7.0, 1234.0])
def test_the_plot_has_each_point_within_the_picture(height: float) -> None:
    points = [(100, height / 10), (500, height / 2), (1000, height)]
    picture = ElementTree.fromstring(plot(points, fitted(points), "parts", "seconds", "<planning>"))
    _, _, width, tall = map(float, picture.attrib["viewBox"].split())
    circles = [each for each in picture.iter() if each.tag.endswith("circle")]
    assert len(circles) == len(points)
    assert all(0 <= float(each.attrib["cx"]) <= width and 0 <= float(each.attrib["cy"]) <= tall for each in circles)
