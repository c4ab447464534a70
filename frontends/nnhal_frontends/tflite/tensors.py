"""TFLite's tensors as HAL operands: types, quantisation, constants.

float32, float16, int32, bool     as they are
int64                             TENSOR_INT32 if all values provably fit 32 bits (wide_integers)
uint8, int8                       TENSOR_QUANT8_ASYMM, TENSOR_QUANT8_ASYMM_SIGNED; scale 1 if the file has none
int8 with a scale for each index  TENSOR_QUANT8_SYMM_PER_CHANNEL; all zero points are 0
int4                              constants, as int8
int16                             TENSOR_QUANT16_SYMM

Tensors of other types are operands of the extension nnhal.tflite.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from tflite import TensorType

from nnhal.arrays import Array, Bytes
from nnhal.extensions.tflite import ELEMENT_TYPES as EXTENSION_TYPES
from nnhal.extensions.tflite import STRING, operand_code
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType
from nnhal.types.layout import Dimensions, describe
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.tflite.graph import TfliteQuantization, TfliteTensor
from nnhal_frontends.tflite.sparsity import densified

_NAMES = {code: name for name, code in vars(TensorType).items() if isinstance(code, int)}
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type as a numpy type and as the HAL's."""

    numpy: np.dtype[np.generic]
    operand: OperandType


