"""Where the calls of gRPC are recorded: around each servicer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

import grpc

from nnhal.clock import now_ns
from nnhal.device_calls import EXECUTE
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2
from nnhal_devices.host.recording.active import ActiveRecording
from nnhal_devices.host.recording.calls import Call, target_of, tell
from nnhal_devices.host.recording.executions import SERVED, RecordingPreparedModel, ServedMethod
from nnhal_devices.host.recording.recorder import DeviceRecorder
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.sessions.wrapped_servicer import WrappedServicer

S = TypeVar("S")


class RecordingPoints:
    """Tells a recorder which calls a device serves."""

    def __init__(self, recorder: DeviceRecorder, clients: ClientSessions) -> None:
        self._recorder = recorder
        self._clients = clients

    def around(self, service: str, servicer: S) -> S:
        """A servicer whose calls are recorded. ``service`` is its name in recordings."""
        return cast(S, _RecordedServicer(service, servicer, self))

    def attach(self, device: HostedDevice) -> None:
        """Have executions recorded, in whatever way they are asked for."""

        def prepared(*arguments: Any) -> RecordingPreparedModel:
            made = RecordingPreparedModel(*arguments)
            made.recorder = self._recorder
            return made

        device.make_prepared_model = prepared

    @property
    def active(self) -> ActiveRecording | None:
        """The recording that is being made."""
        return self._recorder.active

    def call(self, method: str, request: Any, context: grpc.ServicerContext) -> Call:
        """A call that begins now."""
        client: ClientSession | None = None
        with suppress(HalError):  # of a call that needs no session, or is refused
            client = self._clients.of(context)
        return Call(method, client, request, now_ns(), target_of(client, request))


class _RecordedServicer(WrappedServicer):
    """A servicer whose methods are those of another one, and are recorded."""

    def __init__(self, service: str, servicer: Any, points: RecordingPoints) -> None:
        super().__init__(service, servicer)
        self._points = points

    def _unary(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            active = self._points.active
            if active is None:
                return method(request, context)
            watched, served = _WatchedContext(context), ServedMethod(title)
            noted = self._points.call(title, request, context)
            SERVED.set(served)
            try:
                answer = method(request, watched)
            except BaseException:
                if not served.is_noted:
                    tell(active, noted, None, watched.error)
                raise
            finally:
                SERVED.set(None)
            if not served.is_noted and title not in EXECUTE:
                tell(active, noted, answer, None)
            return answer

        return call

    def _streaming(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            active = self._points.active
            if active is None:
                yield from method(request, context)
                return
            noted = self._points.call(title, request, context)
            for answer in method(request, context):
                event = answer.preparation
                if event.WhichOneof("event") == "notified":  # before its client hears of it
                    tell(active, noted, event.notified, _error_of(event.notified))
                yield answer

        return call


class _WatchedContext:
    """The context of a call, which keeps the error that ends it."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self.error: HalError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def abort_with_status(self, status: Any) -> None:
        """End the call."""
        error = getattr(status, "error", None)
        if error is not None:
            self.error = HalError(error.status, error.message)  # without its frames
        self._context.abort_with_status(status)


def _error_of(notified: device_pb2.Notified) -> HalError | None:
    return HalError(ErrorStatus(notified.status), notified.message) if notified.status else None
