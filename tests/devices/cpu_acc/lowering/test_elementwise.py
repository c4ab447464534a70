from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.resolved import propagate_dimensions
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.blocked import keep_blocked
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import assert_agrees, like, random
from tests.support.models import Recipe, run_on


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("slope", [0.25, -0.5, 1.5])
def test_one_constant_slope_for_all_is_a_leaky_relu(code: OperandType, slope: float) -> None:
    recipe, operand = Recipe(), like(code, scale=0.05 if code in (Q8A, Q8AS) else None)
    given = recipe.input(code, (1, 3, 4, 5), operand.scale, operand.zero_point)
    kept = round(slope / operand.scale) + operand.zero_point if operand.scale else slope
    slopes = recipe.constant(code, np.full((1, 1, 5), kept), operand.scale, operand.zero_point)
    model = recipe.build(recipe.operation(OperationType.PRELU, [given, slopes], operand))
    assert_agrees(model, random(code, (1, 3, 4, 5)))
    nodes = [node.type for node in lower(model, propagate_dimensions(model)).nodes]
    assert "LeakyRelu" in nodes
    assert "PRelu" not in nodes


@pytest.mark.parametrize(
    ("low", "high", "chosen"), [(0.1, 1.0, "Max"), (1.0, 4.0, "Min"), (-1.0, 0.5, "PRelu"), (0.0, 1.0, "PRelu")]
)
@pytest.mark.parametrize("channels", [5, 7])
def test_slopes_on_one_side_of_1_need_no_question(channels: int, low: float, high: float, chosen: str) -> None:
    recipe = Recipe()
    given = recipe.input(F32, (1, 3, 4, channels))
    slopes = np.linspace(low, high, channels, dtype=np.float32)
    result = recipe.operation(OperationType.PRELU, [given, recipe.constant(F32, slopes.reshape(1, 1, -1))], like(F32))
    model = recipe.build(result)
    graph = lower(model, propagate_dimensions(model))
    keep_blocked(graph)
    assert chosen in [node.type for node in graph.nodes]
    values = random(F32, (1, 3, 4, channels))
    values[0, 0, :, 0] = [np.inf, -np.inf, np.nan, -0.0]
    values[0, 1, :, -1] = [np.inf, -np.inf, np.nan, 1e-45]
    (got,) = run_on(CpuAcc(DriverOptions()), model, values)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, np.where(values < 0, values * slopes, values))


def test_slopes_of_bytes_may_be_0() -> None:
    recipe, kind = Recipe(), like(Q8A)
    given = recipe.input(Q8A, (1, 3, 4, 5), kind.scale, kind.zero_point)
    slopes = recipe.constant(Q8A, np.array([[[0, 1, 2, 3, 4]]]), 0.25, 0)
    model = recipe.build(recipe.operation(OperationType.PRELU, [given, slopes], kind))
    graph = lower(model, propagate_dimensions(model))
    keep_blocked(graph)
    assert "Max" in [node.type for node in graph.nodes]
    assert_agrees(model, random(Q8A, (1, 3, 4, 5)))


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 1, 3), (1,), (1, 1, 1, 1), (4, 3)])
@pytest.mark.parametrize("given", [(2, 5, 4, 3), (4, 3), (3,)])
def test_numbers_for_channels_are_repeated_for_no_other_axis(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    recipe = Recipe()
    image, values = recipe.input(F32, given), recipe.constant(F32, random(F32, shape, seed=1))
    results = [
        recipe.operation(OperationType.SUB, [*pair, *recipe.integers(0)], like(F32))
        for pair in ((image, values), (values, image))
    ]
    for result in assert_agrees(recipe.build(*results), random(F32, given)):
        assert result.shape == np.broadcast_shapes(given, shape)


def test_powers_agree_with_the_reference() -> None:
    recipe = Recipe()
    base, exponent = recipe.input(F32, (2, 3)), recipe.constant(F32, [2, 0.5, 3])
    model = recipe.build(recipe.operation(OperationType.POW, [base, exponent], like(F32)))
    assert_agrees(model, np.abs(random(F32, (2, 3))))


def test_a_coarse_quantization_in_between_is_part_of_the_model() -> None:
    recipe = Recipe()
    reals = recipe.input(F32, (256,))
    for scale in (0.1, 0.01):
        stored = recipe.operation(OperationType.QUANTIZE, [reals], Operand(Q8A, (), scale, 128))
        reals = recipe.operation(OperationType.DEQUANTIZE, [stored], Operand(F32))
    assert_agrees(recipe.build(reals), random(F32, (256,)))
