"""What a process tells AdminService about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.sessions import Ownership, Sessions


class Administered(Protocol):
    """A device host or the framework, as its AdminService sees it. Safe to use from several threads.

    Sessions are named by their public ids (``Ownership.session.id``).
    """

    @property
    def kind(self) -> str:
        """What the process is: device or framework."""
        ...

    @property
    def name(self) -> str:
        """The driver's name, or framework."""
        ...

    @property
    def sessions(self) -> Sessions[Ownership]:
        """The open sessions."""
        ...

    @property
    def draining(self) -> bool:
        """Whether it takes no new work."""
        ...

    def objects_of(self, owner: Ownership) -> Sequence[wire.ObjectCount]:
        """Count what a session owns, by kind; kinds of which it owns none are left out."""
        ...

    def fill(self, response: wire.GetProcessResponse, session: str | None) -> None:
        """Add pools, buffers, executions and fences: those of the session of a public id, or with None all."""
        ...

    def cancel(self, execution: str, session: str | None) -> bool:
        """Cancel an execution by its public id; return whether it has ended.

        Raises INVALID_ARGUMENT if there is none of that id, or if it belongs to another session than the one named.
        """
        ...

    def drain(self, drain: bool) -> int:
        """Take no new work, or take work again; return how many executions run or wait."""
        ...

    def set_log_level(self, level: str) -> None:
        """Log from a level of ``LEVELS`` on, in the processes that serve for this one too."""
        ...
