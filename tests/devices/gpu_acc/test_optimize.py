from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnhal.operations.operand_types import BOOL, F16, F32, Q8A
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_devices.backend import OptimizationViews, Substitution
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import Control, DriverOptions, PrepareOptions
from nnhal_devices.gpu_acc.driver import GpuAcc
from nnhal_devices.gpu_acc.optimize import Fusion, fuse, fusions, optimize
from nnhal_devices.gpu_acc.performance import ROOFLINE
from tests.support.agreement import like, random
from tests.support.models import Recipe, run_on

ADD, MUL = OperationType.ADD, OperationType.MUL
RELU, RELU1, RELU6 = OperationType.RELU, OperationType.RELU1, OperationType.RELU6
Shape = tuple[int, ...]


def _convolution(recipe: Recipe, code: OperandType, given: int, explicit: bool, depthwise: bool) -> int:
    """Of 3 channels into 3, by a filter of 3 x 3; with a layout, so that both forms have as many inputs as can be."""
    shape = (1, 3, 3, 3) if depthwise else (3, 3, 3, 3)
    weights, bias = (recipe.constant(code, random(code, each, 5)) for each in (shape, (3,)))
    padding = (1, 1, 1, 1) if explicit else (1,)
    multiplier = (1,) if depthwise else ()
    scalars = recipe.integers(*padding, 1, 1, *multiplier, 0)
    operation = OperationType.DEPTHWISE_CONV_2D if depthwise else OperationType.CONV_2D
    inputs = [given, weights, bias, *scalars, recipe.constant(BOOL, 0)]
    return recipe.operation(operation, inputs, like(code, (1, 6, 6, 3)))


def _before(recipe: Recipe, kind: str, code: OperandType) -> tuple[int, Shape]:
    """An operation without an activation: its output, and the dimensions of the model's input."""
    if kind in ("ADD", "MUL"):
        given, other = recipe.input(code, (2, 3)), recipe.constant(code, random(code, (3,), 9))
        return recipe.operation(OperationType[kind], [given, other, *recipe.integers(0)], like(code, (2, 3))), (2, 3)
    if kind == "FULLY_CONNECTED":
        given = recipe.input(code, (4, 8))
        weights, bias = (recipe.constant(code, random(code, each, 7)) for each in ((5, 8), (5,)))
        inputs = [given, weights, bias, *recipe.integers(0)]
        return recipe.operation(OperationType.FULLY_CONNECTED, inputs, like(code, (4, 5))), (4, 8)
    shape = (1, 6, 6, 3)
    given = recipe.input(code, shape)
    return _convolution(recipe, code, given, kind.endswith("explicit"), kind.startswith("depthwise")), shape


KINDS = [
    "ADD",
    "MUL",
    "FULLY_CONNECTED",
    "convolution, implicit",
    "convolution, explicit",
    "depthwise, implicit",
    "depthwise, explicit",
]


@pytest.mark.parametrize("activation", [RELU, RELU1, RELU6])
@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_fused_computes_the_same(kind: str, code: OperandType, activation: OperationType) -> None:
    recipe = Recipe()
    before, shape = _before(recipe, kind, code)
    model = recipe.build(recipe.operation(activation, [before], like(code)))
    assert fusions(model) == [Fusion(0, 1)]
    assert len(fuse(model, fusions(model)).model.main.operations) == 1
    values = random(code, shape)
    (plain,) = run_on(CpuAcc(DriverOptions()), model, values)
    (fused,) = run_on(GpuAcc(DriverOptions()), model, values)
    np.testing.assert_array_equal(fused, plain)
    assert fused.dtype == plain.dtype


def _additions(*activations: OperationType, outputs: Sequence[int] = (-1,), code: OperandType = F32) -> ResolvedModel:
    """An addition and then activations in a row; ``outputs`` of the operations are the model's."""
    recipe = Recipe()
    given = recipe.input(code, (3,), like(code).scale, like(code).zero_point)
    values = [recipe.operation(ADD, [given, given, *recipe.integers(0)], like(code, (3,)))]
    for activation in activations:
        values.append(recipe.operation(activation, [values[-1]], like(code, (3,))))
    return recipe.build(*(values[index] for index in outputs))


