"""Recording what all clients ask of a device (see recording.proto), for those who run it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.remote.calls import Calls
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import recording_pb2_grpc

_PATIENCE_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
"""The end of a recording waits until all of it is written."""
T = TypeVar("T")


Omissions = wire.RecordingOmissions
NO_OMISSIONS = Omissions()


class RecordingControl(Closing):
    """Records a device that was started with ``--allow-recording``. Use it as a context: a recording ends with it.

    Every method raises HalError if the device refuses, TransportError if it does not answer in time, and
    DeadObjectError if it is gone.
    """

    def __init__(self, endpoint: Endpoint, client_name: str = "nnhal-record") -> None:
        self._calls = Calls(endpoint, client_name, _PATIENCE_SECONDS)
        self._stub = recording_pb2_grpc.DeviceRecordingServiceStub(self._calls.rpc)

    @property
    def gone(self) -> bool:
        """Return whether the device has ended the session or is dead."""
        return self._calls.hung_up

    def start(self, path: Path, omissions: Omissions = NO_OMISSIONS, max_bytes: int = 0) -> None:
        """Begin to record to a file, which is made or overwritten, with mode 0600. Raises OSError.

        ``max_bytes`` is 0 for no limit.
        """
        file = Descriptor(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)  # also one that was there: it has the data of all clients
        descriptor = self._calls.issue(file)
        request = wire.StartDeviceRecordingRequest(descriptor_id=descriptor, omissions=omissions, max_bytes=max_bytes)
        self._ask(self._stub.StartDeviceRecording, request)

    def figures(self) -> wire.RecordingFigures:
        return self._ask(self._stub.GetDeviceRecording, wire.GetDeviceRecordingRequest()).figures

    def stop(self) -> wire.RecordingFigures:
        """End the recording, and return what it has when the file is complete."""
        return self._ask(self._stub.StopDeviceRecording, wire.StopDeviceRecordingRequest()).figures

    def _ask(self, method: grpc.UnaryUnaryMultiCallable[Any, T], request: Message) -> T:
        return self._calls.call(method, request, _ANSWER_SECONDS)

    def close(self) -> None:
        """End the session, and with it the recording."""
        self._calls.close()
