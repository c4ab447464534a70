from __future__ import annotations

import numpy as np

from nnhal.operations._types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_devices.ethos_n.optimize import optimize
from tests.support.models import Recipe
from tests.support.npu import SAME, is_taken

# With 64 channels, three rows of a wide image do not fit 512 KiB.
WIDE = (1, 4, 4096, 64)
SMALL = (1, 4, 4, 64)
QUANTIZATION = (0.5, 128)


class Network:
    """Operations on images that keep their dimensions."""

    def __init__(self) -> None:
        self.recipe = Recipe()

    def image(self, dimensions: tuple[int, ...]) -> int:
        return self.recipe.input(Q8A, dimensions, *QUANTIZATION)

    def convolved(self, image: int) -> int:
        recipe = self.recipe
        inputs = [
            image,
            recipe.constant(Q8A, np.zeros((64, 3, 3, 64)), 0.25, 128),
            recipe.constant(I32, np.zeros(64), 0.125),
            *recipe.integers(SAME, 1, 1, 0),
        ]
        return recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), *QUANTIZATION))

    def clamped(self, image: int) -> int:
        return self.recipe.operation(OperationType.RELU, [image], Operand(Q8A, (), *QUANTIZATION))

    def added(self, first: int, second: int) -> int:
        inputs = [first, second, *self.recipe.integers(0)]
        return self.recipe.operation(OperationType.ADD, inputs, Operand(Q8A, (), *QUANTIZATION))

    def build(self, *outputs: int) -> ResolvedModel:
        model = self.recipe.build(*outputs)
        assert is_taken(model)
        return model


def groups(views: OptimizationViews) -> list[tuple[int, ...]]:
    return [substitution.operations for substitution in views.substitutions]


def failed(views: OptimizationViews) -> list[tuple[int, ...]]:
    return [subgraph.operations for subgraph in views.failed]


def test_connected_operations_are_compiled_as_one() -> None:
    network = Network()
    views = optimize(network.build(network.clamped(network.convolved(network.image(SMALL)))))
    convolution = 16 * 64 + 64 * (9 * 64 + 4) + 16 * 64
    assert views == OptimizationViews(
        (Substitution((0, 1), f"compiled: 2 operations, {convolution} bytes of SRAM, 2 stripes"),)
    )


def test_what_is_not_connected_is_compiled_apart() -> None:
    network = Network()
    first, second = network.image(SMALL), network.image(SMALL)
    ends = network.clamped(first), network.clamped(second)
    views = optimize(network.build(network.convolved(ends[0]), network.convolved(ends[1])))
    assert groups(views) == [(0, 2), (1, 3)]


def test_an_operation_that_does_not_fit_fails_with_the_reason() -> None:
    network = Network()
    views = optimize(network.build(network.convolved(network.image(WIDE))))
    least = 3 * 4096 * 64 + 16 * (9 * 64 + 4) + 4096 * 16
    reason = (
        f"operation 0 (CONV_2D): a row of 16 channels with its input and weights takes {least} bytes of SRAM, "
        "there are 524288"
    )
    assert views == OptimizationViews(failed=(FailedSubgraph((0,), reason),))


def test_what_surrounds_a_failed_operation_is_compiled() -> None:
    network = Network()
    before = network.clamped(network.image(WIDE))
    views = optimize(network.build(network.clamped(network.convolved(before))))
    assert (groups(views), failed(views)) == ([(0,), (2,)], [(1,)])


def test_a_group_does_not_wait_for_what_waits_for_it() -> None:
    network = Network()
    before = network.clamped(network.image(WIDE))
    views = optimize(network.build(network.added(before, network.convolved(before))))
    assert (groups(views), failed(views)) == ([(0,), (2,)], [(1,)])


def test_branches_around_a_failed_operation_meet_after_it() -> None:
    network = Network()
    before = network.clamped(network.image(WIDE))
    beside, through = network.clamped(before), network.convolved(before)
    views = optimize(network.build(network.clamped(network.added(beside, through))))
    assert (groups(views), failed(views)) == ([(0, 1), (3, 4)], [(2,)])


def test_every_operation_is_in_one_place() -> None:
    network = Network()
    value = network.image(WIDE)
    for number in range(12):
        value = network.convolved(value) if number % 5 == 3 else network.added(value, network.clamped(value))
    views = optimize(network.build(value))
    places = [number for group in (*groups(views), *failed(views), views.untouched) for number in group]
    assert sorted(places) == list(range(22))
