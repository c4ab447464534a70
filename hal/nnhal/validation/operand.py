"""Rules about single operands (contract rows MV-01, MV-08 to MV-14, MV-23)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnhal.errors import general_failure, invalid_argument
from nnhal.operations import type_name
from nnhal.types import ChannelQuant, Model, Operand, OperandLifeTime, OperandType
from nnhal.types.layout import (
    ELEMENT_TYPES,
    MAX_OPERAND_BYTES,
    MAX_RANK,
    byte_size,
    describe,
    fully_specified,
    is_extension,
    is_scalar,
)
from nnhal.types.memory import NOWHERE

_TYPES = frozenset(code.value for code in OperandType)
_LIFETIMES = frozenset(code.value for code in OperandLifeTime)
_ZERO_POINTS: dict[int, tuple[int, int]] = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}
_SCALED = frozenset(
    {*_ZERO_POINTS, OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM}
)  # types whose scale must be above 0


def validate_draft_operand(model: Model, operand: Operand, place: str) -> None:
    """Check all of an operand but where its value lies. ``place`` names it in messages."""
    _type(model, operand, place)
    _dimensions(operand, place)
    _quantization(operand, place)


def _type(model: Model, operand: Operand, place: str) -> None:
    if is_extension(operand.type):
        prefix = operand.type >> 16
        if prefix not in {entry.prefix for entry in model.extension_name_to_prefix}:
            invalid_argument(
                f"{place} has type {operand.type:#x}, whose prefix {prefix} the model maps to no extension"
            )
    elif operand.type not in _TYPES:
        invalid_argument(f"{place} has type {operand.type}, expected 0 to {max(OperandType).value}")
    if operand.lifetime not in _LIFETIMES:
        invalid_argument(f"{place} has lifetime {operand.lifetime}, expected 0 to {max(OperandLifeTime).value}")
    if (operand.type == OperandType.SUBGRAPH) != (operand.lifetime == OperandLifeTime.SUBGRAPH):
        invalid_argument(
            f"{place} has type {type_name(operand.type)} and lifetime {OperandLifeTime(operand.lifetime).name}; "
            "type SUBGRAPH and lifetime SUBGRAPH go together"
        )


def _dimensions(operand: Operand, place: str) -> None:
    if len(operand.dimensions) > MAX_RANK:
        invalid_argument(f"{place} has rank {len(operand.dimensions)}, expected at most {MAX_RANK}")
    if min(operand.dimensions, default=0) < 0:
        invalid_argument(f"{place} has dimensions {list(operand.dimensions)}, expected 0 or more for each axis")
    if operand.dimensions and (is_scalar(operand.type) or operand.type == OperandType.SUBGRAPH):
        invalid_argument(
            f"{place} is a {type_name(operand.type)} with dimensions {describe(operand.dimensions)}, expected none"
        )
    size = byte_size(operand.type, operand.dimensions)
    if size > MAX_OPERAND_BYTES:
        invalid_argument(f"{place} takes {size} bytes, expected at most {MAX_OPERAND_BYTES}")
    constant = operand.lifetime in (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)
    if constant and not is_extension(operand.type) and not fully_specified(operand.type, operand.dimensions):
        invalid_argument(f"{place} is a constant with dimensions {describe(operand.dimensions)}, expected all known")


def _quantization(operand: Operand, place: str) -> None:
    scale, zero_point = operand.scale, operand.zero_point
    if not math.isfinite(scale):
        invalid_argument(f"{place} has scale {scale}, expected a finite number")
    if operand.type in _SCALED:
        if scale <= 0:
            invalid_argument(f"{place} ({type_name(operand.type)}) has scale {scale}, expected more than 0")
    elif operand.type == OperandType.TENSOR_INT32:
        if scale < 0:
            invalid_argument(f"{place} (TENSOR_INT32) has scale {scale}, expected 0 or more")
    elif scale != 0:
        invalid_argument(f"{place} ({type_name(operand.type)}) has scale {scale}, expected 0")
    low, high = _ZERO_POINTS.get(operand.type, (0, 0))
    if not low <= zero_point <= high:
        expected = f"{low} to {high}" if high else "0"
        invalid_argument(f"{place} ({type_name(operand.type)}) has zero point {zero_point}, expected {expected}")
    _extra_params(operand, place)


def _extra_params(operand: Operand, place: str) -> None:
    params = operand.extra_params
    if operand.type == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        if not isinstance(params, ChannelQuant):
            invalid_argument(f"{place} has a per-channel type but no channel quantisation")
        _channel_quant(params, operand, place)
    elif isinstance(params, ChannelQuant) or (params is not None and not is_extension(operand.type)):
        invalid_argument(f"{place} ({type_name(operand.type)}) has extra parameters, expected none")


def _channel_quant(params: ChannelQuant, operand: Operand, place: str) -> None:
    if not 0 <= params.channel_dim < len(operand.dimensions):
        invalid_argument(
            f"{place} has channel dimension {params.channel_dim}, expected an axis of {describe(operand.dimensions)}"
        )
    channels = operand.dimensions[params.channel_dim]
    if channels == 0 or channels != len(params.scales):
        invalid_argument(
            f"{place} has {len(params.scales)} channel scales, expected {channels or 'a known number'}: "
            "one for each channel"
        )
    if not all(math.isfinite(s) and s > 0 for s in params.scales):
        invalid_argument(f"{place} has channel scales that are not all finite and above 0")


def validate_location(model: Model, pool_sizes: Sequence[int], operand: Operand, place: str) -> None:
    """Check where the value of an operand lies. ``pool_sizes`` are those of the model's pools, 0 for images."""
    location = operand.location
    if min(location.pool_index, location.offset, location.length, location.padding) < 0:
        invalid_argument(f"{place} has a negative number in its location ({location})")
    if operand.lifetime == OperandLifeTime.SUBGRAPH:
        if (location.pool_index, location.length, location.padding) != (0, 0, 0):
            invalid_argument(f"{place} refers to a subgraph by its offset, expected 0 in the rest of its location")
        if location.offset >= len(model.referenced):
            invalid_argument(
                f"{place} refers to subgraph {location.offset}, but there are {len(model.referenced)} subgraphs"
            )
    elif operand.lifetime == OperandLifeTime.CONSTANT_COPY:
        if location.pool_index:
            invalid_argument(f"{place} is CONSTANT_COPY with pool index {location.pool_index}, expected 0")
        _range(operand, len(model.operand_values), "the operand values", place)
    elif operand.lifetime == OperandLifeTime.CONSTANT_POOL:
        if location.pool_index >= len(pool_sizes):
            invalid_argument(f"{place} lies in pool {location.pool_index}, but there are {len(pool_sizes)} pools")
        if not pool_sizes[location.pool_index]:
            general_failure(
                f"{place} lies in pool {location.pool_index}, a hardware buffer of images, expected one of format BLOB"
            )
        _range(operand, pool_sizes[location.pool_index], f"pool {location.pool_index}", place)
    elif location != NOWHERE:
        invalid_argument(f"{place} is not a constant but has location ({location})")


def _range(operand: Operand, available: int, what: str, place: str) -> None:
    location = operand.location
    if location.padding:
        invalid_argument(f"{place} is a constant with padding {location.padding}, expected 0")
    if location.offset + location.length > available:
        invalid_argument(
            f"{place} lies at bytes {location.offset} to {location.offset + location.length} of {what}, "
            f"which has {available}"
        )
    if operand.type in ELEMENT_TYPES:
        size = byte_size(operand.type, operand.dimensions)
        if location.length != size:
            invalid_argument(f"{place} has {location.length} bytes, expected {size}")
