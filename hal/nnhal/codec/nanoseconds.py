"""Instants and durations on the wire: fields that may be absent."""

from __future__ import annotations

from google.protobuf.message import Message

NONE = -1
LATEST = 2**63 - 1
"""The latest instant that a message can hold, in 292 years."""


def nanoseconds(message: Message, field: str) -> int:
    """Return a message's instant or duration. One that is absent is -1, which stands for none everywhere."""
    number: int = getattr(message, field) if message.HasField(field) else NONE
    return number


def deadline_after(now_ns: int, remaining_ns: int) -> int:
    """Return the instant after a time that is left; -1, which stands for none, if the time is negative."""
    return NONE if remaining_ns < 0 else min(now_ns + remaining_ns, LATEST)
