"""The NDK's NeuralNetworks API in Python, by libneuralnetworks.so: devices, compilations, executions, events, bursts.

Models are ``nnhal.types.Model``. The framework is the one at NNHAL_FRAMEWORK, by default /run/nnhal/framework, and one
for the whole process. A call that fails raises NeuralNetworksError with the NDK's result code.
"""

from nnhal_native.ndk.compilation import Compilation, Device, devices, supported_operations
from nnhal_native.ndk.execution import Burst, DurationCode, Event, Execution
from nnhal_native.ndk.library import NeuralNetworksError, OutputInsufficientSizeError, ResultCode
from nnhal_native.ndk.memory import Memory, MemoryDesc

__all__ = [
    "Burst",
    "Compilation",
    "Device",
    "DurationCode",
    "Event",
    "Execution",
    "Memory",
    "MemoryDesc",
    "NeuralNetworksError",
    "OutputInsufficientSizeError",
    "ResultCode",
    "devices",
    "supported_operations",
]
