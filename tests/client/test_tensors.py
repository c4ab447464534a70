"""What a user gives and gets, and what lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.errors import TransportError
from nnhal.extensions.onnx import operand_code
from nnhal.types import OperandType
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_client.tensors import stored_inputs, tensor_from_wire


def info(code: int, dimensions: tuple[int, ...], element_type: str, **more: Any) -> wire.TensorInfo:
    """A tensor ``x`` as the framework describes it."""
    kind = types_pb2.OperandType.ValueType(code)
    return wire.TensorInfo(name="x", type=kind, dimensions=dimensions, element_type=element_type, **more)


def test_a_scalar_lies_in_one_element_and_comes_back_as_a_scalar() -> None:
    tensor = tensor_from_wire(info(operand_code(7), (1,), "int64", byte_size=8, scalar=True))
    stored = tensor.array(np.array(5))
    assert stored.shape == (1,)
    assert tensor.value(stored).shape == ()


def test_booleans_are_bytes() -> None:
    tensor = tensor_from_wire(info(OperandType.TENSOR_BOOL8, (2,), "bool", byte_size=2))
    stored = tensor.array(np.array([True, False]))
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(tensor.value(stored), np.array([True, False]))


def test_64_bit_integers_in_32_bits_must_fit() -> None:
    tensor = tensor_from_wire(info(OperandType.TENSOR_INT32, (1,), "int64", byte_size=4))
    assert tensor.array(np.array([7])).dtype == np.int32
    assert tensor.value(np.array([7], np.int32)).dtype == np.int64
    with pytest.raises(ValueError, match="do not fit int32"):
        tensor.array(np.array([2**40]))


def test_strings_are_the_bytes_of_a_message() -> None:
    tensor = tensor_from_wire(info(operand_code(8), (0,), ""))
    value = np.array(["a", "bc"], object)
    stored = tensor.array(value)
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(tensor.value(stored), value)


def test_element_types_that_numpy_has_not_keep_their_bits() -> None:
    tensor = tensor_from_wire(info(operand_code(16), (3,), "bfloat16", byte_size=6))
    value = np.array([1, 2.5, -3]).astype(tensor.stored)
    assert tensor.stored.itemsize == 2
    np.testing.assert_array_equal(tensor.value(tensor.array(value)), value)


def test_what_does_not_fit_is_refused_with_what_was_expected() -> None:
    tensor = tensor_from_wire(info(OperandType.TENSOR_FLOAT32, (2, 3), "float32", byte_size=24))
    with pytest.raises(ValueError, match=r"input 'x' is float32 \[2, 2\], expected float32 \[2, 3\]"):
        tensor.array(np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"got inputs \['z'\], expected \['x'\]"):
        stored_inputs([tensor], {"z": np.zeros(1)})


def test_an_unknown_element_type_is_an_error() -> None:
    with pytest.raises(TransportError, match="float3"):
        tensor_from_wire(info(operand_code(99), (1,), "float3"))
