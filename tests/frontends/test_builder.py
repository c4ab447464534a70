"""The builder that all front ends share."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.types import Operand, OperandLifeTime, OperandType, OperationType
from nnhal_frontends.builder import MAX_INLINE_BYTES, POOL_ALIGNMENT, ModelBuilder
from tests.support.onnx_models import resolved

F32 = OperandType.TENSOR_FLOAT32


def floats(*dimensions: int, lifetime: OperandLifeTime = OperandLifeTime.TEMPORARY_VARIABLE) -> Operand:
    return Operand(F32, dimensions, lifetime=lifetime)


def test_small_constants_lie_in_the_model_and_large_ones_aligned_in_one_pool() -> None:
    builder = ModelBuilder()
    source = builder.add(floats(1, 33, lifetime=OperandLifeTime.SUBGRAPH_INPUT))
    none = builder.constant(OperandType.INT32, np.array(0))
    results: list[int] = []
    kept = [np.full((1, 33), value, np.float32) for value in (1, 2)] + [np.full((1, 1), 3, np.float32)]
    constants = [builder.constant(F32, values) for values in kept]
    for index in constants:
        result = builder.add(floats(lifetime=OperandLifeTime.SUBGRAPH_OUTPUT))
        builder.operation(OperationType.ADD, [source, index, none], [result])
        results.append(result)
    model = builder.build([source], results)
    operands = [model.main.operands[index] for index in constants]
    assert [o.lifetime for o in operands[:2]] == [OperandLifeTime.CONSTANT_POOL] * 2
    assert operands[2].lifetime == OperandLifeTime.CONSTANT_COPY
    assert len(model.pools) == 1
    assert all(o.location.offset % POOL_ALIGNMENT == 0 and o.location.length > MAX_INLINE_BYTES for o in operands[:2])
    read = resolved(model).constants[0]
    for index, values in zip(constants, kept, strict=True):
        np.testing.assert_array_equal(read[index], values)


def test_inline_constants_are_aligned_to_their_size() -> None:
    builder = ModelBuilder()
    source = builder.add(Operand(F32, (1, 1, 1, 1), lifetime=OperandLifeTime.SUBGRAPH_INPUT))
    flag = builder.constant(OperandType.BOOL, np.array(True))
    half = builder.constant(OperandType.FLOAT16, np.array(1.0))
    zero = builder.constant(OperandType.INT32, np.array(0))
    model = builder.build([source], [])
    assert [model.main.operands[index].location.offset for index in (flag, half, zero)] == [0, 2, 4]
    assert model.pools == ()


def test_equal_constants_are_one_operand_unless_they_mean_something_else() -> None:
    builder = ModelBuilder()
    code = OperandType.TENSOR_QUANT8_ASYMM
    values = np.array([1, 2], np.uint8)
    first = builder.constant(code, values, scale=0.5, zero_point=3)
    assert builder.constant(code, values.copy(), scale=0.5, zero_point=3) == first
    assert builder.constant(code, values, scale=0.25, zero_point=3) != first
    assert builder.constant(code, values[:, None], scale=0.5, zero_point=3) != first


def test_an_operation_is_checked_and_its_result_completed() -> None:
    builder = ModelBuilder()
    source = builder.add(floats(2, 3, lifetime=OperandLifeTime.SUBGRAPH_INPUT))
    none = builder.constant(OperandType.INT32, np.array(0))
    result = builder.add(floats())
    builder.operation(OperationType.ADD, [source, source, none], [result])
    assert builder.operands[result].dimensions == (2, 3)
    with pytest.raises(HalError, match=r"ADD: .*\[2, 3\] and \[2, 2\] do not broadcast"):
        other = builder.add(floats(2, 2, lifetime=OperandLifeTime.SUBGRAPH_INPUT))
        builder.operation(OperationType.ADD, [source, other, none], [builder.add(floats())])


def test_constants_that_differ_in_one_of_many_values_are_two_operands() -> None:
    builder = ModelBuilder()
    values = np.arange(4096, dtype=np.float32).reshape(64, 64)
    other = values.copy()
    other[1, 1] = -1
    first = builder.constant(OperandType.TENSOR_FLOAT32, values)
    assert builder.constant(OperandType.TENSOR_FLOAT32, values.T.copy().T) == first
    assert builder.constant(OperandType.TENSOR_FLOAT32, other) != first
