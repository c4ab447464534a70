from __future__ import annotations

import pytest

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.roofline import roofline_chart
from tests.support.charts import assert_drawn_well, having, number, texts


def layer(name: str, intensity: float, rate: float) -> admin_pb2.RooflineLayer:
    return admin_pb2.RooflineLayer(name=name, intensity=intensity, rate=rate)


def figure(*layers: admin_pb2.RooflineLayer) -> admin_pb2.RooflineFigure:
    return admin_pb2.RooflineFigure(peak=1024, bandwidth=32, unit="MAC", layers=layers)


def test_each_layer_is_a_point_that_can_be_reached_and_read() -> None:
    picture = assert_drawn_well(roofline_chart(figure(layer("conv1", 45.6, 247), layer("dense", 0.42, 0.1))))
    points = having(picture, "point")
    assert [each.get("tabindex") for each in points] == ["0", "0"]
    assert points[0].get("aria-label") == "conv1, 247 MACs in a cycle, 24% of its roof, 45.6 MACs for each byte"
    conv, dense = (number(each, "cx") for each in having(picture, "mark"))
    assert conv > dense


def test_a_layer_on_its_roof_is_on_the_line() -> None:
    picture = assert_drawn_well(roofline_chart(figure(layer("ridge", 32, 1024))))
    (mark,) = having(picture, "mark")
    (roof,) = having(picture, "steps")
    assert f"{mark.get('cx')} {mark.get('cy')}H" in roof.attrib["d"]


def test_layers_that_move_no_bytes_stand_apart() -> None:
    picture = assert_drawn_well(roofline_chart(figure(layer("a", 0, 100), layer("b", 1e4, 100))))
    assert "no bytes" in texts(picture)
    apart, other = (number(each, "cx") for each in having(picture, "mark"))
    assert apart > other


@pytest.mark.parametrize("given", [figure(), admin_pb2.RooflineFigure(), figure(layer("none", 4, 0))])
def test_without_rates_the_picture_says_so(given: admin_pb2.RooflineFigure) -> None:
    picture = assert_drawn_well(roofline_chart(given))
    assert "no layer has a rate" in texts(picture)
    assert not having(picture, "point")


@pytest.mark.parametrize("intensity", [1e-9, 1e12])
def test_extreme_layers_are_within_the_picture(intensity: float) -> None:
    drawing = roofline_chart(figure(layer("far", intensity, 1e-7)))
    (mark,) = having(assert_drawn_well(drawing), "mark")
    assert 0 < number(mark, "cx") < drawing.width
    assert 0 < number(mark, "cy") < drawing.height
