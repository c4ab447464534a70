"""Servicers whose methods are those of other ones, with something done around each."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from nnhal.device_calls import METHODS


class WrappedServicer(ABC):
    """Has the methods of a servicer. Those that faults and recordings know are wrapped, the others are as they are.

    ``service`` is the servicer's name in the titles of methods, such as ``Device.Allocate``.
    """

    def __init__(self, service: str, servicer: object) -> None:
        self._service = service
        self._servicer = servicer

    def __getattr__(self, name: str) -> Any:
        method, title = getattr(self._servicer, name), f"{self._service}.{name}"
        if title not in METHODS:
            return method
        return self._streaming(method, title) if inspect.isgeneratorfunction(method) else self._unary(method, title)

    @abstractmethod
    def _unary(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        """A method with one answer, wrapped."""

    @abstractmethod
    def _streaming(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        """A method with a stream of answers, wrapped."""
