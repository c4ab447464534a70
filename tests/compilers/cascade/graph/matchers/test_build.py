from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal_cascade.geometry.accesses import Everything, OneToOne
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import Activation, CascaderGraph, Part, PartConstants, PartKind
from nnhal_cascade.graph.matchers import build_graph
from tests.support.agreement import like, single
from tests.support.ethos_u import NETWORKS, examples, needs_networks, network
from tests.support.models import Recipe
from tests.support.npu import SAME, VALID, convolution, convolution_at_run_time

IMAGE = (1, 8, 8, 4)
PLAIN = Operand(Q8A, (), 0.5, 0)


def only_part(name: str) -> Part:
    (part,) = build_graph(examples(Q8A)[name]).parts
    return part


class Chain:
    """Operations on 8-bit images, one after the other."""

    def __init__(self) -> None:
        self.recipe = Recipe()
        self.image = self.recipe.input(Q8A, IMAGE, 0.5)

    def relu(self, given: int, kind: OperationType = OperationType.RELU) -> int:
        return self.recipe.operation(kind, [given], PLAIN)

    def logistic(self, given: int) -> int:
        return self.recipe.operation(OperationType.LOGISTIC, [given], Operand(Q8A, (), 1 / 256, 0))

    def pooled(self, given: int) -> int:
        parameters = self.recipe.integers(SAME, 1, 1, 3, 3, 0)
        return self.recipe.operation(OperationType.AVERAGE_POOL_2D, [given, *parameters], PLAIN)

    def added(self, first: int, second: int) -> int:
        return self.recipe.operation(OperationType.ADD, [first, second, *self.recipe.integers(0)], PLAIN)

    def reshaped(self, given: int, *shape: int) -> int:
        constant = self.recipe.constant(OperandType.TENSOR_INT32, shape)
        return self.recipe.operation(OperationType.RESHAPE, [given, constant], PLAIN)

    def graph(self, *outputs: int) -> CascaderGraph:
        return build_graph(self.recipe.build(*outputs))


@pytest.mark.parametrize(
    ("name", "kind", "bytes_of_a_channel"),
    [
        ("CONV_2D SAME", PartKind.CONVOLUTION, 3 * 3 * 4 + 10),
        ("DEPTHWISE_CONV_2D", PartKind.DEPTHWISE, 3 * 3 + 10),
        ("DEPTHWISE_CONV_2D of one channel", PartKind.CONVOLUTION, 3 * 2 + 10),
        ("TRANSPOSE_CONV_2D SAME", PartKind.TRANSPOSE_CONVOLUTION, 3 * 3 * 2 + 10),
        ("FULLY_CONNECTED of rows", PartKind.VECTOR_PRODUCT, 8 + 10),
        ("ADD of a constant", PartKind.ELEMENTWISE, 1),
    ],
)
def test_constants_for_each_channel(name: str, kind: PartKind, bytes_of_a_channel: int) -> None:
    part = only_part(name)
    assert part.kind == kind
    assert part.constants is not None
    assert part.constants.bytes_of(Interval(1, 3)) == 2 * bytes_of_a_channel


@pytest.mark.parametrize("name", ["MUL by a constant", "PRELU with one slope", "AVERAGE_POOL_2D SAME", "PAD"])
def test_parts_without_constants_in_memory(name: str) -> None:
    assert only_part(name).constants is None


def test_a_window_has_a_kernel() -> None:
    kernel = only_part("CONV_2D with dilation").kernel
    assert (kernel.height, kernel.width, kernel.dilation_y, kernel.dilation_x) == (3, 2, 2, 2)
    kernel = only_part("AVERAGE_POOL_2D SAME").kernel
    assert (kernel.height, kernel.width, kernel.stride_y, kernel.stride_x) == (4, 3, 1, 2)
    assert only_part("TRANSPOSE_CONV_2D SAME").kernel.upscale == 2


