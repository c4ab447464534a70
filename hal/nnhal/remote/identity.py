"""The identity of a device, which a client reads when it registers the device.

A device whose answers violate the contract (rows DV-02 to DV-07) is refused with GENERAL_FAILURE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import inf

from nnhal.codec import capabilities_from_wire, extensions_from_wire
from nnhal.errors import general_failure
from nnhal.extensions import is_extension_name
from nnhal.types import (
    Capabilities,
    DeviceType,
    Extension,
    NumberOfCacheFiles,
    OperandType,
    PerformanceInfo,
)
from nnhal.v1 import types_pb2 as wire

MAX_CACHE_FILES = 32
"""The maximum for each of the two kinds of cache files."""
_MAX_EXTENSION_TYPE = 0xFFFF
_TYPES = {kind.value for kind in DeviceType}


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Everything that is static about a device. Two processes with different identities are different devices."""

    version: str
    """The driver's name and version."""
    type: DeviceType
    """The kind of processor."""
    capabilities: Capabilities
    """Performance figures."""
    extensions: tuple[Extension, ...]
    """The extensions that it supports."""
    cache_files: NumberOfCacheFiles
    """How many files compilation caching needs."""

    def differences(self, other: DeviceIdentity) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


def checked_version(version: str, place: str) -> str:
    """Check a version, which is not empty, and return it."""
    if not version:
        general_failure(f"{place} has an empty version, expected a name and a version")
    return version


def checked_type(code: int, place: str) -> DeviceType:
    if code not in _TYPES:
        general_failure(f"{place} has device type {code}, expected one of {sorted(_TYPES)}")
    return DeviceType(code)


def checked_capabilities(message: wire.Capabilities, place: str) -> Capabilities:
    """Check and decode figures.

    They are above 0 and finite, in a table that ascends strictly by operand type and has no SUBGRAPH.
    """
    try:
        capabilities = capabilities_from_wire(message)
    except ValueError as error:
        general_failure(f"{place} has performance figures for an operand type that does not exist: {error}")
    _require_above_zero(capabilities.relaxed_float32_to_float16_scalar, "relaxed scalars", place)
    _require_above_zero(capabilities.relaxed_float32_to_float16_tensor, "relaxed tensors", place)
    _require_above_zero(capabilities.if_performance, "IF", place)
    _require_above_zero(capabilities.while_performance, "WHILE", place)
    for entry in capabilities.operand_performance:
        _require_above_zero(entry.info, entry.type.name, place)
    types = [entry.type for entry in capabilities.operand_performance]
    if types != sorted(set(types)) or OperandType.SUBGRAPH in types:
        general_failure(
            f"{place} has performance figures for {', '.join(code.name for code in types)}, expected operand types "
            "in ascending order, each once, without SUBGRAPH"
        )
    return capabilities


def checked_extensions(messages: Iterable[wire.Extension], place: str) -> tuple[Extension, ...]:
    """Check and decode extensions: names and operand types are well formed and unique."""
    extensions = extensions_from_wire(messages)
    for extension in extensions:
        _require_extension(extension, place)
    _require_unique([extension.name for extension in extensions], "extensions", place)
    return extensions


def checked_cache_files(message: wire.NumberOfCacheFiles, place: str) -> NumberOfCacheFiles:
    """Check and decode the numbers of cache files, which have a maximum."""
    numbers = NumberOfCacheFiles(message.num_model_cache, message.num_data_cache)
    for count, what in ((numbers.num_model_cache, "model"), (numbers.num_data_cache, "data")):
        if not 0 <= count <= MAX_CACHE_FILES:
            general_failure(f"{place} needs {count} {what} cache files, expected 0 to {MAX_CACHE_FILES}")
    return numbers


def _require_above_zero(info: PerformanceInfo, what: str, place: str) -> None:
    if not (0 < info.exec_time < inf and 0 < info.power_usage < inf):  # also true for NaN
        general_failure(
            f"{place} has execution time {info.exec_time} and power usage {info.power_usage} for {what}, "
            "expected both above 0 and finite"
        )


def _require_extension(extension: Extension, place: str) -> None:
    name, types = extension.name, extension.operand_types
    if not is_extension_name(name):
        general_failure(
            f"{place} has extension {name!r}, expected lower-case letters, digits, '.' and '_' with at least one dot"
        )
    for entry in types:
        if not 0 <= entry.type <= _MAX_EXTENSION_TYPE or entry.byte_size <= 0:
            general_failure(
                f"{place} has operand type {entry.type} of {entry.byte_size} bytes in extension {name!r}, expected "
                f"0 to {_MAX_EXTENSION_TYPE} and a size above 0"
            )
    _require_unique([str(entry.type) for entry in types], f"operand types in extension {name!r}", place)


def _require_unique(names: Sequence[str], what: str, place: str) -> None:
    if len(set(names)) < len(names):
        general_failure(f"{place} has {what} that are not unique: {', '.join(names)}")
