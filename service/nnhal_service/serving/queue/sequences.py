"""Sequences of requests: those with the same ``sequence_id`` run one after the other, on a state of their own."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from nnhal.arrays import Array
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime import StateLostError
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import StillRunningError
from nnhal_service.serving.config import ControlKind, Sequencing
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.queue.batch import StartBatch
from nnhal_service.serving.queue.request_queue import NEVER
from nnhal_service.serving.requests.request import InferenceRequest

SEQUENCE_ID, SEQUENCE_START, SEQUENCE_END = "sequence_id", "sequence_start", "sequence_end"
LONGEST_ID = 128
"""Bytes of a sequence_id that is a string, as in Triton."""
_GREATEST_ID = 2**64 - 1
_log = get_logger(__name__)

SequenceId = int | str


class SequenceMemory(Protocol):
    """Memory of one sequence's requests. ``begin`` is called in the loop, ``close`` in any other thread."""

    @property
    def start(self) -> StartBatch:
        """Return what runs them."""

    @property
    def is_current(self) -> bool:
        """Return whether another sequence may use it: no device of it is gone."""

    def begin(self) -> None:
        """Have the next request begin with the initial state."""

    def close(self) -> None:
        """Release it; no request uses it."""


class Flags(NamedTuple):
    """Flags of a request in its sequence."""

    id: SequenceId
    starts: bool
    ends: bool


