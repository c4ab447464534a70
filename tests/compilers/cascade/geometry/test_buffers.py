from __future__ import annotations

import pytest

from nnhal_cascade.geometry.buffers import recompute_bytes, rolling_bytes
from nnhal_cascade.geometry.stripe_config import StripeConfig
from tests.support.known_good import config_of, known_good, needs_known_good


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
