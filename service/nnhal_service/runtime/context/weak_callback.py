"""Callbacks that do not keep their objects alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def weak_callback(method: Callable[P, None]) -> Callable[P, None]:
    """Return a call of a bound method that does not keep its object alive, which would be a reference cycle."""
    weak = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        held = weak()
        if held is not None:
            held(*args, **kwargs)

    return call
