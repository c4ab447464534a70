"""Sizes, times and stripes in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal_cascade.command import formatting
from tests.support.cascades import story


@pytest.mark.parametrize(
    ("count", "text"),
    [(240_128, "240,128 bytes (234.5 KiB)"), (2048, "2,048 bytes (2 KiB)"), (0, "0 bytes (0 KiB)")],
)
def test_a_size_is_told_exactly_and_in_kib(count: int, text: str) -> None:
    assert formatting.size(count) == text


@pytest.mark.parametrize(("milliseconds", "text"), [(16.2345, "16.23 ms"), (0.0123, "12.3 µs")])
def test_a_short_time_is_told_in_microseconds(milliseconds: float, text: str) -> None:
    assert formatting.time(milliseconds) == text


@pytest.mark.parametrize(("number", "text"), [(9_999, "9,999"), (49_280, "49.3 k"), (7_330_000, "7.33 M")])
def test_a_large_number_is_short(number: int, text: str) -> None:
    assert formatting.short(number) == text


def test_stripes_are_told_with_their_number_and_extent() -> None:
    cascade, alone = story().plans
    assert formatting.stripes(cascade.parts[0], cascade) == "8 of 1 row"
    assert formatting.stripes(alone.parts[0], alone) == "2 of 8 channels"
    assert formatting.stripes(replace(alone.parts[0], runs=1), alone) == "whole"
    assert formatting.cut(cascade.parts[0], cascade) == "in 8 stripes of 1 row"


def test_plans_are_named_by_their_parts() -> None:
    cascade, alone = story().plans
    assert formatting.plan_name(cascade) == "cascade of 0-2"
    assert formatting.plan_name(alone) == "3"
    assert formatting.plan_name(replace(cascade, tiles=4, tile=(2, 8, 8))) == "cascade of 0-2, 4 tiles of 2 x 8 x 8"


def test_the_peak_is_told_with_what_it_is_made_of() -> None:
    told = story()
    expected = "in part 3 (CONV_2D d): d 1,024, c 512, 1 buffer of weights 288, 896 free below them"
    assert formatting.made_of(told) == expected
    first = replace(told, plans=(replace(told.plans[0], memory=5000), told.plans[1]))
    expected = (
        "in the cascade of 0-2: c 512, image 256, 2 rolling buffers 256, 1 buffer of weights 368, 3,608 free below them"
    )
    assert formatting.made_of(first) == expected


def test_bytes_that_are_shared_are_told() -> None:
    told = story()
    alone = replace(told.plans[1], memory=1800)
    lower = replace(told, plans=(replace(told.plans[0], memory=100), alone))
    assert formatting.made_of(lower).endswith("less 24 that a dying input and an output share")


def test_a_measurement_is_compared_with_the_plan() -> None:
    told = story()
    assert formatting.agreement(replace(told, measured=told.planned)).endswith("as planned")
    other = replace(told.planned, cycles=1)
    assert f"planned were 2,720 bytes and {told.planned.cycles:,} cycles" in formatting.agreement(
        replace(told, measured=other)
    )
