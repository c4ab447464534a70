"""Telling the device of networks."""

from __future__ import annotations

from nnhal.types import NetworkEvent
from nnhal.v1 import backend_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remote.connection import WireConnection


class ForwardedContext:
    """The BackendContext of the device. Its methods raise HalError."""

    def __init__(self, connection: WireConnection) -> None:
        self._connection = connection

    def before_load_network(self, network: int) -> None:
        """Tell the device that a network is about to be loaded."""
        self._tell(network, NetworkEvent.BEFORE_LOAD)

    def after_load_network(self, network: int) -> None:
        """Tell the device that it has been loaded, or that loading it has failed."""
        self._tell(network, NetworkEvent.AFTER_LOAD)

    def before_unload_network(self, network: int) -> None:
        """Tell the device that it is about to be unloaded."""
        self._tell(network, NetworkEvent.BEFORE_UNLOAD)

    def after_unload_network(self, network: int) -> None:
        """Tell the device that it has been unloaded."""
        self._tell(network, NetworkEvent.AFTER_UNLOAD)

    def _tell(self, network: int, event: NetworkEvent) -> None:
        request = wire.NotifyRequest(network=network, event=backend_pb2.NetworkEvent.ValueType(event))
        self._connection.call(self._connection.stub.Notify, request)
