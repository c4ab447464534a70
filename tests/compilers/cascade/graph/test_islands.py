from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.support import Unsupported
from nnhal.types import Operand, OperandType, OperationType
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Part, PartKind
from nnhal_cascade.graph.islands import float_islands
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.support import supported_operations
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.ethos_u.driver import EthosU
from nnhal_devices.ethos_u.performance import operation_ns, whole_islands
from tests.support.agreement import random
from tests.support.ethos_u import is_taken
from tests.support.models import Recipe, run_on
from tests.support.npu import SAME

IMAGE = (1, 6, 5, 4)
FLOAT = Operand(F32)
GIVEN = Operand(Q8A, (), 0.05, 117)
MADE = Operand(Q8AS, (), 0.03, -9)
CHECKED = EthosU(DriverOptions(extra={"checked": "true"}))


class Island:
    """A model whose floats lie between 8-bit tensors."""

    def __init__(self) -> None:
        self.recipe = Recipe()

    def image(self, *dimensions: int) -> int:
        return self.recipe.input(Q8A, dimensions or IMAGE, GIVEN.scale, GIVEN.zero_point)

    def pooled(self, given: int) -> int:
        parameters = self.recipe.integers(SAME, 1, 1, 3, 3, 0)
        return self.recipe.operation(OperationType.AVERAGE_POOL_2D, [given, *parameters], GIVEN)

    def reals(self, given: int) -> int:
        return self.recipe.operation(OperationType.DEQUANTIZE, [given], FLOAT)

    def apply(self, kind: OperationType, *inputs: int) -> int:
        return self.recipe.operation(kind, inputs, FLOAT)

    def pair(self, kind: OperationType, *inputs: int) -> int:
        return self.apply(kind, *inputs, *self.recipe.integers(0))

    def mean(self, given: int, *axes: int, keep: int = 1) -> int:
        return self.apply(OperationType.MEAN, given, self.recipe.constant(I32, axes), *self.recipe.integers(keep))

    def constant(self, *values: float) -> int:
        return self.recipe.constant(F32, np.array(values))

    def quantized(self, given: int, made: Operand = MADE) -> int:
        return self.recipe.operation(OperationType.QUANTIZE, [given], made)


def requantized(island: Island) -> int:
    return island.quantized(island.reals(island.image()))


def mean_of_pixels(island: Island) -> int:
    return island.quantized(island.mean(island.reals(island.image()), 1, 2))


def mean_without_axes(island: Island) -> int:
    return island.quantized(island.mean(island.reals(island.image()), 1, 2, keep=0))


def mean_of_channels(island: Island) -> int:
    return island.quantized(island.mean(island.reals(island.image(1, 6, 4)), 2))


def exponential_of_negative(island: Island) -> int:
    negative = island.apply(OperationType.NEG, island.reals(island.image()))
    return island.quantized(island.apply(OperationType.EXP, negative))


def gated(island: Island) -> int:
    """x * sigmoid(x), each from a DEQUANTIZE of its own."""
    image = island.image()
    gate = island.apply(OperationType.LOGISTIC, island.reals(image))
    return island.quantized(island.pair(OperationType.MUL, island.reals(image), gate))


def divided(island: Island) -> int:
    return island.quantized(island.pair(OperationType.DIV, island.reals(island.image()), island.constant(3.0)))


def squared_difference(island: Island) -> int:
    first, second = island.reals(island.image()), island.reals(island.image(1, 6, 1, 4))
    difference = island.pair(OperationType.SUB, first, second)
    return island.quantized(island.pair(OperationType.MUL, difference, difference))


def added_channels(island: Island) -> int:
    given = island.reals(island.image())
    return island.quantized(island.pair(OperationType.ADD, given, island.constant(0.5, -1.0, 2.0, 0.1)))


Build = Callable[[Island], int]
ISLANDS: dict[Build, PartKind] = {
    requantized: PartKind.ELEMENTWISE,
    mean_of_pixels: PartKind.POOLING,
    mean_without_axes: PartKind.POOLING,
    mean_of_channels: PartKind.REDUCE_SUM,
    exponential_of_negative: PartKind.ELEMENTWISE,
    gated: PartKind.ELEMENTWISE,
    divided: PartKind.ELEMENTWISE,
    squared_difference: PartKind.ELEMENTWISE,
    added_channels: PartKind.ELEMENTWISE,
}


def model_of(build: Build) -> ResolvedModel:
    island = Island()
    return island.recipe.build(build(island))