ELEMENTS: dict[int, ElementType] = {
    TensorType.BOOL: ElementType(np.dtype(np.bool_), OperandType.TENSOR_BOOL8),
    TensorType.FLOAT16: ElementType(np.dtype(np.float16), OperandType.TENSOR_FLOAT16),
    TensorType.FLOAT32: ElementType(np.dtype(np.float32), OperandType.TENSOR_FLOAT32),
    TensorType.INT4: ElementType(np.dtype(np.int8), OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
    TensorType.INT8: ElementType(np.dtype(np.int8), OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
    TensorType.INT16: ElementType(np.dtype(np.int16), OperandType.TENSOR_QUANT16_SYMM),
    TensorType.INT32: ElementType(np.dtype(np.int32), OperandType.TENSOR_INT32),
    TensorType.INT64: ElementType(np.dtype(np.int64), OperandType.TENSOR_INT32),
    TensorType.UINT8: ElementType(np.dtype(np.uint8), OperandType.TENSOR_QUANT8_ASYMM),
}
"""By TensorType. The HAL cannot hold other types."""

QUANT8 = frozenset({OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED})
FLOATS = frozenset({OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT32})
_SCALED = QUANT8 | {OperandType.TENSOR_QUANT16_SYMM}
_INTEGERS_THEMSELVES = TfliteQuantization((1.0,), (0,))
_MANY = 1 << 13
_BITS_OF_A_HALF = np.uint32(0x8FFFE000).view(np.int32)
"""Its sign, which a shift of integers repeats, and the other 15 bits, as they lie in a single."""
_FIRST_ABOVE_HALVES = 2.0**16


def element_type(tensor: TfliteTensor) -> ElementType:
    """Return a tensor's element type. Raises ValueError if the HAL lacks it."""
    if tensor.code not in ELEMENTS:
        got = _NAMES.get(tensor.code, f"type {tensor.code}")
        raise ValueError(
            f"'{tensor.name}' has elements of {got}, expected {', '.join(_NAMES[code] for code in ELEMENTS)}"
        )
    return ELEMENTS[tensor.code]


def operand_of(tensor: TfliteTensor, lifetime: OperandLifeTime, dimensions: tuple[int, ...]) -> Operand:
    """Return the operand of a tensor other than a constant.

    Raises ValueError if the HAL cannot hold the tensor, InvalidModel if its quantisation is malformed.
    """
    element = element_type(tensor)
    if tensor.code == TensorType.INT4:
        raise ValueError(f"'{tensor.name}' has elements of INT4 and is not a constant, expected INT8")
    found = quantization_of(tensor)
    if found is not None and found.per_channel:
        raise ValueError(f"'{tensor.name}' has a scale for each index along axis {found.axis}, expected one scale")
    scale, zero_point = (0.0, 0) if found is None else (found.scales[0], found.zero_points[0])
    return Operand(element.operand, dimensions or known_scalar(tensor), scale, zero_point, lifetime)


def known_scalar(tensor: TfliteTensor) -> tuple[int, ...]:
    """Return the dimensions of a tensor with an empty shape: [1] for a scalar, and none if its rank may be unknown."""
    return (1,) if tensor.has_rank else ()


def user_element_type(tensor: TfliteTensor) -> np.dtype[np.generic]:
    """Return the element type that users see: object for strings. Raises ValueError if no operand can hold it."""
    if tensor.code == STRING:
        return np.dtype(object)
    if tensor.code in ELEMENTS:
        return ELEMENTS[tensor.code].numpy
    return EXTENSION_TYPES[_extension_number(tensor)]


def extended_operand_of(tensor: TfliteTensor, lifetime: OperandLifeTime, dimensions: Dimensions) -> Operand:
    """Return the operand of the extension nnhal.tflite for a tensor. Raises ValueError if that cannot hold it either.

    Strings take as many bytes as they have.
    """
    if tensor.code == STRING:
        return Operand(operand_code(STRING), (0,), lifetime=lifetime)
    return Operand(operand_code(_extension_number(tensor)), dimensions or known_scalar(tensor), lifetime=lifetime)


def _extension_number(tensor: TfliteTensor) -> int:
    if tensor.code not in EXTENSION_TYPES:
        got = _NAMES.get(tensor.code, f"type {tensor.code}")
        expected = ", ".join(_NAMES[code] for code in (*EXTENSION_TYPES, STRING))
        raise ValueError(f"'{tensor.name}' has elements of {got}, expected {expected}")
    return tensor.code


def quantization_of(tensor: TfliteTensor) -> TfliteQuantization | None:
    """Return a tensor's quantisation; None for floats, booleans and 32-bit integers, whatever the file has.

    Raises InvalidModel if scales or zero points are out of range, ValueError if they are left out.
    """
    element = element_type(tensor)
    if element.operand not in _SCALED:
        return None
    if tensor.quantization is None:
        if element.operand not in QUANT8:
            raise ValueError(f"'{tensor.name}' has elements of {element.numpy} and no scale, expected one")
        return _INTEGERS_THEMSELVES
    _require_scales(tensor, tensor.quantization)
    return tensor.quantization


def _require_scales(tensor: TfliteTensor, found: TfliteQuantization) -> None:
    limits = np.iinfo(element_type(tensor).numpy.name)
    for scale, zero_point in zip(found.scales, found.zero_points, strict=True):
        if scale <= 0 or not limits.min <= zero_point <= limits.max:
            raise InvalidModel(
                f"tensor '{tensor.name}' has scale {scale} and zero point {zero_point}, "
                f"expected a scale above 0 and a zero point of {limits.min} to {limits.max}"
            )
    if found.per_channel and len(found.scales) != tensor.initial_shape[found.axis]:
        shape = describe(tensor.initial_shape)
        raise InvalidModel(f"tensor '{tensor.name}' of {shape} has {len(found.scales)} scales along axis {found.axis}")


def values_of(tensor: TfliteTensor) -> Array:
    """Return the array of a constant, of its own element type.

    A sparse constant is made dense. Raises ValueError if the tensor is not a constant, InvalidModel if its size or its
    sparsity is wrong.
    """
    if tensor.data is None:
        raise ValueError(f"'{tensor.name}' is computed at run time, expected a constant")
    element = element_type(tensor)
    if tensor.sparsity is not None:
        spare = 1 if tensor.code == TensorType.INT4 else 0  # a byte holds two
        return densified(
            tensor.name, tensor.sparsity, tensor.initial_shape, _stored(tensor, element, tensor.data), spare
        )
    elements = prod(tensor.initial_shape)
    expected = (elements + 1) // 2 if tensor.code == TensorType.INT4 else elements * element.numpy.itemsize
    if len(tensor.data) != expected:
        shape = describe(tensor.initial_shape)
        raise InvalidModel(f"tensor '{tensor.name}' of {shape} has {len(tensor.data)} bytes, expected {expected}")
    if tensor.code == TensorType.INT4:
        return _nibbles(tensor.data)[:elements].reshape(tensor.initial_shape)
    return tensor.data.view(element.numpy).reshape(tensor.initial_shape)


def _stored(tensor: TfliteTensor, element: ElementType, data: Bytes) -> Array:
    """Return the elements of a sparse constant that the file has."""
    if len(data) % element.numpy.itemsize:
        raise InvalidModel(f"tensor '{tensor.name}' has {len(data)} bytes, expected elements of {element.numpy}")
    return _nibbles(data) if tensor.code == TensorType.INT4 else data.view(element.numpy)


def channels_of(tensor: TfliteTensor) -> ChannelQuant:
    """Return the quantisation of a constant with a scale for each index along an axis.

    Raises ValueError if the HAL cannot hold it, InvalidModel if it is malformed.
    """
    found, code = quantization_of(tensor), element_type(tensor).operand
    if found is None or code != OperandType.TENSOR_QUANT8_ASYMM_SIGNED or any(found.zero_points):
        raise ValueError(f"'{tensor.name}' has a scale for each channel, expected int8 with zero points 0")
    return ChannelQuant(found.scales, found.axis)


def real_values(values: Array, quantization: TfliteQuantization) -> Array:
    """Return the reals that integers stand for, in float32."""
    along = [1] * values.ndim
    if quantization.per_channel:
        along[quantization.axis] = -1
    scales = np.array(quantization.scales, np.float32).reshape(along)
    zero_points = np.array(quantization.zero_points, np.float32).reshape(along)
    with np.errstate(over="ignore"):  # a scale near the largest float makes infinities, as at run time
        reals: Array = (values.astype(np.float32) - zero_points) * scales
    return reals


def singles(values: Array) -> Array:
    """Return numbers as float32. Many halves take a fifth of the time that numpy takes, which converts one at a time.

    A half has the bits of a single but for the last 13 digits and the bias of the exponent. So its bits in the places
    of a single are the number divided by 2**112, unless it is infinite or none.
    """
    if values.dtype != np.float16 or values.size < _MANY:
        return values.astype(np.float32, copy=False)
    bits = values.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _BITS_OF_A_HALF
    found: Array = bits.view(np.float32)
    found *= np.float32(2**112)
    is_finite = found.max() < _FIRST_ABOVE_HALVES and found.min() > -_FIRST_ABOVE_HALVES
    return found if is_finite else values.astype(np.float32)


def narrowed(values: Array, name: str) -> Array:
    """Return values with int64 narrowed to int32. Raises ValueError if they do not fit."""
    if values.dtype != np.int64:
        return values
    if values.size and not _INT32.min <= values.min() <= values.max() <= _INT32.max:
        raise ValueError(f"'{name}' has 64-bit values from {values.min()} to {values.max()}, expected 32 bits")
    return values.astype(np.int32)


def _nibbles(data: Array) -> Array:
    """Return signed 4-bit integers; each byte holds two, the lower half first."""
    signed = data.view(np.int8)
    return np.stack([np.left_shift(signed, 4) >> 4, signed >> 4], axis=1).reshape(-1)
