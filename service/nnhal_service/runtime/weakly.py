"""Callbacks that do not keep alive what they are of."""

from __future__ import annotations

import weakref
from collections.abc import Callable


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """A bound method that does not hold its object: memory in a circle is kept until Python looks for circles."""
    weak = weakref.WeakMethod(method)

    def call() -> None:
        held = weak()
        if held is not None:
            held()

    return call
