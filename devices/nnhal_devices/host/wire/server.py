"""The TCP server of a device's wire."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import grpc

from nnhal.v1 import wire_pb2, wire_pb2_grpc
from nnhal_devices.host.wire.door import WireDoor
from nnhal_devices.host.wire.limits import WireLimits
from nnhal_devices.host.wire.own_device import OwnDevice
from nnhal_devices.host.wire.servicer import WireServicer
from nnhal_devices.wire import CHUNK_BYTES, KEEPALIVE_OPTIONS, SESSION_TOKEN_METADATA
from nnhal_hosting.calls import CallAdmission, CallLimits

_GRACE_SECONDS = 2.0
_SERVICE = f"/{wire_pb2.DESCRIPTOR.services_by_name['WireService'].full_name}"
_OPEN = f"{_SERVICE}/OpenSession"
_ASIDE = (f"{_SERVICE}/CancelRun", f"{_SERVICE}/Probe")
_CONNECTION_CALLS = 64
_STALLED_SECONDS = 300.0
"""Networks may be slow."""
_OPENING = 16
"""Calls that open a session beyond the limit: they are told which limit it is."""


class WireServer:
    """Serves the wire. Use it as a context, around which the device serves at its endpoint."""

    def __init__(self, own: OwnDevice, door: WireDoor, limits: WireLimits, threads: int) -> None:
        """Listen; ``threads`` calls are served at a time. Raises OSError if the address cannot be used."""
        calls = CallLimits(
            threads=threads,
            streams=limits.sessions + _OPENING,
            connection_calls=_CONNECTION_CALLS,
            read_ahead_bytes=CHUNK_BYTES,  # the next chunk travels while one is taken
            message_bytes=limits.message_bytes,
            memory_bytes=limits.sessions * limits.message_bytes,
            stalled_secs=_STALLED_SECONDS,
        )
        self._admission = CallAdmission(calls, SESSION_TOKEN_METADATA, (_OPEN,), _ASIDE.__contains__, self._admit)
        self._server = grpc.server(
            ThreadPoolExecutor(1),  # for no call: the admission has threads for all
            interceptors=[self._admission],
            options=(
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                *calls.options,
                *KEEPALIVE_OPTIONS,
            ),
        )
        address = door.listener.address
        door.listener.require_free()
        try:
            if door.tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, door.tls.grpc_credentials())
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}") from error
        door = door.at(port)
        self._servicer = WireServicer(own, door, limits, self._admission)
        wire_pb2_grpc.add_WireServiceServicer_to_server(self._servicer, self._server)
        self.address = door.listener.address
        """Where it listens."""

    def _admit(self, method: str, context: grpc.ServicerContext) -> None:
        """End a call of a stranger before its message is received."""
        self._servicer.admit(context, opens=method == _OPEN)

    def __enter__(self) -> WireServer:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = self._server.stop(_GRACE_SECONDS)
        self._servicer.close()
        stopped.wait()
        self._admission.close()
