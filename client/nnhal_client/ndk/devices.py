"""The devices, as the NDK's NeuralNetworks API shows them, and what they would take of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.codec import extensions_from_wire, model_to_wire
from nnhal.errors import NnhalError
from nnhal.types import DeviceType, Extension, Model
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.framework import Framework
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode

REFERENCE = "nnapi-reference"
"""What this API calls the CPU: the device that takes what no other one does. It is the last of the list."""
_CPU = "cpu_ref"
"""What the framework calls it."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that answers. ``feature_level`` is that of the HAL's interface, 8 for all of them."""

    name: str
    version: str
    type: DeviceType
    feature_level: int
    extensions: tuple[Extension, ...] = ()


def devices(framework: Framework) -> list[Device]:
    """The devices that answer, in order of preference, the CPU last. Raises NeuralNetworksError."""
    try:
        answer = framework.calls.call(framework.stub.ListDevices, wire.ListDevicesRequest())
    except NnhalError as error:
        raise NeuralNetworksError.from_error(error) from error
    found = [
        Device(
            REFERENCE if device.name == _CPU else device.name,
            device.version,
            DeviceType(device.type),
            device.feature_level,
            extensions_from_wire(device.extensions),
        )
        for device in answer.devices
        if device.available
    ]
    return sorted(found, key=lambda device: device.name == REFERENCE)


def supported_operations(framework: Framework, model: Model, devices: Sequence[Device]) -> list[bool]:
    """Which operations of main at least one of the devices takes, in the order of the model.

    Raises NeuralNetworksError: BAD_DATA for an invalid model, or devices that are none, unknown or named twice.
    """
    try:
        request = wire.FrameworkServiceGetSupportedOperationsRequest(
            model=model_to_wire(model, framework.calls.issue), devices=framework_names(devices)
        )
        return list(framework.calls.call(framework.stub.GetSupportedOperations, request).supported)
    except NnhalError as error:
        raise NeuralNetworksError.from_error(error) from error


def framework_names(devices: Sequence[Device]) -> list[str]:
    """What the framework calls devices that an application names. Raises BAD_DATA where they are none, or not
    distinct.
    """
    names = [_CPU if device.name == REFERENCE else device.name for device in devices]
    if not names or len(set(names)) < len(names):
        raise NeuralNetworksError(ResultCode.BAD_DATA, f"got devices {names}, expected at least one and none twice")
    return names
