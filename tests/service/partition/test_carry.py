from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from nnhal_service.partition import Plan, carry
from tests.service.planning import split
from tests.support.models import Recipe

NPU, CPU = "npu", "cpu"
F16, F32 = OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT32
SHAPE = (2, 3)
VALUES = np.linspace(-1, 2, 6, dtype=np.float32).reshape(SHAPE)


def around(relaxed: bool = True, code: OperandType = F32) -> tuple[Model, int]:
    """A model of y = relu(x), tanh(y) + y, and the operand y, which passes around the second operation."""
    recipe = Recipe()
    tensor = Operand(code, SHAPE)
    y = recipe.operation(OperationType.RELU, [recipe.input(code, SHAPE)], tensor)
    turned = recipe.operation(OperationType.TANH, [y], tensor)
    total = recipe.operation(OperationType.ADD, [turned, y, *recipe.integers(0)], tensor)
    return recipe.build(total, relaxed=relaxed).model, y


def planned(model: Model, devices: Sequence[str]) -> Plan:
    return split(model, devices, [operand.dimensions for operand in model.main.operands])


def run(model: Model, inputs: Sequence[Array]) -> list[Array]:
    return Interpreter(ResolvedModel(model, inline_constants(model))).run(0, inputs, Control())


def run_steps(model: Model, plan: Plan, x: Array) -> Array:
    values = {model.main.input_indexes[0]: x}
    for step in plan.steps:
        values |= zip(step.outputs, run(step.model, [values[operand] for operand in step.inputs]), strict=True)
    return values[model.main.output_indexes[0]]


def test_a_value_between_devices_of_the_kind_passes_as_float16() -> None:
    model, _ = around()
    plan = carry(model, planned(model, [NPU, "npu2", NPU]), {NPU, "npu2"})
    assert list(plan.carried.values()) == [F16, F16]
    for step in plan.steps:
        validate_model(step.model)
        inner = {operand: code for operand, code in plan.carried.items() if operand in step.carried}
        kinds = [step.model.main.operands[i].type for i in step.model.main.input_indexes]
        assert kinds == [inner.get(operand, F32) for operand in step.inputs]


def test_the_result_is_that_of_float16_between_the_steps() -> None:
    model, _ = around()
    plan = carry(model, planned(model, [NPU, "npu2", NPU]), {NPU, "npu2"})
    y = np.maximum(VALUES, 0).astype(np.float16).astype(np.float32)
    expected = np.tanh(y).astype(np.float16).astype(np.float32) + y
    np.testing.assert_allclose(run_steps(model, plan, VALUES), expected, rtol=1e-6)


def test_a_value_that_passes_around_another_device_is_float32_only_for_that_device() -> None:
    recipe = Recipe()
    tensor = Operand(F32, SHAPE)
    y = recipe.operation(OperationType.RELU, [recipe.input(F32, SHAPE)], tensor)
    doubled = recipe.operation(OperationType.ADD, [y, y, *recipe.integers(0)], tensor)
    turned = recipe.operation(OperationType.TANH, [doubled], tensor)
    model = recipe.build(
        recipe.operation(OperationType.ADD, [turned, y, *recipe.integers(0)], tensor), relaxed=True
    ).model
    plan = carry(model, planned(model, [NPU, NPU, CPU, NPU]), {NPU})
    assert plan.carried == {y: F16}
    cpu_step = next(step for step in plan.steps if step.device == CPU)
    assert cpu_step.carried == ()
    assert [step.carried for step in plan.steps if step.device == NPU] == [(y,), (y,)]


@pytest.mark.parametrize("relaxed, code", [(False, F32), (True, F16)])
def test_other_values_pass_as_they_are(relaxed: bool, code: OperandType) -> None:
    model, _ = around(relaxed, code)
    plan = planned(model, [NPU, "npu2", NPU])
    assert carry(model, plan, {NPU, "npu2"}) is plan


def test_what_the_client_reads_passes_as_it_is() -> None:
    recipe = Recipe()
    tensor = Operand(F32, SHAPE)
    y = recipe.operation(OperationType.RELU, [recipe.input(F32, SHAPE)], tensor)
    turned = recipe.operation(OperationType.TANH, [y], tensor)
    model = recipe.build(y, turned, relaxed=True).model
    assert carry(model, planned(model, [NPU, "npu2"]), {NPU, "npu2"}).carried == {}
