"""Tensors as values of the user and as bytes in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.extensions.onnx import operand_code
from nnhal.memory import create_ashmem, create_blob, open_pool
from nnhal.tensors import Tensor, TensorMemory, stored_inputs, stored_type
from nnhal.types import Ashmem, MappableFile, Memory, OperandType


def tensor_of(code: int, dimensions: tuple[int, ...], element_type: Any, scalar: bool = False) -> Tensor:
    element = None if element_type is None else np.dtype(element_type)
    stored = stored_type(code, element)
    return Tensor("x", code, dimensions, prod(dimensions) * stored.itemsize, 0.0, 0, element, stored, scalar)


def test_a_scalar_lies_in_one_element_and_comes_back_as_a_scalar() -> None:
    tensor = tensor_of(operand_code(7), (1,), np.int64, scalar=True)
    stored = tensor.array(np.array(5))
    assert stored.shape == (1,)
    assert tensor.value(stored).shape == ()


def test_booleans_are_bytes() -> None:
    tensor = tensor_of(OperandType.TENSOR_BOOL8, (2,), np.bool_)
    stored = tensor.array(np.array([True, False]))
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(tensor.value(stored), np.array([True, False]))


def test_64_bit_integers_in_32_bits_must_fit() -> None:
    tensor = tensor_of(OperandType.TENSOR_INT32, (1,), np.int64)
    assert tensor.array(np.array([7])).dtype == np.int32
    assert tensor.value(np.array([7], np.int32)).dtype == np.int64
    with pytest.raises(ValueError, match="do not fit int32"):
        tensor.array(np.array([2**40]))


def test_strings_are_the_bytes_of_a_message() -> None:
    tensor = tensor_of(operand_code(8), (0,), None)
    value = np.array(["a", "bc"], object)
    stored = tensor.array(value)
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(tensor.value(stored), value)


def test_element_types_that_numpy_has_not_keep_their_bits() -> None:
    tensor = tensor_of(operand_code(16), (3,), ml_dtypes.bfloat16)
    value = np.array([1, 2.5, -3]).astype(tensor.stored)
    assert tensor.stored.itemsize == 2
    np.testing.assert_array_equal(tensor.value(tensor.array(value)), value)


def test_a_value_that_has_the_form_in_memory_is_not_copied() -> None:
    given = np.ones((2, 3), np.float32)
    assert tensor_of(OperandType.TENSOR_FLOAT32, (2, 3), np.float32).array(given) is given


def test_what_does_not_fit_is_refused_with_what_was_expected() -> None:
    tensor = tensor_of(OperandType.TENSOR_FLOAT32, (2, 3), np.float32)
    with pytest.raises(ValueError, match=r"input 'x' is float32 \[2, 2\], expected float32 \[2, 3\]"):
        tensor.array(np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"got inputs \['z'\], expected \['x'\]"):
        stored_inputs([tensor], {"z": np.zeros(1)})


def test_tensors_lie_in_a_pool_one_after_the_other_and_aligned() -> None:
    memory = TensorMemory({"x": 8, "y": 65, "z": 4}, {}, partial(create_ashmem, is_final=False))
    assert [location.offset for location in memory.locations.values()] == [0, 64, 192]
    pool = memory.pool_of("x")
    assert pool.size == 256
    view = tensor_of(OperandType.TENSOR_FLOAT32, (2,), np.float32).view(pool, memory.locations["x"].offset, (2,))
    view[...] = [1, 2]
    assert pool.read(0, 8).view(np.float32).tolist() == [1, 2]
    assert tensor_of(OperandType.TENSOR_FLOAT32, (0,), np.float32).view(pool, 192, (0,)).shape == (0,)


@pytest.mark.parametrize("create", [create_ashmem, create_blob])
def test_inputs_are_written_by_who_has_made_them_and_by_nobody_else(create: Callable[..., Memory]) -> None:
    memory = TensorMemory({"x": 8}, {"y": 8}, partial(create, is_final=False))
    inputs, outputs = memory.pools
    memory.pool_of("x").write(0, np.arange(8, dtype=np.uint8))
    with pytest.raises(HalError, match="cannot be mapped"):
        open_pool(inputs, writable=True)
    assert not isinstance(inputs, MappableFile)
    fd = (inputs.descriptor if isinstance(inputs, Ashmem) else inputs.handle.descriptors[0]).fileno()
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.pwrite(again, b"overwritten", 0)
    os.close(again)
    assert open_pool(inputs, writable=False).read(0, 8).tolist() == list(range(8))
    open_pool(outputs, writable=True).write(0, np.ones(8, np.uint8))
    assert memory.pool_of("y").read(0, 8).tolist() == [1] * 8
