"""Points where the calls of gRPC are recorded: around each servicer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import grpc

from nnhal.clock import now_ns
from nnhal.device_calls import EXECUTE
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2
from nnhal_devices.host.recording.active import ActiveRecording
from nnhal_devices.host.recording.calls import Call, target_of, tell
from nnhal_devices.host.recording.executions import SERVED, ServedMethod
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.wrapped_servicer import Method


class RecordedCalls:
    """Records the calls that servicers serve, while a recording is made."""

    def __init__(self, active: Callable[[], ActiveRecording | None], clients: ClientSessions) -> None:
        """``active`` returns the recording that is being made."""
        self._active = active
        self._clients = clients

    def _call(self, method: str, request: Any, context: grpc.ServicerContext) -> Call:
        """A call that begins now."""
        client: ClientSession | None = None
        with suppress(HalError):  # of a call that needs no session, or is refused
            client = self._clients.of(context)
        return Call(method, client, request, now_ns(), target_of(client, request))

    def unary(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Any:
        """Serve a call with one answer."""
        active = self._active()
        if active is None:
            return method(request, context)
        watched, served = _WatchedContext(context), ServedMethod(title)
        noted = self._call(title, request, context)
        SERVED.set(served)
        try:
            answer = method(request, cast(grpc.ServicerContext, watched))
        except BaseException:
            if not served.is_noted:
                tell(active, noted, None, watched.error)
            raise
        finally:
            SERVED.set(None)
        if not served.is_noted and title not in EXECUTE:
            tell(active, noted, answer, None)
        return answer

    def stream(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Serve a preparation, whose end is recorded before its client hears of it."""
        active = self._active()
        if active is None:
            yield from method(request, context)
            return
        noted = self._call(title, request, context)
        for answer in method(request, context):
            event = answer.preparation
            if event.WhichOneof("event") == "notified":
                tell(active, noted, event.notified, _error_of(event.notified))
            yield answer


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