def assert_equal_to_the_reference(model: ResolvedModel) -> None:
    main = model.model.main
    operands = [main.operands[index] for index in main.input_indexes]
    values = [random(OperandType(each.type), each.dimensions, seed) for seed, each in enumerate(operands)]
    for got, expected in zip(run_on(CHECKED, model, *values), run_on(CpuRef(), model, *values), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("build", ISLANDS)
def test_an_island_is_one_part_and_equal_to_the_bit(build: Build) -> None:
    model = model_of(build)
    assert is_taken(model)
    (part,) = build_graph(model).parts
    assert part.kind == ISLANDS[build]
    assert part.operations == tuple(range(len(model.model.main.operations)))
    assert_equal_to_the_reference(model)


@pytest.mark.parametrize("build", ISLANDS)
def test_an_island_costs_at_its_first_operation(build: Build) -> None:
    model = model_of(build)
    assert {len(model.model.main.operations) - 1} == {island[-1] for island in whole_islands(model)}
    first, *others = operation_ns(model, CHECKED._options.system)
    assert first > 1
    assert set(others) == {1.0}


def only_part(model: ResolvedModel) -> Part:
    (part,) = build_graph(model).parts
    return part


@pytest.mark.parametrize("twice", [False, True])
def test_a_table_belongs_to_what_produces_its_input(twice: bool) -> None:
    island = Island()
    pooled = island.pooled(island.image())
    given = [island.reals(pooled), island.reals(pooled) if twice else island.constant(0.5)]
    model = island.recipe.build(island.quantized(island.pair(OperationType.MUL, *given)))
    part = only_part(model)
    assert (part.operation, part.activation) == ("AVERAGE_POOL_2D", Activation.TABLE)
    assert_equal_to_the_reference(model)


def test_a_table_is_a_part_of_its_own_if_its_input_is_read_elsewhere() -> None:
    island = Island()
    pooled = island.pooled(island.image())
    model = island.recipe.build(island.quantized(island.reals(pooled)), island.pooled(pooled))
    assert [part.operation for part in build_graph(model).parts] == ["AVERAGE_POOL_2D", "QUANTIZE", "AVERAGE_POOL_2D"]
    assert_equal_to_the_reference(model)


def test_the_shape_of_a_pair_is_the_common_one() -> None:
    graph = build_graph(model_of(squared_difference))
    assert [tensor.shape for tensor in graph.tensors] == [Shape(6, 5, 4), Shape(6, 1, 4), Shape(6, 5, 4)]
    assert only_part(model_of(squared_difference)).passes == 2


def read_outside(island: Island) -> tuple[int, ...]:
    reals = island.reals(island.image())
    return island.quantized(reals), island.apply(OperationType.EXP, reals)


def divided_by_another(island: Island) -> tuple[int, ...]:
    both = island.reals(island.image()), island.reals(island.image())
    return (island.quantized(island.pair(OperationType.DIV, *both)),)


def of_three(island: Island) -> tuple[int, ...]:
    first, second, third = (island.reals(island.image()) for _ in range(3))
    return (island.quantized(island.pair(OperationType.ADD, island.pair(OperationType.ADD, first, second), third)),)


def of_floats(island: Island) -> tuple[int, ...]:
    fed = island.recipe.input(F32, IMAGE)
    return (island.quantized(island.pair(OperationType.ADD, island.reals(island.image()), fed)),)


def softmax(island: Island) -> tuple[int, ...]:
    given = island.reals(island.image())
    beta = island.recipe.constant(OperandType.FLOAT32, 1.0)
    return (island.quantized(island.apply(OperationType.SOFTMAX, given, beta)),)


@pytest.mark.parametrize("build", [read_outside, divided_by_another, of_three, of_floats, softmax])
def test_what_the_npu_does_not_compute_is_no_island(build: Callable[[Island], tuple[int, ...]]) -> None:
    island = Island()
    model = island.recipe.build(*build(island))
    assert not float_islands(model)
    assert all(isinstance(answer, Unsupported) for answer in supported_operations(model))


def test_the_limits_of_tensors_and_of_reductions() -> None:
    def mean(*dimensions: int) -> ResolvedModel:
        island = Island()
        return island.recipe.build(island.quantized(island.mean(island.reals(island.image(*dimensions)), 1, 2)))

    assert is_taken(mean(1, 4, 4096, 2))
    for dimensions, got in [((1, 4, 4097, 2), "a mean over 4097 columns"), ((2, 4, 4, 2), "operand 0 of [2, 4, 4, 2]")]:
        answers = supported_operations(mean(*dimensions))
        assert len({*answers}) == 1
        assert isinstance(answers[0], Unsupported)
        assert answers[0].got == got


def exact_step(real: Fraction, made: Operand) -> int:
    """The step nearest to a real, halves away from zero."""
    steps = real / Fraction(float(np.float32(made.scale)))
    rounded = floor(abs(steps) + Fraction(1, 2)) * (1 if steps >= 0 else -1)
    return max(-128, min(127, rounded + made.zero_point))


@pytest.mark.parametrize("scale", [0.0411, 0.0117, 0.0031, 0.00043])
def test_a_mean_over_channels_is_the_step_nearest_to_the_exact_one(scale: float) -> None:
    """LiteRT's reference rounds a product in fixed point, and then what it shifts out: one step off for one of four."""
    island, made = Island(), Operand(Q8AS, (), scale, -9)
    mean = island.mean(island.reals(island.image(1, 16, 16, 24)), 3)
    model = island.recipe.build(island.quantized(mean, made))
    (given,) = inputs = [random(Q8A, (1, 16, 16, 24), 3)]
    (result,) = run_on(CHECKED, model, *inputs)
    step = Fraction(float(np.float32(GIVEN.scale)))
    sums = (given.astype(np.int64) - GIVEN.zero_point).sum(axis=3).ravel()
    assert result.ravel().tolist() == [exact_step(Fraction(int(each)) * step / 24, made) for each in sums]


@pytest.mark.parametrize("scale", [0.53, 0.117, 0.031])
def test_a_squared_difference_is_the_step_nearest_to_the_exact_one(scale: float) -> None:
    island, made = Island(), Operand(Q8AS, (), scale, -128)
    difference = island.pair(OperationType.SUB, island.reals(island.image()), island.reals(island.image()))
    square = island.pair(OperationType.MUL, difference, difference)
    model = island.recipe.build(island.quantized(square, made))
    first, second = inputs = [random(Q8A, IMAGE, seed) for seed in (1, 2)]
    (result,) = run_on(CHECKED, model, *inputs)
    step = Fraction(float(np.float32(GIVEN.scale)))
    differences = (first.astype(np.int64) - second.astype(np.int64)).ravel()
    assert result.ravel().tolist() == [exact_step((int(each) * step) ** 2, made) for each in differences]
