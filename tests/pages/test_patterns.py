"""Devices are told apart by colour and by pattern."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

from nnhal_pages.patterns import DeviceLane, device_lanes, patterns
from nnhal_pages.svg import drawing_style

NAMES = [f"device_{number}" for number in range(36)]


def test_thirty_six_devices_look_different() -> None:
    lanes = list(device_lanes(NAMES).values())
    assert len(set(lanes)) == len(NAMES)
    assert all(one.colour != other.colour and one.pattern != other.pattern for one, other in pairwise(lanes))


def test_a_fill_names_a_pattern_that_is_defined() -> None:
    lanes = [*device_lanes(NAMES).values(), DeviceLane()]
    defined = {each.attrib["id"] for each in ElementTree.fromstring(patterns("plan", lanes))}
    assert {lane.fill("plan") for lane in lanes} == {f"url(#{name})" for name in defined}
    assert defined.isdisjoint(each.attrib["id"] for each in ElementTree.fromstring(patterns("other", lanes)))


def test_every_colour_has_a_rule_for_elements_and_for_whole_drawings() -> None:
    for lane in (*device_lanes(NAMES).values(), DeviceLane()):
        assert f".drawing .{lane.class_}," in drawing_style() and f".drawing.{lane.class_} " in drawing_style()


def test_a_pattern_is_seen_without_its_colour() -> None:
    marks = [re.sub(r"lane-\d|id='[^']*'", "", lane.definition("p")) for lane in device_lanes(NAMES[:6]).values()]
    assert len(set(marks)) == 6
