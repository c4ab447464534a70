"""A model with its weights as they lie at rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.performance.encoding import encoded_graph
from tests.support.agreement import like
from tests.support.models import Recipe
from tests.support.npu import VALID
from tests.support.small_networks import residual, two_convs


def of_one(values: Array, dilation: int = 1) -> ResolvedModel:
    """A convolution of 3 x 3 over an image of 32 channels, which takes any dilation."""
    recipe = Recipe()
    inputs = [
        recipe.input(Q8AS, (1, 32, 32, 32), 0.05, -11),
        recipe.constant(Q8AS, values, 0.01, 0),
        recipe.constant(I32, np.zeros(len(values)), float(np.float32(0.05) * np.float32(0.01))),
        *recipe.integers(VALID, 1, 1, 0),
        recipe.constant(OperandType.BOOL, False),
        *recipe.integers(dilation, dilation),
    ]
    return recipe.build(recipe.operation(OperationType.CONV_2D, inputs, like(Q8AS)))


def bytes_of_weights(graph: CascaderGraph) -> int:
    (part,) = graph.parts
    assert part.constants is not None
    return part.constants.weight_bytes * graph.tensors[part.output].shape.channels


ANYTHING = np.random.default_rng(7).integers(-127, 128, (32, 3, 3, 32))


def test_weights_near_zero_take_fewer_bytes() -> None:
    assert bytes_of_weights(build_graph(of_one(ANYTHING))) == 32 * 9 * 32
    anything, small = (bytes_of_weights(encoded_graph(of_one(each))) for each in (ANYTHING, ANYTHING // 16))
    assert 32 * 9 * 32 <= anything < 1.01 * 32 * 9 * 32
    assert small < 0.6 * anything


def test_zeros_between_the_elements_of_a_dilated_kernel_are_encoded() -> None:
    """Vela's bytes of such a layer are more from a dilation of 4 on: its NPU dilates by 2 at most."""
    sizes = [bytes_of_weights(encoded_graph(of_one(ANYTHING, dilation))) for dilation in (1, 2, 4, 8)]
    assert sizes[0] == sizes[1] < sizes[2] < sizes[3] < 2 * sizes[0]


def test_all_else_of_a_graph_is_as_it_was() -> None:
    for model in (two_convs(), residual()):
        plain, encoded = build_graph(model), encoded_graph(model)
        assert encoded.tensors == plain.tensors
        assert [replace(part, constants=None) for part in encoded.parts] == [
            replace(part, constants=None) for part in plain.parts
        ]
        assert [part.constants and part.constants.scale_bytes for part in encoded.parts] == [
            part.constants and part.constants.scale_bytes for part in plain.parts
        ]
