"""What a supervisor asks of a session, and what that tells it.

Events are lines of JSON, each short enough to be written at once or not at all.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from enum import Enum

MAX_CHARACTERS = 1000
"""Of any text: a line must be less than PIPE_BUF, even if every character takes several bytes."""


class SessionEnding(Enum):
    """How a session ends that is not killed."""

    RELEASE = "release"
    """Everything is waited for and released."""
    CLOSE = "close"
    """The link is closed while calls are under way."""
    EXIT = "exit"
    """The process ends without closing anything."""


class ProgressEvent(Enum):
    """What has happened."""

    READY = "ready"
    BEGIN = "begin"
    NOTE = "note"
    END = "end"
    VIOLATION = "violation"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a thread: BEGIN tells an action, NOTE its arguments, END its outcome, VIOLATION what was found."""

    event: ProgressEvent
    thread: int = 0
    step: int = 0
    text: str = ""

    def encode(self) -> bytes:
        """As one line."""
        fields = {**asdict(self), "event": self.event.value, "text": self.text[:MAX_CHARACTERS]}
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line."""
    fields = json.loads(line)
    return Message(ProgressEvent(fields["event"]), fields["thread"], fields["step"], fields["text"])


class Writer:
    """The session's end of the pipe. Safe to use from several threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message. Raises OSError where nobody reads any more."""
        with self._lock:
            os.write(self._fd, message.encode())
