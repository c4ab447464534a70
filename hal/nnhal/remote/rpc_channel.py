"""A gRPC channel that may be closed while other threads are about to call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import grpc

_Serializer = Callable[[Any], bytes] | None
_Deserializer = Callable[[bytes], Any] | None
M = TypeVar("M")
_ConnectivityCallback = Callable[[grpc.ChannelConnectivity], None]


class RpcChannel(grpc.Channel):
    """A channel whose methods may be looked up at any time: once it is closed, their calls raise ValueError.

    Generated stubs ask gRPC to register their methods with the channel, and to register with one that has been closed
    ends the process by SIGSEGV (https://github.com/grpc/grpc/pull/43455). Nothing is registered here, which makes calls
    no slower.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._names: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()

    def name_of(self, method: object) -> str:
        """The name of one of its methods, as in "nnhal.v1.AdminService.GetProcess"; empty for another object."""
        return self._names.get(method, "")

    def _named(self, path: str, method: M) -> M:
        self._names[method] = path.removeprefix("/").replace("/", ".")
        return method

    def unary_unary(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        """Return a method that takes one message and returns one."""
        return self._named(method, self._channel.unary_unary(method, request_serializer, response_deserializer))

    def unary_stream(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryStreamMultiCallable[Any, Any]:
        """Return a method that takes one message and returns a stream."""
        return self._named(method, self._channel.unary_stream(method, request_serializer, response_deserializer))

    def stream_unary(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamUnaryMultiCallable[Any, Any]:
        """Return a method that takes a stream and returns one message."""
        return self._named(method, self._channel.stream_unary(method, request_serializer, response_deserializer))

    def stream_stream(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamStreamMultiCallable[Any, Any]:
        """Return a method that takes a stream and returns one."""
        return self._named(method, self._channel.stream_stream(method, request_serializer, response_deserializer))

    def subscribe(self, callback: _ConnectivityCallback, try_to_connect: bool = False) -> None:
        """Report changes of the channel's connectivity to ``callback``."""
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: _ConnectivityCallback) -> None:
        """Undo ``subscribe``."""
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        """Close the channel; calls that are under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> RpcChannel:
        """Return the channel."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the channel."""
        self.close()
