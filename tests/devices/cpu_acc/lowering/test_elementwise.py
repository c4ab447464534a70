from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q8C, Q8S
from nnhal.resolved import propagate_dimensions
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.blocked import keep_blocked
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.lowering import lower
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random, single
from tests.support.models import Recipe, run_on

_COMPARISONS = [
    OperationType.EQUAL,
    OperationType.GREATER,
    OperationType.GREATER_EQUAL,
    OperationType.LESS,
    OperationType.LESS_EQUAL,
    OperationType.NOT_EQUAL,
]


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("activation", [0, 1, 2, 3])
@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.SUB, OperationType.MUL])
def test_arithmetic_broadcasts_and_clamps(operation: OperationType, activation: int, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(2, 1, 5), (4, 5)], [activation], like(code, scale=_scale(code)))


def _scale(code: OperandType) -> float:
    return 0.07 if code in (Q8A, Q8AS) else 0.0


@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.SUB, OperationType.MUL])
def test_arithmetic_on_integers(operation: OperationType) -> None:
    assert_single_agrees(operation, I32, [(3, 4), (4,)], [0])


def test_division_of_floats() -> None:
    assert_single_agrees(OperationType.DIV, F32, [(3, 4), (4,)], [0])


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.MAXIMUM, OperationType.MINIMUM])
def test_extremes(operation: OperationType, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(3, 4), (4,)], [], like(code, scale=_scale(code)))


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_a_slope_for_negative_values(code: OperandType) -> None:
    assert_single_agrees(OperationType.PRELU, code, [(1, 3, 4, 5), (5,)], [], like(code, scale=_scale(code)))


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


@pytest.mark.parametrize("code", [F32, I32, Q8A, Q8AS])
@pytest.mark.parametrize("operation", _COMPARISONS)
def test_comparisons(operation: OperationType, code: OperandType) -> None:
    recipe = Recipe()
    same = like(code)
    first, second = (recipe.input(code, (3, 4), same.scale, same.zero_point) for _ in range(2))
    model = recipe.build(recipe.operation(operation, [first, second], like(B8)))
    values = random(code, (3, 4))
    assert_agrees(model, values, np.where(np.eye(3, 4), values, random(code, (3, 4), seed=1)))


@pytest.mark.parametrize("operation", [OperationType.LOGICAL_AND, OperationType.LOGICAL_OR, OperationType.EQUAL])
def test_logic_takes_any_byte_that_is_not_zero_for_true(operation: OperationType) -> None:
    recipe = Recipe()
    inputs = [recipe.input(B8, (4,)) for _ in range(2)]
    model = recipe.build(recipe.operation(operation, inputs, like(B8)))
    assert_agrees(model, np.array([0, 1, 0, 255], np.uint8), np.array([0, 0, 1, 2], np.uint8))


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
def test_a_mask_selects(code: OperandType) -> None:
    recipe = Recipe()
    usual = like(code)
    mask = recipe.input(B8, (3, 4))
    tensors = [recipe.input(code, (3, 4), usual.scale * (1 + i), usual.zero_point) for i in range(2)]
    model = recipe.build(recipe.operation(OperationType.SELECT, [mask, *tensors], like(code)))
    assert_agrees(model, random(B8, (3, 4)), random(code, (3, 4), 1), random(code, (3, 4), 2))


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.RELU, OperationType.RELU1, OperationType.RELU6])
def test_clamping_agrees_with_the_reference(operation: OperationType, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(2, 200)])


@pytest.mark.parametrize(
    "operation", [OperationType.ABS, OperationType.EXP, OperationType.NEG, OperationType.SIN, OperationType.FLOOR]
)
def test_functions_of_any_real(operation: OperationType) -> None:
    assert_single_agrees(operation, F32, [(3, 4, 2, 2)])


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("operation", [OperationType.LOG, OperationType.SQRT, OperationType.RSQRT])
def test_functions_of_positive_reals(operation: OperationType, code: OperandType) -> None:
    assert_agrees(single(operation, code, [(3, 4)]), np.abs(random(code, (3, 4))) + code.real)


