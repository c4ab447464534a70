"""Convolutions with few output channels are computed in three steps."""

from __future__ import annotations

import pytest

from nnhal.operations.operand_types import F32
from tests.devices.image_networks import Network, assert_same_results
from tests.support.agreement import random

_SIZE = 8
_IMAGE = random(F32, (1, _SIZE, _SIZE, 3))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("given", "made", "window", "is_split"),
    [(16, 1, 3, True), (64, 3, 3, True), (32, 1, 5, True), (32, 16, 3, False), (32, 1, 1, False), (18, 1, 3, True)],
)
def test_a_head_with_a_window(given: int, made: int, window: int, is_split: bool, stride: int) -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), given, activation=1)
    head = network.dense(image, made, window=window, stride=stride)
    graph = assert_same_results(network.recipe.build(head), 16, _IMAGE)
    assert [node.type for node in graph.nodes].count("Conv") == (4 if is_split else 2)