def test_a_fused_model_is_valid_and_the_given_one_is_as_before() -> None:
    model = _additions(RELU)
    before = model.model
    fused = fuse(model, fusions(model))
    validate_model(fused.model)
    assert model.model is before
    assert len(model.model.main.operations) == 2
    (operation,) = fused.model.main.operations
    assert operation.outputs == model.model.main.output_indexes
    scalar = operation.inputs[2]
    assert scalar != model.model.main.operations[0].inputs[2]
    assert fused.constants[0][scalar] == FusedActivation.RELU
    assert inline_constants(fused.model)[0][scalar] == FusedActivation.RELU


def test_of_activations_in_a_row_the_first_is_fused() -> None:
    model = _additions(RELU1, RELU6)
    assert fusions(model) == [Fusion(0, 1)]
    assert [o.type for o in fuse(model, fusions(model)).model.main.operations] == [ADD, RELU6]


def test_a_fused_operation_stands_for_both_and_its_time_is_that_of_both() -> None:
    workload = GpuAcc(DriverOptions()).prepare(_additions(RELU1, RELU6), PrepareOptions())
    told = workload.operation_times(Control())
    assert (told.unit, told.is_modelled) == ("ns", True)
    assert [(each.name, each.operations) for each in told.times] == [
        ("operation 0 (ADD)", (0, 1)),
        ("operation 2 (RELU6)", (2,)),
    ]
    assert all(each.duration >= ROOFLINE.overhead_ns for each in told.times)


def test_operations_that_share_their_scalar_get_activations_of_their_own() -> None:
    recipe = Recipe()
    given, none = recipe.input(F32, (3,)), recipe.integers(0)
    clamped = recipe.operation(RELU1, [recipe.operation(ADD, [given, given, *none], like(F32))], like(F32))
    positive = recipe.operation(RELU, [recipe.operation(MUL, [given, given, *none], like(F32))], like(F32))
    free = recipe.operation(ADD, [given, given, *none], like(F32))
    model = recipe.build(clamped, positive, free)
    assert fusions(model) == [Fusion(0, 1), Fusion(2, 3)]
    values = np.array([-3, 0.25, 3], np.float32)
    results = run_on(GpuAcc(DriverOptions()), model, values)
    np.testing.assert_array_equal(results, [[-1, 0.5, 1], [9, 0.0625, 9], [-6, 0.5, 6]])


def test_what_others_read_or_the_caller_wants_stays_as_it_is() -> None:
    assert fusions(_additions(RELU, outputs=(0, 1))) == []
    recipe = Recipe()
    given, none = recipe.input(F32, (3,)), recipe.integers(0)
    total = recipe.operation(ADD, [given, given, *none], like(F32))
    positive = recipe.operation(RELU, [total], like(F32))
    assert fusions(recipe.build(recipe.operation(MUL, [total, positive, *none], like(F32)))) == []


def test_an_operation_with_an_activation_gets_no_other() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (3,))
    total = recipe.operation(ADD, [given, given, *recipe.integers(FusedActivation.RELU6)], like(F32))
    assert fusions(recipe.build(recipe.operation(RELU1, [total], like(F32)))) == []


def test_only_floats_and_only_these_operations_are_fused() -> None:
    assert fusions(_additions(RELU, code=Q8A)) == []
    recipe = Recipe()
    given = recipe.input(F32, (3,))
    quotient = recipe.operation(OperationType.DIV, [given, given, *recipe.integers(0)], like(F32))
    assert fusions(recipe.build(recipe.operation(RELU, [quotient], like(F32)))) == []


def test_what_is_known_of_either_value_is_known_of_the_fused_one() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (0, 0))
    total = recipe.operation(ADD, [given, given, *recipe.integers(0)], like(F32, (2, 0)))
    model = recipe.build(recipe.operation(RELU, [total], like(F32, (0, 3))))
    fused = fuse(model, fusions(model)).model.main
    assert fused.operands[fused.output_indexes[0]].dimensions == (2, 3)


def test_each_operation_is_substituted_or_untouched() -> None:
    recipe = Recipe()
    given, none = recipe.input(F32, (3,)), recipe.integers(0)
    root = recipe.operation(OperationType.SQRT, [given], like(F32))
    product = recipe.operation(OperationType.MUL, [root, given, *none], like(F32))
    total = recipe.operation(OperationType.ADD, [product, given, *none], like(F32))
    views = optimize(recipe.build(product, recipe.operation(OperationType.RELU6, [total], like(F32))))
    assert views == OptimizationViews((Substitution((2, 3), "ADD + RELU6 fused"),), untouched=(0, 1))
