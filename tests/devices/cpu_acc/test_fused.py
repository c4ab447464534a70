"""Parts of convolutions are parts before ONNX Runtime looks, and results are the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, I32
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_devices.cpu_acc.fused import fuse_neighbours
from nnhal_devices.cpu_acc.graph import LoweredGraph
from tests.devices.image_networks import Network, plain, results, rewritten
from tests.support.agreement import like, random
from tests.support.models import Recipe

_SIZE = 8
_IMAGE = random(F32, (1, _SIZE, _SIZE, 3))


def _fused(model: ResolvedModel) -> LoweredGraph:
    graph = plain(model)
    fuse_neighbours(graph)
    for ours, theirs in zip(results(graph, _IMAGE), results(plain(model), _IMAGE), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return graph


def _types(graph: LoweredGraph) -> list[str]:
    return [node.type for node in graph.nodes if node.type != "Transpose"]


def _convolved() -> tuple[Network, int]:
    network = Network()
    return network, network.dense(network.image(_SIZE, 3), 5, window=3)


@pytest.mark.parametrize(
    "operation",
    [
        OperationType.HARD_SWISH,
        OperationType.LOGISTIC,
        OperationType.RELU,
        OperationType.RELU1,
        OperationType.RELU6,
        OperationType.TANH,
    ],
)
def test_an_activation_becomes_a_part(operation: OperationType) -> None:
    network, image = _convolved()
    graph = _fused(network.recipe.build(network.unary(operation, image)))
    assert _types(graph) == ["FusedConv"]
    (node,) = (node for node in graph.nodes if node.type == "FusedConv")
    assert node.place == f"operation 0 (CONV_2D), operation 1 ({operation.name})"


def test_one_slope_for_all_channels_becomes_a_part() -> None:
    network, image = _convolved()
    slope = network.recipe.constant(F32, [0.25])
    graph = _fused(network.recipe.build(network.add(OperationType.PRELU, 5, image, slope)))
    assert _types(graph) == ["FusedConv"]


@pytest.mark.parametrize("operation", [OperationType.MAXIMUM, OperationType.MINIMUM])
def test_one_bound_becomes_a_part(operation: OperationType) -> None:
    network, image = _convolved()
    model = network.recipe.build(network.extreme(operation, network.dense(image, 16), 0.125))
    graph = rewritten(model, 16)
    assert _types(graph) == ["Conv", "Conv", "Clip"]
    expected = results(graph, _IMAGE)
    fuse_neighbours(graph)
    assert _types(graph) == ["Conv", "FusedConv"]
    np.testing.assert_array_equal(results(graph, _IMAGE), expected)


def test_an_activation_of_a_product_becomes_a_part() -> None:
    recipe = Recipe()
    weights, bias = recipe.constant(F32, random(F32, (3, 4))), recipe.constant(F32, random(F32, (3,)))
    inputs = [recipe.input(F32, (2, 4)), weights, bias, *recipe.integers(1)]
    model = recipe.build(recipe.operation(OperationType.FULLY_CONNECTED, inputs, like(F32)))
    graph, given = plain(model), random(F32, (2, 4))
    expected = results(graph, given)
    fuse_neighbours(graph)
    assert _types(graph) == ["FusedGemm"]
    np.testing.assert_array_equal(results(graph, given), expected)


def test_an_activation_stays_if_somebody_else_reads_its_input() -> None:
    network, image = _convolved()
    active = network.unary(OperationType.RELU, image)
    assert _types(_fused(network.recipe.build(active, image))) == ["Conv", "Relu"]
    network, image = _convolved()
    active = network.unary(OperationType.RELU, image)
    both = network.combine(OperationType.ADD, active, image)
    assert _types(_fused(network.recipe.build(both))) == ["Conv", "Relu", "Add"]


def test_only_the_first_of_two_activations_becomes_a_part() -> None:
    network, image = _convolved()
    twice = network.unary(OperationType.TANH, network.unary(OperationType.RELU, image))
    assert _types(_fused(network.recipe.build(twice))) == ["FusedConv", "Tanh"]


def test_zeros_around_an_image_become_a_part() -> None:
    network, image = _convolved()
    paddings = network.recipe.constant(I32, [[0, 0], [1, 0], [2, 3], [0, 0]])
    padded = network.add(OperationType.PAD, 5, image, paddings)
    graph = _fused(network.recipe.build(network.dense(padded, 4, window=3, stride=2, activation=1)))
    assert _types(graph) == ["Conv", "FusedConv"]


def test_zeros_that_others_read_and_other_paddings_stay() -> None:
    network, image = _convolved()
    paddings = network.recipe.constant(I32, [[0, 0], [1, 1], [1, 1], [0, 0]])
    padded = network.add(OperationType.PAD, 5, image, paddings)
    first, second = network.dense(padded, 4), network.pool(padded)
    assert _types(_fused(network.recipe.build(first, second))) == ["Conv", "Pad", "Conv", "MaxPool"]
    network, image = _convolved()
    assert _types(_fused(network.recipe.build(network.dense(network.more_channels(image, 2), 4)))) == [
        "Conv",
        "Pad",
        "Conv",
    ]
