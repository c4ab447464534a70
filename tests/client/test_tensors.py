"""Descriptions of a tensor by the framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.errors import TransportError
from nnhal.extensions.onnx import operand_code
from nnhal.types import OperandType
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_client.tensors import tensor_from_wire


def info(code: int, dimensions: tuple[int, ...], element_type: str, **more: Any) -> wire.TensorInfo:
    """A tensor ``x`` as the framework describes it."""
    kind = types_pb2.OperandType.ValueType(code)
    return wire.TensorInfo(name="x", type=kind, dimensions=dimensions, element_type=element_type, **more)


def test_a_tensor_of_the_hal_lies_in_memory_by_its_operand_type() -> None:
    tensor = tensor_from_wire(info(OperandType.TENSOR_BOOL8, (2,), "bool", byte_size=2))
    assert tensor.type == OperandType.TENSOR_BOOL8
    assert tensor.element_type == np.bool_ and tensor.stored == np.uint8
    assert not tensor.is_open and not tensor.scalar


def test_a_tensor_of_the_extension_lies_there_as_it_is() -> None:
    tensor = tensor_from_wire(info(operand_code(7), (1,), "int64", byte_size=8, scalar=True))
    assert tensor.element_type == np.int64 and tensor.stored == np.int64 and tensor.scalar


def test_a_value_lies_there_as_bytes() -> None:
    tensor = tensor_from_wire(info(operand_code(8), (0,), ""))
    assert tensor.element_type is None and tensor.stored == np.uint8 and tensor.is_open


def test_an_unknown_element_type_is_an_error() -> None:
    with pytest.raises(TransportError, match="float3"):
        tensor_from_wire(info(operand_code(99), (1,), "float3"))
