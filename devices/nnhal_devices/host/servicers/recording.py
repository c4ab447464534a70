"""DeviceRecordingService: recordings of what clients ask."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import grpc

from nnhal.errors import general_failure
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import recording_pb2_grpc
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.rpc import answers

if TYPE_CHECKING:
    from nnhal_devices.host.recording.recorder import DeviceRecorder


class DeviceRecordingServicer(recording_pb2_grpc.DeviceRecordingServiceServicer):
    """DeviceRecordingService over gRPC."""

    def __init__(self, recorder: DeviceRecorder | None, clients: ClientSessions) -> None:
        """``recorder`` is None if the process may not be recorded."""
        self._recorder = recorder
        self._clients = clients

    @answers
    def StartDeviceRecording(
        self, request: wire.StartDeviceRecordingRequest, context: grpc.ServicerContext
    ) -> wire.StartDeviceRecordingResponse:
        recorder, client = self._allowed(context), self._clients.of(context)
        file = client.descriptors.get(request.descriptor_id)
        recorder.start(file, request.omissions, request.max_bytes, client)
        return wire.StartDeviceRecordingResponse()

    @answers
    def GetDeviceRecording(
        self, request: wire.GetDeviceRecordingRequest, context: grpc.ServicerContext
    ) -> wire.GetDeviceRecordingResponse:
        figures = self._allowed(context).figures(self._clients.of(context))
        return wire.GetDeviceRecordingResponse(figures=figures)

    @answers
    def StopDeviceRecording(
        self, request: wire.StopDeviceRecordingRequest, context: grpc.ServicerContext
    ) -> wire.StopDeviceRecordingResponse:
        figures = self._allowed(context).stop(self._clients.of(context))
        return wire.StopDeviceRecordingResponse(figures=figures)

    def _allowed(self, context: grpc.ServicerContext) -> DeviceRecorder:
        """The recorder, for the user that runs the process. Raises HalError."""
        session, own = self._clients.of(context).session, os.geteuid()
        if session.uid != own:
            general_failure(f"only user {own}, who runs the device, may record it; the call is of user {session.uid}")
        if self._recorder is None:
            general_failure("the device may not be recorded: expected it to be started with --allow-recording")
        return self._recorder
