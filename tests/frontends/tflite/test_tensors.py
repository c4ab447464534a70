"""TFLite's tensors as HAL operands."""

from __future__ import annotations

import numpy as np
import pytest
from tflite import TensorType

from nnhal.types import OperandLifeTime, OperandType
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.tflite.graph import TfliteQuantization, TfliteTensor
from nnhal_frontends.tflite.tensors import operand_of, quantization_of, singles, values_of

WITH_SCALE = TfliteQuantization((0.5,), (3,))
CHANNELS = TfliteQuantization((0.5, 0.25), (0, 0), 1)


def tensor(code: int, quantization: TfliteQuantization | None = None, data: bytes = b"") -> TfliteTensor:
    """A tensor of 3 x 2."""
    stored = np.frombuffer(data, np.uint8) if data else None
    return TfliteTensor("t", code, (3, 2), (3, 2), quantization, data=stored)


@pytest.mark.parametrize(
    ("code", "quantization", "expected"),
    [
        (TensorType.FLOAT32, None, (OperandType.TENSOR_FLOAT32, 0.0, 0)),
        (TensorType.FLOAT32, WITH_SCALE, (OperandType.TENSOR_FLOAT32, 0.0, 0)),
        (TensorType.FLOAT16, None, (OperandType.TENSOR_FLOAT16, 0.0, 0)),
        (TensorType.INT32, WITH_SCALE, (OperandType.TENSOR_INT32, 0.0, 0)),
        (TensorType.INT64, None, (OperandType.TENSOR_INT32, 0.0, 0)),
        (TensorType.BOOL, None, (OperandType.TENSOR_BOOL8, 0.0, 0)),
        (TensorType.UINT8, WITH_SCALE, (OperandType.TENSOR_QUANT8_ASYMM, 0.5, 3)),
        (TensorType.INT8, WITH_SCALE, (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5, 3)),
        (TensorType.INT8, None, (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 1.0, 0)),
        (TensorType.INT16, TfliteQuantization((0.5,), (0,)), (OperandType.TENSOR_QUANT16_SYMM, 0.5, 0)),
    ],
)
def test_types_and_scales(
    code: int, quantization: TfliteQuantization | None, expected: tuple[OperandType, float, int]
) -> None:
    operand = operand_of(tensor(code, quantization), OperandLifeTime.TEMPORARY_VARIABLE, (3, 2))
    assert (operand.type, operand.scale, operand.zero_point) == expected


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (tensor(TensorType.STRING), "has elements of STRING"),
        (tensor(99), "has elements of type 99"),
        (tensor(TensorType.INT16), "no scale"),
        (tensor(TensorType.INT4, WITH_SCALE), "INT4 and is not a constant"),
        (tensor(TensorType.INT8, CHANNELS), "a scale for each index along axis 1"),
    ],
)
def test_what_the_hal_cannot_hold(found: TfliteTensor, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        operand_of(found, OperandLifeTime.TEMPORARY_VARIABLE, (3, 2))


@pytest.mark.parametrize(
    "quantization",
    [
        TfliteQuantization((0.0,), (0,)),
        TfliteQuantization((-1.0,), (0,)),
        TfliteQuantization((1.0,), (128,)),
        TfliteQuantization((1.0, 1.0, 1.0), (0, 0, 0), 1),
    ],
)
def test_quantisation_that_is_none_is_a_broken_file(quantization: TfliteQuantization) -> None:
    with pytest.raises(InvalidModel, match="tensor 't'"):
        quantization_of(tensor(TensorType.INT8, quantization))


def test_a_constant_has_as_many_bytes_as_its_shape_asks_for() -> None:
    assert values_of(tensor(TensorType.INT8, data=bytes([1, 2, 255, 4, 5, 6]))).tolist() == [[1, 2], [-1, 4], [5, 6]]
    with pytest.raises(InvalidModel, match=r"'t' of \[3, 2\] has 5 bytes, expected 6"):
        values_of(tensor(TensorType.INT8, data=bytes(5)))


def test_four_bits_are_signed_and_the_lower_ones_come_first() -> None:
    assert values_of(tensor(TensorType.INT4, data=bytes([0x21, 0x8F, 0x70]))).tolist() == [[1, 2], [-1, -8], [0, 7]]


@pytest.mark.parametrize(
    "numbers", [range(0x7C00), range(1 << 16), range(0x3C00, 0x3C08)], ids=["finite", "all", "few"]
)
def test_halves_become_the_singles_that_numpy_makes_of_them(numbers: range) -> None:
    halves = np.array([*numbers, *(number | 0x8000 for number in numbers)], np.uint16).view(np.float16).reshape(2, -1)
    np.testing.assert_array_equal(singles(halves).view(np.uint32), halves.astype(np.float32).view(np.uint32))
    np.testing.assert_array_equal(singles(halves.T).view(np.uint32), halves.T.astype(np.float32).view(np.uint32))
