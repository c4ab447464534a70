"""Messages from a session to its supervisor.

Events are lines of JSON, each short enough to be written at once or not at all.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from enum import Enum

MAX_CHARACTERS = 1000
"""Limit of any text: a line must be shorter than PIPE_BUF, even if every character takes several bytes."""


class ProgressEvent(Enum):
    """Kinds of messages."""

    READY = "ready"
    BEGIN = "begin"
    NOTE = "note"
    END = "end"
    VIOLATION = "violation"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a thread. The text of BEGIN is an action, of NOTE its arguments, of END its outcome.

    A step is the number of the action in the thread's script; after the last one comes the end.
    """

    event: ProgressEvent
    thread: int = 0
    step: int = 0
    text: str = ""

    def encode(self) -> bytes:
        """Encode it as one line."""
        fields = {**asdict(self), "event": self.event.value, "text": self.text[:MAX_CHARACTERS]}
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def decode(line: bytes) -> Message:
    fields = json.loads(line)
    return Message(ProgressEvent(fields["event"]), fields["thread"], fields["step"], fields["text"])


class Writer:
    """The session's end of the pipe. Safe to use from several threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message. Raises OSError if the reader is gone."""
        with self._lock:
            os.write(self._fd, message.encode())
