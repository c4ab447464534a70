"""Instants and durations on the wire: fields that may be absent."""

from __future__ import annotations

from google.protobuf.message import Message

NONE = -1


def nanoseconds(message: Message, field: str) -> int:
    """Return a message's instant or duration. One that is absent is -1, which stands for none everywhere."""
    number: int = getattr(message, field) if message.HasField(field) else NONE
    return number
