"""Images get whole blocks of channels where operations gain by it."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F32
from nnhal.types import OperationType
from nnhal_devices.cpu_acc.graph import LoweredGraph
from tests.devices.image_networks import Network, assert_same_results, rewritten
from tests.support.agreement import random

_SIZE = 8
_IMAGE = random(F32, (1, _SIZE, _SIZE, 3))


def _filters(graph: LoweredGraph) -> list[tuple[int, ...]]:
    return [graph.constants[node.inputs[1]].shape[:2] for node in graph.nodes if node.type == "Conv"]


def _types(graph: LoweredGraph) -> list[str]:
    return [node.type for node in graph.nodes]


@pytest.mark.parametrize(("channels", "width"), [(24, 32), (9, 16), (16, 16), (6, 6)])
def test_depthwise_convolutions_get_whole_blocks_unless_images_more_than_double(channels: int, width: int) -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), channels, window=3, activation=3)
    image = network.dense(network.depthwise(image, stride=2), 16)
    graph = assert_same_results(network.recipe.build(image), 16, _IMAGE)
    assert _filters(graph) == [(width, 3), (width, 1), (16, width)]
    assert "Slice" not in _types(graph)


def test_an_operation_that_needs_the_real_channels_reads_a_slice() -> None:
    network = Network()
    image = network.pool(network.depthwise(network.dense(network.image(_SIZE, 3), 24)))
    joined = network.concatenate(image, network.dense(image, 8))
    graph = assert_same_results(network.recipe.build(network.dense(joined, 16), image), 16, _IMAGE)
    assert _filters(graph)[:2] == [(32, 3), (32, 1)]
    assert _types(graph).count("Slice") == 1


def test_images_that_would_be_sliced_more_than_they_gain_stay() -> None:
    network = Network()
    image = network.depthwise(network.dense(network.image(_SIZE, 3), 24))
    model = network.recipe.build(
        image, network.unary(OperationType.EXP, network.unary(OperationType.RELU, network.dense(image, 24)))
    )
    assert _filters(rewritten(model, 16)) == [(24, 3), (24, 1), (24, 24)]


def test_padding_channels_within_a_block_costs_nothing() -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), 20)
    more = network.more_channels(network.pool(image), 4)
    added = network.combine(OperationType.ADD, more, network.dense(network.depthwise(image, stride=2), 24), 1)
    graph = assert_same_results(network.recipe.build(network.dense(network.depthwise(added), 16)), 16, _IMAGE)
    assert not {"Pad", "Slice"} & set(_types(graph))


@pytest.mark.parametrize(("channels", "added", "kind"), [(32, 16, "Conv"), (24, 20, "Conv"), (80, 16, "Pad")])
def test_padding_channels_by_a_block_is_a_convolution_if_there_are_few(channels: int, added: int, kind: str) -> None:
    network = Network()
    image = network.dense(network.image(_SIZE, 3), channels)
    model = network.recipe.build(network.dense(network.depthwise(network.more_channels(image, added)), 16))
    graph = assert_same_results(model, 16, _IMAGE)
    assert ("Pad" in _types(graph)) is (kind == "Pad")


@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.MUL])
@pytest.mark.parametrize("constant_first", [False, True])
def test_constants_for_each_channel_are_widened(operation: OperationType, constant_first: bool) -> None:
    network = Network()
    image = network.depthwise(network.dense(network.image(_SIZE, 3), 24, activation=1))
    pair = (image, network.constant(1, 1, 1, 24))
    first, second = reversed(pair) if constant_first else pair
    network.channels[first] = 24
    image = network.resize(network.combine(operation, first, second), 2 * _SIZE)
    graph = assert_same_results(network.recipe.build(network.dense(image, 16)), 16, _IMAGE)
    assert _filters(graph) == [(32, 3), (32, 1), (16, 32)]


def test_a_constant_that_fills_added_channels_keeps_them_from_being_added() -> None:
    network = Network()
    image = network.depthwise(network.dense(network.image(_SIZE, 3), 24))
    image = network.extreme(OperationType.MAXIMUM, image, 0.5)
    model = network.recipe.build(network.more_channels(network.pool(image), 4))
    assert_same_results(model, 16, _IMAGE)


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("seed", range(12))
def test_networks_at_random_compute_the_same(seed: int, block: int) -> None:
    generator = np.random.default_rng(seed)
    network = Network(seed)
    images = [network.dense(network.image(_SIZE, 3), int(generator.integers(3, 40)))]
    steps = (
        lambda image: network.dense(image, int(generator.integers(1, 40)), window=int(generator.choice([1, 3]))),
        network.depthwise,
        network.slopes,
        lambda image: network.more_channels(image, int(generator.integers(1, 30))),
        lambda image: network.resize(network.pool(image), _SIZE),
        lambda image: network.resize(network.pool(image, OperationType.AVERAGE_POOL_2D), _SIZE),
        lambda image: network.unary(generator.choice([OperationType.LOGISTIC, OperationType.TANH]), image),
        lambda image: network.extreme(OperationType.MINIMUM, image, float(generator.normal())),
        lambda image: network.concatenate(image, images[0]),
        lambda image: network.combine(OperationType.ADD, network.dense(image, network.channels[image]), image, 3),
    )
    for _ in range(10):
        images.append(steps[int(generator.integers(len(steps)))](images[int(generator.integers(-2, 0)) % len(images)]))
    outputs = dict.fromkeys((images[-1], images[-2]))
    assert_same_results(network.recipe.build(*outputs), block, _IMAGE)
