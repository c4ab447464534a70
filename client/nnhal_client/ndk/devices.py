"""The devices, as the NDK's NeuralNetworks API shows them, and which operations of a model they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.codec import extensions_from_wire, model_to_wire
from nnhal.errors import NnhalError
from nnhal.types import DeviceType, Extension, Model
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.framework import Framework
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode
from nnhal_client.ndk.session import living

REFERENCE = "nnapi-reference"
"""This API's name of the CPU, which takes the operations that no other device takes. It is the last of the list."""
_CPU = "cpu_ref"
"""The framework's name of it."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that answers."""

    name: str
    version: str
    type: DeviceType
    feature_level: int
    """The HAL's: 8 for all devices."""
    extensions: tuple[Extension, ...] = ()


def devices(framework: Framework) -> list[Device]:
    """The devices that answer, in order of preference, the CPU last. Raises NeuralNetworksError."""
    try:
        framework = living(framework)
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

    Raises NeuralNetworksError: BAD_DATA if the model is invalid, or if devices are missing, unknown or named twice.
    """
    try:
        framework = living(framework)
        request = wire.FrameworkServiceGetSupportedOperationsRequest(
            model=model_to_wire(model, framework.calls.issue), devices=framework_names(devices)
        )
        return list(framework.calls.call(framework.stub.GetSupportedOperations, request).supported)
    except NnhalError as error:
        raise NeuralNetworksError.from_error(error) from error


def framework_names(devices: Sequence[Device]) -> list[str]:
    """The framework's names of devices. Raises BAD_DATA if there is none, or if one is named twice."""
    names = [_CPU if device.name == REFERENCE else device.name for device in devices]
    if not names or len(set(names)) < len(names):
        raise NeuralNetworksError(ResultCode.BAD_DATA, f"got devices {names}, expected at least one and none twice")
    return names
