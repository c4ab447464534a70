"""Servicers whose methods are those of other ones, with something done around each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import grpc

from nnhal.device_calls import METHODS

S = TypeVar("S")
Method = Callable[[Any, grpc.ServicerContext], Any]


class Interceptor(Protocol):
    """Serves a call by a servicer's method. A method's title is such as ``Device.Allocate``."""

    def unary(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Any:
        """Return the answer."""
        ...

    def stream(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield the answers."""
        ...


def intercepted(service: str, servicer: S, interceptor: Interceptor) -> S:
    """Return a servicer whose methods are served by an interceptor, if faults and recordings know them.

    ``service`` is the servicer's name in titles.
    """
    return cast(S, _InterceptedServicer(service, servicer, interceptor))


class _InterceptedServicer:
    def __init__(self, service: str, servicer: object, interceptor: Interceptor) -> None:
        self._service = service
        self._servicer = servicer
        self._interceptor = interceptor

    def __getattr__(self, name: str) -> Any:
        method, title = getattr(self._servicer, name), f"{self._service}.{name}"
        if title not in METHODS:
            return method
        is_stream = inspect.isgeneratorfunction(method)
        return partial(self._interceptor.stream if is_stream else self._interceptor.unary, method, title)
