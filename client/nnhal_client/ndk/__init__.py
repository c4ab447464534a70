"""The NDK's NeuralNetworks API in Python, over the framework: devices, compilations, executions, events, bursts.

Models are ``nnhal.types.Model``. Calls that fail raise NeuralNetworksError with one of the NDK's result codes.
"""

from nnhal_client.ndk.compilation import Compilation
from nnhal_client.ndk.devices import REFERENCE, Device, devices, supported_operations
from nnhal_client.ndk.event import Event, wait
from nnhal_client.ndk.execution import Burst, DurationCode, Execution
from nnhal_client.ndk.memory import Memory, MemoryDesc
from nnhal_client.ndk.result import (
    UNKNOWN_DURATION,
    NeuralNetworksError,
    NoDurationError,
    OutputInsufficientSizeError,
    ResultCode,
)

__all__ = [
    "REFERENCE",
    "UNKNOWN_DURATION",
    "Burst",
    "Compilation",
    "Device",
    "DurationCode",
    "Event",
    "Execution",
    "Memory",
    "MemoryDesc",
    "NeuralNetworksError",
    "NoDurationError",
    "OutputInsufficientSizeError",
    "ResultCode",
    "devices",
    "supported_operations",
    "wait",
]
