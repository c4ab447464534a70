from __future__ import annotations

from typing import Any

import pytest

from tests.support.known_good import config_of, known_good, needs_known_good
from tests.support.published_cascader.stripes import StripeConfig, count_stripes, recompute_bytes, rolling_bytes


def stripes(shape: Any, extent: Any, strides: Any, counts: Any, offset: Any) -> StripeConfig:
    return StripeConfig(shape, extent, strides, tuple(range(1, len(shape) + 1)), counts, offset)


@needs_known_good
def test_counts_are_those_that_are_known() -> None:
    cases = known_good("count_stripes")
    wrong = [
        case
        for case in cases
        if count_stripes(config_of(case["config"]), case["sliding"]) != {tuple(s): n for s, n in case["counts"]}
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (stripes((3, 3, 3), (9, 9, 9), (3, 3, 3), (3, 3, 3), (0, 0, 0)), {(3, 3, 3): 27}),
        (
            stripes((3, 3), (10, 10), (2, 2), (5, 5), (0, 0)),
            {(3, 3): 16, (2, 3): 4, (3, 2): 4, (2, 2): 1},
        ),
        (stripes((5, 5), (8, 8), (5, 5), (2, 2), (0, 0)), {(5, 5): 1, (3, 5): 1, (5, 3): 1, (3, 3): 1}),
        (stripes((5, 5), (8, 8), (5, 5), (2, 2), (-1, -2)), {(4, 3): 2, (4, 5): 2}),
        (
            stripes((13, 7), (128, 73), (13, 7), (11, 12), (-10, -5)),
            {
                (3, 1): 1,
                (3, 2): 1,
                (8, 7): 10,
                (8, 2): 1,
                (13, 7): 90,
                (13, 1): 9,
                (8, 1): 1,
                (3, 7): 10,
                (13, 2): 9,
            },
        ),
    ],
)
def test_stripes_are_cut_off_at_the_borders(config: StripeConfig, expected: dict[tuple[int, ...], int]) -> None:
    assert count_stripes(config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            stripes((4, 4), (16, 16), (2, 2), (7, 7), (0, 0)),
            {(4, 4): 1, (2, 4): 6, (4, 2): 6, (2, 2): 36},
        ),
        (
            stripes((4, 4), (8, 8), (2, 2), (6, 3), (-5, 0)),
            {(1, 4): 2, (2, 4): 3, (2, 2): 6, (1, 2): 4},
        ),
    ],
)
def test_a_sliding_window_has_only_new_elements(config: StripeConfig, expected: dict[tuple[int, ...], int]) -> None:
    assert count_stripes(config, sliding=True) == expected


def test_stripes_start_at_whole_elements() -> None:
    config = StripeConfig((2,), (6,), (1.5,), (1,), (4,), (-1,))
    assert [config.stripe(0, number) for number in range(4)] == [(-1, 1), (0, 2), (2, 4), (3, 5)]


def test_axes_that_are_missing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape has 2, extent has 3, .* expected one value for each axis"):
        StripeConfig((1, 2), (1, 2, 3), (1, 2), (1, 2), (1, 1), (0, 0))


@pytest.mark.parametrize(
    ("shape", "strides", "counts", "said"),
    [
        ((0,), (1,), (1,), r"shape is \(0,\); expected values of at least 1"),
        ((1,), (-1,), (1,), r"strides is \(-1,\); expected values of at least 0"),
        ((1,), (1,), (0,), r"stripes is \(0,\); expected values of at least 1"),
    ],
)
def test_values_that_are_too_small_are_refused(shape: Any, strides: Any, counts: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        stripes(shape, (4,), strides, counts, (0,))


def striped(shape: tuple[int, int, int], counts: tuple[int, int, int], order: tuple[int, int, int]) -> StripeConfig:
    return StripeConfig(shape, (9, 16, 21), shape, order, counts, (0, 0, 0))


@needs_known_good
def test_sizes_are_those_that_are_known() -> None:
    for case in known_good("buffer_size"):
        config = config_of(case["config"])
        assert rolling_bytes(config, tuple(case["tensor"])) == case["rolling"]
        assert recompute_bytes(config) == case["recompute"]


def test_a_recompute_buffer_holds_a_stripe() -> None:
    assert recompute_bytes(striped((4, 5, 7), (3, 4, 3), (1, 2, 3)), element_bytes=4, ratio=0.5) == 280


def test_a_rolling_buffer_is_cut_along_the_outermost_axis_of_several_stripes() -> None:
    config = striped((9, 4, 7), (1, 3, 3), (1, 3, 2))
    assert rolling_bytes(config, (9, 16, 21), element_bytes=4, ratio=0.5) == 2016


def test_a_buffer_without_stripes_is_the_tensor() -> None:
    assert rolling_bytes(striped((9, 16, 21), (1, 1, 1), (1, 2, 3)), (9, 16, 21)) == 9 * 16 * 21


def test_compressed_bytes_are_rounded_up() -> None:
    config = striped((1, 1, 3), (9, 16, 7), (1, 2, 3))
    assert recompute_bytes(config, ratio=0.5) == 2


def test_a_tensor_of_another_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="got a tensor of rank 2; expected that of its stripes, 3"):
        rolling_bytes(striped((9, 4, 7), (1, 3, 3), (1, 3, 2)), (9, 16))
