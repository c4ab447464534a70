"""A device seen from afar: the HAL's objects as a client holds them."""

from nnhal.remote.burst import BurstOutcome, RemoteBurst
from nnhal.remote.calls import open_rpc
from nnhal.remote.device import DeviceDescription, OperationSupport, RemoteDevice
from nnhal.remote.execution import RemoteExecution
from nnhal.remote.prepared_model import RemotePreparedModel

__all__ = [
    "BurstOutcome",
    "DeviceDescription",
    "OperationSupport",
    "RemoteBurst",
    "RemoteDevice",
    "RemoteExecution",
    "RemotePreparedModel",
    "open_rpc",
]
