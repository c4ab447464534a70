"""Deadlines that have passed before the work begins."""

from __future__ import annotations

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus


def require_ahead(deadline_ns: int) -> None:
    """Raise MISSED_DEADLINE_PERSISTENT if a deadline has passed already: the same call can only miss it again."""
    if deadline_ns != NO_DEADLINE and now_ns() > deadline_ns:
        raise HalError(ErrorStatus.MISSED_DEADLINE_PERSISTENT, "the deadline had passed before the work began")
