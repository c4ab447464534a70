"""The TCP server of a device's wire."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import grpc

from nnhal.v1 import wire_pb2_grpc
from nnhal_devices.host.wire.door import WireDoor
from nnhal_devices.host.wire.limits import WireLimits
from nnhal_devices.host.wire.own_device import OwnDevice
from nnhal_devices.host.wire.servicer import WireServicer
from nnhal_devices.wire.protocol import KEEPALIVE_OPTIONS
from nnhal_hosting.access import TcpListener

_GRACE_SECONDS = 2.0
_WAITING_CALLS = 256
"""Calls that may wait for a thread; beyond them, calls end with RESOURCE_EXHAUSTED."""


class WireServer:
    """Serves the wire. Use it as a context, around which the device serves at its endpoint."""

    def __init__(self, own: OwnDevice, door: WireDoor, limits: WireLimits, threads: int) -> None:
        """Listen; ``threads`` calls are served at a time. Raises OSError if the address cannot be used."""
        self._servicer = WireServicer(own, door, limits)
        self._pool = ThreadPoolExecutor(limits.sessions + threads, thread_name_prefix="wire")
        self._server = grpc.server(
            self._pool,
            options=(
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                *KEEPALIVE_OPTIONS,
            ),
            maximum_concurrent_rpcs=limits.sessions + threads + _WAITING_CALLS,
        )
        wire_pb2_grpc.add_WireServiceServicer_to_server(self._servicer, self._server)
        address = door.listener.address
        try:
            if door.tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, door.tls.grpc_credentials())
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}") from error
        self.address = TcpListener(door.listener.host, port).address
        """Where it listens."""

    def __enter__(self) -> WireServer:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = self._server.stop(_GRACE_SECONDS)
        self._servicer.close()
        stopped.wait()
        self._pool.shutdown()
