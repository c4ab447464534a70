"""Calls of methods that do not keep their objects alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """A call of a bound method that does not keep its object alive, which would be a reference cycle."""
    weak = weakref.WeakMethod(method)

    def call() -> None:
        held = weak()
        if held is not None:
            held()

    return call


def weakly_with(method: Callable[[T], None]) -> Callable[[T], None]:
    weak = weakref.WeakMethod(method)

    def call(argument: T) -> None:
        held = weak()
        if held is not None:
            held(argument)

    return call
