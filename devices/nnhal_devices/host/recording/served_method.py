"""Which call of gRPC is being served in this thread, or in the one that has started it."""

from __future__ import annotations

from contextvars import ContextVar


class ServedMethod:
    """One call, from its arrival until it is answered."""

    __slots__ = ("is_noted", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        """As recordings and conditions of faults have it."""
        self.is_noted = False
        """Whether the recording has the call: a request that it has bound, or an execution."""


SERVED: ContextVar[ServedMethod | None] = ContextVar("served", default=None)
