"""Notes of calls while they are served, until another thread writes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple, Protocol

from nnhal.arrays import Bytes
from nnhal.codec.lengths import Lengths
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult
from nnhal.v1 import recording_pb2 as wire
from nnhal_devices.host.recording.requests import RequestForm
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.runs.run_results import SUCCESS

Values = Sequence[Bytes | int | None]
"""The values of arguments: bytes, a size if the bytes were left out, or None for an argument without any of its own."""


class NoteLimits(NamedTuple):
    """Limits of the notes that wait to be written."""

    notes: int
    value_bytes: int


class RecordedExecution(Protocol):
    config: ExecutionConfig

    form: RequestForm
    """The form of its request."""

    @property
    def prepared_model(self) -> PreparedModel: ...


class RunNote(NamedTuple):
    """An execution that has ended."""

    execution: RecordedExecution
    method: str
    started_ns: int
    ended_ns: int
    deadline_ns: int
    answer: ExecutionResult | HalError
    inputs: Values
    outputs: Values
    lengths: Lengths = ()

    @property
    def is_plain(self) -> bool:
        """True if it has succeeded, and differs from others of its request by its times only."""
        is_usual = self.answer is SUCCESS and self.deadline_ns == NO_DEADLINE
        return is_usual and not (self.inputs or self.outputs or self.lengths)


Note = RunNote | Callable[[], Sequence[wire.RecordedEvent]]
"""An execution, or what makes events of any other call."""


class Notes:
    """A queue that does not grow beyond its limits: what comes too fast is dropped, and counted."""

    def __init__(self, limits: NoteLimits) -> None:
        self._limits = limits
        self._most = limits.notes
        self._waiting: deque[Note] = deque()
        self._lock = Lock()
        self._value_bytes = 0
        self._is_over = False
        self.dropped_calls = 0
        self.dropped_contents = 0

    def add(self, note: Note) -> None:
        """Note a call, unless too many wait."""
        if len(self._waiting) < self._most:
            self._waiting.append(note)
            return
        self._drop(1)
        if isinstance(note, RunNote):
            self.written(note.inputs)
            self.written(note.outputs)

    def has_room(self, size: int) -> bool:
        """Reserve room for values of so many bytes, and return whether there is."""
        with self._lock:
            if self._value_bytes + size > self._limits.value_bytes:
                self.dropped_contents += not self._is_over
                return False
            self._value_bytes += size
            return True

    def stop(self, at_end: bool = False) -> None:
        """Take no more, and forget what waits. What comes after the end of a recording is not counted as dropped."""
        self._is_over |= at_end
        self._most = 0
        self._limits = NoteLimits(0, 0)
        self._drop(len(self._waiting))
        self._waiting.clear()

    def _drop(self, calls: int) -> None:
        if not self._is_over:
            self.dropped_calls += calls

    def written(self, values: Values) -> None:
        """Give back the room of values."""
        self.give_back(sum(len(value) for value in values if value is not None and not isinstance(value, int)))

    def give_back(self, size: int) -> None:
        """Give back reserved room."""
        if size:
            with self._lock:
                self._value_bytes -= size

    def take(self, most: int) -> list[Note]:
        """Take the notes that wait, the oldest first, and ``most`` at the most."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
