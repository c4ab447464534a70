from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal.operations.operand_types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.optimize import Stripes, cut, optimize, smallest
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


# 3 x 3 with stride 2 on 32 rows of 100 bytes, to 16 rows of 64 channels of 20 bytes.
CONVOLUTION = Geometry(16, 64, 20, 32, 100, reach=3, step=2, weight_bytes=40, by_channel=False)


def test_a_stripe_is_its_input_its_weights_and_itself() -> None:
    assert CONVOLUTION.stripe_bytes(1, 64) == 3 * 100 + 64 * 40 + 64 * 20
    assert CONVOLUTION.stripe_bytes(4, 32) == 9 * 100 + 32 * 40 + 4 * 32 * 20


def test_no_more_input_is_taken_than_there_is() -> None:
    assert CONVOLUTION.stripe_bytes(16, 16) == 32 * 100 + 16 * 40 + 16 * 16 * 20


def test_channels_that_stand_alone_take_their_own_input() -> None:
    pooling = Geometry(16, 64, 20, 32, 6400, reach=2, step=2)
    assert pooling.stripe_bytes(4, 16) == 8 * 6400 // 4 + 4 * 16 * 20


def test_an_output_that_grows_takes_fewer_rows() -> None:
    twice = Geometry(32, 64, 20, 16, 6400, reach=2, growth=2)
    assert twice.stripe_bytes(1, 64) == 2 * 6400 + 64 * 20
    assert twice.stripe_bytes(8, 64) == 6 * 6400 + 8 * 64 * 20


def test_what_fits_is_one_stripe() -> None:
    whole = CONVOLUTION.stripe_bytes(16, 64)
    assert cut(CONVOLUTION, whole) == Stripes(16, 64, whole, 1)


def test_a_byte_less_makes_more_stripes() -> None:
    stripes = cut(CONVOLUTION, CONVOLUTION.stripe_bytes(16, 64) - 1)
    assert stripes == Stripes(15, 64, CONVOLUTION.stripe_bytes(15, 64), 2)


def test_channels_are_divided_where_weights_are_large() -> None:
    heavy = replace(CONVOLUTION, weight_bytes=4000)
    stripes = cut(heavy, 150_000)
    assert stripes == Stripes(16, 32, heavy.stripe_bytes(16, 32), 2)


def test_what_does_not_fit_at_all() -> None:
    least = smallest(CONVOLUTION)
    assert (least.rows, least.channels, least.bytes) == (1, 16, 300 + 16 * 60)
    assert cut(CONVOLUTION, least.bytes) == least
    assert cut(CONVOLUTION, least.bytes - 1) is None