@pytest.mark.parametrize("operation", [OperationType.ABS, OperationType.NEG])
def test_signs_of_integers(operation: OperationType) -> None:
    assert_single_agrees(operation, I32, [(3, 4)])


def test_negation_of_truth() -> None:
    assert_single_agrees(OperationType.LOGICAL_NOT, B8, [(3, 4)])


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_hard_swish_agrees_with_the_reference(code: OperandType) -> None:
    assert_single_agrees(OperationType.HARD_SWISH, code, [(2, 200)])


@pytest.mark.parametrize("code", [F32, F16])
def test_elu_agrees_with_the_reference(code: OperandType) -> None:
    assert_single_agrees(OperationType.ELU, code, [(2, 20)], [0.75])


@pytest.mark.parametrize(
    ("operation", "code", "scale", "zero_point"),
    [
        (OperationType.LOGISTIC, F32, 0.0, 0),
        (OperationType.LOGISTIC, Q8A, 1 / 256, 0),
        (OperationType.LOGISTIC, Q8AS, 1 / 256, -128),
        (OperationType.TANH, F16, 0.0, 0),
        (OperationType.TANH, Q8A, 1 / 128, 128),
        (OperationType.TANH, Q8AS, 1 / 128, 0),
    ],
)
def test_curves_into_a_fixed_range(operation: OperationType, code: OperandType, scale: float, zero_point: int) -> None:
    model = single(operation, code, [(256,)], [], Operand(code, (), scale, zero_point))
    values = random(code, (256,)) if like(code).scale == 0 else np.arange(256).astype(np.uint8).view(np.int8)
    assert_agrees(model, values.view(np.uint8) if code == Q8A else values)


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("asked", [Q8A, Q8AS])
def test_floats_are_quantized(asked: OperandType, code: OperandType) -> None:
    assert_single_agrees(OperationType.QUANTIZE, code, [(3, 50)], [], like(asked))


@pytest.mark.parametrize("code", [Q8A, Q8AS, Q8S])
@pytest.mark.parametrize("asked", [F32, F16])
def test_bytes_become_the_reals_that_they_stand_for(asked: OperandType, code: OperandType) -> None:
    assert_single_agrees(OperationType.DEQUANTIZE, code, [(3, 50)], [], like(asked))


def test_each_channel_has_its_scale() -> None:
    recipe = Recipe()
    values = random(Q8C, (4, 3))
    weights = recipe.constant(Q8C, values, channels=ChannelQuant((0.5, 0.25, 2.0), 1))
    reals = recipe.operation(OperationType.DEQUANTIZE, [weights], like(F32))
    (result,) = assert_agrees(recipe.build(reals))
    np.testing.assert_array_equal(result, values * np.array([0.5, 0.25, 2.0], np.float32))


@pytest.mark.parametrize(
    ("code", "asked"), [(F32, F32), (F32, Q8A), (I32, F32), (I32, Q8A), (Q8A, F32), (Q8A, I32), (B8, B8), (Q8AS, Q8AS)]
)
def test_numbers_change_their_type(code: OperandType, asked: OperandType) -> None:
    scale, zero_point = like(asked).scale, like(asked).zero_point
    recipe = Recipe()
    given = recipe.input(code, (3, 50), like(code).scale, like(code).zero_point)
    model = recipe.build(recipe.operation(OperationType.CAST, [given], Operand(asked, (), scale, zero_point)))
    values = random(code, (3, 50))
    assert_agrees(model, values * 9 if code in (F32, I32) else values)


def test_a_coarse_quantization_in_between_is_part_of_the_model() -> None:
    recipe = Recipe()
    reals = recipe.input(F32, (256,))
    for scale in (0.1, 0.01):
        stored = recipe.operation(OperationType.QUANTIZE, [reals], Operand(Q8A, (), scale, 128))
        reals = recipe.operation(OperationType.DEQUANTIZE, [stored], Operand(F32))
    assert_agrees(recipe.build(reals), random(F32, (256,)))
