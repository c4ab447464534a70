"""A device and its objects that outlive the death of its process.

Where a call finds that the process is dead, the service is acquired again, what the call needs is made again from the
arguments that were kept, and the call is made once more. Any other error is returned as it is (contract rows RS-08 to
RS-13). Bursts and fences do not outlive the process: they are of one moment, and whoever holds one is told.
"""

from nnhal.remote.resilient.buffer import ResilientBuffer
from nnhal.remote.resilient.device import ResilientDevice
from nnhal.remote.resilient.prepared_model import ResilientExecution, ResilientPreparedModel
from nnhal.remote.resilient.renewable import DeviceReplacedError, Renewable

__all__ = [
    "DeviceReplacedError",
    "Renewable",
    "ResilientBuffer",
    "ResilientDevice",
    "ResilientExecution",
    "ResilientPreparedModel",
]
