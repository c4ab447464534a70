"""The client's side of a remote device: the HAL's objects as proxies."""

from nnhal.remote.backend import DeviceDescription, ModelAssessment, OperationSupport
from nnhal.remote.buffer import RemoteBuffer
from nnhal.remote.burst import BurstOutcome, RemoteBurst
from nnhal.remote.calls import open_rpc
from nnhal.remote.device import CompilationCache, RemoteDevice
from nnhal.remote.execution import RemoteExecution
from nnhal.remote.fenced import RemoteFencedExecution
from nnhal.remote.identity import DeviceIdentity
from nnhal.remote.launcher import RemoteLauncher
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.remote.run_channel import RemoteRunChannel

__all__ = [
    "BurstOutcome",
    "CompilationCache",
    "DeviceDescription",
    "DeviceIdentity",
    "ModelAssessment",
    "OperationSupport",
    "RemoteBuffer",
    "RemoteBurst",
    "RemoteDevice",
    "RemoteExecution",
    "RemoteFencedExecution",
    "RemoteLauncher",
    "RemotePreparedModel",
    "RemoteRunChannel",
    "open_rpc",
]