def test_a_product_with_a_whole_image_covers_it() -> None:
    part = only_part("FULLY_CONNECTED")
    assert (part.kernel.height, part.kernel.width) == (6, 5)
    assert part.constants == PartConstants(120, 10)


@pytest.mark.parametrize(("name", "passes"), [("RESIZE_BILINEAR", 1), ("RESIZE_NEAREST_NEIGHBOR", 2), ("SOFTMAX", 6)])
def test_operations_of_several_passes(name: str, passes: int) -> None:
    assert only_part(name).passes == passes


def test_split_becomes_a_part_for_each_output() -> None:
    graph = build_graph(examples(Q8A)["SPLIT of rows"])
    assert [part.inputs[0].needs(whole(Shape(2, 5, 4))).rows for part in graph.parts] == [(0, 2), (2, 4), (4, 6)]
    assert {part.operations for part in graph.parts} == {(0,)}


def test_a_concatenation_reads_only_what_it_writes() -> None:
    part = only_part("CONCATENATION of channels")
    box = whole(Shape(6, 5, 7)).along(Axis.CHANNELS, Interval(3, 5))
    assert [each.needs(box).channels.length for each in part.inputs] == [1, 1, 0]


def test_an_activation_belongs_to_what_produces_its_input() -> None:
    chain = Chain()
    pooled = chain.pooled(chain.image)
    graph = chain.graph(chain.logistic(chain.relu(pooled)))
    (part,) = graph.parts
    assert (part.operations, part.activation, part.operation) == ((0, 1, 2), Activation.TABLE, "AVERAGE_POOL_2D")
    assert graph.tensors[part.output].is_output
    assert pooled not in graph.tensor_of


def test_an_activation_is_a_part_if_others_read_its_input() -> None:
    chain = Chain()
    pooled = chain.pooled(chain.image)
    graph = chain.graph(chain.added(pooled, chain.relu(pooled)))
    assert [part.kind for part in graph.parts] == [PartKind.POOLING, PartKind.ELEMENTWISE, PartKind.ELEMENTWISE]
    assert [part.activation for part in graph.parts] == [Activation.NONE, Activation.CLAMP, Activation.NONE]
    assert graph.consumers[graph.parts[0].output] == (1, 2)


def test_an_activation_is_a_part_if_its_input_is_an_output_of_the_network() -> None:
    chain = Chain()
    pooled = chain.pooled(chain.image)
    assert len(chain.graph(pooled, chain.relu(pooled)).parts) == 2


def test_a_reshape_shares_memory() -> None:
    chain = Chain()
    pooled = chain.pooled(chain.image)
    flat = chain.reshaped(pooled, 1, 256)
    graph = chain.graph(chain.relu(flat))
    first, second = graph.parts
    assert graph.tensor_of[flat] == graph.tensor_of[pooled] == first.output
    assert graph.tensors[first.output].shape == Shape(8, 8, 4)
    assert second.inputs[0].needs(whole(Shape(1, 1, 1))) == whole(Shape(8, 8, 4))


def test_a_reshape_that_keeps_rows_columns_and_channels_is_read_element_by_element() -> None:
    chain = Chain()
    graph = chain.graph(chain.relu(chain.reshaped(chain.pooled(chain.image), 8, 8, 4)))
    box = Box(Interval(1, 2), Interval(3, 4), Interval(0, 4))
    assert graph.parts[1].inputs[0].needs(box) == box


def test_an_output_that_is_a_view_shares_memory_with_what_is_computed() -> None:
    chain = Chain()
    flat = chain.reshaped(chain.pooled(chain.image), 1, 256)
    graph = chain.graph(flat)
    assert len(graph.parts) == 1
    assert graph.tensors[graph.tensor_of[flat]].is_output


