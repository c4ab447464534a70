from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations.operand_types import Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_cascade.geometry.box import Axis, Box, Interval, whole
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.machine.errors import StreamError
from nnhal_cascade.machine.part_program import Given, PartProgram, Programs
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.support.agreement import inputs_of, like
from tests.support.models import run_on
from tests.support.npu import SAME
from tests.support.small_networks import Network


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*interval) for interval in box)


class OnlyPart:
    """The program of a network of one part and one input, with what cpu_ref makes of it."""

    def __init__(self, model: ResolvedModel) -> None:
        graph = build_graph(model)
        (self.part,) = graph.parts
        self.program: PartProgram = Programs(graph, model).program(self.part)
        inputs = inputs_of(model)
        self.given: Array = inputs[0].reshape(graph.tensors[self.part.inputs[0].tensor].shape)
        self.made: Array = run_on(CpuRef(), model, *inputs)[0].reshape(graph.tensors[self.part.output].shape)
        self.shape = graph.tensors[self.part.output].shape

    def compute(self, box: Box) -> Array:
        needed = [each.needs(box) for each in self.part.inputs]
        return self.program.run(box, [Given(each, self.given[slices(each)]) for each in needed])


def test_operations_of_a_part_run_in_order() -> None:
    network = Network(6, 5, 3)
    only = OnlyPart(network.recipe.build(network.relu(network.conv(network.image, 3, 4, scheme=SAME))))
    assert only.part.operations == (0, 1)
    box = whole(only.shape).along(Axis.ROWS, Interval(2, 4))
    np.testing.assert_array_equal(only.compute(box), only.made[2:4])


def test_a_tensor_that_is_read_twice_is_given_twice() -> None:
    network = Network(4, 3, 2)
    inputs = [network.image, network.image, *network.recipe.integers(3)]
    only = OnlyPart(network.recipe.build(network.recipe.operation(OperationType.CONCATENATION, inputs, like(Q8AS))))
    box = whole(only.shape).along(Axis.CHANNELS, Interval(2, 3))
    assert [each.needs(box).channels.length for each in only.part.inputs] == [0, 1]
    np.testing.assert_array_equal(only.compute(box), only.made[:, :, 2:3])


def test_another_view_of_a_tensor_needs_all_of_it() -> None:
    network = Network(4, 3, 2)
    flat = network.reshape(network.image, 1, 2, 3, 4)
    only = OnlyPart(network.recipe.build(network.conv(flat, 4, 2, side=1)))
    row = whole(only.shape).along(Axis.ROWS, Interval(1, 2))
    np.testing.assert_array_equal(only.compute(row), only.made[1:2])
    two = Box(Interval(0, 2), Interval(0, 3), Interval(0, 2))
    with pytest.raises(StreamError) as caught:
        only.program.run(row, [Given(two, only.given[:2])])
    assert str(caught.value) == (
        f"a stripe of {only.part.name} needs rows 0..3, columns 0..2 and channels 0..1 of its input 0, "
        "it is given rows 0..1, columns 0..2 and channels 0..1"
    )
