"""The size of encoded weights, beside what the encoder of Arm's Vela 5.2.0 made of the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_cascade.performance.encoded_weights import WeightOrder, encoded_bytes

_TOLERANCE = 0.07
"""For one layer of a few thousand weights; those of a network are within 0.05 together."""


def flat(*shape: int) -> Array:
    return np.random.default_rng(7).integers(-127, 128, shape).astype(np.int8)


def bell(*shape: int, spread: int = 25, step: int = 1, kept: float = 1.0) -> Array:
    generator = np.random.default_rng(7)
    drawn = generator.integers(-spread, spread + 1, (4, *shape)).sum(axis=0).clip(-127, 127) // step * step
    return np.where(generator.random(shape) < kept, drawn, 0).astype(np.int8)


DEPTH, PART, DEPTHWISE = WeightOrder.DEPTH_FIRST, WeightOrder.PART_KERNEL, WeightOrder.DEPTHWISE


@pytest.mark.parametrize(
    ("weights", "order", "encoded"),
    [
        pytest.param(flat(64, 9, 64), DEPTH, 36_880, id="any value"),
        pytest.param(bell(64, 9, 64, spread=20), DEPTH, 31_152, id="as of a trained layer"),
        pytest.param(bell(64, 9, 64, spread=4), DEPTH, 21_328, id="near to zero"),
        pytest.param(bell(64, 9, 64, spread=20, kept=0.2), DEPTH, 9_504, id="pruned"),
        pytest.param(bell(64, 9, 64, spread=20, step=32), DEPTH, 8_960, id="clustered"),
        pytest.param(bell(32, 9, 3), PART, 1_088, id="three channels"),
        pytest.param(bell(64, 9, 1), DEPTHWISE, 608, id="depthwise"),
        pytest.param(bell(12, 1, 60), DEPTH, 768, id="product"),
    ],
)
def test_the_size_is_about_that_of_the_encoder(weights: Array, order: WeightOrder, encoded: int) -> None:
    assert encoded_bytes(weights, weights.shape, 0, order) == pytest.approx(encoded, rel=_TOLERANCE)


def test_values_count_from_their_zero_point() -> None:
    centred, shape = bell(64, 1, 64), (64, 1, 64)
    expected = encoded_bytes(centred, shape, 0, DEPTH)
    assert encoded_bytes((centred.astype(np.int16) + 128).astype(np.uint8), shape, 128, DEPTH) == expected
    # Vela: 4,624. A value of more than 127 takes another bit.
    anything = np.random.default_rng(7).integers(0, 256, shape).astype(np.uint8)
    assert encoded_bytes(anything, shape, 100, DEPTH) == pytest.approx(4_624, rel=_TOLERANCE)


def test_weights_that_are_all_the_same_take_a_bit_each() -> None:
    assert encoded_bytes(np.full((64, 1, 64), 3, np.int8), (64, 1, 64), 0, DEPTH) == pytest.approx(528, rel=_TOLERANCE)
    assert 0 < encoded_bytes(np.zeros((64, 1, 64), np.int8), (64, 1, 64), 0, DEPTH) <= 528


def test_a_large_layer_is_judged_by_a_sample() -> None:
    # The same values again: twice the bytes, whatever the sample takes.
    once, twice = flat(256, 1, 256), np.tile(flat(256, 1, 256), (2, 1, 1))
    single, double = encoded_bytes(once, once.shape, 0, DEPTH), encoded_bytes(twice, twice.shape, 0, DEPTH)
    assert double == pytest.approx(2 * single, rel=0.01)
