"""Comparing what cpu_acc computes with the reference driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import B8, F16, F32, I32, Q8A, Q8AS, Q8S
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from tests.support.models import Recipe, run_on
from tests.support.rounding import tolerance_of

QUANTIZATION = {Q8A: (0.05, 117), Q8AS: (0.05, -11), Q8S: (0.05, 0)}
"""Scale and zero point of the operands of these models."""
_HALF = 5 * 2.0**-10
_TOLERANCES = {F32: (5e-5, 1e-6), F16: (_HALF, _HALF), Q8A: (1.0, 0.0), Q8AS: (1.0, 0.0)}
"""Absolute and relative tolerance of functions; values of other types must be equal. Sums of floats add theirs."""


def random(code: OperandType, dimensions: Dimensions, seed: int = 0) -> Array:
    """Return random values of a type: floats around 0, all bytes, small integers."""
    generator = np.random.default_rng(seed)
    if code in (F32, F16):
        return generator.standard_normal(dimensions).astype(ELEMENT_TYPES[code]) * 3
    if code == B8:
        return generator.integers(0, 2, dimensions).astype(np.uint8)
    if code == I32:
        return generator.integers(-99, 100, dimensions).astype(np.int32)
    return generator.integers(0, 256, dimensions).astype(np.uint8).view(ELEMENT_TYPES[code])


def inputs_of(model: ResolvedModel) -> list[Array]:
    """Return random values for the inputs of a model."""
    operands = [model.model.main.operands[index] for index in model.model.main.input_indexes]
    return [random(OperandType(each.type), each.dimensions, seed) for seed, each in enumerate(operands)]


def like(code: OperandType, dimensions: Dimensions = (), scale: float | None = None) -> Operand:
    usual, zero_point = QUANTIZATION.get(code, (0.0, 0))
    return Operand(code, dimensions, usual if scale is None else scale, zero_point)


def single(
    operation: OperationType,
    code: OperandType,
    dimensions: Sequence[Dimensions],
    parameters: Sequence[Any] = (),
    *outputs: Operand,
) -> ResolvedModel:
    """Return a model of one operation: input tensors of one type, then constants whose types follow their Python types.

    Floats become FLOAT16 for TENSOR_FLOAT16; sequences of integers become TENSOR_INT32.
    """
    recipe = Recipe()
    given = [_input(recipe, code, each) for each in dimensions]
    constants = [_constant(recipe, code, each) for each in parameters]
    results = outputs or (like(code),)
    first = recipe.operation(operation, [*given, *constants], *results)
    return recipe.build(*range(first, first + len(results)))


def assert_agrees(model: ResolvedModel, *inputs: Array) -> list[Array]:
    """Check that cpu_acc supports the whole model and agrees with cpu_ref: integers exactly, bytes within one step."""
    accelerated = CpuAcc(DriverOptions())
    answers = accelerated.supported_operations(model)
    assert answers == [SUPPORTED] * len(answers)
    main = model.model.main
    results = run_on(accelerated, model, *inputs)
    for index, got, expected in zip(main.output_indexes, results, run_on(CpuRef(), model, *inputs), strict=True):
        assert got.shape == expected.shape
        code = main.operands[index].type
        absolute, relative = _TOLERANCES.get(OperandType(code), (0.0, 0.0))
        if code == F32:
            absolute += tolerance_of(model.model, expected)
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), relative, absolute)
    return results


def _input(recipe: Recipe, code: OperandType, dimensions: Dimensions) -> int:
    scale, zero_point = QUANTIZATION.get(code, (0.0, 0))
    return recipe.input(code, dimensions, scale, zero_point)


def _constant(recipe: Recipe, code: OperandType, value: Any) -> int:
    if isinstance(value, bool):
        return recipe.constant(OperandType.BOOL, value)
    if isinstance(value, int):
        return recipe.constant(OperandType.INT32, value)
    if isinstance(value, float):
        return recipe.constant(OperandType.FLOAT16 if code == F16 else OperandType.FLOAT32, value)
    return recipe.constant(I32, value)
