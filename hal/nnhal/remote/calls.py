"""Calls to a process: one gRPC channel and one link, and errors as the contract has them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc

from nnhal.codec import error_from_rpc
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.link import Channel, Link

T = TypeVar("T")
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def open_rpc(endpoint: Endpoint) -> grpc.Channel:
    """A gRPC channel to a process; it connects with the first call."""
    return grpc.insecure_channel(endpoint.address, options=_OPTIONS)


class Calls:
    """The session of one client with one process. Safe to use from several threads."""

    def __init__(self, endpoint: Endpoint, client_name: str) -> None:
        """Raises DeadObjectError where nobody serves at the endpoint."""
        self.endpoint = endpoint
        self._link = Link(endpoint.link, client_name)
        self._channels: weakref.WeakSet[Channel] = weakref.WeakSet()
        self.rpc = open_rpc(endpoint)

    def call(self, method: Callable[..., T], request: Any) -> T:
        """A unary call of this session. Raises HalError where the process answered with one, else TransportError."""
        try:
            return method(request, metadata=self._link.metadata)
        except grpc.RpcError as error:
            raise error_from_rpc(error, str(self.endpoint.directory)) from error

    def stream(self, method: Callable[..., Iterable[T]], request: Any) -> Iterator[T]:
        """A streaming call of this session. Raises as ``call``."""
        try:
            yield from method(request, metadata=self._link.metadata)
        except grpc.RpcError as error:
            raise error_from_rpc(error, str(self.endpoint.directory)) from error

    def release(self, method: Callable[..., object], request: Any) -> None:
        """Give up an object over there. A process that is gone has released it already."""
        with contextlib.suppress(NnhalError, ValueError):  # ValueError: the channel is closed
            self.call(method, request)

    def issue(self, descriptor: Descriptor) -> int:
        """The id of a descriptor in this session. Raises TransportError."""
        return self._link.issue(descriptor)

    def take_channel(self, number: int) -> Channel:
        """A channel that a call has named. Raises TransportError."""
        channel = self._link.take_channel(number)
        self._channels.add(channel)
        return channel

    @property
    def link_bytes(self) -> int:
        """Bytes that went over the link, both ways."""
        return self._link.socket_bytes

    @property
    def hung_up(self) -> bool:
        """Whether the process on the other side has ended the session, or is gone."""
        return self._link.hung_up

    @property
    def peer_pid(self) -> int:
        """The process on the other side."""
        return self._link.peer_pid

    def close(self) -> None:
        """End the session, and every channel that belongs to it."""
        for channel in list(self._channels):
            channel.close()
        self._link.close()
        self.rpc.close()
