"""A gRPC channel that may be closed while other threads are about to call, and methods that know their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc

_Serializer = Callable[[Any], bytes] | None
_Deserializer = Callable[[bytes], Any] | None
_ConnectivityCallback = Callable[[grpc.ChannelConnectivity], None]
if TYPE_CHECKING:  # gRPC's classes are generic in its stubs only
    _UnaryMethod = grpc.UnaryUnaryMultiCallable[Any, Any]
    _StreamingMethod = grpc.UnaryStreamMultiCallable[Any, Any]
else:
    _UnaryMethod, _StreamingMethod = grpc.UnaryUnaryMultiCallable, grpc.UnaryStreamMultiCallable


class UnaryMethod(_UnaryMethod):
    """A method that takes one message and returns one. gRPC's own, and its errors, do not say which method it is."""

    def __init__(self, method: grpc.UnaryUnaryMultiCallable[Any, Any], path: str) -> None:
        self._method = method
        self.path = path

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._method(*args, **options)

    def with_call(self, *args: Any, **options: Any) -> Any:
        return self._method.with_call(*args, **options)

    def future(self, *args: Any, **options: Any) -> Any:
        return self._method.future(*args, **options)


class StreamingMethod(_StreamingMethod):
    """A method that takes one message and returns a stream, with its name."""

    def __init__(self, method: grpc.UnaryStreamMultiCallable[Any, Any], path: str) -> None:
        self._method = method
        self.path = path

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._method(*args, **options)


def name_of(method: object) -> str:
    """Return the service and the name of a method of an RpcChannel, such as nnhal.v1.BackendService/Describe."""
    return method.path.removeprefix("/") if isinstance(method, UnaryMethod | StreamingMethod) else ""


class RpcChannel(grpc.Channel):
    """A channel whose methods may be looked up at any time: once it is closed, their calls raise ValueError.

    Generated stubs ask gRPC to register their methods with the channel, and to register with one that has been closed
    ends the process by SIGSEGV (https://github.com/grpc/grpc/pull/43455). Nothing is registered here, which makes calls
    no slower.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._unary: dict[tuple[str, _Serializer, _Deserializer], UnaryMethod] = {}
        """The methods that were looked up: each object of a session makes a stub of its own."""

    def unary_unary(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        key = method, request_serializer, response_deserializer
        found = self._unary.get(key)
        if found is None:
            found = self._unary[key] = UnaryMethod(self._channel.unary_unary(*key), method)
        return found

    def unary_stream(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.UnaryStreamMultiCallable[Any, Any]:
        return StreamingMethod(self._channel.unary_stream(method, request_serializer, response_deserializer), method)

    def stream_unary(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamUnaryMultiCallable[Any, Any]:
        return self._channel.stream_unary(method, request_serializer, response_deserializer)

    def stream_stream(
        self,
        method: str,
        request_serializer: _Serializer = None,
        response_deserializer: _Deserializer = None,
        _registered_method: bool | None = False,
    ) -> grpc.StreamStreamMultiCallable[Any, Any]:
        return self._channel.stream_stream(method, request_serializer, response_deserializer)

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
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