def test_an_output_that_is_a_view_of_an_input_is_a_copy() -> None:
    chain = Chain()
    graph = chain.graph(chain.reshaped(chain.reshaped(chain.image, 256), 16, 16))
    (part,) = graph.parts
    assert (part.kind, part.operations) == (PartKind.COPY, (1,))
    assert [isinstance(part.inputs[0].along(axis), Everything) for axis in Axis] == [True, True, True]
    chain = Chain()
    (part,) = chain.graph(chain.reshaped(chain.image, 8, 8, 4)).parts
    assert [isinstance(part.inputs[0].along(axis), OneToOne) for axis in Axis] == [True, True, True]


def test_what_nobody_reads_is_left_out() -> None:
    chain = Chain()
    unused = chain.recipe.input(Q8A, IMAGE, 0.5)
    chain.pooled(chain.image)
    graph = chain.graph(chain.relu(chain.image))
    assert [part.operations for part in graph.parts] == [(1,)]
    assert unused not in graph.tensor_of


def test_names_are_those_of_the_model() -> None:
    model = convolution(Q8A, (4, 3, 3, 4), [VALID, 1, 1, 0], IMAGE)
    (image,), (output,) = model.model.main.input_indexes, model.model.main.output_indexes
    graph = build_graph(replace(model, names={image: "image", output: "body/Relu;body/conv/Conv2D"}))
    assert [tensor.name for tensor in graph.tensors] == ["image", "body/Relu"]
    assert graph.parts[0].name == "body/Relu (CONV_2D)"


def test_without_names_operations_name_what_they_compute() -> None:
    chain = Chain()
    graph = chain.graph(chain.relu(chain.pooled(chain.image)), chain.pooled(chain.image))
    assert [tensor.name for tensor in graph.tensors] == ["input 0", "operation 0", "operation 2"]
    assert graph.parts[0].name == "operation 0 (AVERAGE_POOL_2D)"
    assert graph.parts[0].operations == (0, 1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (single(OperationType.SQRT, F32, [(1, 4)]), "operation 0 (SQRT)"),
        (single(OperationType.RELU, Q8A, [(2, 4, 4, 3)]), "expected batch 1"),
        (single(OperationType.RELU, Q8A, [(0, 4)]), "expected all of them to be known"),
        (convolution_at_run_time(Q8A), "expected a constant"),
        (
            convolution(Q8A, (4, 3, 3, 4), [VALID, 1, 1, 0, True], (1, 4, 8, 8)),
            "got images with their channels first, expected channels last",
        ),
        (
            single(OperationType.STRIDED_SLICE, Q8A, [(8,)], [[7], [0], [-1], 0, 0, 0]),
            "got strides [-1], expected at least 1 on each axis",
        ),
    ],
)
def test_what_is_not_taken_is_named(model: ResolvedModel, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build_graph(model)


def test_a_graph_of_constants_only_is_refused() -> None:
    recipe = Recipe()
    constant = recipe.constant(Q8AS, np.zeros(4), 0.05, -11)
    model = recipe.build(recipe.operation(OperationType.RELU, [constant], like(Q8AS)))
    with pytest.raises(ValueError, match="expected an input that is computed or fed"):
        build_graph(model)


@needs_networks
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    model = network(name)
    graph = build_graph(model)
    assert len(graph.parts) == NETWORKS[name]
    assert [tensor.is_input for tensor in graph.tensors].count(True) == 1
    assert [tensor.is_output for tensor in graph.tensors].count(True) == 1
    for part in graph.parts:
        for each in part.inputs:
            tensor = graph.tensors[each.tensor]
            assert each.needs(whole(graph.tensors[part.output].shape)) == whole(tensor.shape)


@needs_networks
def test_the_first_convolution_of_mobilenet() -> None:
    graph = build_graph(network("mobilenet_v1_1.0_224"))
    first = graph.parts[0]
    assert graph.tensors[first.inputs[0].tensor].shape == Shape(224, 224, 3)
    assert graph.tensors[first.output].shape == Shape(112, 112, 32)
    assert first.activation == Activation.CLAMP
    assert first.inputs[0].needs(whole(Shape(112, 112, 32)).along(Axis.ROWS, Interval(2, 4))).rows == (4, 9)