def flags_of(request: InferenceRequest, model: str) -> Flags:
    """Return what a request says of its sequence. Raises INVALID_ARGUMENT, in Triton's words, if it is in none."""
    given = request.parameters.get(SEQUENCE_ID, 0)
    if isinstance(given, bool | float) or not isinstance(given, int | str):
        raise _refusal(f"parameter '{SEQUENCE_ID}' is {given!r}, expected an integer or a string")
    if isinstance(given, int) and not 0 <= given <= _GREATEST_ID:
        raise _refusal(f"parameter '{SEQUENCE_ID}' is {given}, expected 0 to {_GREATEST_ID}")
    if isinstance(given, str) and len(given.encode(errors="replace")) > LONGEST_ID:
        raise _refusal(f"parameter '{SEQUENCE_ID}' has {len(given.encode())} bytes, expected {LONGEST_ID} at the most")
    if not given:
        raise _refusal(f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID")
    return Flags(given, request.parameters.get(SEQUENCE_START) is True, request.parameters.get(SEQUENCE_END) is True)


class RequestSequence:
    """One sequence: its requests in their order. The first one runs."""

    __slots__ = ("id", "is_candidate", "is_started", "lost", "memory", "timer", "turns")

    def __init__(self, identifier: SequenceId) -> None:
        self.id = identifier
        self.memory: SequenceMemory | None = None
        self.turns: deque[Turn] = deque()
        self.timer: asyncio.TimerHandle | None = None
        self.is_candidate = False
        """True if it has its turn, and does not wait for other sequences to end."""
        self.is_started = False
        self.lost = ""
        """Why its state is lost, until a request has been told."""


class Turn:
    """The place of one request in its sequence. Used in the loop only."""

    def __init__(
        self, sequencer: Sequencer, sequence: RequestSequence, flags: Flags, request: InferenceRequest
    ) -> None:
        self.flags = flags
        self.sequence = sequence
        self.request = replace(request, inputs={**request.inputs, **sequencer.controls(flags)})
        """The request with the control inputs of the model."""
        self._sequencer = sequencer
        self._waiter: asyncio.Future[None] | None = None
        self._has_begun = False

    async def begin(self, latest_ns: int) -> StartBatch:
        """Wait until the sequence has its turn and its earlier requests have ended, until an instant of CLOCK_MONOTONIC
        at the most. Returns what runs it.

        Raises ServingError: INVALID_ARGUMENT if the sequence has not been started, DEADLINE_EXCEEDED, CANCELLED,
        UNAVAILABLE if there are too many sequences.
        """
        cancellation = self.request.cancellation
        while not (self.sequence.is_candidate and self.sequence.turns[0] is self):
            _require_wanted(cancellation)
            seconds = None if latest_ns == NEVER else max(0, latest_ns - time.monotonic_ns()) / 1e9
            self._waiter = self._sequencer.loop.asyncio.create_future()
            wake = partial(self._sequencer.loop.call, self.wake)
            cancellation.on_cancel(wake)
            try:
                await asyncio.wait_for(self._waiter, seconds)
            except TimeoutError:
                others = "others of its sequence" if self.sequence.is_candidate else "other sequences to end"
                message = f"Deadline exceeded while the request waited for {others}"
                raise ServingError(ErrorKind.DEADLINE_EXCEEDED, message) from None
            finally:
                cancellation.forget(wake)
        _require_wanted(cancellation)
        memory = self._sequencer.admit(self)
        self._has_begun = True
        return memory.start

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def explained(self, error: ServingError) -> ServingError:
        """The error of the request that says, if the state is lost, which sequence has to be started again."""
        return self._sequencer.explained(self, error)

    def end(self, error: BaseException | None) -> None:
        """Leave the sequence, whether it has run or not; ``error`` is why it failed. Harmless if repeated."""
        self._sequencer.leave(self, error, self._has_begun)


class Sequencer:
    """The sequences of one model. Used in the loop only, but for ``live`` and ``close``."""

    def __init__(
        self,
        model: str,
        config: Sequencing,
        make: Callable[[], SequenceMemory],
        kept: int,
        shapes: Mapping[str, tuple[int, ...]],
        loop: ServingLoop,
    ) -> None:
        """``make`` makes what a sequence runs on; that of ``kept`` sequences that have ended is used again. ``shapes``
        are those of the control inputs.
        """
        self.loop = loop
        self._model = model
        self._config = config
        self._make = make
        self._kept = kept
        self._shapes = shapes
        self._sequences: dict[SequenceId, RequestSequence] = {}
        self._candidates = 0
        self._waiting: deque[RequestSequence] = deque()
        """The sequences that have no turn yet, the oldest first."""
        self._free: list[SequenceMemory] = []
        self._closed = False

    @property
    def live(self) -> int:
        return len(self._sequences)

    def enter(self, request: InferenceRequest) -> Turn:
        """Give a request its place. Raises ServingError as ``flags_of``, and if its sequence is unknown or lost."""
        flags = flags_of(request, self._model)
        for control in self._config.controls:
            if control.input in request.inputs:
                raise _refusal(f"unexpected inference input '{control.input}' for model '{self._model}'")
        sequence = self._sequences.get(flags.id)
        if sequence is None:
            if not flags.starts:
                raise self._not_started(flags)
            if len(self._sequences) >= self._config.most:
                raise self._too_many()
            sequence = self._sequences[flags.id] = RequestSequence(flags.id)
            self._waiting.append(sequence)
            self._choose()
        if sequence.timer is not None:
            sequence.timer.cancel()
            sequence.timer = None
        turn = Turn(self, sequence, flags, request)
        sequence.turns.append(turn)
        return turn

    def admit(self, turn: Turn) -> SequenceMemory:
        """Return what a request runs on that is the first of its sequence. Raises as ``Turn.begin``."""
        sequence, flags = turn.sequence, turn.flags
        if self._closed:
            raise ServingError(ErrorKind.UNAVAILABLE, "the model is being unloaded")
        lost, sequence.lost = sequence.lost, ""
        if lost and not flags.starts:
            sequence.is_started = False
            raise ServingError(ErrorKind.UNAVAILABLE, lost)
        if not (flags.starts or sequence.is_started):
            raise self._not_started(flags)
        if flags.starts and sequence.is_started:
            _log.info("a sequence is started that has not ended", model=self._model)
        if flags.starts and sequence.memory is not None and not sequence.memory.is_current:
            self._release(sequence)
        if sequence.memory is None:
            sequence.memory = self._free.pop() if self._free else self._make()
        if flags.starts:
            sequence.memory.begin()
            sequence.is_started = True
        return sequence.memory

    def leave(self, turn: Turn, error: BaseException | None, has_begun: bool) -> None:
        """Take a request out of its sequence, which may end by that."""
        sequence = turn.sequence
        if turn not in sequence.turns:
            return
        sequence.turns.remove(turn)
        cause = error.__cause__ if error is not None else None
        if isinstance(cause, StateLostError):
            sequence.is_started = False
        elif isinstance(cause, StillRunningError):  # a device may still write the state
            sequence.lost = (
                f"{self._name(sequence)} is over: a request of it has outlasted its deadline; start it again"
            )
            self._release(sequence, may_keep=False)
        if has_begun and (turn.flags.ends or not sequence.is_started):
            sequence.is_started, sequence.lost = False, ""
            self._release(sequence, may_keep=cause is None)
        if sequence.turns:
            sequence.turns[0].wake()
        elif not sequence.is_started or self._closed:
            self._drop(sequence)
        else:
            sequence.timer = self.loop.asyncio.call_later(self._config.idle_ns / 1e9, self._expire, sequence)

    def explained(self, turn: Turn, error: ServingError) -> ServingError:
        """The error of a request that says, if its state is lost, which sequence has to be started again."""
        if not isinstance(error.__cause__, StateLostError):
            return error
        found = ServingError(
            ErrorKind.UNAVAILABLE,
            f"{self._name(turn.sequence)} is over: its state was lost with {error.__cause__.lost_with}; start it again",
        )
        found.__cause__ = error.__cause__
        return found

    def controls(self, flags: Flags) -> dict[str, Array]:
        given = {
            ControlKind.START: flags.starts,
            ControlKind.END: flags.ends,
            ControlKind.READY: True,
            ControlKind.CORRID: flags.id,
        }
        return {c.input: c.array(given[c.kind], self._shapes[c.input], self._model) for c in self._config.controls}

    def close(self) -> None:
        """End all sequences. No request runs any more."""
        self.loop.run(self._close())

    async def _close(self) -> None:
        self._closed = True
        for sequence in list(self._sequences.values()):
            self._drop(sequence)
        free, self._free = self._free, []
        for memory in free:
            await self.loop.compute(memory.close)

    def _expire(self, sequence: RequestSequence) -> None:
        if not sequence.turns:
            self._drop(sequence)

    def _drop(self, sequence: RequestSequence) -> None:
        """Forget a sequence, and release what it ran on."""
        if sequence.timer is not None:
            sequence.timer.cancel()
        if self._sequences.get(sequence.id) is sequence:
            del self._sequences[sequence.id]
            if sequence.is_candidate:
                self._candidates -= 1
                self._choose()
            else:
                self._waiting.remove(sequence)
        self._release(sequence)

    def _choose(self) -> None:
        """Give the oldest sequences that wait their turn, as far as there may be more."""
        most = self._config.candidates or self._config.most
        while self._waiting and self._candidates < most:
            sequence = self._waiting.popleft()
            sequence.is_candidate = True
            self._candidates += 1
            if sequence.turns:
                sequence.turns[0].wake()

    def _release(self, sequence: RequestSequence, may_keep: bool = True) -> None:
        memory, sequence.memory = sequence.memory, None
        if memory is None:
            return
        if may_keep and not self._closed and len(self._free) < self._kept and memory.is_current:
            self._free.append(memory)
        else:
            self.loop.wait_for(memory.close, copy_context())

    def _name(self, sequence: RequestSequence) -> str:
        return f"sequence {_shown(sequence.id)} of model '{self._model}'"

    def _not_started(self, flags: Flags) -> ServingError:
        return _refusal(
            f"inference request for sequence {_shown(flags.id)} to model '{self._model}' must specify the START flag "
            "on the first request of the sequence"
        )

    def _too_many(self) -> ServingError:
        return ServingError(
            ErrorKind.UNAVAILABLE,
            f"model '{self._model}' has {len(self._sequences)} sequences, which is all that it may have; one ends with "
            f"a request that has '{SEQUENCE_END}', or {self._config.idle_ns / 1e9:g} s after its last request",
        )


def _shown(identifier: SequenceId) -> str:
    return str(identifier)


def _refusal(message: str) -> ServingError:
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)


def _require_wanted(cancellation: Cancellation) -> None:
    if cancellation.cancelled:
        raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
