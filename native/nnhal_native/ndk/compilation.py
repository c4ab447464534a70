"""Devices, the operations that they take, and compilations of models for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nnhal.types import DeviceType, ExecutionPreference, Priority
from nnhal.types import Model as HalModel
from nnhal_native.ndk.handle import Handle
from nnhal_native.ndk.library import NeuralNetworksError, ResultCode, asked, call, ffi, text
from nnhal_native.ndk.model import Model

_TOKEN_BYTES = 32
_PRIORITIES = {Priority.LOW: 90, Priority.MEDIUM: 100, Priority.HIGH: 110}
"""The NDK's numbers of them."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that answered when the library's session began."""

    name: str
    """The CPU, which takes what no other device takes, is ``nnapi-reference``."""
    version: str
    type: DeviceType
    feature_level: int
    """The HAL's: 8 for all devices."""
    pointer: Any = field(repr=False, compare=False)

    def has_extension(self, name: str) -> bool:
        """Return whether it knows an extension."""
        return bool(asked("Device_getExtensionSupport", "bool", self.pointer, name.encode()))


def devices() -> list[Device]:
    """Return the devices in order of preference, the CPU last. Raises NeuralNetworksError."""
    return [_device(index) for index in range(asked("_getDeviceCount", "uint32_t"))]


def _device(index: int) -> Device:
    pointer = asked("_getDevice", "ANeuralNetworksDevice*", index)
    name, version = (text(asked(f"Device_get{what}", "char const*", pointer)) for what in ("Name", "Version"))
    type_ = DeviceType(asked("Device_getType", "int32_t", pointer))
    level = asked("Device_getFeatureLevel", "int64_t", pointer)
    return Device(name, version, type_, level % 1_000_000, pointer)


def supported_operations(model: HalModel, devices: Sequence[Device]) -> list[bool]:
    """Return for each operation of main whether at least one of the devices takes it.

    Raises NeuralNetworksError: BAD_DATA if the model is invalid, or if devices are missing or named twice.
    """
    with Model(model) as built:
        answers = ffi.new("bool[]", len(model.main.operations))
        call("Model_getSupportedOperationsForDevices", built.pointer, *_listed(devices), answers)
        return list(answers)


def _listed(devices: Sequence[Device]) -> tuple[Any, int]:
    return ffi.new("ANeuralNetworksDevice const*[]", [device.pointer for device in devices]), len(devices)


class Compilation(Handle):
    """ANeuralNetworksCompilation. Use as a context, or ``close`` it. Its executions may outlive it.

    Methods raise BAD_STATE after ``finish``.
    """

    def __init__(self, model: HalModel, devices: Sequence[Device] | None = None) -> None:
        """``devices`` share the model and have no fallback; without them all devices do, and the CPU is one.

        Raises NeuralNetworksError: BAD_DATA if the model is invalid, or if devices are missing or named twice.
        """
        with Model(model) as built:
            if devices is None:
                pointer = asked("Compilation_create", "ANeuralNetworksCompilation*", built.pointer)
            else:
                pointer = asked(
                    "Compilation_createForDevices", "ANeuralNetworksCompilation*", built.pointer, *_listed(devices)
                )
        super().__init__("Compilation", pointer)

    def set_preference(self, preference: ExecutionPreference) -> None:
        """Prefer short runs, little power or many runs in turn."""
        call("Compilation_setPreference", self.pointer, preference)

    def set_priority(self, priority: Priority) -> None:
        """Set the priority of its runs."""
        call("Compilation_setPriority", self.pointer, _PRIORITIES[priority])

    def set_timeout(self, duration_ns: int) -> None:
        """Set the time that ``finish`` may take, 0 for any. Raises BAD_DATA unless exactly one device is named."""
        call("Compilation_setTimeout", self.pointer, duration_ns)

    def set_caching(self, token: bytes) -> None:
        """Name what is compiled by 32 bytes. The directory is the framework's. Raises BAD_DATA for another length."""
        if len(token) != _TOKEN_BYTES:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"a token of {len(token)} bytes, expected {_TOKEN_BYTES}")
        call("Compilation_setCaching", self.pointer, b"", token)

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Give the device a hint.

        Raises BAD_DATA unless exactly one device is named, for an extension that it does not know, and for a code that
        was given before.
        """
        call("Compilation_addExtensionAttribute", self.pointer, extension.encode(), code, data, len(data))

    def finish(self) -> None:
        """Compile it. Raises what the device's error maps to."""
        call("Compilation_finish", self.pointer)
