"""Activations run in the blocked layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnhal.operations.operand_types import F32
from nnhal.types import OperationType
from nnhal_devices.cpu_acc.blocked import rewrite
from nnhal_devices.cpu_acc.blocked.block_size import block_channels
from tests.devices.image_networks import Network, assert_same_results, optimized, plain
from tests.support.agreement import assert_agrees, random

_SIZE = 8
_IMAGE = random(F32, (1, _SIZE, _SIZE, 3))
_RELU6 = 3

Activation = Callable[[Network, int], int]
_ACTIVATIONS: dict[str, Activation] = {
    "slopes": lambda network, image: network.slopes(image),
    "one slope": lambda network, image: network.add(
        OperationType.PRELU, network.channels[image], image, network.constant(1)
    ),
    "bound below": lambda network, image: network.extreme(OperationType.MAXIMUM, image, -0.4),
    "bound above": lambda network, image: network.extreme(OperationType.MINIMUM, image, 0.7),
    "hard swish": lambda network, image: network.unary(OperationType.HARD_SWISH, image),
    "RELU6": lambda network, image: network.unary(OperationType.RELU6, image),
}


def _residual(activation: Activation, channels: int) -> Network:
    """An activation of a sum, which both branches of the next sum read."""
    network = Network()
    image = network.dense(network.image(_SIZE, 3), channels)
    for _ in range(2):
        branch = activation(network, network.dense(network.depthwise(image), channels))
        image = activation(network, network.combine(OperationType.ADD, branch, image))
    network.dense(image, channels)
    return network


@pytest.mark.parametrize("name", _ACTIVATIONS)
def test_between_convolutions_no_image_leaves_the_blocks(name: str, tmp_path: Path) -> None:
    block = block_channels()
    if block is None:
        pytest.skip("ONNX Runtime has no blocked layout for this processor")
    network = _residual(_ACTIVATIONS[name], 2 * block)
    model = network.recipe.build(max(network.channels))
    graph = plain(model)
    rewrite(graph, block)
    nodes = optimized(graph, tmp_path)
    assert [node for node in nodes if node.startswith("Reorder")] == ["ReorderOutput*"]
    assert_agrees(model, _IMAGE)


@pytest.mark.parametrize("name", _ACTIVATIONS)
@pytest.mark.parametrize("channels", [20, 32])
def test_results_are_the_same(name: str, channels: int) -> None:
    network = _residual(_ACTIVATIONS[name], channels)
    assert_same_results(network.recipe.build(max(network.channels)), 16, _IMAGE)


def test_the_sum_of_an_image_and_what_is_none_may_become_one() -> None:
    network = Network()
    given = network.image(_SIZE, 16)
    branch = network.dense(given, 16)
    model = network.recipe.build(network.dense(network.slopes(network.combine(OperationType.ADD, given, branch)), 16))
    graph = assert_same_results(model, 16, random(F32, (1, _SIZE, _SIZE, 16)))
    assert "PRelu" not in [node.type for node in graph.nodes]


def test_slopes_of_any_sign_and_size() -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), 16)
    slopes = network.recipe.constant(F32, np.linspace(-3, 4, 16))
    image = network.add(OperationType.PRELU, 16, image, slopes)
    assert_agrees(network.recipe.build(image), _IMAGE)


def test_an_activation_of_one_convolution_alone_is_left_to_onnx_runtime() -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), 16, activation=_RELU6)
    graph = assert_same_results(network.recipe.build(network.dense(image, 16)), 16, _IMAGE)
    assert [node.type for node in graph.nodes].count("Conv") == 2
